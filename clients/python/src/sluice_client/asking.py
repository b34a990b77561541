"""What both clients do, without sending anything: a call is a generator that yields each request and each wait, and is sent the reply. Threads
answer it by blocking, asyncio by awaiting, and every rule is here once."""

from __future__ import annotations

from copy import copy
from time import monotonic
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from .answers import AnswerToAll, HoldAnswer, read_decisions, read_hold, read_only_decision, read_report
from .batches import Batch, Batches, Pending, body_of
from .checks import Check, Number, check_json, copy_of, hold_json, max_wait_text, only_looks
from .decision import AllDecision, Decision
from .errors import ClosedError, RequestError, SluiceError, error_of_only, split_error, wrong
from .events import Account
from .options import MOST_CHECKS, Settings
from .pause import Pause
from .refusals import Refusals, counter_of
from .replies import Answer, Failure, Reply, no_answer_in_time

CHECK_PATH = "/sluice/v1/check"
HOLD_PATH = "/sluice/v1/hold"


class Request(NamedTuple):
    path: str
    body: bytes
    # When the reply is a failure, by the monotonic clock.
    until: float


class Sleep(NamedTuple):
    seconds: float


T = TypeVar("T")
Asking = Generator[Union[Request, Sleep], Any, T]
Reader = Callable[[Answer], Union[T, Failure]]


