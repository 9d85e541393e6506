"""How large a download is, asked of a server without fetching it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rekindle.journey.resolve import size_of


class Server(ThreadingHTTPServer):
    length: str | None = None
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/torch.whl"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.server.asked.append(self.command)
        self.send_response(self.server.status)
        if self.server.length is not None:
            self.send_header("Content-Length", self.server.length)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("length", "size"),
    [
        ("0", 0),
        ("900000000", 900_000_000),
        ("9" * 15, 10**15 - 1),
        ("9" * 16, None),  # nobody has such a file
        ("-5", None),
        ("many", None),
        (None, None),
    ],
)
def test_a_length_is_believed_where_it_can_be_one(length: str | None, size: int | None, server: Server) -> None:
    server.length = length
    assert size_of(server.url) == size and server.asked == ["HEAD"]


def test_a_refusal_is_no_size(server: Server) -> None:
    server.length, server.status = "10", 404
    assert size_of(server.url) is None


def test_a_server_that_is_gone_is_no_error(server: Server) -> None:
    url = server.url
    server.server_close()
    assert size_of(url) is None
