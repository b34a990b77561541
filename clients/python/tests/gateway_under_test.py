"""Where the gateway of these tests is, and how they ask it. test/clients/python-client.test.ts starts it and sets the variables."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
import uuid
from typing import Any, Callable

from sluice_client import AsyncClient, Client

URL = os.environ["SLUICE_TEST_URL"]
TOKEN = os.environ["SLUICE_TEST_TOKEN"]
SOCKET = os.environ["SLUICE_TEST_SOCKET"]
TLS_URL = os.environ["SLUICE_TEST_TLS_URL"]
CA_FILE = os.environ["SLUICE_TEST_CA_FILE"]

# However busy the machine is, the gateway decides by then.
PATIENT = {"deadline": 20.0, "on_failure": "deny"}


def client_of(**options: Any) -> Client:
    return Client(**{"url": URL, "token": TOKEN, **PATIENT, **options})


def async_client_of(**options: Any) -> AsyncClient:
    return AsyncClient(**{"url": URL, "token": TOKEN, **PATIENT, **options})


def of_the_authority() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=CA_FILE)


def somebody() -> list[str]:
    """Returns a key that no other test has."""
    return [uuid.uuid4().hex]


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"it never came that {what}")
        time.sleep(0.01)


ANSWER = b'{"allowed":true,"results":[{"policy":"p","allowed":true,"limit":10,"remaining":9,"retryAfter":0,"resetAfter":1}]}'


class Listener:
    """A server that answers each connection as a test says: what a gateway never does."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._serve(connection)
            except OSError:
                pass

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        # Only this ends an accept that waits.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


def read_request(connection: socket.socket) -> bytes:
    """Returns the body of a request, or nothing at the end of the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = connection.recv(65_536)
        if part == b"":
            return b""
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return body


def send(connection: socket.socket, body: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def drip(connection: socket.socket) -> None:
    """Answers a byte every 100 ms, for a minute."""
    read_request(connection)
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n" + b" " * 600:
        connection.sendall(bytes([byte]))
        time.sleep(0.1)


def in_chunks(connection: socket.socket) -> None:
    read_request(connection)
    first, rest = b"5;x=y\r\n" + ANSWER[:5], b"%x\r\n" % len(ANSWER[5:]) + ANSWER[5:]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(head + first + b"\r\n" + rest + b"\r\n0\r\nTrailer: x\r\n\r\n")


def to_the_end(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + ANSWER)


def endless_chunks(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b" " * 65_536 + b"\r\n")


def endless(connection: socket.socket) -> None:
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b" " * 65_536)


HEADS_OF_NO_HTTP = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 90\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: +90\r\n\r\n{}",
    b"HTTP/1.1 103 Early Hints\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
)


def sends(head: bytes, left: threading.Event) -> Callable[[socket.socket], None]:
    """Answers so and waits for the client to end the connection, and sets the event then."""

    def serve(connection: socket.socket) -> None:
        read_request(connection)
        try:
            connection.sendall(head)
            connection.recv(1)
        finally:
            left.set()

    return serve


ANSWERS_WITHOUT_LENGTH = (in_chunks, to_the_end)
ENDLESS_ANSWERS = (endless_chunks, endless)
