"""An S3-like object store: the few requests a wheelhouse needs, signed, retried, bounded.

An object appears whole or not at all; large ones are sent in parts that a later run finds again. The bucket is named
in the path, not in the host name, which every such store understands. Requests are signed with AWS Signature Version 4,
by functions without a state: the same request, time and secret give the same header.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import os
import ssl
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

from rekindle.errors import BadInput

ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"

PART_BYTES = 32 << 20
TRIES = 4
MAX_ANSWER = 16 << 20
TIMEOUT_SECONDS = 60.0
_EMPTY = hashlib.sha256(b"").hexdigest()
_AGAIN = (500, 502, 503, 504, 429)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where: ``s3://BUCKET/PREFIX`` at an endpoint."""

    endpoint: str
    bucket: str
    prefix: str = ""
    region: str = "us-east-1"

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


def read_place(target: str, endpoint: str | None) -> Place:
    """From ``s3://BUCKET/PREFIX`` and the variables that all such tools read."""
    parts = urlsplit(target)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise BadInput(f"{target!r} names no bucket", remedy="its form is s3://BUCKET/PREFIX")
    env = os.environ
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    address = endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    address = (address or f"https://s3.{region}.amazonaws.com").rstrip("/")
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
        raise BadInput(f"{address!r} is no address of a store", remedy="--endpoint https://HOST[:PORT]")
    return Place(endpoint=address, bucket=parts.netloc, prefix=parts.path.strip("/"), region=region)


