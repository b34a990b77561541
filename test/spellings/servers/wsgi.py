# What Django, Werkzeug (Flask) and Starlette (FastAPI) read of a request.
import asyncio
import json
import sys
from base64 import b64decode, b64encode
from io import BytesIO

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.forms import CharField
from starlette.requests import Request as StarletteRequest
from werkzeug.wrappers import Request as WerkzeugRequest

settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="x", LOGGING_CONFIG=None)
django.setup()


def read(values):
    try:
        return [b64encode(one.encode("utf-8", "surrogateescape")).decode() for one in values()]
    except Exception:
        return []


def one_or_none(value):
    return [] if value is None else [value]


def environ(query, body, kind, cookie):
    result = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/", "SCRIPT_NAME": "", "SERVER_NAME": "x", "SERVER_PORT": "80",
        "wsgi.url_scheme": "http", "wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body)),
        "QUERY_STRING": query.decode("latin-1"),
    }
    if kind:
        result["CONTENT_TYPE"] = kind.decode("latin-1")
    if cookie:
        result["HTTP_COOKIE"] = cookie.decode("latin-1")
    return result


def of_django(name, *request):
    try:
        request = WSGIRequest(environ(*request))
    except Exception:
        return {}
    return {
        "query": read(lambda: request.GET.getlist(name)),
        "form": read(lambda: request.POST.getlist(name)),
        "cookie": read(lambda: one_or_none(request.COOKIES.get(name))),
    }


def of_django_forms(name, *request):
    try:
        request = WSGIRequest(environ(*request))
    except Exception:
        return {}
    clean = CharField(required=False).clean
    return {
        "query": read(lambda: [clean(one) for one in request.GET.getlist(name)]),
        "form": read(lambda: [clean(one) for one in request.POST.getlist(name)]),
    }


def of_werkzeug(name, *request):
    request = WerkzeugRequest(environ(*request))
    return {
        "query": read(lambda: request.args.getlist(name)),
        "form": read(lambda: request.form.getlist(name)),
        "merged": read(lambda: request.values.getlist(name)),
        "cookie": read(lambda: request.cookies.getlist(name)),
    }


async def of_starlette(name, query, body, kind, cookie):
    headers = [(b"content-type", kind)] if kind else []
    if cookie:
        headers.append((b"cookie", cookie))

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    request = StarletteRequest({"type": "http", "method": "POST", "query_string": query, "headers": headers}, receive)
    await request.body()
    try:
        form = await request.form()
    except Exception:
        form = None
    try:
        fields = await request.json()
    except Exception:
        fields = None
    query = read(lambda: request.query_params.getlist(name))
    in_form = read(lambda: [] if form is None else form.getlist(name))
    in_json = read(lambda: one_or_none(fields.get(name)))
    return {
        "Starlette": {
            "query": query,
            "form": in_form,
            "cookie": read(lambda: one_or_none(request.cookies.get(name))),
        },
        "Starlette, JSON or a form": {"query": query, "form": in_json or in_form},
    }


loop = asyncio.new_event_loop()
for line in sys.stdin.buffer:
    name, query, body, kind, cookie, _ = [b64decode(field) for field in line.rstrip(b"\n").split(b"\t")]
    request = (name.decode(), query, body, kind, cookie)
    readings = {
        "Django": of_django(*request),
        "Django, fields of forms": of_django_forms(*request),
        "Werkzeug": of_werkzeug(*request),
        **loop.run_until_complete(of_starlette(*request)),
    }
    sys.stdout.write(json.dumps(readings) + "\n")
    sys.stdout.flush()
