"""The client of asyncio. It does by tasks what client.py does by threads, over connections of its own: no call occupies a thread, so thousands may
wait in line at once, and a call that is cancelled leaves at once."""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from types import TracebackType
from typing import Optional, Sequence, Set, Type

from .aio_connections import AsyncConnections
from .asking import Asking, Core, Request, T
from .base import BaseClient
from .batches import Batch, Pending
from .checks import Check, Number, only_looks
from .decision import AllDecision, Decision
from .errors import RefusedError
from .holding import Holding
from .options import Settings
from .replies import Reply


class AsyncClient(BaseClient):
    """Asks one gateway whether something may be done now. Make one for the whole process: any number of tasks may use it at once.

    It belongs to the event loop that uses it first. When that loop is closed, another one may use it, and it begins anew. Calls raise what
    those of Client raise. A call that is cancelled leaves the line; if its request was under way, the units may have been charged.
    """

    async def check(
        self, policy: str, key: Sequence[str] = (), *, cost: Optional[Number] = None, plan: Optional[str] = None
    ) -> Decision:
        """Asks whether the key may have its units now, and charges them if so. A cost of 0 only looks."""
        check = Check(policy, key, cost, plan)
        work = self._work()
        if only_looks(check):
            return await work.run(work.core.look("check", check))
        pending = work.core.begin_check(check)
        if pending.outcome is None:
            await work.wait_for(pending)
        return work.core.end_check(pending)

    async def check_all(self, checks: Sequence[Check]) -> AllDecision:
        """Asks for several checks at once: all are charged, or none."""
        work = self._work()
        return await work.run(work.core.check_all(list(checks)))

    async def peek(
        self, policy: str, key: Sequence[str] = (), *, cost: Optional[Number] = None, plan: Optional[str] = None
    ) -> Decision:
        """Says what a check would hear now, and charges nothing."""
        work = self._work()
        return await work.run(work.core.look("peek", Check(policy, key, cost, plan)))

    async def report(
        self, policy: str, key: Sequence[str] = (), *, cost: Optional[Number] = None, plan: Optional[str] = None
    ) -> Decision:
        """Charges what was used already, also beyond what is left. The decision has the ``debt``."""
        work = self._work()
        return await work.run(work.core.report(Check(policy, key, cost, plan)))

    async def acquire(
        self,
        policy: str,
        key: Sequence[str] = (),
        *,
        max_wait: float,
        cost: Optional[Number] = None,
        plan: Optional[str] = None,
    ) -> Decision:
        """Waits in line until the key may have its units, for 0.001 to 60 seconds. The decision says for how long it ``waited``."""
        work = self._work()
        return await work.run(work.core.acquire(Check(policy, key, cost, plan), max_wait))

    async def hold(
        self,
        policy: str,
        key: Sequence[str] = (),
        *,
        slots: Optional[int] = None,
        ttl: Optional[float] = None,
        max_wait: Optional[float] = None,
        plan: Optional[str] = None,
    ) -> AsyncHeld:
        """Takes slots of a limit of concurrency, and renews them until they are released. The arguments are those of ``Client.hold``."""
        work = self._work()
        decision, answer = await work.run(work.core.hold(Check(policy, key, None, plan), slots, ttl, max_wait))
        return AsyncHeld(work, decision, None if answer is None else Holding(work.core, answer))

    async def close(self) -> None:
        """Ends idle connections and the renewals of holds. Calls that are under way end as usual, later calls raise ClosedError.

        Holds are not released: release them before, or their slots are free after their ttl.
        """
        self._core.is_closed = True
        if self._current is not None:
            self._current.connections.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    def _start(self) -> None:
        super()._start()
        # What a former loop has left is only forgotten: to touch its transports would touch what another process polls, after a fork.
        self._current: Optional[_Work] = None

    def _work(self) -> _Work:
        """Returns what belongs to the running loop."""
        loop = asyncio.get_running_loop()
        if self._current is not None and self._current.loop is loop:
            return self._current
        if self._current is not None:
            if not self._current.loop.is_closed():
                raise RuntimeError("this AsyncClient belongs to another event loop that is still open: make one client for each")
            self._start_anew()
        self._current = _Work(loop, self._core, self._settings)
        return self._current


