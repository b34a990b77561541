"""Remembers refusals: as long as a limit cannot allow a check, nobody needs to be asked. What is remembered ends before the limit may allow
again, so no call is refused that the gateway would have allowed, except after a reset by an operator."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import replace
from time import monotonic
from typing import NamedTuple, Optional, Tuple

from .checks import Check, Number
from .decision import NEVER, Decision, is_refusal_by_limit

Counter = Tuple[object, ...]
Cost = Optional[Number]


def counter_of(check: Check) -> Counter:
    """Returns what two checks share only if policy, key and plan are the same."""
    return (check.policy, check.plan, *check.key)


class _Refusal(NamedTuple):
    cost: Cost
    decision: Decision
    asked: float
    until: float


class Refusals:
    def __init__(self, longest: float, most: int) -> None:
        self._longest = longest
        self._most = most
        # From the oldest to the newest.
        self._entries: OrderedDict[Counter, _Refusal] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, counter: Counter, cost: Cost, decision: Decision, asked: float) -> None:
        """Takes a decision of the gateway: a refusal replaces what is remembered of its counter, and an allowed check forgets it.

        The time counts from when the request was sent, because the gateway decided after that.
        """
        if self._longest == 0 or not (decision.allowed or is_refusal_by_limit(decision)):
            return
        # The gateway rounds up, so the limit may allow up to a second earlier.
        lasts = min((decision.retry_after or 0) - 1, self._longest)
        with self._lock:
            self._entries.pop(counter, None)
            if decision.allowed or lasts <= 0:
                return
            self._entries[counter] = _Refusal(cost, decision, asked, asked + lasts)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def recall(self, counter: Counter, cost: Cost) -> Optional[Decision]:
        """Returns the refusal of a check, if a check that cost the same or less is still refused."""
        entry = self._entries.get(counter)
        if entry is None:
            return None
        now = monotonic()
        if now >= entry.until:
            self._forget_if(counter, entry)
            return None
        if (cost is None) != (entry.cost is None) or (cost is not None and cost < (entry.cost or 0)):
            return None
        passed = now - entry.asked
        decision = entry.decision
        retry_after, reset_after = _left_of(decision.retry_after, passed), _left_of(decision.reset_after, passed)
        return replace(decision, source="memory", retry_after=retry_after, reset_after=reset_after)

    def forget(self, counter: Counter) -> None:
        """Is called when the gateway has allowed the counter something."""
        with self._lock:
            self._entries.pop(counter, None)

    def _forget_if(self, counter: Counter, entry: _Refusal) -> None:
        with self._lock:
            if self._entries.get(counter) is entry:
                del self._entries[counter]


def _left_of(heard: Optional[float], passed: float) -> Optional[float]:
    """Returns whole seconds, rounded up."""
    if heard is None or heard == NEVER:
        return heard
    return max(0, math.ceil(heard - passed))
