"""What the clients of threads and of asyncio have in common: their options, and a fresh start in a process that was forked."""

from __future__ import annotations

import os
import ssl
import weakref
from typing import Any, Callable, Optional

from .asking import Core
from .events import Event
from .options import (
    Settings,
    read_hook,
    read_on_failure,
    read_seconds,
    read_tls,
    read_url_and_token,
    read_whole,
)


class BaseClient:
    def __init__(
        self,
        url: str,
        token: str,
        *,
        deadline: float = 1.0,
        on_failure: str = "allow",
        max_batch: int = 50,
        max_in_flight: int = 2,
        remember_refusals: float = 10.0,
        max_remembered: int = 10_000,
        retry_after_failure: float = 0.1,
        on_event: Optional[Callable[[Event], object]] = None,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        """Makes a client, which does not connect yet. All times are in seconds. Raises OptionError.

        url: that of the gateway's private listener: http://HOST:PORT, https://HOST:PORT or unix:/PATH
        token: of a caller
        deadline: the longest time from a call to its decision; a max_wait is added to it
        on_failure: what is decided when nobody could be asked, "allow" (fail open) or "deny" (fail closed)
        max_batch: how many checks may share a request, 1 to 100
        max_in_flight: how many requests with shared checks may be under way at once
        remember_refusals: the longest time for which a refusal is remembered; 0: not at all
        max_remembered: how many refusals are remembered
        retry_after_failure: for so long after a failure nobody is asked
        on_event: called for each decision or error of a call; what it raises changes nothing
        tls: for https, for example with another authority; by default, the system's are trusted
        """
        address = read_url_and_token(url, token)
        read_hook(on_event)
        self._settings = Settings(
            address=address,
            token=token,
            deadline=read_seconds("deadline", deadline, 0.001, 3600),
            failure_allows=read_on_failure(on_failure),
            max_batch=read_whole("max_batch", max_batch, 100),
            max_in_flight=read_whole("max_in_flight", max_in_flight, 1000),
            remember_refusals=read_seconds("remember_refusals", remember_refusals, 0),
            max_remembered=read_whole("max_remembered", max_remembered, 10_000_000),
            retry_after_failure=read_seconds("retry_after_failure", retry_after_failure, 0),
            on_event=on_event,
            tls=read_tls(tls, address),
        )
        self._start()
        _clients.add(self)

    def _start(self) -> None:
        """Begins with an empty queue, an empty memory and no connection."""
        self._core = Core(self._settings)

    def _start_anew(self) -> None:
        """Forgets what a former process or event loop has left: its locks, threads and sockets are not used here."""
        is_closed = self._core.is_closed
        self._start()
        self._core.is_closed = is_closed


_clients: weakref.WeakSet[Any] = weakref.WeakSet()


def _start_all_again() -> None:
    for client in list(_clients):
        client._start_anew()


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_again)
