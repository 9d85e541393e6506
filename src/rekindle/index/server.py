"""A small read-only server for a wheelhouse: GET and HEAD, ranges, ETags, PEP 691 negotiation.

It answers only for names it knows; a request's path is split, checked part by part and never resolved upwards. It
speaks plain HTTP on the loopback interface unless told otherwise; TLS and access control belong to a proxy in front of
it. Deadlines and limits per client are :class:`OpenConnections`'s: a server library would bring them too, but also an
event loop, its settings and its own advisories, for a server that only reads files.
"""

import contextlib
import email.utils
import io
import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from rekindle import __version__
from rekindle.compat.proofs import LIST
from rekindle.errors import BadInput
from rekindle.index.pages.simple import content_type
from rekindle.index.wheelhouse.listing import LIST_FILE
from rekindle.index.wheelhouse.store import CHUNK, Wheelhouse
from rekindle.model.toml import read_beside

PUBLIC = ("simple", "wheels", "wheel", "grafts", "variants", "variant", "catalogue.json", "index.html", LIST_FILE, LIST)
TIMEOUT_SECONDS = 30
JSON = "application/vnd.pypi.simple.v1+json"
_PLAIN_HTML = "text/html; charset=utf-8"
_TABLES = read_beside(__file__, "server.toml", dict[str, dict[str, str]])
_RANGE = re.compile(r"bytes=(?!-$)(\d{0,90})-(\d{0,90})")
MAX_CONNECTIONS = 64
MAX_PER_CLIENT = 32
HEAD_SECONDS = 10.0
ANSWER_SECONDS = 60.0
# Slower than this over a whole file nobody is served: 3 GB then may take thirteen hours.
SLOWEST_BYTES_PER_SECOND = 64 << 10


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = f"rekindle/{__version__}"
    sys_version = ""
    timeout = TIMEOUT_SECONDS
    server: "Server"
    brings_body = False

    def handle_one_request(self) -> None:
        self.server.connections.awaits(self.connection)
        super().handle_one_request()

    def parse_request(self) -> bool:
        whole = super().parse_request()
        self.server.connections.answers(self.connection)
        # A body nobody asked for is not read: on a kept connection it would be taken for the next request.
        headers = ("Transfer-Encoding", "Content-Length")
        self.brings_body = whole and any(self.headers.get(name, "0").strip() != "0" for name in headers)
        return whole

    def do_GET(self) -> None:
        self.server.requests += 1
        parts, root, form = split_path(self.path), self.server.house.root, None
        try:
            if parts is None:
                raise FileNotFoundError(self.path)
            path = root.joinpath(*(parts or ["index.html"]))
            if parts and (path / "index.html").is_file():
                if not urlsplit(self.path).path.endswith("/"):
                    self._send_head(HTTPStatus.MOVED_PERMANENTLY, {"Location": f"/{'/'.join(parts)}/"}, 0)
                    return
                form = choose_form(self.headers.get("Accept")) if parts[0] != "wheel" else None
                path = path / ("index.json" if form == JSON else "index.html")
            elif not parts and not path.is_file():
                # Whoever types the bare address is a person.
                page = "/wheel/" if (root / "wheel" / "index.html").is_file() else "/simple/"
                self._send_head(HTTPStatus.FOUND, {"Location": page}, 0)
                return
            # Only what really lies inside the wheelhouse, whatever links say.
            if not path.resolve().is_relative_to(root.resolve()) or not path.is_file():
                raise FileNotFoundError(self.path)
            file = path.open("rb")
        except OSError:
            said = b"404 Not Found\n"
            self._send_head(HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain; charset=utf-8"}, len(said))
            self._send_bytes(io.BytesIO(said), range(len(said)))
            return
        with file:
            self._send_file(file, form or content_type(path.name), {"Vary": "Accept"} if form else {})

    do_HEAD = do_GET

    def _send_file(self, file: BinaryIO, kind: str, headers: Mapping[str, str]) -> None:
        stat = os.fstat(file.fileno())
        etag = f'"{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"'
        changed = email.utils.formatdate(stat.st_mtime, usegmt=True)
        own = {"ETag": etag, "Last-Modified": changed, "Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
        known = {**headers, **own}
        # Weak comparison, as the RFC asks.
        same = self.headers.get("If-None-Match", "")
        if same.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in same.split(",")]:
            self._send_head(HTTPStatus.NOT_MODIFIED, known)
            return
        asked = self.headers.get("Range") if self.headers.get("If-Range") in (None, etag) else None
        span = parse_range(asked, stat.st_size)
        if span is not None and not span:
            headers = {"Content-Range": f"bytes */{stat.st_size}"}
            self._send_head(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers, 0)
            return
        sent = span or range(stat.st_size)
        part = {"Content-Range": f"bytes {sent.start}-{sent.stop - 1}/{stat.st_size}"} if span else {}
        status = HTTPStatus.PARTIAL_CONTENT if span else HTTPStatus.OK
        self._send_head(status, {"Content-Type": kind, **part, **known}, len(sent))
        self._send_bytes(file, sent)

    def _send_bytes(self, file: BinaryIO, span: range) -> None:
        if self.command == "HEAD":
            return
        file.seek(span.start)
        left = len(span)
        self.server.connections.answers(self.connection, left)
        while left and (chunk := file.read(min(left, CHUNK))):
            self.wfile.write(chunk)
            left -= len(chunk)
        if left:  # the file shrank under us: the promised length cannot be kept
            self.close_connection = True

    def _send_head(self, status: HTTPStatus, headers: Mapping[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers if length is None else {**headers, "Content-Length": str(length)}).items():
            self.send_header(name, value)
        self.end_headers()

    def end_headers(self) -> None:
        for name, value in (({"Connection": "close"} if self.brings_body else {}) | _TABLES["guards"]).items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: a log of strangers' strings on the terminal helps nobody."""


class Server(ThreadingHTTPServer):
    """A thread per connection, within :class:`OpenConnections`'s limits."""

    def __init__(self, address: tuple[str, int], house: Wheelhouse) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.house = house
        self.requests = 0
        self.connections = OpenConnections()
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.enter(request, str(client_address[0])):
            with contextlib.suppress(OSError):
                request.settimeout(1.0)
                request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        self.connections.sweep()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no news."""


def open_server(house: Wheelhouse, host: str, port: int) -> Server:
    """A server that listens; what keeps it from that is the user's to fix."""
    if not (house.root / "simple").is_dir():
        raise BadInput(f"{house.root} has no site yet", remedy=f"rekindle index build --root {house.root}")
    if not 0 <= port <= 65535:
        raise BadInput(f"{port} is no port", remedy="a number from 0 (any free one) to 65535")
    try:
        return Server((host, port), house)
    except (OSError, OverflowError) as error:
        raise BadInput(f"cannot listen on {host} port {port}: {error}", remedy="--port 0 takes any free one") from error


def split_path(target: str) -> list[str] | None:
    """A request target as safe path parts below the root; None where it is none of ours."""
    with contextlib.suppress(ValueError):
        path = unquote(urlsplit(target).path, errors="strict")
        parts = [part for part in path.split("/") if part]
        # A leading dot covers "..", ".site" and ".lock" alike; a colon is a drive or a stream on Windows.
        strange = any(part.startswith(".") or ":" in part for part in parts) or "\0" in path or "\\" in path
        if path.startswith("/") and not strange and len(parts) <= 4 and (not parts or parts[0] in PUBLIC):
            return parts
    return None


def choose_form(accept: str | None) -> str:
    """PEP 691: JSON only for those who prefer it in so many words."""
    best, best_quality = _PLAIN_HTML, 0.0
    for item in (accept or "").split(","):
        kind, *parameters = (piece.strip() for piece in item.split(";"))
        told = next((parameter[2:] for parameter in reversed(parameters) if parameter.startswith("q=")), "1")
        quality = float(told) if re.fullmatch(r"[0-9]*\.?[0-9]+|[0-9]+\.", told) else 0.0
        if kind in _TABLES["forms"] and quality > best_quality:
            best, best_quality = _TABLES["forms"][kind], quality
    return best


@dataclass
class _Connection:
    """``waiting``: for a request's head, whose deadline also says since when."""

    client: str
    deadline: float
    waiting: bool = True


class OpenConnections:
    """Who is connected since when, and until when he may be: a slow client loses its place, not the others theirs."""

    def __init__(self) -> None:
        self._open: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()

    def enter(self, connection: socket.socket, client: str) -> bool:
        """Let a connection in, if need be instead of an idle one; False where all others are being served."""
        with self._lock:
            same = [other for other, peer in self._open.items() if peer.client == client]
            crowd = same if len(same) >= MAX_PER_CLIENT else self._open
            if crowd is same or len(self._open) >= MAX_CONNECTIONS:
                idle = [other for other in crowd if self._open[other].waiting]
                if not idle:
                    return False
                self._hang_up(min(idle, key=lambda other: self._open[other].deadline))
            self._open[connection] = _Connection(client, time.monotonic() + HEAD_SECONDS)
        return True

    def awaits(self, connection: socket.socket) -> None:
        """A new request may come on this connection: from now on its head is waited for."""
        with self._lock:
            if peer := self._open.get(connection):
                peer.deadline, peer.waiting = time.monotonic() + HEAD_SECONDS, True

    def answers(self, connection: socket.socket, size: int = 0) -> None:
        """The request is complete; its answer has so many bytes."""
        with self._lock:
            if peer := self._open.get(connection):
                peer.waiting = False
                peer.deadline = time.monotonic() + ANSWER_SECONDS + size / SLOWEST_BYTES_PER_SECOND

    def leave(self, connection: socket.socket) -> None:
        """It is over."""
        with self._lock:
            self._open.pop(connection, None)

    def sweep(self) -> None:
        """End what is past its deadline."""
        now = time.monotonic()
        with self._lock:
            for connection in [each for each, peer in self._open.items() if peer.deadline < now]:
                self._hang_up(connection)

    def _hang_up(self, connection: socket.socket) -> None:
        del self._open[connection]
        # Shut down, not closed: the thread that reads from it wakes up and closes it itself.
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def parse_range(header: str | None, size: int) -> range | None:
    """The bytes asked for; none of them outside the file (416). None for no range, several or nonsense: all is sent."""
    match = _RANGE.fullmatch((header or "").strip())
    if not match:
        return None
    first, last = match[1], match[2]
    if not first:
        return range(max(0, size - int(last)), size)
    start, stop = int(first), int(last) + 1 if last else size
    return None if last and stop <= start else range(start, min(stop, size))
