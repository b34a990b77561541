"""The client of threads: calls block until they are decided."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from time import monotonic, sleep
from types import TracebackType
from typing import Callable, Optional, Sequence, Type

from .asking import Asking, Request, T
from .base import BaseClient
from .batches import Batch, Pending
from .checks import Check, Number, only_looks
from .connections import Connections
from .decision import AllDecision, Decision
from .errors import RefusedError
from .holding import Holding
from .replies import Reply
from .workers import Workers


class Client(BaseClient):
    """Asks one gateway whether something may be done now. Make one for the whole process: any number of threads may use it at once.

    Calls raise OptionError for an argument that is wrong, RequestError for a request that the gateway does not accept, and ClosedError after
    close. A refusal is no error, and neither is a gateway that is away: on_failure decides then.
    """

    def check(
        self, policy: str, key: Sequence[str] = (), *, cost: Optional[Number] = None, plan: Optional[str] = None
    ) -> Decision:
        """Asks whether the key may have its units now, and charges them if so. A cost of 0 only looks."""
        check = Check(policy, key, cost, plan)
        if only_looks(check):
            return self._run(self._core.look("check", check))
        core = self._core
        pending = core.begin_check(check)
        if pending.outcome is None:
            self._wait_for(pending)
        return core.end_check(pending)

    def check_all(self, checks: Sequence[Check]) -> AllDecision:
        """Asks for several checks at once: all are charged, or none."""
        return self._run(self._core.check_all(list(checks)))

    def peek(
        self, policy: str, key: Sequence[str] = (), *, cost: Optional[Number] = None, plan: Optional[str] = None
    ) -> Decision:
        """Says what a check would hear now, and charges nothing."""
        return self._run(self._core.look("peek", Check(policy, key, cost, plan)))

    def report(
        self, policy: str, key: Sequence[str] = (), *, cost: Optional[Number] = None, plan: Optional[str] = None
    ) -> Decision:
        """Charges what was used already, also beyond what is left. The decision has the ``debt``."""
        return self._run(self._core.report(Check(policy, key, cost, plan)))

    def acquire(
        self,
        policy: str,
        key: Sequence[str] = (),
        *,
        max_wait: float,
        cost: Optional[Number] = None,
        plan: Optional[str] = None,
    ) -> Decision:
        """Waits in line until the key may have its units, for 0.001 to 60 seconds. The decision says for how long it ``waited``."""
        return self._run(self._core.acquire(Check(policy, key, cost, plan), max_wait))

    def hold(
        self,
        policy: str,
        key: Sequence[str] = (),
        *,
        slots: Optional[int] = None,
        ttl: Optional[float] = None,
        max_wait: Optional[float] = None,
        plan: Optional[str] = None,
    ) -> Held:
        """Takes slots of a limit of concurrency, and renews them until they are released.

        slots: how many; by default the policy's own cost
        ttl: for how many seconds they are held unless renewed; by default as long as the limit says
        max_wait: for how many seconds the call waits in line for them; by default it does not wait
        """
        decision, answer = self._run(self._core.hold(Check(policy, key, None, plan), slots, ttl, max_wait))
        return Held(self, decision, None if answer is None else Holding(self._core, answer))

    def close(self) -> None:
        """Ends idle connections and the renewals of holds. Calls that are under way end as usual, later calls raise ClosedError.

        Holds are not released: release them before, or their slots are free after their ttl.
        """
        self._core.is_closed = True
        self._connections.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _start(self) -> None:
        super()._start()
        self._connections = Connections(self._settings)
        self._workers = Workers(self._serve)

    def _start_anew(self) -> None:
        connections = self._connections
        super()._start_anew()
        connections.let_go()

    def _run(self, asking: Asking[T]) -> T:
        """Carries out a call in this thread."""
        return run(asking, self._connections)

    def _wait_for(self, pending: Pending) -> None:
        """Sends the check alone if it may go at once, and else waits until somebody has settled it."""
        settled: queue.SimpleQueue[object] = queue.SimpleQueue()
        pending.tell = settled.put
        batch = self._core.batches.add(pending)
        if batch is not None:
            self._send_own(batch)
            return
        try:
            settled.get(timeout=max(0, pending.deadline - monotonic()))
        except queue.Empty:
            self._core.be_late(pending)
        except BaseException:
            self._core.batches.leave(pending, is_late=False)
            raise

    def _send_own(self, batch: Batch) -> None:
        """Sends the caller's own check by the caller's own thread. Its deadline is that of the request."""
        try:
            self._run(self._core.ask_batch(batch))
        finally:
            self._pass_on()

    def _serve(self, batch: Batch) -> Optional[Batch]:
        """Sends a batch of several callers, and returns the one that follows in its place."""
        try:
            self._run(self._core.ask_batch(batch))
        except BaseException:
            self._pass_on()
            raise
        return self._core.batches.next()

    def _pass_on(self) -> None:
        """Gives the place of a request to what waits for one, whatever became of the request."""
        following = self._core.batches.next()
        if following is not None:
            self._workers.hand(following)


class Held:
    """The decision about a hold, and the slots if it is allowed. It is true if it is allowed.

    ``with`` releases the slots at its end. It does not begin if the hold is refused: its block would run without slots, so RefusedError is raised.
    """

    def __init__(self, client: Client, decision: Decision, holding: Optional[Holding]) -> None:
        self.decision = decision
        self.lost = threading.Event()
        """Is set when the slots are not held any more although nobody released them: stop the work, or take new ones."""
        # None: there are no slots, because it is refused or nobody could be asked.
        self._holding = holding
        self._connections = client._connections
        self._process = os.getpid()
        self._is_released = False
        self._given_up = threading.Event()
        self._lock = threading.Lock()
        if holding is not None:
            threading.Thread(target=self._keep, args=(holding,), name="sluice hold", daemon=True).start()

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def __bool__(self) -> bool:
        return self.decision.allowed

    def release(self) -> None:
        """Frees the slots. It may be called often. If nobody answers, it gives up without an error: the slots are free after their ttl.

        In a process that was forked it does nothing: the slots belong to the process that took them, which renews them.
        """
        if self._holding is None or self._process != os.getpid():
            return
        self._holding.is_given_up = True
        self._given_up.set()
        with self._lock:
            if not self._is_released:
                run(self._holding.release(), self._connections)
                self._is_released = True

    def __enter__(self) -> Held:
        if not self.decision.allowed:
            raise RefusedError(self.decision)
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.release()

    def _keep(self, holding: Holding) -> None:
        with contextlib.suppress(_GivenUp):
            if run(holding.keep(), self._connections, self._wait):
                self.lost.set()

    def _wait(self, seconds: float) -> None:
        if self._given_up.wait(seconds):
            raise _GivenUp


class _GivenUp(Exception):
    """The hold was released while its thread waited for the next renewal."""


def run(asking: Asking[T], connections: Connections, wait: Callable[[float], None] = sleep) -> T:
    """Carries out a call by blocking."""
    reply: Optional[Reply] = None
    try:
        while True:
            step = asking.send(reply)
            reply = None
            if isinstance(step, Request):
                reply = connections.post(step)
            else:
                wait(step.seconds)
    except StopIteration as end:
        result: T = end.value
        return result
