"""Web servers that answer as they like: raw bytes for every request, on loopback. Shared by tests here."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# What a request's first line names -> the pieces to be sent; the connection is closed after the last one.
Answer = Callable[[str, str], Iterator[bytes]]
NAME = "torch-2.6.0-py3-none-any.whl"


class _Strange(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Answer

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up is what most of these are for


class _Handler(socketserver.StreamRequestHandler):
    server: _Strange

    def handle(self) -> None:
        path = self.rfile.readline(1 << 16).decode("latin-1").split(" ")[1:2]
        heads = [line.decode("latin-1") for line in iter(self.rfile.readline, b"\r\n") if line]
        for piece in self.server.answer("".join(path), "".join(heads)):
            self.wfile.write(piece)
            self.wfile.flush()


@contextlib.contextmanager
def strange_server(answer: Answer) -> Iterator[str]:
    """Its address, while it runs."""
    with _Strange(("127.0.0.1", 0), _Handler) as server:
        server.answer = answer
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def whole(body: bytes, kind: str = "text/html", status: str = "200 OK", more: str = "") -> bytes:
    """One ordinary answer."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode("latin-1") + body


def same(*pieces: bytes) -> Answer:
    """The same for every request."""
    return lambda path, heads: iter(pieces)


def dripping(head: bytes, piece: bytes) -> Answer:
    """An answer that never ends and never pauses long enough to be given up."""

    def answer(path: str, heads: str) -> Iterator[bytes]:
        yield head
        while True:
            yield piece
            time.sleep(0.05)

    return answer


def endless(head: bytes, piece: bytes) -> Answer:
    """As fast as the reader reads, for ever."""

    def answer(path: str, heads: str) -> Iterator[bytes]:
        yield head
        while True:
            yield piece

    return answer


def page_then(body: Answer, *, page: bytes | None = None) -> Answer:
    """A page that offers one wheel, and then ``body`` for the wheel itself."""

    def answer(path: str, heads: str) -> Iterator[bytes]:
        if path.endswith(".whl"):
            yield from body(path, heads)
        else:
            yield whole(page or f'<a href="/files/{NAME}">x</a>'.encode())

    return answer


def page_of(*rows: dict[str, Any]) -> bytes:
    """A page of files in JSON (PEP 691)."""
    return whole(json.dumps({"meta": {"api-version": "1.1"}, "name": "torch", "files": rows}).encode(), _JSON)


_JSON = "application/vnd.pypi.simple.v1+json"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
_PART = b"HTTP/1.1 206 Partial Content\r\nContent-Range: %s\r\nContent-Length: %d\r\n\r\n%s"


def _link(href: str) -> bytes:
    return whole(f'<a href="{href}">x</a>'.encode())


def _redirect(place: str) -> bytes:
    return whole(b"", status="302 Found", more=f"Location: {place}\r\n")


ANSWERS: dict[str, Answer] = {
    "nothing": same(b""),
    "no-http": same(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "status-of-letters": same(b"HTTP/1.1 abc OK\r\n\r\n"),
    "status-of-digits": same(b"HTTP/1.1 " + b"9" * 5000 + b" OK\r\n\r\n"),
    "a-line-without-end": endless(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 4096),
    "headers-without-end": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 100),
    "chunks-of-nonsense": same(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab"),
    "cut-short": same(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n<a href="),
    "length-of-letters": same(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n<a>"),
    "length-below-zero": same(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n<a>"),
    "length-of-5000-digits": same(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n<a>"),
    "redirect-to-itself": same(_redirect("/again/")),
    "redirect-to-a-file": same(_redirect("file:///etc/passwd")),
    "redirect-to-no-address": same(_redirect("http://[bad/")),
    "redirect-to-a-long-name": same(_redirect(f"http://{'a' * 70}.invalid/")),
    "redirect-to-letters": same(_redirect("http://example.invalid:port/")),
    "dripping": dripping(_HEAD, b"<a "),
    "endless": endless(_HEAD, b"<a href=x>y</a>" * 4096),
    "marked-section": same(whole(b"<![foo[ x ]]>")),
    "open-tags": same(whole(b"<a " * 400_000)),
    "open-comments": same(whole(b"<!--" * 400_000)),
    "open-quotes": same(whole(b"<a href='" * 200_000)),
    "one-link-in-many-pieces": same(whole(b"<a href=x>" + b"y<b>" * 400_000)),
    "no-text": same(whole(bytes(range(256)) * 50)),
    "json-deep": same(whole(b"[" * 100_000, _JSON), b""),
    "json-deep-object": same(whole(b'{"files":' + b"[" * 100_000, _JSON)),
    "json-number": same(whole(b'{"files": ' + b"9" * 10_000 + b"}", _JSON)),
    "json-no-list": same(whole(b'{"files": {"filename": 5}}', _JSON)),
    "json-odd-rows": same(page_of({"filename": 5, "url": None}, {"filename": NAME, "url": [], "hashes": 7})),
    "json-names-out": same(page_of(*({"filename": name, "url": "/x.whl"} for name in (
        f"../../{NAME}", f"/etc/{NAME}", "torch-2.6.0-py3-none-any/../../x.whl", "torch-2.6.0-py3-none-any\\..\\x.whl",
        "torch-2.6.0-py3-none-any\x1b[2J.whl", "torch-2.6.0-py3-none-any\n.whl", "torch-2.6.0-py3-none-any\u202e.whl",
    )))),
    "links-to-files": same(_link(f"file:///etc/{NAME}")),
    "links-elsewhere": same(_link(f"gopher://127.0.0.1/{NAME}")),
    "link-no-address": same(_link(f"http://[bad/{NAME}")),
    "link-long-name": same(_link(f"http://{'a' * 70}.invalid/{NAME}")),
    "link-letters-for-a-port": same(_link(f"http://127.0.0.1:port/{NAME}")),
    "link-no-ascii": same(_link(f"/ä\u20ac/{NAME}")),
    "base-no-address": same(whole(f'<base href="http://[bad/"><a href="{NAME}">x</a>'.encode())),
    "names-out": same(_link("torch-2.6.0-py3-none-any%2f..%2f..%2fx.whl")),
    "wheel-nothing": page_then(same(b"")),
    "wheel-cut": page_then(same(_PART % (b"bytes 0-99/100", 100, b"PK"))),
    "wheel-of-5000-digits": page_then(same(_PART % (b"bytes 0-" + b"9" * 5000 + b"/" + b"9" * 5000, 2, b"PK"))),
    "wheel-backwards": page_then(endless(_PART % (b"bytes 9-0/100", 1 << 40, b"PK"), b"x" * 65536)),
    "wheel-longer-than-asked": page_then(endless(_PART % (b"bytes 0-99999999999/100000000000", 100_000_000_000, b""),
                                                 b"x" * 65536)),
    "wheel-empty": page_then(same(_PART % (b"bytes 0-0/0", 0, b""))),
    "wheel-other-part": page_then(same(_PART % (b"bytes 500-503/100000", 4, b"PK\5\6"))),
    "wheel-dripping": page_then(dripping(b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-65535/65536\r\n\r\n", b"P")),
    "wheel-whole-wrong-length": page_then(same(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nPK")),
    "wheel-whole-wrong-digest": page_then(
        same(whole(b"PK\5\6" + b"\0" * 18)), page=f'<a href="/f/{NAME}#sha256={"0" * 64}">x</a>'.encode()
    ),
    "wheel-redirect-to-a-file": page_then(same(_redirect("file:///etc/passwd"))),
}  # fmt: skip
