"""The queue of checks: the first go at once, and those that come while enough requests are under way go together when one of these ends. It
serves threads and asyncio alike: it decides who goes with whom, and sends nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Callable, List, NamedTuple, Optional, Sequence, Union

from .checks import Check
from .decision import Decision
from .errors import SluiceError
from .events import Account
from .refusals import Counter

BATCH_START = b'{"mode":"each","checks":['
BATCH_END = b"]}"
# The gateway accepts 64 KiB.
MOST_BODY_BYTES = 60 << 10

Outcome = Union[Decision, SluiceError]


def _nobody_listens(_: object) -> None:
    pass


class Pending:
    """A check that waits for its decision. Waiting ends in one of three ways, and the first one counts: it is settled, its deadline passes, or its
    caller leaves."""

    __slots__ = ("account", "batch", "body", "check", "counter", "deadline", "is_over", "outcome", "tell")

    def __init__(self, check: Check, counter: Counter, body: bytes, account: Account, deadline: float) -> None:
        self.check = check
        self.counter = counter
        self.body = body
        self.account = account
        self.deadline = deadline
        # Wakes the caller when there is an outcome.
        self.tell: Callable[[object], object] = _nobody_listens
        # What follows is guarded by the lock of the queue.
        self.batch: Optional[Batch] = None
        self.is_over = False
        self.outcome: Optional[Outcome] = None


class Batch:
    """What shares a request. If the gateway refuses it as a whole, parts of it are asked again in its place."""

    __slots__ = ("checks", "end", "is_late", "waiting")

    def __init__(self, checks: List[Pending]) -> None:
        self.checks = checks
        self.waiting = len(checks)
        # Whether the deadline of one of its checks has passed: then it has failed if nobody waits for it any longer.
        self.is_late = False
        # Ends its request.
        self.end: Callable[[], object] = lambda: None
        for check in checks:
            check.batch = self


class Left(NamedTuple):
    """What came of a caller who does not wait any longer."""

    # False: it was settled before.
    has_left: bool
    # The request that nobody waits for now.
    abandoned: Optional[Batch]


class Batches:
    def __init__(self, max_in_flight: int, max_batch: int) -> None:
        self._max_in_flight = max_in_flight
        self._max_batch = max_batch
        self._in_flight = 0
        self._waiting: OrderedDict[Pending, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, pending: Pending) -> Optional[Batch]:
        """Returns a batch of this check alone, which is to be sent at once; or puts the check at the end of the queue."""
        with self._lock:
            # While something waits, as many requests as may be are under way.
            if self._in_flight == self._max_in_flight:
                self._waiting[pending] = None
                return None
            self._in_flight += 1
            return Batch([pending])

    def next(self) -> Optional[Batch]:
        """Returns what follows in the place of a request that has ended. None: nothing waits, and the place is free."""
        with self._lock:
            size = len(BATCH_START) + len(BATCH_END)
            checks: List[Pending] = []
            while self._waiting and len(checks) < self._max_batch:
                pending = next(iter(self._waiting))
                # A comma follows each but the last.
                size += len(pending.body) + 1
                if size - 1 > MOST_BODY_BYTES and checks:
                    break
                del self._waiting[pending]
                checks.append(pending)
            if not checks:
                self._in_flight -= 1
                return None
            return Batch(checks)

    def take_waiting(self) -> List[Pending]:
        """Empties the queue."""
        with self._lock:
            checks = list(self._waiting)
            self._waiting.clear()
            return checks

    def share(self, checks: Sequence[Pending]) -> List[Pending]:
        """Returns those of the checks that nobody has settled or left, and notes that they share a request now."""
        with self._lock:
            still = [check for check in checks if not check.is_over]
            for check in still:
                check.account.batch = len(still)
            return still

    def settle(self, pending: Pending, outcome: Outcome) -> None:
        """Ends a check, unless its caller has left."""
        with self._lock:
            if pending.is_over:
                return
            pending.outcome = outcome
            self._finish(pending)
        pending.tell(outcome)

    def leave(self, pending: Pending, *, is_late: bool) -> Left:
        """Ends a check whose caller waits no longer."""
        with self._lock:
            if pending.is_over:
                return Left(False, None)
            self._finish(pending)
            batch = pending.batch
            if batch is None:
                return Left(True, None)
            batch.is_late = batch.is_late or is_late
            return Left(True, batch if batch.waiting == 0 else None)

    def _finish(self, pending: Pending) -> None:
        pending.is_over = True
        self._waiting.pop(pending, None)
        if pending.batch is not None:
            pending.batch.waiting -= 1


def body_of(checks: Sequence[Pending]) -> bytes:
    return BATCH_START + b",".join([check.body for check in checks]) + BATCH_END
