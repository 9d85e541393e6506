"""Is there a way to an address? Asked in seconds, before a tool that would try for minutes."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request

ASK_SECONDS = 8.0


def why_unreachable(url: str, *, timeout: float = ASK_SECONDS) -> str | None:
    """None where the place answers at all, be it with a refusal; else the reason, in words. Only http(s) is asked."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        return None
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 (the scheme is checked above)
    try:
        with urllib.request.urlopen(request, timeout=timeout):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        # A proxy in between answers for a place it cannot reach itself.
        return f"a gateway on the way says {error.code}" if error.code in (502, 504) else None
    except urllib.error.URLError as error:
        return _words(error.reason, timeout)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _words(error, timeout)


def _words(reason: object, timeout: float) -> str | None:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return None  # somebody answers; whether to believe them is the installer's to decide and to say
    if isinstance(reason, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(reason, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(reason, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(reason, OSError):
        return reason.strerror or str(reason)
    return str(reason)
