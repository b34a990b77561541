"""The driver of the client for asyncio, as driver.py is that of the client for threads."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from typing import Any, Dict, List, Optional

from driver_lines import Tally, arguments_of, checks_of, error_line, event_line, options_of, with_key_of
from sluice_client import AsyncClient, AsyncHeld, Event


class Driver:
    def __init__(self) -> None:
        self._client: Optional[AsyncClient] = None
        self._events: List[Event] = []
        self._held: Dict[str, AsyncHeld] = {}

    async def answer(self, line: Dict[str, Any]) -> Dict[str, Any]:
        if "client" in line:
            return await self._make_client(line["client"])
        if "events" in line:
            events, self._events = self._events, []
            return {"events": [event_line(event) for event in events]}
        if "do" in line:
            # Tasks run for the first time in the order in which they were made, and until they wait.
            return {"results": await asyncio.gather(*(self._do_later(call) for call in line["do"]))}
        return await self._load(**line["load"])

    async def _make_client(self, line: Dict[str, Any]) -> Dict[str, Any]:
        if self._client is not None:
            await self._client.close()
        try:
            self._client = AsyncClient(**options_of(line), on_event=lambda event: self._events.append(event))
        except (ValueError, OSError) as error:
            return {"error": str(error)}
        return {"ok": True}

    async def _do_later(self, call: Dict[str, Any]) -> Any:
        if "afterMs" in call:
            await asyncio.sleep(call["afterMs"] / 1000)
        try:
            return await self._do(call)
        except Exception as error:
            return error_line(error)

    async def _do(self, call: Dict[str, Any]) -> Any:
        name = call["call"]
        if name == "checkAll":
            return (await self._client.check_all(checks_of(call))).to_dict()
        if name == "hold":
            held = await self._client.hold(**arguments_of(call))
            if "as" in call:
                self._held[call["as"]] = held
            return {**held.decision.to_dict(), "holds": held.allowed}
        if name == "release":
            await self._held[call["hold"]].release()
            return {"released": True}
        if name == "isLost":
            return {"lost": self._held[call["hold"]].lost.is_set()}
        return (await getattr(self._client, name)(**arguments_of(call))).to_dict()

    async def _load(self, callers: int, seconds: float, call: Dict[str, Any], keys: int = 1) -> Dict[str, Any]:
        tally = Tally()
        numbers = itertools.count()
        began = time.monotonic()

        async def repeat(caller: int) -> None:
            while time.monotonic() < began + seconds:
                await self._once({**with_key_of(call, next(numbers), keys), "as": caller}, tally)

        await asyncio.gather(*(repeat(caller) for caller in range(callers)))
        return tally.line(time.monotonic() - began)

    async def _once(self, call: Dict[str, Any], tally: Tally) -> None:
        began = time.monotonic()
        try:
            result = await self._do(call)
        except Exception:
            tally.add(time.monotonic() - began, None, None)
            return
        tally.add(time.monotonic() - began, result["allowed"], result["source"])
        if result.get("holds"):
            await self._held.pop(call["as"]).release()


async def main() -> None:
    driver = Driver()
    loop = asyncio.get_running_loop()
    while True:
        # Holds are renewed while the driver waits for a line.
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if line == "":
            return
        print(json.dumps(await driver.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
