"""Resumed downloads against a server that can be told to misbehave."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rekindle.errors import BadInput, Interrupted, StageFailed
from rekindle.host.download import download

CONTENT = bytes(range(256)) * 8192  # 2 MiB
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    content = CONTENT
    etag: str | None = '"one"'
    ranges = True
    cut_after: int | None = None
    status: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/pytorch-v9.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(self.headers.get("Range"))
        if server.status:
            self.send_error(server.status)
            return
        start = 0
        wanted = self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range") == server.etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(server.content) - start))
        if server.etag:
            self.send_header("ETag", server.etag)
        self.end_headers()
        end = len(server.content)
        if server.cut_after is not None:
            end = min(end, start + server.cut_after)
        self.wfile.write(server.content[start:end])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("rekindle.host.download.time.sleep", lambda seconds: None)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_whole_and_checked(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a b" / "file"
    assert download(server.url, target, sha256=SHA).read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    download(server.url, target, sha256=SHA)
    assert len(server.asked) == 1


def test_cut_connections_are_continued(server: Server, tmp_path: Path) -> None:
    server.cut_after = 900_000
    assert download(server.url, tmp_path / "f", sha256=SHA).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=900000-", "bytes=1800000-"]


def test_given_up_and_continued_by_the_next_call(server: Server, tmp_path: Path) -> None:
    server.cut_after = 300_000
    with pytest.raises(Interrupted, match="cut short"):
        download(server.url, tmp_path / "f", sha256=SHA, attempts=2)
    assert not (tmp_path / "f").exists()
    server.cut_after = None
    assert download(server.url, tmp_path / "f", sha256=SHA).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=600000-"


def test_another_file_by_now_starts_over(server: Server, tmp_path: Path) -> None:
    server.cut_after = 300_000
    with pytest.raises(Interrupted):
        download(server.url, tmp_path / "f", attempts=1)
    server.cut_after = None
    server.content = CONTENT[::-1]
    server.etag = '"two"'
    assert download(server.url, tmp_path / "f").read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_sure_mark_nothing_is_pieced_together(server: Server, tmp_path: Path, etag: str | None) -> None:
    server.etag = etag
    server.cut_after = 300_000
    with pytest.raises(Interrupted):
        download(server.url, tmp_path / "f", attempts=2)
    server.cut_after = None
    server.content = CONTENT[::-1]
    assert download(server.url, tmp_path / "f").read_bytes() == CONTENT[::-1]
    assert server.asked[-1] is None


def test_a_wrong_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="SHA-256"):
        download(server.url, tmp_path / "f", sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_no_such_file(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(StageFailed, match="404"):
        download(server.url, tmp_path / "f")
    assert len(server.asked) == 1


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no SHA-256"):
        download("https://127.0.0.1/x", tmp_path / "f", sha256="abc")
    with pytest.raises(BadInput, match="cannot download"):
        download("ftp://127.0.0.1/x", tmp_path / "f")