class Core:
    """The state of one client in one process: its queue, its memory and its pause."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.is_closed = False
        self.pause = Pause(settings.retry_after_failure)
        self.refusals = Refusals(settings.remember_refusals, settings.max_remembered)
        self.batches = Batches(settings.max_in_flight, settings.max_batch)

    # Checks, which share requests

    def begin_check(self, check: Check) -> Pending:
        """Returns the check, whose outcome is there if nobody needs to be asked. Raises SluiceError."""
        account = Account(self.settings.on_event, "check", check.policy)
        try:
            check = self._begin(check)
            counter = counter_of(check)
            pending = Pending(check, counter, check_json(check), account, monotonic() + self.settings.deadline)
            pending.outcome = self.refusals.recall(counter, check.cost)
            failure = self.pause.now() if pending.outcome is None else None
            if failure is not None:
                pending.outcome = self.by_failure(check.policy, failure)
        except SluiceError:
            account.tell_error()
            raise
        return pending

    def end_check(self, pending: Pending) -> Decision:
        """Returns or raises the outcome of a check, and tells it to the hook."""
        outcome = pending.outcome
        if isinstance(outcome, Decision):
            pending.account.tell_decision(outcome)
            return outcome
        pending.account.tell_error()
        assert outcome is not None
        raise outcome

    def be_late(self, pending: Pending) -> Optional[Batch]:
        """Decides a check whose deadline has passed, unless it was settled before. Returns the request that nobody waits for now."""
        left = self.batches.leave(pending, is_late=True)
        if left.has_left:
            has_place = pending.batch is not None
            failure = no_answer_in_time() if has_place else Failure("There was no place in a request within the deadline.")
            pending.outcome = self.by_failure(pending.check.policy, failure)
        if left.abandoned is not None:
            # The pause begins before the request ends: the next one would go at once.
            self.fail(no_answer_in_time())
        return left.abandoned

    def ask_batch(self, batch: Batch) -> Asking[None]:
        """Settles all of its checks, unless nobody waits for them any longer."""
        yield from self._ask_together(batch.checks, is_first=True)

    def _ask_together(self, checks: Sequence[Pending], *, is_first: bool) -> Asking[None]:
        """``is_first`` says whether those that the gateway does not name as wrong may go together once more."""
        paused = self.pause.now()
        if paused is not None:
            self._settle_by_failure(checks, paused)
            return
        checks = self.batches.share(checks)
        if not checks:
            return
        sent = monotonic()
        reply: Reply = yield Request(CHECK_PATH, body_of(checks), max(check.deadline for check in checks))
        if isinstance(reply, RequestError):
            yield from self._settle_error(checks, reply, is_first)
            return
        answer = reply if isinstance(reply, Failure) else read_decisions(reply, [check.check.policy for check in checks])
        if isinstance(answer, AnswerToAll):
            for check, decision in zip(checks, answer.decisions):
                self.refusals.remember(check.counter, check.check.cost, decision, sent)
                self.batches.settle(check, decision)
            return
        if not answer.was_kept:
            self.pause.begin(answer)
        self._settle_by_failure(checks, answer)
        if not answer.was_kept:
            self._settle_by_failure(self.batches.take_waiting(), answer)

    def _settle_error(self, checks: List[Pending], error: RequestError, is_first: bool) -> Asking[None]:
        """Ends the checks that are wrong, and asks again for the others. Nothing was charged."""
        named, of_others = split_error(error, len(checks))
        if len(checks) == 1 or error.status not in (400, 404):
            for i, check in enumerate(checks):
                # Each is raised to another caller, who adds its own traceback.
                own = error_of_only(error) if len(checks) == 1 else named.get(i, copy(of_others))
                self.batches.settle(check, own)
            return
        for i, own in named.items():
            self.batches.settle(checks[i], own)
        others = [check for i, check in enumerate(checks) if i not in named]
        if is_first and named:
            yield from self._ask_together(others, is_first=False)
            return
        # The gateway looks for one kind of mistake after the other, and lists a number of them only. A check by itself hears of its own.
        for check in others:
            yield from self._ask_together([check], is_first=False)

    # Calls with a request of their own

    def look(self, call: str, check: Check) -> Asking[Decision]:
        return self._ask_one(call, check, lambda check: check_json(check, peek=True), read_only_decision)

    def report(self, check: Check) -> Asking[Decision]:
        return self._ask_one("report", check, lambda check: check_json(check, report=True), read_report, debt=0)

    def acquire(self, check: Check, max_wait: Number) -> Asking[Decision]:
        def written(check: Check) -> bytes:
            return check_json(check, max_wait=max_wait_text(max_wait))

        return self._ask_one("acquire", check, written, read_only_decision, max_wait=max_wait, forgets=True)

    def _ask_one(
        self,
        call: str,
        check: Check,
        written: Callable[[Check], bytes],
        read: Callable[[Answer, str], Union[Decision, Failure]],
        *,
        max_wait: Number = 0,
        debt: Optional[int] = None,
        forgets: bool = False,
    ) -> Asking[Decision]:
        """``debt`` is that of a failure. ``forgets`` says whether an allowed call makes the memory forget a refusal of its counter."""
        account = Account(self.settings.on_event, call, check.policy)
        try:
            check = self._begin(check)
            policy = check.policy
            body = b'{"checks":[' + written(check) + b"]}"
            result = yield from self._ask(account, 1, CHECK_PATH, body, max_wait, lambda answer: read(answer, policy))
        except SluiceError as error:
            account.tell_error()
            if isinstance(error, RequestError):
                raise error_of_only(error) from None
            raise
        if isinstance(result, Failure):
            decision = self.by_failure(policy, result, debt=debt)
        else:
            decision = result
            if forgets and decision.allowed:
                self.refusals.forget(counter_of(check))
        account.tell_decision(decision)
        return decision

    def check_all(self, checks: Sequence[Check]) -> Asking[AllDecision]:
        account = Account(self.settings.on_event, "check_all", checks[0].policy if checks else "")
        try:
            if not 1 <= len(checks) <= MOST_CHECKS:
                raise wrong("checks", f"1 to {MOST_CHECKS} checks", checks)
            copies = [self._begin(check, f"checks[{i}].") for i, check in enumerate(checks)]
            written = [check_json(check, f"checks[{i}].") for i, check in enumerate(copies)]
            policies = [check.policy for check in copies]
            body = b'{"checks":[' + b",".join(written) + b"]}"
            result = yield from self._ask(
                account, len(checks), CHECK_PATH, body, 0, lambda answer: read_decisions(answer, policies)
            )
        except SluiceError:
            account.tell_error()
            raise
        if isinstance(result, Failure):
            decisions = tuple(self.by_failure(policy, result) for policy in policies)
            decision = AllDecision(self.settings.failure_allows, decisions, "failure", result.sentence)
        else:
            decision = AllDecision(result.allowed, tuple(result.decisions), "gateway")
        account.tell_decision(decision)
        return decision

    def hold(
        self, check: Check, slots: Optional[int], ttl: Optional[Number], max_wait: Optional[Number]
    ) -> Asking[Tuple[Decision, Optional[HoldAnswer]]]:
        """Returns the decision, and what the gateway says of the hold if it gave one."""
        account = Account(self.settings.on_event, "hold", check.policy)
        try:
            policy = check.policy
            body = hold_json(self._begin(check), slots, ttl, None if max_wait is None else max_wait_text(max_wait))
            result = yield from self._ask(
                account, 1, HOLD_PATH, body, max_wait or 0, lambda answer: read_hold(answer, policy)
            )
        except SluiceError:
            account.tell_error()
            raise
        decision = self.by_failure(policy, result) if isinstance(result, Failure) else result.decision
        account.tell_decision(decision)
        return decision, None if isinstance(result, Failure) or not decision.allowed else result

    def _begin(self, check: Check, place: str = "") -> Check:
        if self.is_closed:
            raise ClosedError
        return copy_of(check, place)

    def _ask(
        self, account: Account, checks: int, path: str, body: bytes, max_wait: Number, read: Reader[T]
    ) -> Asking[Union[T, Failure]]:
        """Sends a request that no other call shares. Raises RequestError."""
        paused = self.pause.now()
        if paused is not None:
            return paused
        account.batch = checks
        reply: Reply = yield Request(path, body, monotonic() + self.settings.deadline + max_wait)
        if isinstance(reply, RequestError):
            raise reply
        result = reply if isinstance(reply, Failure) else read(reply)
        if isinstance(result, Failure) and not result.was_kept:
            self.fail(result)
        return result

    # Failures

    def fail(self, failure: Failure) -> None:
        """Starts the pause, and decides the checks in the queue: nobody will be asked for them."""
        self.pause.begin(failure)
        self._settle_by_failure(self.batches.take_waiting(), failure)

    def by_failure(self, policy: str, failure: Failure, debt: Optional[int] = None) -> Decision:
        return Decision(
            self.settings.failure_allows, policy, "failure", debt=debt, reason="failure", failure=failure.sentence
        )

    def _settle_by_failure(self, checks: Sequence[Pending], failure: Failure) -> None:
        for check in checks:
            self.batches.settle(check, self.by_failure(check.check.policy, failure))
