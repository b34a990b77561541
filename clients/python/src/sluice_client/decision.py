"""A decision: what callers get."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Dict, Optional, Tuple

NEVER = math.inf
"""The ``retry_after`` of a check that waiting cannot help, and the ``reset_after`` of a limit that never starts again."""


@dataclass(frozen=True)
class Decision:
    """The answer to one check. It is true if it is allowed.

    ``limit``, ``remaining``, ``retry_after`` and ``reset_after`` are those of the limit that is nearest to refusing, and None if no limit
    decided; then ``reason`` says why: off, exempt, banned, shadow, key-missing, undecided or failure.
    """

    allowed: bool
    policy: str
    source: str
    """gateway, memory (a refusal that the client remembers) or failure (nobody could be asked)."""
    limit: Optional[int] = None
    remaining: Optional[int] = None
    retry_after: Optional[float] = None
    """In seconds; NEVER: waiting cannot help."""
    reset_after: Optional[float] = None
    """In seconds; NEVER: the limit does not start again by itself."""
    delay: Optional[float] = None
    """Of a leaky bucket: wait so many seconds, then go on."""
    waited: Optional[float] = None
    """Of acquire, and of a hold with max_wait: the seconds for which the call waited in line."""
    debt: Optional[int] = None
    """Of a report: the units that it charged beyond what was left."""
    reason: Optional[str] = None
    failure: Optional[str] = None
    """One sentence that says what failed, if the source is failure."""

    def __bool__(self) -> bool:
        return self.allowed

    def to_dict(self) -> Dict[str, Any]:
        """Returns the fields as the check API has them, without those that are None; NEVER is null there."""
        return _fields_of(self)


@dataclass(frozen=True)
class AllDecision:
    """The answer to ``check_all``. It is true if all are allowed."""

    allowed: bool
    results: Tuple[Decision, ...]
    source: str
    failure: Optional[str] = None

    def __bool__(self) -> bool:
        return self.allowed

    def to_dict(self) -> Dict[str, Any]:
        """Returns the fields as the check API has them."""
        return {**_fields_of(self), "results": [result.to_dict() for result in self.results]}


_NAMES = {"retry_after": "retryAfter", "reset_after": "resetAfter"}


def _fields_of(decision: Any) -> Dict[str, Any]:
    present = ((field.name, getattr(decision, field.name)) for field in fields(decision))
    return {_NAMES.get(name, name): None if value == NEVER else value for name, value in present if value is not None}


def is_refusal_by_limit(decision: Decision) -> bool:
    """Says whether there is a time after which it may be allowed. Only such a refusal is remembered."""
    return not decision.allowed and decision.reason is None and decision.retry_after not in (None, NEVER)
