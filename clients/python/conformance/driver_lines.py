"""What the drivers of both clients have in common: the options of a client, and how results, errors and events are written."""

from __future__ import annotations

import ssl
from typing import Any, Dict, List, Optional

from sluice_client import Check, Event, RequestError

# The names and units of lines, by those of Python.
OPTIONS = {
    "deadlineMs": "deadline",
    "onFailure": "on_failure",
    "maxBatch": "max_batch",
    "maxInFlight": "max_in_flight",
    "rememberRefusalsMs": "remember_refusals",
    "maxRemembered": "max_remembered",
    "retryAfterFailureMs": "retry_after_failure",
}


def options_of(line: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the arguments with which a client is made."""
    options = {"url": line["url"], "token": line["token"]}
    for name, own in OPTIONS.items():
        if name in line:
            options[own] = line[name] / 1000 if name.endswith("Ms") else line[name]
    if "caFile" in line:
        options["tls"] = ssl.create_default_context(cafile=line["caFile"])
    return options


def arguments_of(call: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the arguments of a call of one check, without those that the line does not give."""
    given = {"policy": call["policy"], "key": call["key"]}
    for name in ("cost", "plan", "slots"):
        if name in call:
            given[name] = call[name]
    for name, own in (("maxWaitMs", "max_wait"), ("ttlMs", "ttl")):
        if name in call:
            given[own] = call[name] / 1000
    return given


def checks_of(call: Dict[str, Any]) -> List[Check]:
    return [Check(one["policy"], one["key"], one.get("cost"), one.get("plan")) for one in call["checks"]]


def error_line(error: Exception) -> Dict[str, Any]:
    if not isinstance(error, RequestError):
        return {"error": {"message": str(error)}}
    line: Dict[str, Any] = {"code": error.code, "status": error.status, "detail": error.detail}
    if error.errors:
        line["errors"] = [mistake._asdict() for mistake in error.errors]
    return {"error": line}


def event_line(event: Event) -> Dict[str, Any]:
    line = event._asdict()
    line["call"] = "checkAll" if event.call == "check_all" else event.call
    if event.source is None:
        del line["source"]
    return line


class Tally:
    """Counts what becomes of the calls of a load."""

    def __init__(self) -> None:
        self.counts = {"calls": 0, "allowed": 0, "refused": 0, "errors": 0, "failures": 0}
        self._took: List[float] = []

    def add(self, took: float, allowed: Optional[bool], source: Optional[str]) -> None:
        """``allowed`` is None for an error."""
        self._took.append(took)
        self.counts["calls"] += 1
        self.counts["errors" if allowed is None else "allowed" if allowed else "refused"] += 1
        self.counts["failures"] += source == "failure"

    def line(self, seconds: float) -> Dict[str, Any]:
        return {**self.counts, "seconds": seconds, "p50Ms": self._at(0.5), "p99Ms": self._at(0.99)}

    def join(self, other: Tally) -> None:
        for name, count in other.counts.items():
            self.counts[name] += count
        self._took += other._took

    def _at(self, share: float) -> float:
        times = sorted(self._took)
        return times[int(share * (len(times) - 1))] * 1000 if times else 0


def with_key_of(call: Dict[str, Any], number: int, keys: int) -> Dict[str, Any]:
    """Returns the call with another last value of its key, if it is to have several."""
    if keys <= 1:
        return call
    *before, last = call["key"]
    return {**call, "key": [*before, f"{last}-{number % keys}"]}
