"""Limits requests of WSGI applications, as those of Django and Flask are::

    application = LimitMiddleware(application, client, policy="api", key=lambda environ: [environ["REMOTE_ADDR"]])
"""

from __future__ import annotations

from time import sleep
from typing import Any, Callable, Dict, Iterable, Optional

from .client import Client
from .decision import Decision
from .limit import Middleware, refusal_of, refused_if_late

Environ = Dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
OnRefused = Callable[[Decision, Environ, StartResponse], Iterable[bytes]]


class LimitMiddleware(Middleware[Application, Client, Environ, OnRefused]):
    """Serves a request only if the policy allows it. With a leaky bucket, it waits until it is the request's turn.

    A refusal has status 429; 403 if the key is banned or missing; 503 if nobody could decide, or if the turn of the request comes in more than
    five minutes. What the client raises goes to the server.
    """

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        decision = self._decide(environ)
        if decision is None or decision.allowed:
            return self._app(environ, start_response)
        if self._on_refused is not None:
            return self._on_refused(decision, environ, start_response)
        refusal = refusal_of(decision)
        start_response(f"{refusal.status} {refusal.phrase}", refusal.headers)
        return [refusal.body]

    def _decide(self, environ: Environ) -> Optional[Decision]:
        arguments = self._arguments_for(environ)
        if arguments is None:
            return None
        if "max_wait" in arguments:
            decision = self._client.acquire(**arguments)
        else:
            decision = self._client.check(**arguments)
        decision = refused_if_late(decision)
        if decision.allowed and decision.delay is not None:
            # A leaky bucket has charged the request already, and says when its turn is.
            sleep(decision.delay)
        return decision
