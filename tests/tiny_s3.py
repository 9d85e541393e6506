"""A small S3-like store on loopback: signatures checked, lists in pages, parts, and bad luck on demand."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

KEY, SECRET = "TINYKEY", "tiny/secret+key"
BUCKET = "wheels"
PAGE = 5


class TinyStore(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.uploads: dict[str, tuple[str, dict[str, str], dict[int, bytes]]] = {}
        self.log: list[tuple[str, str]] = []
        self.drop_at: int | None = None  # the connection breaks at this request and at every later one
        self.busy = 0  # so many requests get 503 first
        self.number = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that goes away is what these tests are about


@contextmanager
def tiny_store() -> Iterator[TinyStore]:
    server = TinyStore()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def etag(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TinyStore

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        store = self.server
        store.number += 1
        if store.drop_at is not None and store.number >= store.drop_at:
            self.close_connection = True
            self.connection.close()
            return
        if store.busy > 0:
            store.busy -= 1
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
            return
        where = urlsplit(self.path)
        query = dict(parse_qsl(where.query, keep_blank_values=True))
        if wrong := self._wrong(where.path, query, body):
            self._answer(403, f"<Error><Code>{wrong}</Code><Message>no</Message></Error>".encode())
            return
        bucket, _, key = unquote(where.path).lstrip("/").partition("/")
        if bucket != BUCKET:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>")
            return
        store.log.append((self.command, key))
        self._act(key, query, body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    def _wrong(self, path: str, query: dict[str, str], body: bytes) -> str:
        """The signature as the standard describes it, from what came over the wire."""
        said = dict(
            part.strip().split("=", 1) for part in self.headers.get("Authorization", "").partition(" ")[2].split(",")
        )
        if "Credential" not in said:
            return "AccessDenied"
        key, day, region, service, last = said["Credential"].split("/")
        # AWS takes what is not signed as well; our own client always signs.
        if self.headers["x-amz-content-sha256"] not in (hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"):
            return "XAmzContentSHA256Mismatch"
        names = said["SignedHeaders"].split(";")
        lines = "".join(f"{name}:{(self.headers[name] or '').strip()}\n" for name in names)
        pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in query.items())
        asked = "&".join(f"{k}={v}" for k, v in pairs)
        digest = self.headers["x-amz-content-sha256"]
        whole = "\n".join((self.command, path, asked, lines, said["SignedHeaders"], digest))
        scope = "/".join((day, region, service, last))
        text = f"AWS4-HMAC-SHA256\n{self.headers['x-amz-date']}\n{scope}\n{hashlib.sha256(whole.encode()).hexdigest()}"
        secret = b"AWS4" + SECRET.encode()
        for part in (day, region, service, last):
            secret = hmac.digest(secret, part.encode(), "sha256")
        good = hmac.digest(secret, text.encode(), "sha256").hex()
        return "" if key == KEY and hmac.compare_digest(good, said["Signature"]) else "SignatureDoesNotMatch"

    def _act(self, key: str, query: dict[str, str], body: bytes) -> None:
        store, told = self.server, {name.lower(): value for name, value in self.headers.items()}
        kept = {
            name: told[name]
            for name in told
            if name.startswith("x-amz-meta-") or name in ("content-type", "cache-control")
        }
        if self.command == "GET" and not key:
            self._list(query)
        elif self.command == "POST" and "uploads" in query:
            upload = f"upload-{len(store.uploads) + 1}"
            store.uploads[upload] = (key, kept, {})
            self._answer(200, f"<X><UploadId>{upload}</UploadId></X>".encode())
        elif "uploadId" in query:
            self._parts(key, query, body)
        elif self.command == "PUT":
            store.objects[key] = (body, kept)
            self._answer(200, b"", {"ETag": f'"{etag(body)}"'})
        elif self.command == "DELETE":
            store.objects.pop(key, None)
            self._answer(204, b"")
        elif key in store.objects:
            raw, headers = store.objects[key]
            self._answer(200, raw, {**headers, "ETag": f'"{etag(raw)}"'})
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _list(self, query: dict[str, str]) -> None:
        names = sorted(name for name in self.server.objects if name.startswith(query.get("prefix", "")))
        begin = int(query.get("continuation-token", 0))
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><ETag>&quot;{etag(self.server.objects[name][0])}&quot;</ETag>"
            f"<Size>{len(self.server.objects[name][0])}</Size></Contents>"
            for name in names[begin : begin + PAGE]
        )
        more = begin + PAGE < len(names)
        rows += f"<NextContinuationToken>{begin + PAGE}</NextContinuationToken>" if more else ""
        space = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
        self._answer(200, f"<ListBucketResult {space}>{rows}</ListBucketResult>".encode())

    def _parts(self, key: str, query: dict[str, str], body: bytes) -> None:
        found = self.server.uploads.get(query["uploadId"])
        if found is None or found[0] != key:
            self._answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
            return
        _, headers, parts = found
        if self.command == "PUT":
            parts[int(query["partNumber"])] = body
            self._answer(200, b"", {"ETag": f'"{etag(body)}"'})
        elif self.command == "GET":
            rows = "".join(
                f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{etag(raw)}&quot;</ETag></Part>"
                for number, raw in sorted(parts.items())
            )
            self._answer(200, f"<X><IsTruncated>false</IsTruncated>{rows}</X>".encode())
        else:
            whole = b"".join(raw for _, raw in sorted(parts.items()))
            self.server.objects[key] = (whole, headers)
            del self.server.uploads[query["uploadId"]]
            self._answer(200, f"<X><ETag>&quot;{etag(whole)}&quot;</ETag></X>".encode())

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
