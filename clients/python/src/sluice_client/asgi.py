"""Limits requests of ASGI applications, as those of Starlette and FastAPI are::

    app.add_middleware(LimitMiddleware, client=client, policy="api", key=lambda scope: [scope["client"][0]])
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, Optional

from .aio import AsyncClient
from .decision import Decision
from .limit import Middleware, refusal_of, refused_if_late

Scope = Dict[str, Any]
Message = Dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
OnRefused = Callable[[Decision, Scope, Receive, Send], Awaitable[None]]

# In seconds. Nothing is read for a decision that comes by then, as most do.
AT_ONCE = 0.05
# A body of which more has come is not read until the application reads it.
MOST_BYTES_AHEAD = 65_536


class LimitMiddleware(Middleware[Application, AsyncClient, Scope, OnRefused]):
    """Serves a request only if the policy allows it. With a leaky bucket, it waits until it is the request's turn.

    A refusal has status 429; 403 if the key is banned or missing; 503 if nobody could decide, or if the turn of the request comes in more than
    five minutes. What the client raises goes to the server. If the client of the service leaves while its request waits, the request leaves the
    line.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reading = _ReadAhead(receive)
        try:
            deciding = asyncio.ensure_future(self._decide(scope))
            if await reading.until_done(deciding):
                await self._answer(deciding.result(), scope, reading.receive, send)
        finally:
            reading.end()

    async def _answer(self, decision: Optional[Decision], scope: Scope, receive: Receive, send: Send) -> None:
        if decision is None or decision.allowed:
            await self._app(scope, receive, send)
        elif self._on_refused is not None:
            await self._on_refused(decision, scope, receive, send)
        else:
            refusal = refusal_of(decision)
            headers = [(name.encode(), value.encode()) for name, value in refusal.headers]
            await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
            await send({"type": "http.response.body", "body": refusal.body})

    async def _decide(self, scope: Scope) -> Optional[Decision]:
        arguments = self._arguments_for(scope)
        if arguments is None:
            return None
        if "max_wait" in arguments:
            decision = await self._client.acquire(**arguments)
        else:
            decision = await self._client.check(**arguments)
        decision = refused_if_late(decision)
        if decision.allowed and decision.delay is not None:
            # A leaky bucket has charged the request already, and says when its turn is.
            await asyncio.sleep(decision.delay)
        return decision


class _ReadAhead:
    """Reads messages while a request waits, because only they tell that its client has left, and gives them to the application later."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: Deque[Message] = deque()
        self._reading: Optional[asyncio.Future[Message]] = None
        self._bytes = 0

    async def until_done(self, deciding: asyncio.Future[Any]) -> bool:
        """Returns False if the client leaves first: then the decision is cancelled."""
        try:
            await asyncio.wait({deciding}, timeout=AT_ONCE)
            while not deciding.done():
                if self._bytes > MOST_BYTES_AHEAD:
                    await asyncio.wait({deciding})
                    break
                self._reading = self._reading or asyncio.ensure_future(self._receive())
                await asyncio.wait({deciding, self._reading}, return_when=asyncio.FIRST_COMPLETED)
                if self._reading.done() and self._note().get("type") == "http.disconnect":
                    break
            return deciding.done()
        finally:
            deciding.cancel()

    def end(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def _note(self) -> Message:
        assert self._reading is not None
        message = self._reading.result()
        self._reading = None
        self._messages.append(message)
        self._bytes += len(message.get("body", b""))
        return message

    async def receive(self) -> Message:
        """Is what the application receives by."""
        if self._messages:
            return self._messages.popleft()
        if self._reading is not None:
            reading, self._reading = self._reading, None
            return await reading
        return await self._receive()
