"""Where the gateway is. Reads the URL strictly, because a path or a password in it would have no effect."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import OptionError, wrong

# An address of IPv6 may name a zone behind "%".
_HOST = re.compile(r"[0-9A-Za-z._:%-]+")
_EXPECTED = "http://HOST:PORT, https://HOST:PORT or unix:/PATH"


class Address(NamedTuple):
    is_secure: bool
    host: str
    port: int
    # HOST:PORT as requests name it.
    authority: str
    # The path of a unix socket; None without one.
    socket_path: Optional[str]


def read_address(url: object) -> Address:
    """Raises OptionError."""
    if not isinstance(url, str):
        raise wrong("url", _EXPECTED, url)
    if url.startswith("unix:/"):
        path = url[len("unix:") :]
        if len(path) < 2 or path.startswith("//"):
            raise wrong("url", _EXPECTED, url)
        return Address(False, "localhost", 0, "localhost", path)
    return _read_http(url)


def _read_http(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # The text may have a password in it, so the message does not repeat it.
        raise OptionError("url", _EXPECTED, "text that is no such URL") from None
    is_plain = parts.path in ("", "/") and not (parts.query or parts.fragment or "@" in parts.netloc or url[-1:] in "?#")
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or port == 0 or not is_plain:
        raise OptionError("url", _EXPECTED, "a URL with a user in it") if "@" in url else wrong("url", _EXPECTED, url)
    is_secure = parts.scheme == "https"
    authority = (f"[{host}]" if ":" in host else host) + ("" if port is None else f":{port}")
    return Address(is_secure, host, port or (443 if is_secure else 80), authority, None)
