"""The metrics hook: one event for each decision or error of a call."""

from __future__ import annotations

from time import monotonic
from typing import Callable, NamedTuple, Optional, Union

from .decision import AllDecision, Decision


class Event(NamedTuple):
    """The decision or the error with which one call ended."""

    call: str
    """check, check_all, peek, report, acquire or hold."""
    policy: str
    """Of check_all, that of the first check."""
    outcome: str
    """allowed, refused or error."""
    source: Optional[str]
    """None if the call ended with an error."""
    batch: int
    """How many checks the call's request had; 0 without a request."""
    seconds: float
    """From the call to its end."""


class Account:
    """What one call has to tell the hook when it ends. A call that its caller ends, by a cancellation for example, tells nothing."""

    __slots__ = ("_began", "_call", "_hook", "_policy", "batch")

    def __init__(self, hook: Optional[Callable[[Event], object]], call: str, policy: object) -> None:
        self._hook = hook
        self._call = call
        self._policy = policy if isinstance(policy, str) else ""
        self._began = monotonic()
        self.batch = 0

    def tell_decision(self, decision: Union[Decision, AllDecision]) -> None:
        if self._hook is not None:
            self._tell("allowed" if decision.allowed else "refused", decision.source)

    def tell_error(self) -> None:
        if self._hook is not None:
            self._tell("error", None)

    def _tell(self, outcome: str, source: Optional[str]) -> None:
        event = Event(self._call, self._policy, outcome, source, self.batch, monotonic() - self._began)
        try:
            self._hook(event)  # type: ignore[misc]
        except Exception:
            # A hook that fails changes no decision.
            pass
