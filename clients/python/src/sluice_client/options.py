"""The options of a client, checked once, when it is made. An error names the option, what was expected and what came; it never repeats the
token."""

from __future__ import annotations

import ssl
from typing import Callable, NamedTuple, Optional

from .address import Address, read_address
from .checks import is_number
from .errors import OptionError, wrong
from .events import Event

MOST_CHECKS = 100
# Locks and timers take no more, on any system.
MOST_SECONDS = 2_147_483


class Settings(NamedTuple):
    """Options that are valid. Times are in seconds."""

    address: Address
    token: str
    deadline: float
    failure_allows: bool
    max_batch: int
    max_in_flight: int
    remember_refusals: float
    max_remembered: int
    retry_after_failure: float
    on_event: Optional[Callable[[Event], object]]
    tls: Optional[ssl.SSLContext]


def read_url_and_token(url: object, token: object) -> Address:
    address = read_address(url)
    expected = "a caller token: one or more visible characters of ASCII"
    if not isinstance(token, str):
        raise OptionError("token", expected, f"a {type(token).__name__}")
    if token == "" or not all("!" <= character <= "~" for character in token):
        raise OptionError("token", expected, f"a text of {len(token)} characters")
    return address


def read_on_failure(on_failure: object) -> bool:
    if on_failure not in ("allow", "deny"):
        raise wrong("on_failure", '"allow" or "deny"', on_failure)
    return on_failure == "allow"


def read_whole(name: str, value: int, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise wrong(name, f"an integer from 1 to {most}", value)
    return value


def read_seconds(name: str, value: float, least: float, most: float = MOST_SECONDS) -> float:
    if not is_number(value) or not least <= value <= most:
        raise wrong(name, f"seconds from {least} to {most}", value)
    return value


def read_hook(on_event: object) -> None:
    if on_event is not None and not callable(on_event):
        raise wrong("on_event", "a function of an event", on_event)


def read_tls(tls: object, address: Address) -> Optional[ssl.SSLContext]:
    """Returns what https connections are made with: by default, the system's authorities are trusted."""
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise wrong("tls", "an ssl.SSLContext", tls)
    if tls is not None and not address.is_secure:
        raise wrong("tls", "nothing, because the URL is not of https", tls)
    return ssl.create_default_context() if address.is_secure and tls is None else tls
