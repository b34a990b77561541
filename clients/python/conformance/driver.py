"""The driver of the client for threads: tests control it by lines of JSON, as clients/README.md describes. It uses nothing but what the package
offers to everybody."""

from __future__ import annotations

import itertools
import json
import queue
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from driver_lines import Tally, arguments_of, checks_of, error_line, event_line, options_of, with_key_of
from sluice_client import Client, Event, Held


class Driver:
    def __init__(self) -> None:
        self._client: Optional[Client] = None
        self._events: List[Event] = []
        self._held: Dict[str, Held] = {}

    def answer(self, line: Dict[str, Any]) -> Dict[str, Any]:
        if "client" in line:
            return self._make_client(line["client"])
        if "events" in line:
            events, self._events = self._events, []
            return {"events": [event_line(event) for event in events]}
        if "do" in line:
            return {"results": self._do_all(line["do"])}
        return self._load(**line["load"])

    def _make_client(self, line: Dict[str, Any]) -> Dict[str, Any]:
        if self._client is not None:
            self._client.close()
        try:
            self._client = Client(**options_of(line), on_event=lambda event: self._events.append(event))
        except (ValueError, OSError) as error:
            return {"error": str(error)}
        return {"ok": True}

    def _do_all(self, calls: List[Dict[str, Any]]) -> List[Any]:
        results: List[Any] = [None] * len(calls)

        def do(i: int, started: threading.Event) -> None:
            time.sleep(calls[i].get("afterMs", 0) / 1000)
            tell_when_it_waits(started)
            try:
                results[i] = self._do(calls[i])
            except Exception as error:
                results[i] = error_line(error)
            finally:
                started.set()

        threads = []
        for i, call in enumerate(calls):
            started = threading.Event()
            threads.append(threading.Thread(target=do, args=(i, started)))
            threads[-1].start()
            if "afterMs" not in call:
                started.wait()
        for thread in threads:
            thread.join()
        return results

    def _do(self, call: Dict[str, Any]) -> Any:
        name = call["call"]
        if name == "checkAll":
            return self._client.check_all(checks_of(call)).to_dict()
        if name == "hold":
            held = self._client.hold(**arguments_of(call))
            if "as" in call:
                self._held[call["as"]] = held
            return {**held.decision.to_dict(), "holds": held.allowed}
        if name == "release":
            self._held[call["hold"]].release()
            return {"released": True}
        if name == "isLost":
            return {"lost": self._held[call["hold"]].lost.is_set()}
        return getattr(self._client, name)(**arguments_of(call)).to_dict()

    def _load(self, callers: int, seconds: float, call: Dict[str, Any], keys: int = 1) -> Dict[str, Any]:
        tallies = [Tally() for _ in range(callers)]
        numbers = itertools.count()
        began = time.monotonic()

        def repeat(tally: Tally) -> None:
            while time.monotonic() < began + seconds:
                self._once(with_key_of(call, next(numbers), keys), tally)

        threads = [threading.Thread(target=repeat, args=(tally,)) for tally in tallies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        for tally in tallies[1:]:
            tallies[0].join(tally)
        return tallies[0].line(took)

    def _once(self, call: Dict[str, Any], tally: Tally) -> None:
        began = time.monotonic()
        try:
            result = self._do({**call, "as": threading.get_ident()})
        except Exception:
            tally.add(time.monotonic() - began, None, None)
            return
        tally.add(time.monotonic() - began, result["allowed"], result["source"])
        if result.get("holds"):
            self._held.pop(threading.get_ident()).release()


def tell_when_it_waits(started: threading.Event) -> None:
    """Sets the event when this thread first uses a socket or waits for a queue: then its call has its place, and the next may start."""

    def look(_frame: object, what: str, function: Any) -> None:
        if what == "c_call" and isinstance(getattr(function, "__self__", None), (socket.socket, queue.SimpleQueue)):
            if function.__name__ != "put":
                sys.setprofile(None)
                started.set()

    sys.setprofile(look)


def main() -> None:
    driver = Driver()
    for line in sys.stdin:
        print(json.dumps(driver.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
