"""Connections of asyncio: each is used by one request at a time and kept for the next."""

from __future__ import annotations

import asyncio
import http.client
import io
from time import monotonic
from typing import List, NamedTuple, Optional, Tuple

from .asking import Request
from .http_messages import LONGEST_IDLE, MOST_IDLE, RequestWriter, read_head
from .options import Settings
from .replies import MOST_ANSWER_BYTES, Failure, Reply, no_answer_in_time, read_reply, too_large

# Of a head; http.client takes no more for one line.
MOST_HEAD_BYTES = 65_536


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Idle(NamedTuple):
    connection: _Connection
    since: float


class AsyncConnections:
    """Belongs to one event loop. Raises nothing for what goes wrong: that is a failure."""

    def __init__(self, settings: Settings) -> None:
        self._address = settings.address
        self._tls = settings.tls
        self._writer = RequestWriter(settings)
        # From the longest idle one to the newest.
        self._idle: List[_Idle] = []
        self._is_closed = False

    async def post(self, request: Request) -> Reply:
        """Sends the request and reads its reply. A cancellation closes the connection, so that the gateway frees its place."""
        kept = self._take()
        try:
            connection = kept or await self._connect(request.until)
        except (asyncio.TimeoutError, TimeoutError):
            return no_answer_in_time()
        except (OSError, ValueError) as error:
            # What is no name of a host is a ValueError.
            return _failed(error)
        exchange = _Exchange(connection, request.until)
        is_reusable = False
        try:
            connection.writer.write(self._writer.bytes_of(request.path, request.body))
            reply, is_reusable = await exchange.read_answer()
            return reply
        except (OSError, EOFError, http.client.HTTPException, asyncio.LimitOverrunError, ValueError) as error:
            if exchange.is_late:
                return no_answer_in_time()
            return _failed(error, was_kept=kept is not None and not exchange.is_heard)
        finally:
            exchange.end()
            if is_reusable and not self._is_closed and len(self._idle) < MOST_IDLE:
                self._idle.append(_Idle(connection, monotonic()))
            else:
                connection.writer.transport.abort()

    def close(self) -> None:
        """Closes the idle connections. Those that are in use close when their requests end."""
        self._is_closed = True
        for connection, _ in self._idle:
            connection.writer.close()
        self._idle.clear()

    def _take(self) -> Optional[_Connection]:
        """Returns an idle connection that the gateway has not closed."""
        while self._idle:
            connection, since = self._idle.pop()
            is_unusable = connection.writer.transport.is_closing() or _is_readable(connection.reader)
            if monotonic() - since < LONGEST_IDLE and not is_unusable:
                return connection
            connection.writer.close()
        return None

    async def _connect(self, until: float) -> _Connection:
        address = self._address
        if address.socket_path is not None:
            opening = asyncio.open_unix_connection(address.socket_path, limit=MOST_HEAD_BYTES)
        else:
            host = address.host if self._tls is not None else None
            opening = asyncio.open_connection(
                address.host, address.port, limit=MOST_HEAD_BYTES, ssl=self._tls, server_hostname=host
            )
        return _Connection(*await asyncio.wait_for(opening, max(0, until - monotonic())))


def _is_readable(reader: asyncio.StreamReader) -> bool:
    """Says whether an idle connection has something to read: its end, or what nobody has asked for and would be taken for the next answer."""
    reading = reader.read(1)
    try:
        # It ends at once if there is something, and else begins to wait.
        reading.send(None)
    except (StopIteration, OSError):
        return True
    finally:
        reading.close()
    return False


class _Exchange:
    """One request over a connection, which is cut at the deadline."""

    def __init__(self, connection: _Connection, until: float) -> None:
        self._reader, self._writer = connection
        self.is_heard = False
        self.is_late = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0, until - monotonic()), self._be_late)

    def end(self) -> None:
        self._timer.cancel()

    def _be_late(self) -> None:
        self.is_late = True
        self._writer.transport.abort()

    async def read_answer(self) -> Tuple[Reply, bool]:
        """Returns the reply, and whether the connection can be used again."""
        answer = read_head(_Head(await self._read_head()))
        body = await self._read_body(answer)
        if body is None:
            return too_large(), False
        return read_reply(answer, body), not answer.will_close

    async def _read_head(self) -> bytes:
        """Reads line by line, because the first one says whether an end of the head is to be waited for."""
        line = head = await self._read_first_line()
        if not head.startswith(b"HTTP/"):
            raise http.client.BadStatusLine(head.decode("latin-1"))
        while line not in (b"\r\n", b"\n"):
            line = await self._reader.readuntil(b"\n")
            head += line
            if len(head) > MOST_HEAD_BYTES:
                raise http.client.HTTPException(f"its head is larger than {MOST_HEAD_BYTES} bytes")
        return head

    async def _read_first_line(self) -> bytes:
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            self.is_heard = len(error.partial) > 0
            raise
        self.is_heard = True
        return line

    async def _read_body(self, answer: http.client.HTTPResponse) -> Optional[bytes]:
        """Returns None if it is too large."""
        if answer.chunked:
            return await self._read_chunks()
        if answer.length is None:
            # The end of the connection is the end of the body.
            return await self._read_to_end()
        return None if answer.length > MOST_ANSWER_BYTES else await self._reader.readexactly(answer.length)

    async def _read_chunks(self) -> Optional[bytes]:
        body = b""
        while True:
            line = await self._reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if size < 0 or len(body) + size > MOST_ANSWER_BYTES:
                return None
            if size == 0:
                break
            body += (await self._reader.readexactly(size + 2))[:size]
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            # Trailers say nothing that is asked for.
            pass
        return body

    async def _read_to_end(self) -> Optional[bytes]:
        body = b""
        while len(body) <= MOST_ANSWER_BYTES:
            part = await self._reader.read(MOST_ANSWER_BYTES)
            if part == b"":
                return body
            body += part
        return None


class _Head(NamedTuple):
    """Lets http.client parse a head that was read before."""

    text: bytes

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.text)


def _failed(error: Exception, *, was_kept: bool = False) -> Failure:
    return Failure(f"The gateway did not answer: {error or type(error).__name__}.", was_kept=was_kept)
