"""Threads that send the requests of several callers. A caller without company sends its own request; these threads serve the queue that forms while
requests are under way, and end when it has been empty for a while."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Optional

from .batches import Batch

# Longer than the pauses of a busy service, so that it does not start a thread for each batch.
LONGEST_IDLE = 5.0


class Workers:
    def __init__(self, serve: Callable[[Batch], Optional[Batch]]) -> None:
        """``serve`` sends a batch and returns the one that follows."""
        self._serve = serve
        self._handed: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def hand(self, batch: Batch) -> None:
        """Lets a thread serve the batch and those that follow."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._handed.put(batch)
                return
        try:
            threading.Thread(target=self._work, args=(batch,), name="sluice batches", daemon=True).start()
        except RuntimeError:
            # No thread can be started at the end of the process, or when there are too many. The caller serves the others then.
            self._serve_all(batch)

    def _work(self, batch: Batch) -> None:
        following: Optional[Batch] = batch
        while following is not None:
            self._serve_all(following)
            following = self._wait()

    def _serve_all(self, batch: Batch) -> None:
        following: Optional[Batch] = batch
        while following is not None:
            following = self._serve(following)

    def _wait(self) -> Optional[Batch]:
        with self._lock:
            self._idle += 1
        try:
            return self._handed.get(timeout=LONGEST_IDLE)
        except queue.Empty:
            with self._lock:
                if self._idle > 0:
                    self._idle -= 1
                    return None
            # Somebody has counted on this thread, and hands it a batch.
            return self._handed.get()