class _Work:
    """What a client does in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, core: Core, settings: Settings) -> None:
        self.loop = loop
        self.core = core
        self.connections = AsyncConnections(settings)
        # The loop alone would let them go before they end.
        self._tasks: Set[asyncio.Task[None]] = set()

    async def run(self, asking: Asking[T]) -> T:
        """Carries out a call by awaiting."""
        reply: Optional[Reply] = None
        try:
            while True:
                step = asking.send(reply)
                reply = None
                if isinstance(step, Request):
                    reply = await self.connections.post(step)
                else:
                    await asyncio.sleep(step.seconds)
        except StopIteration as end:
            result: T = end.value
            return result

    async def wait_for(self, pending: Pending) -> None:
        """Waits until a task has settled the check, or its deadline passes."""
        settled: asyncio.Future[None] = self.loop.create_future()

        def settle(_: object) -> None:
            if not settled.done():
                settled.set_result(None)

        pending.tell = settle
        batch = self.core.batches.add(pending)
        if batch is not None:
            self._send(batch)
        timer = self.loop.call_later(max(0, pending.deadline - monotonic()), self._be_late, pending)
        try:
            await settled
        except BaseException:
            abandoned = self.core.batches.leave(pending, is_late=False).abandoned
            if abandoned is not None:
                abandoned.end()
            raise
        finally:
            timer.cancel()

    def _be_late(self, pending: Pending) -> None:
        abandoned = self.core.be_late(pending)
        if abandoned is not None:
            abandoned.end()
        pending.tell(None)

    def _send(self, batch: Batch) -> None:
        """Sends the batch by a task, and then what follows."""
        task = self.loop.create_task(self.run(self.core.ask_batch(batch)))
        batch.end = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._send_following)

    def _send_following(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        following = self.core.batches.next()
        if following is not None:
            self._send(following)

    def keep(self, held: AsyncHeld, holding: Holding) -> asyncio.Task[None]:
        """Renews a hold by a task."""

        async def keep() -> None:
            if await self.run(holding.keep()):
                held.lost.set()

        task = self.loop.create_task(keep())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class AsyncHeld:
    """The decision about a hold, and the slots if it is allowed. It is true if it is allowed.

    ``async with`` releases the slots at its end. It does not begin if the hold is refused: its block would run without slots, so RefusedError is
    raised.
    """

    def __init__(self, work: _Work, decision: Decision, holding: Optional[Holding]) -> None:
        self.decision = decision
        self.lost = asyncio.Event()
        """Is set when the slots are not held any more although nobody released them: stop the work, or take new ones."""
        # None: there are no slots, because it is refused or nobody could be asked.
        self._holding = holding
        self._work = work
        self._process = os.getpid()
        self._released: Optional[asyncio.Task[None]] = None
        self._keeping = None if holding is None else work.keep(self, holding)

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def __bool__(self) -> bool:
        return self.decision.allowed

    async def release(self) -> None:
        """Frees the slots. It may be called often. If nobody answers, it gives up without an error: the slots are free after their ttl.

        It goes on if its caller is cancelled. In a process that was forked it does nothing: the slots belong to the process that took them.
        """
        if self._holding is None or self._keeping is None or self._process != os.getpid():
            return
        if self._released is None:
            self._holding.is_given_up = True
            self._keeping.cancel()
            self._released = self._work.loop.create_task(self._work.run(self._holding.release()))
        await asyncio.shield(self._released)

    async def __aenter__(self) -> AsyncHeld:
        if not self.decision.allowed:
            raise RefusedError(self.decision)
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.release()
