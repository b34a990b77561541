"""What both services limit: each path has a limit by the header x-user. test/clients/python-middlewares.test.ts asks them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

ReadHeader = Callable[[Any, str], Optional[str]]


def limits_by(header: ReadHeader) -> Dict[str, Dict[str, Any]]:
    """Returns the options of the middleware by path. ``header`` reads a header of a request."""

    def key(request: Any) -> Optional[list[str]]:
        user = header(request, "x-user")
        return None if user is None else [user]

    return {
        "/three": {"policy": "three", "key": key},
        "/brief": {"policy": "brief", "key": key},
        "/slow": {"policy": "slow", "key": key, "max_wait": 60},
        "/fast": {"policy": "fast", "key": key, "max_wait": 20},
        "/shaped": {"policy": "shaped", "key": key},
        "/hourly": {"policy": "hourly", "key": key},
        "/costly": {
            "policy": "plans",
            "key": key,
            "cost": lambda request: int(header(request, "x-cost") or 1),
            "plan": lambda request: header(request, "x-plan"),
        },
        "/wrong": {"policy": "none", "key": key},
    }
