"""A wheelhouse served to strangers: slow, many and endless readers keep nobody out."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.index import server as connections
from rekindle.index.server import Server, open_server
from rekindle.index.wheelhouse.store import Wheelhouse


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "simple").mkdir()
    (tmp_path / "simple/index.html").write_text("<html></html>", encoding="utf-8")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/big.whl").write_bytes(bytes(8 << 20))
    made = open_server(Wheelhouse(tmp_path), "127.0.0.1", 0)
    thread = threading.Thread(target=lambda: made.serve_forever(poll_interval=0.05), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(10)


def ask(server: Server, path: str = "/simple/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def slow(server: Server, count: int, text: bytes) -> list[socket.socket]:
    made = []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30)
        one.sendall(text)
        made.append(one)
    return made


def test_192_slow_connections_block_nobody(server: Server) -> None:
    held = slow(server, 192, b"GET /simple/ HTTP/1.1\r\nHost: x\r\nX-")
    for _ in range(5):
        assert ask(server) == 200
    for one in held:
        one.close()


def test_a_request_that_never_ends_is_hung_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    (one,) = slow(server, 1, b"GET /simple/ HTTP/1.1\r\n")
    # A byte now and then does not help: the deadline is the whole request's.
    with contextlib.suppress(OSError):
        for _ in range(200):
            one.sendall(b"X: y\r\n")
            threading.Event().wait(0.05)
    one.settimeout(10)
    with contextlib.suppress(ConnectionError):
        assert one.recv(1000) == b""
    one.close()


def test_a_reader_that_takes_nothing_is_hung_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(connections, "SLOWEST_BYTES_PER_SECOND", 1 << 40)
    (one,) = slow(server, 1, b"GET /wheels/big.whl HTTP/1.1\r\nHost: x\r\n\r\n")
    threading.Event().wait(1.5)
    got = 0
    with contextlib.suppress(ConnectionError):
        while chunk := one.recv(1 << 20):
            got += len(chunk)
    assert got < 8 << 20
    one.close()
    assert ask(server) == 200


def test_busy_readers_are_not_thrown_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    held = slow(server, 2, b"GET /wheels/big.whl HTTP/1.1\r\nHost: x\r\n\r\n")
    for one in held:
        assert one.recv(1)  # being served
    assert ask(server) == 503
    for one in held:
        one.close()


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: %d", b"Transfer-Encoding: chunked", b"Content-Length: 0\r\nTransfer-Encoding: chunked"],
)
@pytest.mark.parametrize("verb", [b"GET", b"HEAD"])
def test_a_body_is_not_taken_for_the_next_request(server: Server, verb: bytes, head: bytes) -> None:
    inner = b"GET /wheels/big.whl HTTP/1.1\r\nHost: x\r\n\r\n"
    told = head % len(inner) if b"%d" in head else head
    (asking,) = slow(server, 1, verb + b" /simple/ HTTP/1.1\r\nHost: x\r\n" + told + b"\r\n\r\n" + inner)
    asking.settimeout(10)
    got = b""
    with contextlib.suppress(ConnectionError):
        while chunk := asking.recv(1 << 20):
            got += chunk
    asking.close()
    assert got.count(b"HTTP/1.1 200") == 1 and b"Connection: close" in got
    assert len(got) < 5000, "only the first request was answered"


def test_a_kept_connection_answers_again(server: Server) -> None:
    (asking,) = slow(server, 1, b"GET /simple/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" * 2)
    asking.settimeout(10)
    got = b""
    while got.count(b"</html>") < 2:
        got += asking.recv(1 << 16)
    asking.close()
    assert b"Connection: close" not in got
