"""For a short time after a failure nobody is asked, so that callers do not wait for a gateway that is away, each for its whole deadline."""

from __future__ import annotations

import threading
from time import monotonic
from typing import Optional

from .replies import Failure


class Pause:
    def __init__(self, usual: float) -> None:
        self._usual = usual
        self._until = 0.0
        self._sentence = ""
        self._lock = threading.Lock()

    def begin(self, failure: Failure) -> None:
        """Starts the pause that follows a failure. A pause that ends later stays."""
        until = monotonic() + (failure.retry_after or self._usual)
        with self._lock:
            if until > self._until:
                self._until = until
                self._sentence = f"Nobody is asked for a moment after a failure. {failure.sentence}"

    def now(self) -> Optional[Failure]:
        """Returns the failure with which calls end during the pause, and None outside of it."""
        if self._until <= monotonic():
            return None
        return Failure(self._sentence)
