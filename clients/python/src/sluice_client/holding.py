"""The life of a hold, without sending anything, as in asking.py: it is renewed after a third of its ttl until it is released, and it is lost if
nobody could renew it within the ttl."""

from __future__ import annotations

from time import monotonic
from typing import Optional

from .answers import HoldAnswer, Renewed, read_release, read_renewal
from .asking import Asking, Core, Request, Sleep
from .checks import json_bytes
from .errors import RequestError
from .options import MOST_SECONDS
from .replies import Failure, Reply

RENEW_PATH = "/sluice/v1/renew"
RELEASE_PATH = "/sluice/v1/release"

RELEASES = 3
BETWEEN_RELEASES = 0.1
# Whatever ttl a gateway says, it is asked no more often.
BETWEEN_RENEWALS = 0.1
RENEWALS_IN_TTL = 3
RETRIES_IN_TTL = 10


class Holding:
    """Slots that the gateway has given."""

    def __init__(self, core: Core, answer: HoldAnswer) -> None:
        self._core = core
        self._body = json_bytes({"hold": answer.text})
        self._ttl = answer.ttl
        # The slots last at least until then.
        self._until = monotonic() + answer.ttl
        # Whether release was called: then the end of the renewals is no loss.
        self.is_given_up = False

    def keep(self) -> Asking[bool]:
        """Renews the hold. Returns whether it is lost; it never returns True after a release.

        A client that is closed renews nothing any more, and its holds are lost after their ttl.
        """
        wait = self._ttl / RENEWALS_IN_TTL
        while not self.is_given_up:
            lasts = self._until - monotonic()
            if lasts <= 0:
                return True
            wait = max(wait, BETWEEN_RENEWALS)
            is_last = self._core.is_closed or wait >= lasts
            yield Sleep(min(lasts if is_last else wait, MOST_SECONDS))
            # A timer may end a moment early, which leaves no time for a renewal.
            if is_last or self._core.is_closed or monotonic() >= self._until:
                continue
            asked = monotonic()
            renewed = self._read(
                (yield Request(RENEW_PATH, self._body, min(asked + self._core.settings.deadline, self._until)))
            )
            if renewed is None:
                # Nobody answered, or nobody who can be understood.
                wait = self._ttl / RETRIES_IN_TTL
            elif renewed.ttl is None:
                return not self.is_given_up
            else:
                self._ttl, self._until = renewed.ttl, asked + renewed.ttl
                wait = self._ttl / RENEWALS_IN_TTL
        return False

    @staticmethod
    def _read(reply: Reply) -> Optional[Renewed]:
        if isinstance(reply, (Failure, RequestError)):
            return None
        renewed = read_renewal(reply)
        return None if isinstance(renewed, Failure) else renewed

    def release(self) -> Asking[None]:
        """Frees the slots. If nobody answers, or the gateway does not accept it, it gives up: they are free after their ttl."""
        for tried in range(RELEASES):
            if tried > 0:
                yield Sleep(BETWEEN_RELEASES)
            reply: Reply = yield Request(RELEASE_PATH, self._body, monotonic() + self._core.settings.deadline)
            if isinstance(reply, RequestError) or (isinstance(reply, dict) and read_release(reply) is None):
                return
