"""A service of Django for gunicorn. Its client is made and used before gunicorn forks its workers."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterable, Optional

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import re_path

sys.path.insert(0, os.path.dirname(__file__))

from limits import limits_by  # noqa: E402
from sluice_client import Client  # noqa: E402
from sluice_client.wsgi import LimitMiddleware  # noqa: E402


def serve(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"served by {os.getpid()}, {len(request.body)} bytes")


urlpatterns = [re_path(r".*", serve)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of a test", MIDDLEWARE=[])
django.setup()
served = get_wsgi_application()

sluice = Client(
    os.environ["SLUICE_TEST_URL"],
    os.environ["SLUICE_TEST_TOKEN"],
    deadline=float(os.environ["SLUICE_TEST_DEADLINE"]),
    on_failure=os.environ["SLUICE_TEST_ON_FAILURE"],
)
sluice.check("three", ["the master of gunicorn"])


def header(environ: Dict[str, Any], name: str) -> Optional[str]:
    return environ.get(f"HTTP_{name.upper().replace('-', '_')}")


def be_a_teapot(_decision: object, _environ: object, start_response: Any) -> Iterable[bytes]:
    start_response("418 I'm a teapot", [("content-type", "text/plain")])
    return [b"a teapot"]


limited = {path: LimitMiddleware(served, sluice, **options) for path, options in limits_by(header).items()}
own = {"policy": "three", "key": lambda environ: [header(environ, "x-user")], "on_refused": be_a_teapot}
limited["/own"] = LimitMiddleware(served, sluice, **own)


def application(environ: Dict[str, Any], start_response: Any) -> Iterable[bytes]:
    return limited[environ["PATH_INFO"]](environ, start_response)
