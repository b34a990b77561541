"""Requests and answers as they go over a connection, for both kinds of connections. Answers are parsed by ``http.client``."""

from __future__ import annotations

import http.client
from typing import Any

from .options import Settings

# A kept connection is used for less time than nginx keeps it (75 s), so that nginx does not close one that is about to be used.
LONGEST_IDLE = 30.0
MOST_IDLE = 256


class RequestWriter:
    def __init__(self, settings: Settings) -> None:
        self._head = (
            f" HTTP/1.1\r\nHost: {settings.address.authority}\r\nAuthorization: Bearer {settings.token}\r\n"
            "Content-Type: application/json\r\nUser-Agent: sluice-python\r\nContent-Length: "
        )

    def bytes_of(self, path: str, body: bytes) -> bytes:
        """Returns head and body in one piece, so that they go in one packet."""
        return f"POST {path}{self._head}{len(body)}\r\n\r\n".encode("ascii") + body


def read_head(source: Any) -> http.client.HTTPResponse:
    """Parses the head of an answer to a POST. ``source`` has a ``makefile`` as sockets have it. Raises OSError or HTTPException.

    A head after which nobody knows what follows on the connection is no HTTP: what comes would be waited for until the deadline, or would be
    read as the answer to the next request.
    """
    answer = http.client.HTTPResponse(source, method="POST")
    answer.begin()
    if answer.status < 200:
        raise http.client.HTTPException(f"status {answer.status} answers nothing")
    lengths = {length.strip() for length in answer.headers.get_all("content-length", [])}
    if len(lengths) > 1 or not all(length.isascii() and length.isdigit() for length in lengths):
        raise http.client.HTTPException("its length is no number")
    return answer
