"""Resumed downloads against a server that can be told to misbehave."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rekindle.errors import BadInput, Interrupted, StageFailed
from rekindle.host.download import _speed, download, why_unreachable

CONTENT = bytes(range(256)) * 8192  # 2 MiB
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    content = CONTENT
    etag: str | None = '"one"'
    ranges = True
    cut_after: int | None = None
    status: int | None = None
    claims: str | None = None

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
        self.send_header("Content-Length", server.claims or str(len(server.content) - start))
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
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_whole_and_checked(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "neu" / "a b" / "file"
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
    with pytest.raises(Interrupted, match=r"cut short at 0 MiB \(the server closed the connection\)"):
        download(server.url, tmp_path / "f", sha256=SHA, attempts=2)
    assert not (tmp_path / "f").exists()
    server.cut_after = None
    assert download(server.url, tmp_path / "f", sha256=SHA).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=600000-"


def test_why_it_was_cut_is_told_in_the_systems_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.host.download.time.sleep", lambda seconds: None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(Interrupted, match=r"was cut short at 0 MiB \(.*refused.*\)"):
        download(f"http://127.0.0.1:{port}/a.tar.gz", tmp_path / "f", attempts=1)


def test_a_part_that_somebody_removed_is_fetched_from_its_first_byte(server: Server, tmp_path: Path) -> None:
    server.cut_after = 300_000
    with pytest.raises(Interrupted):
        download(server.url, tmp_path / "f", attempts=1)
    (tmp_path / "f.part").unlink()
    server.cut_after = None
    assert download(server.url, tmp_path / "f").read_bytes() == CONTENT and server.asked[-1] is None


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


def test_what_is_there_and_right_is_kept_and_named(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_bytes(CONTENT)
    assert download(server.url, target, sha256=SHA.upper()) == target
    assert download(server.url, target) == target
    assert server.asked == []


def test_a_part_that_is_whole_already_is_taken(server: Server, tmp_path: Path) -> None:
    """Killed after the last byte and before the rename: the server answers 416 to what lies beyond the end."""
    target = tmp_path / "x"
    server.cut_after = len(CONTENT) - 1
    with pytest.raises(Interrupted):
        download(server.url, target, attempts=1)
    with (tmp_path / "x.part").open("ab") as file:
        file.write(CONTENT[-1:])
    server.status = 416
    assert download(server.url, target, sha256=SHA, attempts=1) == target
    assert target.read_bytes() == CONTENT


def test_what_is_larger_than_any_archive_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.host.download.MAX_BYTES", len(CONTENT))
    assert download(server.url, tmp_path / "just").read_bytes() == CONTENT
    monkeypatch.setattr("rekindle.host.download.MAX_BYTES", len(CONTENT) - 1)
    with pytest.raises(BadInput, match="no source archive"):
        download(server.url, tmp_path / "more")


@pytest.mark.parametrize("digits", [12, 15, 16, 17, 5000])
def test_a_length_that_no_file_has_is_refused_at_once(server: Server, tmp_path: Path, digits: int) -> None:
    server.claims = "9" * digits
    with pytest.raises(BadInput, match="no source archive"):
        download(server.url, tmp_path / "f", attempts=1)
    assert not (tmp_path / "f").exists()


def test_a_disk_that_cannot_be_written_is_not_tried_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rekindle.host.download.write_atomically", full)
    with pytest.raises(BadInput, match="No space left"):
        download(server.url, tmp_path / "x")
    assert len(server.asked) == 1


def test_progress_knows_how_much_is_left(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[float, float | None]] = []
    left: list[int | None] = []

    class Listener:
        def stage(self, name: str, detail: str = "") -> None: ...
        def note(self, text: str) -> None: ...
        def step(self, done: float, total: float | None, detail: str = "") -> None:
            steps.append((done, total))

    def speed(done: int, rest: int | None, seconds: float) -> str:
        left.append(rest)
        return ""

    monkeypatch.setattr("rekindle.host.download._speed", speed)
    download(server.url, tmp_path / "x", progress=Listener())
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert left[-1] == 0 and left == [len(CONTENT) - done for done, _ in steps]


@pytest.mark.parametrize(
    ("status", "final"), [(401, True), (403, True), (404, True), (410, True), (402, False), (503, False)]
)
def test_which_answers_are_final(server: Server, tmp_path: Path, status: int, final: bool) -> None:
    server.status = status
    with pytest.raises(StageFailed if final else Interrupted):
        download(server.url, tmp_path / "x", attempts=2)
    assert len(server.asked) == (1 if final else 2)


def test_each_attempt_waits_longer_than_the_last_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("rekindle.host.download.time.sleep", waits.append)
    with pytest.raises(Interrupted):
        download("http://127.0.0.1:9/none", tmp_path / "f", attempts=7)
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("done", "left", "seconds", "said"),
    [
        (3 << 20, 3 << 20, 0.4, "3 MiB"),
        (0, 3 << 20, 2.0, "0 MiB"),
        (6 << 20, 9 << 20, 2.0, "3.0 MiB/s, 3 s left"),
        (1 << 20, 0, 0.5, "2.0 MiB/s, 0 s left"),
        (6 << 20, None, 2.0, "3.0 MiB/s"),
    ],
)
def test_speed_and_rest_are_said_once_they_mean_something(
    done: int, left: int | None, seconds: float, said: str
) -> None:
    assert _speed(done, left, seconds) == said


@pytest.mark.parametrize(("status", "says"), [(404, "answers 404"), (410, "answers 410"), (401, "401"), (403, "403")])
def test_a_refusal_is_not_asked_again(server: Server, tmp_path: Path, status: int, says: str) -> None:
    server.status = status
    with pytest.raises(StageFailed, match=says):
        download(server.url, tmp_path / "f")
    assert len(server.asked) == 1


def test_a_server_in_trouble_is_asked_as_often_as_wished(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(Interrupted, match="cut short at 0 MiB"):
        download(server.url, tmp_path / "f", attempts=3)
    assert len(server.asked) == 3


def test_more_than_any_source_is_not_fetched(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.host.download.MAX_BYTES", len(CONTENT) - 1)
    with pytest.raises(BadInput, match="no source archive"):
        download(server.url, tmp_path / "f")
    monkeypatch.setattr("rekindle.host.download.MAX_BYTES", len(CONTENT))
    assert download(server.url, tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (ssl.SSLCertVerificationError("bad"), None),
        (socket.gaierror(-2, "x"), "its name cannot be resolved"),
        (TimeoutError(), "no answer within 8 s"),
        (ConnectionRefusedError(), "the connection is refused"),
        (OSError(101, "Network is unreachable"), "Network is unreachable"),
        (OSError("odd"), "odd"),
        ("words", "words"),
    ],
)
def test_why_a_place_cannot_be_reached_in_words(
    reason: str | Exception, words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError(reason)

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    assert why_unreachable("https://example.invalid") == words
