"""A service of Starlette for uvicorn."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Optional

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

sys.path.insert(0, os.path.dirname(__file__))

from limits import limits_by  # noqa: E402
from sluice_client import AsyncClient  # noqa: E402
from sluice_client.asgi import LimitMiddleware  # noqa: E402

sluice = AsyncClient(
    os.environ["SLUICE_TEST_URL"],
    os.environ["SLUICE_TEST_TOKEN"],
    deadline=float(os.environ["SLUICE_TEST_DEADLINE"]),
    on_failure=os.environ["SLUICE_TEST_ON_FAILURE"],
)


def header(scope: Dict[str, Any], name: str) -> Optional[str]:
    return Request(scope).headers.get(name)


async def serve(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"served by {os.getpid()}, {len(await request.body())} bytes")


async def be_a_teapot(_decision: object, scope: Any, receive: Any, send: Any) -> None:
    await PlainTextResponse("a teapot", status_code=418)(scope, receive, send)


def limited(options: Dict[str, Any]) -> Starlette:
    """Returns an app of its own, with the middleware as a service adds it."""
    service = Starlette(routes=[Route("/{rest:path}", serve, methods=["GET", "POST"])])
    service.add_middleware(LimitMiddleware, client=sluice, **options)
    return service


own = {"policy": "three", "key": lambda scope: [header(scope, "x-user")], "on_refused": be_a_teapot}
options = {**limits_by(header), "/own": own}
app = Starlette(routes=[Route(path, limited(one)) for path, one in options.items()])
