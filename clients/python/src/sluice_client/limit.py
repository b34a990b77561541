"""What both middlewares do: they check a request, and write the refusal. Statuses, types and titles are those of the gateway. The problem document
names the policy, and the gateway's own the limits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Generic, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from .checks import Number, max_wait_text
from .decision import NEVER, Decision
from .errors import wrong

App = TypeVar("App")
AnyClient = TypeVar("AnyClient")
R = TypeVar("R")
OnRefused = TypeVar("OnRefused")


class Middleware(Generic[App, AnyClient, R, OnRefused]):
    """What a request is checked for. R is what the server calls a request: the environ of WSGI, the scope of ASGI."""

    def __init__(
        self,
        app: App,
        client: AnyClient,
        *,
        policy: str,
        key: Callable[[R], Optional[Sequence[str]]],
        cost: Union[Number, Callable[[R], Optional[Number]], None] = None,
        plan: Union[str, Callable[[R], Optional[str]], None] = None,
        max_wait: Optional[float] = None,
        on_refused: Optional[OnRefused] = None,
    ) -> None:
        """Raises OptionError: a service must not start with a limit that limits nothing.

        key: returns one value for each part of the policy's key, or None: the request is not limited
        cost, plan: a value, or a function of the request
        max_wait: for so many seconds a request may wait in line; by default it is refused at once
        on_refused: answers a refused request in place of the problem document
        """
        if not isinstance(policy, str) or policy == "":
            raise wrong("policy", "the name of a policy", policy)
        if not callable(key):
            raise wrong("key", "a function of the request", key)
        if max_wait is not None:
            max_wait_text(max_wait)
        self._app = app
        self._client = client
        self._policy = policy
        self._key = key
        self._cost = cost
        self._plan = plan
        self._max_wait = max_wait
        self._on_refused = on_refused

    def _arguments_for(self, request: R) -> Optional[Dict[str, Any]]:
        """Returns the arguments of ``acquire`` if there is a max_wait among them, and else those of ``check``. None: the request is not limited."""
        key = self._key(request)
        if key is None:
            return None
        cost = self._cost(request) if callable(self._cost) else self._cost
        plan = self._plan(request) if callable(self._plan) else self._plan
        arguments = {"policy": self._policy, "key": key, "cost": cost, "plan": plan}
        # A request of no units only looks, and gateways let no look wait.
        return arguments if self._max_wait is None or cost == 0 else {**arguments, "max_wait": self._max_wait}


# In seconds: for so long, "onLimit: delay" lets a request wait at a gateway. Whoever sent it has given up by then.
LONGEST_DELAY = 300


def refused_if_late(decision: Decision) -> Decision:
    """Returns the decision, or one that nobody could decide if the turn of the request comes too late to wait for it."""
    if not decision.allowed or decision.delay is None or decision.delay <= LONGEST_DELAY:
        return decision
    return replace(decision, allowed=False, reason="undecided")


class Refusal(NamedTuple):
    status: int
    phrase: str
    headers: List[Tuple[str, str]]
    # A problem document (RFC 9457).
    body: bytes


# Registered by draft-ietf-httpapi-ratelimit-headers-11.
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
PHRASES = {403: "Forbidden", 429: "Too Many Requests", 503: "Service Unavailable"}


class _Problem(NamedTuple):
    status: int
    title: str
    detail: str
    retry_after: Optional[int] = None
    type: str = "about:blank"


def refusal_of(decision: Decision) -> Refusal:
    problem = _problem_of(decision)
    document = {
        "type": problem.type,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "policy": decision.policy,
    }
    body = (json.dumps(document, ensure_ascii=False) + "\n").encode()
    headers = [("content-type", "application/problem+json"), ("content-length", str(len(body)))]
    if problem.retry_after is not None:
        headers.append(("retry-after", str(problem.retry_after)))
    return Refusal(problem.status, PHRASES[problem.status], headers, body)


def _problem_of(decision: Decision) -> _Problem:
    if decision.reason == "banned":
        return _Problem(403, "Banned", "Requests of this client are not served.")
    if decision.reason == "key-missing":
        lacks = f"The request lacks an attribute that policy {decision.policy} counts by."
        return _Problem(403, "Key missing", lacks)
    if decision.reason in ("undecided", "failure"):
        detail = "The limit of this request cannot be checked at the moment."
        return _Problem(503, "Limit cannot be checked", detail, retry_after=1)
    seconds = _whole_seconds(decision.retry_after)
    return _Problem(429, "Quota exceeded", _way_out(decision, seconds), seconds, QUOTA_EXCEEDED)


def _whole_seconds(retry_after: Optional[float]) -> Optional[int]:
    return None if retry_after in (None, NEVER) else math.ceil(retry_after)  # type: ignore[arg-type]


def _way_out(decision: Decision, seconds: Optional[int]) -> str:
    if seconds is not None:
        return f"Try again {_when_in(seconds)}."
    if decision.reset_after == NEVER:
        return "The limit has no units left for this request, and none come back by themselves."
    return "The request costs more than its limit ever holds."


# A longer wait is told as a moment.
MOST_PLAIN_SECONDS = 120


def _when_in(seconds: int) -> str:
    """Returns "in 7 s" or "at 2026-12-02 18:57:34 UTC", rounded up."""
    if seconds <= MOST_PLAIN_SECONDS:
        return f"in {seconds} s"
    moment = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    rounded = moment + timedelta(microseconds=-moment.microsecond % 1_000_000)
    return f"at {rounded:%Y-%m-%d %H:%M:%S} UTC"