def read_credentials() -> Credentials:
    """From the environment only: a secret on the command line is seen by everybody on the machine."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        raise BadInput(
            "the store's key is not known",
            remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, never in the command",
        )
    return Credentials(key=key, secret=secret, token=os.environ.get("AWS_SESSION_TOKEN") or None)


class ObjectStore:
    """One connection, kept open; names are below the place's prefix."""

    def __init__(self, place: Place, credentials: Credentials, *, part_bytes: int = PART_BYTES) -> None:
        self.place = place
        self.part_bytes = part_bytes
        self._credentials = credentials
        self._connection: http.client.HTTPConnection | None = None

    def objects(self) -> dict[str, tuple[str, int]]:
        """Everything below the prefix: name -> (ETag, bytes)."""
        lead = f"{self.place.prefix}/" if self.place.prefix else ""
        found: dict[str, tuple[str, int]] = {}
        query = {"list-type": "2", "prefix": lead}
        while True:
            told = _read(self._ask("GET", None, query).body)
            for one in told.iter("Contents"):
                name = _text(one, "Key").removeprefix(lead)
                found[name] = (_text(one, "ETag").strip('"'), int(_text(one, "Size") or 0))
            query["continuation-token"] = _text(told, "NextContinuationToken")
            if not query["continuation-token"]:
                return found

    def digest(self, name: str) -> str | None:
        """The SHA-256 that was written beside an object when it was sent."""
        answer = self._ask("HEAD", name, {}, allow=(404,))
        return answer.headers.get("x-amz-meta-sha256") if answer.status == 200 else None

    def put(
        self,
        name: str,
        path: Path,
        sha256: str,
        headers: Mapping[str, str],
        *,
        begun: str | None = None,
        began: Callable[[str], None] = lambda upload: None,
    ) -> str:
        """Send one file; its ETag. ``sha256`` is what the file was found to have.

        A large one goes in parts: ``began`` is told the upload's id, and given again as ``begun`` only the parts that
        are not there yet are sent.
        """
        told = {**headers, "x-amz-meta-sha256": sha256}
        if path.stat().st_size > self.part_bytes:
            return self._put_in_parts(name, path, told, begun, began)
        with path.open("rb") as file:
            answer = self._ask("PUT", name, {}, told, file=file, size=path.stat().st_size, sha256=sha256)
        return answer.headers.get("etag", "").strip('"')

    def remove(self, name: str) -> None:
        self._ask("DELETE", name, {}, allow=(404,))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _put_in_parts(
        self, name: str, path: Path, headers: Mapping[str, str], begun: str | None, began: Callable[[str], None]
    ) -> str:
        there = self._parts(name, begun) if begun else None
        upload = begun if begun and there is not None else ""
        if not upload:
            upload = _text(_read(self._ask("POST", name, {"uploads": ""}, headers).body), "UploadId")
            began(upload)
        parts: list[tuple[int, str]] = []
        with path.open("rb") as file:
            number = 0
            while piece := file.read(self.part_bytes):
                number += 1
                md5 = hashlib.md5(piece, usedforsecurity=False).hexdigest()
                if (there or {}).get(number) != md5:
                    query = {"partNumber": str(number), "uploadId": upload}
                    self._ask("PUT", name, query, body=piece)
                parts.append((number, md5))
        rows = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>&quot;{tag}&quot;</ETag></Part>" for n, tag in parts)
        body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>".encode()
        told = _read(self._ask("POST", name, {"uploadId": upload}, body=body).body)
        if told.tag == "Error":  # S3 may say 200 first and change its mind while it joins the parts
            raise BadInput(f"{self.place} could not join the parts of {name}: {_text(told, 'Message')[:200]}")
        return _text(told, "ETag").strip('"')

    def _parts(self, name: str, upload: str) -> dict[int, str] | None:
        """The parts that are there of an upload that was cut short; None where the store knows it no more."""
        there: dict[int, str] = {}
        query = {"uploadId": upload}
        while True:
            # Not every store can say what is there; then all of it is sent again.
            answer = self._ask("GET", name, query, allow=(404, 405, 501))
            if answer.status != 200:
                return None
            told = _read(answer.body)
            for one in told.iter("Part"):
                there[int(_text(one, "PartNumber"))] = _text(one, "ETag").strip('"')
            if _text(told, "IsTruncated") != "true":
                return there
            query["part-number-marker"] = _text(told, "NextPartNumberMarker")

    def _key(self, name: str) -> str:
        return f"{self.place.prefix}/{name}" if self.place.prefix else name

    def _ask(
        self,
        method: str,
        name: str | None,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        file: BinaryIO | None = None,
        size: int = 0,
        sha256: str | None = None,
        allow: tuple[int, ...] = (),
    ) -> Answer:
        """One request; what fails for a moment is tried again, from the start of its body."""
        path = f"/{self.place.bucket}" + (f"/{self._key(name)}" if name is not None else "/")
        digest = sha256 or (hashlib.sha256(body).hexdigest() if body else _EMPTY)
        last = ""
        for number in range(TRIES):
            if number:
                time.sleep(0.2 * 4 ** (number - 1))
            try:
                if file is not None:
                    file.seek(0)
                sending = signed(
                    method, path, query, {**(headers or {}), "host": urlsplit(self.place.endpoint).netloc},
                    payload_sha256=digest, moment=datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
                    region=self.place.region, credentials=self._credentials,
                )  # fmt: skip
                sending["content-length"] = str(size if file is not None else len(body))
                address = spelled_path(path) + (f"?{spelled_query(query)}" if query else "")
                answer = self._send(method, address, sending, file if file is not None else body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                last = f"{error}" or type(error).__name__
                if isinstance(error, ssl.SSLCertVerificationError):
                    break
                continue
            if answer.status < 300 or answer.status in allow:
                return answer
            last = _said(answer)
            if answer.status not in _AGAIN:
                raise BadInput(f"{self.place} refused {name or 'the list'}: {last}", remedy=_next_step(answer.status))
        raise BadInput(
            f"{self.place} at {self.place.endpoint} does not answer: {last}",
            remedy="is the store running, and --endpoint right? The same command goes on where this one stopped",
        )

    def _send(self, method: str, address: str, headers: Mapping[str, str], body: bytes | BinaryIO) -> Answer:
        if self._connection is None:
            where = urlsplit(self.place.endpoint)
            kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(where.hostname or "", where.port, timeout=TIMEOUT_SECONDS)
        self._connection.request(method, address, body=body or None, headers=dict(headers))
        response = self._connection.getresponse()
        raw = response.read(MAX_ANSWER + 1)
        if len(raw) > MAX_ANSWER:
            raise BadInput(f"{self.place.endpoint} answers without end", remedy="is it an S3-like store?")
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, raw)


def _read(body: bytes) -> ET.Element:
    """Without namespaces: stores differ in them."""
    try:
        root = ET.fromstring(body or b"<Nothing/>")  # noqa: S314 (bounded; expat itself refuses entities that explode)
    except ET.ParseError as error:
        raise BadInput(f"the store's answer is no XML: {error}", remedy="is it an S3-like store?") from error
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
    return root


def _text(element: ET.Element, name: str) -> str:
    found = element.find(name)
    return (found.text or "") if found is not None else ""


def _said(answer: Answer) -> str:
    with contextlib.suppress(BadInput):
        told = _read(answer.body)
        code, message = _text(told, "Code"), _text(told, "Message")
        if code or message:
            return f"{code}: {message}"[:300].strip(": ")
    return f"HTTP {answer.status}"


def _next_step(status: int) -> str:
    if status in (401, 403):
        return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, the key's rights and this machine's clock"
    if status == 404:
        return "make the bucket first; nothing was changed"
    return "what was sent before is there; the same command goes on"


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
