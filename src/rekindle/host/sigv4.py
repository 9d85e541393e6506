"""AWS Signature Version 4, which every S3-like store asks for: what is signed, and with what.

Pure functions: the same request, time and secret give the same header.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Never printed: the secret stays out of ``repr``."""

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def spelled_path(path: str) -> str:
    """A path as it is signed and sent: S3 encodes each byte once and keeps the slashes."""
    return quote(path, safe="/" + _UNRESERVED)


def spelled_query(query: Mapping[str, str]) -> str:
    pairs = sorted((quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def signed(
    method: str,
    path: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    *,
    payload_sha256: str,
    moment: str,
    region: str,
    credentials: Credentials,
    service: str = "s3",
) -> dict[str, str]:
    """``headers`` with date, digest and signature. ``moment`` is like 20130524T000000Z."""
    sent = {name.lower(): value for name, value in headers.items()}
    sent |= {"x-amz-date": moment, "x-amz-content-sha256": payload_sha256}
    if credentials.token:
        sent["x-amz-security-token"] = credentials.token
    names = sorted(sent)
    told = "".join(f"{name}:{' '.join(sent[name].split())}\n" for name in names)
    request = "\n".join((method, spelled_path(path), spelled_query(query), told, ";".join(names), payload_sha256))
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{credentials.secret}".encode()
    for part in (moment[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    sent["authorization"] = (
        f"{ALGORITHM} Credential={credentials.key}/{scope},SignedHeaders={';'.join(names)},Signature={signature}"
    )
    return sent
