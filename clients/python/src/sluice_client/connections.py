"""Connections of threads: each is used by one request at a time and kept for the next. An answer is read within a deadline that counts for all of
it, however slowly it comes."""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import queue
import select
import socket
import threading
from time import monotonic
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from .asking import Request
from .http_messages import LONGEST_IDLE, MOST_IDLE, RequestWriter, read_head
from .options import Settings
from .replies import MOST_ANSWER_BYTES, Failure, Reply, no_answer_in_time, read_reply, too_large


class _Idle(NamedTuple):
    connection: socket.socket
    since: float


class Connections:
    """Raises nothing for what goes wrong: that is a failure."""

    def __init__(self, settings: Settings) -> None:
        self._address = settings.address
        self._tls = settings.tls
        self._writer = RequestWriter(settings)
        # From the longest idle one to the newest.
        self._idle: List[_Idle] = []
        self._open: Set[socket.socket] = set()
        self._is_closed = False
        self._lock = threading.Lock()

    def post(self, request: Request) -> Reply:
        """Sends the request and reads its reply. An interruption of the thread closes the connection, so that the gateway frees its place."""
        kept = self._take()
        connection: Optional[socket.socket] = kept
        source: Optional[_Source] = None
        is_reusable = False
        try:
            if connection is None:
                connection = self._connect(request.until)
            source = _Source(connection, request.until)
            _bound(connection, request.until)
            connection.sendall(self._writer.bytes_of(request.path, request.body))
            reply, is_reusable = _read_answer(source)
            return reply
        except (socket.timeout, TimeoutError):
            return no_answer_in_time()
        except (OSError, http.client.HTTPException, ValueError) as error:
            is_unheard = source is None or not source.is_heard
            sentence = f"The gateway did not answer: {error or type(error).__name__}."
            return Failure(sentence, was_kept=kept is not None and is_unheard)
        finally:
            if connection is not None:
                self._put_back(connection, is_reusable)

    def close(self) -> None:
        """Closes the idle connections. Those that are in use close when their requests end."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            self._end(connection)

    def let_go(self) -> None:
        """Closes this process's copies of all connections after a fork. The other process goes on using them."""
        for connection in self._open:
            connection.close()

    def _take(self) -> Optional[socket.socket]:
        """Returns an idle connection that the gateway has not closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()
            if monotonic() - since < LONGEST_IDLE and not _is_readable(connection):
                return connection
            self._end(connection)

    def _put_back(self, connection: socket.socket, is_reusable: bool) -> None:
        with self._lock:
            if is_reusable and not self._is_closed and len(self._idle) < MOST_IDLE:
                self._idle.append(_Idle(connection, monotonic()))
                return
        self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        self._open.discard(connection)
        with contextlib.suppress(OSError):
            # The gateway hears of it even if another process still has a copy.
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _connect(self, until: float) -> socket.socket:
        address = self._address
        if address.socket_path is not None:
            connection = _connect_to(socket.AF_UNIX, address.socket_path, until)
        else:
            connection = _connect_to_any(_addresses_of(address.host, address.port, until), until)
        if self._tls is not None:
            connection = _secured(self._tls.wrap_socket, connection, address.host, until)
        self._open.add(connection)
        return connection


class _Source(io.RawIOBase):
    """What http.client reads an answer from: a socket, until a deadline."""

    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection = connection
        self._until = until
        self.is_heard = False

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        _bound(self._connection, self._until)
        count = self._connection.recv_into(buffer)
        self.is_heard = self.is_heard or count > 0
        return count


def _read_answer(source: _Source) -> Tuple[Reply, bool]:
    """Returns the reply, and whether the connection can be used again."""
    with read_head(source) as answer:
        if answer.length is not None and answer.length > MOST_ANSWER_BYTES:
            return too_large(), False
        # http.client notices an early end only if it is asked for all.
        body = answer.read() if answer.length is not None else answer.read(MOST_ANSWER_BYTES + 1)
        if len(body) > MOST_ANSWER_BYTES:
            return too_large(), False
        return read_reply(answer, body), not answer.will_close


def _bound(connection: socket.socket, until: float) -> None:
    left = until - monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)


def _is_readable(connection: socket.socket) -> bool:
    """Says whether an idle connection has something to read: its end, or what nobody has asked for."""
    if hasattr(select, "poll"):
        # Unlike select, it takes every file descriptor.
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([connection], [], [], 0)[0])


Found = Sequence[Tuple[Any, ...]]


def _addresses_of(host: str, port: int, until: float) -> Found:
    """Looks up a name in a thread of its own: nothing else bounds the time that the system takes for it."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found: queue.SimpleQueue[Union[Found, OSError]] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.put(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=look_up, name="sluice name", daemon=True).start()
    try:
        result = found.get(timeout=max(0, until - monotonic()))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, OSError):
        raise result
    return result


def _connect_to_any(addresses: Found, until: float) -> socket.socket:
    """Tries one address after the other. None may take all the time that is left for the others."""
    error = OSError("the host has no address")
    for i, (family, _, _, _, address) in enumerate(addresses):
        share = (until - monotonic()) / (len(addresses) - i)
        try:
            connection = _connect_to(family, address, monotonic() + share)
        except OSError as failed:
            error = failed
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    raise error


def _connect_to(family: int, address: Any, until: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        _bound(connection, until)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _secured(wrap: Callable[..., socket.socket], plain: socket.socket, host: str, until: float) -> socket.socket:
    """Shakes hands by TLS, and checks that the certificate is the host's."""
    try:
        _bound(plain, until)
        return wrap(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
