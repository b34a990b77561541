"""What comes of a request to the gateway: an answer, an error of the caller, or a failure. Both clients read it here, after their connections
have read the HTTP answer with ``http.client``."""

from __future__ import annotations

import http.client
import json
from typing import Any, Dict, NamedTuple, NoReturn, Optional, Union

from .errors import STATUSES_OF_MISTAKES, RequestError, error_of

MOST_ANSWER_BYTES = 1 << 20
LONGEST_PAUSE = 5.0


class Failure(NamedTuple):
    """Why there is no answer."""

    sentence: str
    retry_after: float = 0
    """For how many seconds the gateway wants not to be asked; 0: it did not say."""
    was_kept: bool = False
    """The gateway ended a connection that it had kept, as nginx does when it reloads: this says nothing about the next request."""


Answer = Dict[str, Any]
Reply = Union[Answer, RequestError, Failure]


def read_reply(head: http.client.HTTPResponse, body: bytes) -> Reply:
    """Reads an answer whose head was parsed, and whose body is complete."""
    status = head.status
    if status == 200:
        return read_object(body)
    if status in STATUSES_OF_MISTAKES and _is_problem_document(head):
        document = read_object(body)
        error = None if isinstance(document, Failure) else error_of(status, document)
        if error is not None:
            return error
    asks_for_pause = status in (429, 503)
    retry_after = read_retry_after(head.getheader("retry-after")) if asks_for_pause else 0
    return Failure(f"The gateway answered with status {status}, which decides nothing.", retry_after)


def read_object(body: bytes) -> Union[Answer, Failure]:
    """Reads a JSON object, strictly."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return Failure(f"The gateway's answer is no JSON: {type(error).__name__}.")
    return value if isinstance(value, dict) else Failure("The gateway's answer is no JSON object.")


def read_retry_after(text: Optional[str]) -> float:
    """Reads whole seconds above 0. Returns 0 if the header is absent or says anything else: a date would need the gateway's clock."""
    if text is None or not (text.isascii() and text.isdigit()):
        return 0
    # A text of so many digits is beyond the longest pause, whatever it says.
    return LONGEST_PAUSE if len(text.lstrip("0")) > 9 else min(int(text), LONGEST_PAUSE)


def too_large() -> Failure:
    return Failure(f"The gateway's answer is larger than {MOST_ANSWER_BYTES} bytes.")


def no_answer_in_time() -> Failure:
    return Failure("The gateway did not answer within the deadline.")


def _is_problem_document(head: http.client.HTTPResponse) -> bool:
    return head.headers.get_content_type() == "application/problem+json"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
