"""Asks a Sluice gateway whether something may be done now: a client of the gateway's check API. It relies on the standard library alone.

``Client`` is for threads and ``AsyncClient`` for asyncio. They share requests between calls, remember refusals, and decide by themselves when no
gateway answers.
"""

from .aio import AsyncClient, AsyncHeld
from .checks import Check
from .client import Client, Held
from .decision import NEVER, AllDecision, Decision
from .errors import ClosedError, Mistake, OptionError, RefusedError, RequestError, SluiceError
from .events import Event

__all__ = [
    "NEVER",
    "AllDecision",
    "AsyncClient",
    "AsyncHeld",
    "Check",
    "Client",
    "ClosedError",
    "Decision",
    "Event",
    "Held",
    "Mistake",
    "OptionError",
    "RefusedError",
    "RequestError",
    "SluiceError",
]
