"""What is asked: a policy, a key, and what a call adds to them. A check is written as JSON once, when its call begins: fields in the order of the
contract, and none that the caller did not give."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, NamedTuple, Optional, Sequence, Union

from .errors import wrong

Number = Union[int, float]
LONGEST_MAX_WAIT = 60

# The gateway counts the bytes of a body, and an escaped character would have six.
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Check(NamedTuple):
    """One of the checks that ``check_all`` asks together."""

    policy: str
    """A policy of the token's app, or APP/POLICY of one that another app shares."""
    key: Sequence[str] = ()
    """One value for each part of the policy's key."""
    cost: Optional[Number] = None
    """Units to charge; None: the policy's own cost. 0 only looks."""
    plan: Optional[str] = None
    """One of the policy's plans, if the policy is of the token's app and neither its key nor a consumer has the plan."""


def copy_of(check: Check, place: str = "") -> Check:
    """Returns the check as it is now, whatever becomes of the caller's list while it is decided.

    ``place`` comes before the names of its fields in errors. Raises OptionError.
    """
    policy, key, cost, plan = check
    if type(policy) is not str:
        raise wrong(f"{place}policy", "the name of a policy", policy)
    # A text would be read as a key with one part for each of its characters.
    if isinstance(key, (str, bytes)) or not hasattr(key, "__iter__"):
        raise wrong(f"{place}key", "a list of texts", key)
    values = tuple(key)
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise wrong(f"{place}key[{i}]", "a text", value)
    if cost is not None:
        _require_number(f"{place}cost", cost)
    if plan is not None and not isinstance(plan, str):
        raise wrong(f"{place}plan", "the name of a plan", plan)
    return Check(policy, values, cost, plan)


def only_looks(check: Check) -> bool:
    """Says whether the check costs no units: then it asks what the policy's own cost would hear."""
    return check.cost is not None and check.cost == 0


def check_json(
    check: Check, place: str = "", *, peek: bool = False, report: bool = False, max_wait: Optional[str] = None
) -> bytes:
    """Raises OptionError for text that is not valid Unicode: in JSON, two such keys could become one."""
    fields: Dict[str, Any] = {"policy": check.policy, "key": check.key}
    looks = peek or not (report or max_wait) and only_looks(check)
    if check.cost is not None and not (looks and only_looks(check)):
        fields["cost"] = check.cost
    if check.plan is not None:
        fields["plan"] = check.plan
    if looks:
        fields["peek"] = True
    if report:
        fields["report"] = True
    if max_wait is not None:
        fields["maxWait"] = max_wait
    return json_bytes(fields, place)


def hold_json(check: Check, slots: Optional[int], ttl: Optional[Number], max_wait: Optional[str]) -> bytes:
    """Returns the body of a request for a hold. ``ttl`` is in seconds."""
    if slots is not None:
        _require_number("slots", slots)
    fields = {
        "policy": check.policy,
        "key": check.key,
        "slots": slots,
        "ttl": None if ttl is None else _milliseconds("ttl", ttl, math.inf),
        "plan": check.plan,
        "maxWait": max_wait,
    }
    return json_bytes({name: value for name, value in fields.items() if value is not None})


def max_wait_text(max_wait: object) -> str:
    """Returns the text that the gateway reads, in whole milliseconds. Raises OptionError for a wait that no gateway grants."""
    return _milliseconds("max_wait", max_wait, LONGEST_MAX_WAIT)


def json_bytes(fields: Dict[str, Any], place: str = "") -> bytes:
    try:
        return _json(fields).encode("utf-8")
    except UnicodeEncodeError:
        for name, value in _texts_in(fields):
            if not _is_unicode(value):
                raise wrong(f"{place}{name}", "text that is valid Unicode", value) from None
        raise


def is_number(value: object) -> bool:
    """Says whether it is a number that JSON has: True and False are none here."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _require_number(name: str, value: object) -> None:
    if not is_number(value):
        raise wrong(name, "a whole number", value)


def _milliseconds(name: str, seconds: Any, most: float) -> str:
    if not is_number(seconds) or not 0.001 <= seconds <= most:
        raise wrong(name, f"seconds from 0.001{'' if most == math.inf else f' to {most}'}", seconds)
    return f"{round(seconds * 1000)}ms"


def _texts_in(fields: Dict[str, Any]) -> Any:
    for name, value in fields.items():
        if isinstance(value, tuple):
            yield from ((f"{name}[{i}]", part) for i, part in enumerate(value))
        elif isinstance(value, str):
            yield name, value


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
