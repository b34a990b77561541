"""Errors are the caller's mistakes: what the gateway does not accept, options that are wrong, calls after close. That nobody answers is no
error, but a decision of source "failure"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

if TYPE_CHECKING:
    from .decision import Decision

from .described import described


class SluiceError(Exception):
    """What every error of this package is."""


class OptionError(SluiceError, ValueError):
    """An option or an argument that is wrong. Nobody was asked."""

    def __init__(self, option: str, expected: str, got: str) -> None:
        super().__init__(f"{option}: expected {expected}, got {got}")
        self.option = option
        self.expected = expected
        self.got = got

    def __reduce__(self) -> Any:
        return OptionError, (self.option, self.expected, self.got)


def wrong(option: str, expected: str, value: object) -> OptionError:
    """Returns the error of an option or argument with this value."""
    return OptionError(option, expected, described(value))


class ClosedError(SluiceError):
    """A call after close()."""

    def __init__(self) -> None:
        super().__init__("the client is closed")


class RefusedError(SluiceError):
    """The block of a ``with`` whose hold is refused: it would run without slots."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(f"the hold of {decision.policy} is refused ({decision.reason or 'no slot is free'})")
        self.decision = decision

    def __reduce__(self) -> Any:
        return RefusedError, (self.decision,)


class Mistake(NamedTuple):
    """What is wrong at one place of a request."""

    path: str
    expected: str
    got: str


class RequestError(SluiceError):
    """What the gateway answered to a request that it does not accept. Nothing was charged.

    ``code`` is for programs to decide by ("policy-not-found", for example), ``status`` is that of the HTTP answer, ``detail`` is a sentence
    for people. The paths of ``errors`` begin at the check (``key[1]``), those of ``check_all`` at the list (``checks[2].key[1]``).
    """

    def __init__(self, code: str, status: int, detail: str, errors: Sequence[Mistake] = ()) -> None:
        places = "".join(f"; {path}: expected {expected}, got {got}" for path, expected, got in errors)
        super().__init__(f"{code} ({status}): {detail}{places}")
        self.code = code
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)

    def __reduce__(self) -> Any:
        # Processes hand errors to each other, and the text alone does not make one again.
        return RequestError, (self.code, self.status, self.detail, self.errors)


# A gateway says no more: a hundred, and how many others there are. Whoever answers in its place may say a megabyte of them.
MOST_MISTAKES = 101
STATUSES_OF_MISTAKES = frozenset((400, 401, 403, 404, 405, 413, 415))


def error_of(status: int, document: object) -> Optional[RequestError]:
    """Returns the error that a problem document says; None: it is no document of a gateway, or the mistake is not the caller's."""
    if status not in STATUSES_OF_MISTAKES or not isinstance(document, dict):
        return None
    code, detail, errors = document.get("code"), document.get("detail"), document.get("errors")
    if not isinstance(code, str) or code == "":
        return None
    listed = errors[:MOST_MISTAKES] if isinstance(errors, list) else []
    mistakes = [_mistake_of(entry) for entry in listed if isinstance(entry, dict)]
    return RequestError(code, status, _text_of(detail), mistakes)


def _mistake_of(entry: Dict[str, object]) -> Mistake:
    return Mistake(_text_of(entry.get("path")), _text_of(entry.get("expected")), _text_of(entry.get("got")))


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


_IN_CHECK = re.compile(r"checks\[(\d+)\]\.?")


class SplitError(NamedTuple):
    """An error of a request, and what it says of each of its checks."""

    # By the places of the checks that it names. Their callers do not know the others, so paths begin at the check.
    named: Dict[int, RequestError]
    # For all others, who share it: it may be long, and is copied once.
    of_others: RequestError


def split_error(error: RequestError, count: int) -> SplitError:
    """Splits the error of a request with so many checks."""
    common: List[Mistake] = []
    own: Dict[int, List[Mistake]] = {}
    for mistake in error.errors:
        found = _IN_CHECK.match(mistake.path)
        if found is None:
            common.append(mistake)
        elif int(found.group(1)) < count:
            own.setdefault(int(found.group(1)), []).append(mistake._replace(path=mistake.path[found.end() :]))
    named = {place: RequestError(error.code, error.status, error.detail, mistakes) for place, mistakes in own.items()}
    return SplitError(named, RequestError(error.code, error.status, error.detail, common))


def error_of_only(error: RequestError) -> RequestError:
    """Returns the error of a request with one check, as its caller knows it."""
    named, of_others = split_error(error, 1)
    own = named[0].errors if 0 in named else ()
    return RequestError(error.code, error.status, error.detail, own + of_others.errors)
