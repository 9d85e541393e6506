"""The server: only what is ours, ranges and tags as the RFC says, and nothing above the root."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle import api
from rekindle.errors import BadInput
from rekindle.index import server as limits
from rekindle.index.server import JSON, Server, choose_form, open_server, parse_range, split_path
from rekindle.index.wheelhouse.store import Wheelhouse
from tiny_wheels import make_wheel


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("serve")
    api.index_add(str(base / "house"), [str(make_wheel(base, "tiny", "1.0"))])
    api.index_build(str(base / "house"))
    (base / "house" / "secret.txt").write_text("secret")
    (base / "house" / "wheels" / "tiny" / "outside").symlink_to("/etc/passwd")
    with _running(base / "house") as running:
        yield running


@contextlib.contextmanager
def _running(root: Path) -> Iterator[Server]:
    with open_server(Wheelhouse(root), "127.0.0.1", 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()


def _to_the_end(line: socket.socket) -> bytes:
    """All that comes until the server hangs up."""
    told = b""
    while piece := line.recv(65536):
        told += piece
    return told


def _ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


WHEEL = "/wheels/tiny/tiny-1.0-py3-none-any.whl"


def test_pages_wheels_and_metadata_are_there(server: Server) -> None:
    for path, kind in [
        ("/simple/", "text/html"), ("/simple/tiny/", "text/html"), (WHEEL, "application/zip"),
        (WHEEL + ".metadata", "text/plain"), ("/catalogue.json", "application/json"),
    ]:  # fmt: skip
        status, headers, body = _ask(server, path)
        assert status == 200 and headers["content-type"].startswith(kind) and body, path
        assert headers["x-content-type-options"] == "nosniff"


def test_the_pages_for_people_come_with_their_style_and_script(server: Server) -> None:
    status, headers, body = _ask(server, "/wheel/tiny/")
    assert status == 200 and headers["content-type"].startswith("text/html") and b"tiny-1.0" in body
    assert _ask(server, "/")[1]["location"] == "/wheel/"
    assert _ask(server, "/wheel/tiny")[0] == 301 and _ask(server, "/wheel/")[0] == 200
    for name, kind in (("style.css", "text/css"), ("house.js", "text/javascript")):
        status, headers, _ = _ask(server, f"/wheel/{name}")
        assert status == 200 and headers["content-type"].startswith(kind)
        assert "style-src 'self'" in headers["content-security-policy"]
    assert _ask(server, "/wheels/tiny/")[0] == 404, "folders of files are not listed"


def test_json_is_for_those_who_ask(server: Server) -> None:
    status, headers, body = _ask(server, "/simple/tiny/", Accept=f"{JSON}, text/html;q=0.01")
    assert status == 200 and headers["content-type"] == JSON and headers["vary"] == "Accept"
    assert json.loads(body)["name"] == "tiny"


@pytest.mark.parametrize(
    ("accept", "json_wanted"),
    [
        (None, False), ("*/*", False), ("text/html", False), (JSON, True), (f"{JSON};q=0.1, text/html", False),
        ("application/vnd.pypi.simple.latest+json", True), ("garbage;q=x", False), (f"{JSON};q=abc", False),
    ],
)  # fmt: skip
def test_negotiation(accept: str | None, json_wanted: bool) -> None:
    assert (choose_form(accept) == JSON) is json_wanted


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd", "/simple/../../secret.txt", "/%2e%2e/%2e%2e/etc/passwd", "/secret.txt", "/.lock",
        "/.site/pieces.msgpack", "/records/tiny/tiny-1.0-py3-none-any.whl.json", "/simple/%00", "/simple/..%5c..",
        "//etc/passwd", "/wheels/tiny/", "/wheels/", "/simple/nothing/", "/wheels/tiny/outside", "/wheels/%ff",
        "/simple/tiny/index.html/..", "/wheels/tiny/%2e%2e%2f%2e%2e%2fsecret.txt",
    ],
)  # fmt: skip
def test_nothing_else_is(server: Server, path: str) -> None:
    status, _, body = _ask(server, path)
    assert status == 404 and b"secret" not in body and b"root" not in body


@given(st.text(min_size=1, max_size=60))
def test_no_path_climbs(text: str) -> None:
    for target in (text, "/" + text, "/simple/" + text, "/wheels/%2e%2e/" + text):
        parts = split_path(target)
        if parts:
            assert parts[0] in ("simple", "wheels", "catalogue.json", "index.html")
            assert all(part not in ("", ".", "..") and "/" not in part and "\\" not in part for part in parts)
            assert unquote("/".join(parts)) is not None


def test_writing_is_impossible(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert _ask(server, "/simple/", method)[0] == 501


def test_ranges_and_tags(server: Server) -> None:
    _, headers, whole = _ask(server, WHEEL)
    assert headers["accept-ranges"] == "bytes"
    status, partial, body = _ask(server, WHEEL, Range="bytes=5-14")
    assert status == 206 and body == whole[5:15] and partial["content-range"] == f"bytes 5-14/{len(whole)}"
    assert _ask(server, WHEEL, Range="bytes=-7")[2] == whole[-7:]
    assert _ask(server, WHEEL, Range=f"bytes={len(whole)}-")[0] == 416
    assert _ask(server, WHEEL, If_None_Match=headers["etag"])[0] == 304
    assert _ask(server, WHEEL, Range="bytes=0-3", If_Range='"stale"')[2] == whole
    status, head, body = _ask(server, WHEEL, "HEAD")
    assert status == 200 and not body and int(head["content-length"]) == len(whole)


@given(st.text(alphabet="bytes=-0123456789, x", max_size=20), st.integers(0, 50))
def test_a_span_never_leaves_the_file(header: str, size: int) -> None:
    if span := parse_range(header, size):
        assert 0 <= span[0] <= span[-1] < size


def test_spans() -> None:
    assert parse_range("bytes=0-0", 10) == range(1)
    assert parse_range("bytes=5-", 10) == range(5, 10)
    assert parse_range("bytes=-100", 10) == range(10)
    assert parse_range("bytes=10-", 10) == parse_range("bytes=-0", 10) == parse_range("bytes=-1", 0) == range(0)
    assert parse_range("bytes=0-1,3-4", 10) is None and parse_range("bytes=5-2", 10) is None


def test_an_unbuilt_house_and_a_taken_port_are_told(tmp_path: Path, server: Server) -> None:
    with pytest.raises(BadInput, match="no site yet"):
        open_server(Wheelhouse(tmp_path), "127.0.0.1", 0)
    with pytest.raises(BadInput, match="cannot listen"):
        open_server(server.house, "256.0.0.1", 0)
    with pytest.raises(BadInput, match="no port"):
        open_server(server.house, "127.0.0.1", 70_000)


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("/", []), ("//", None), ("/simple", ["simple"]), ("/simple//tiny/", ["simple", "tiny"]),
        ("/simple/tiny/?x=/../y#z", ["simple", "tiny"]), ("/wheels/a%2Bb/c.whl", ["wheels", "a+b", "c.whl"]),
        ("/variant/simple/torch/index.html", ["variant", "simple", "torch", "index.html"]),
        ("/variant/simple/torch/index.html/x", None), ("/records/tiny", None), ("simple/", None),
        ("*", None), ("", None),
        ("/simple/.hidden", None), ("/simple/../x", None), ("/simple/a:b", None), ("/simple/C:/x", None),
        ("/simple/a\\b", None), ("/simple/%5c", None), ("/simple/%00", None), ("/simple/%ff", None),
        ("http://[/simple/", None),
    ],
)  # fmt: skip
def test_a_target_as_parts_of_the_house(target: str, parts: list[str] | None) -> None:
    assert split_path(target) == parts


@pytest.mark.parametrize(
    ("accept", "json_wanted"),
    [
        (f"text/html, {JSON}", False), (f"{JSON}, text/html", True), (f"{JSON};q=0", False),
        (f"text/html;q=0.5, {JSON};q=0.6", True), (f"text/html;q=.5,{JSON};q=0.50", False), (f"{JSON};q=1.", True),
        (f"{JSON};q=0.1;v=1, text/html;q=0.5", False), (f"{JSON};v=1;q=0.9, */*;q=0.1", True),
        (f"{JSON};q=0.1;q=0.9, text/html;q=0.5", True), (f"{JSON};q=-1", False), (f"{JSON};q=inf", False),
        (f"{JSON}; q = 1", True), ("application/json", False), ("", False),
    ],
)  # fmt: skip
def test_the_form_that_is_preferred_in_so_many_words(accept: str, json_wanted: bool) -> None:
    assert (choose_form(accept) == JSON) is json_wanted


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=3-7", range(3, 8)), (" bytes=3-7 ", range(3, 8)), ("bytes=9-9", range(9, 10)),
        ("bytes=9-99", range(9, 10)),
        ("bytes=5-4", None), ("bytes=5-5", range(5, 6)), ("bytes=-3", range(7, 10)), ("bytes=-10", range(10)),
        ("bytes=-11", range(10)), ("bytes=-", None), ("bytes=", None), ("bytes=a-b", None), ("bits=0-1", None),
        ("bytes=0-1, 3-4", None), ("bytes=0-1x", None), ("", None), (None, None), ("bytes=" + "9" * 5000 + "-", None),
        ("bytes=0-" + "9" * 5000, None), ("bytes=-" + "9" * 5000, None),
    ],
)  # fmt: skip
def test_a_range_of_ten_bytes(header: str | None, span: range | None) -> None:
    assert parse_range(header, 10) == span


def test_a_page_says_that_it_has_two_forms_and_a_file_that_it_has_one(server: Server) -> None:
    for path in ("/simple/", "/simple/tiny/"):
        for accept, kind in (("text/html", "text/html; charset=utf-8"), (JSON, JSON)):
            headers = _ask(server, path, Accept=accept)[1]
            assert (headers["vary"], headers["content-type"]) == ("Accept", kind)
    for path in (WHEEL, "/catalogue.json", "/wheel/", "/simple/tiny/index.json"):
        assert "vary" not in _ask(server, path, Accept=JSON)[1], path
    assert _ask(server, "/wheel/tiny/", Accept=JSON)[1]["content-type"] == "text/html; charset=utf-8"
    assert _ask(server, "/simple/tiny/index.json")[1]["content-type"] == "application/json"


def test_an_address_without_its_slash_leads_to_the_page(server: Server) -> None:
    for path in ("/simple", "/simple/tiny", "/wheel", "/wheel/tiny"):
        status, headers, body = _ask(server, f"{path}?from=here")
        assert (status, headers["location"], headers["content-length"], body) == (301, f"{path}/", "0", b"")
    assert _ask(server, "/wheels/tiny")[0] == _ask(server, "/wheels")[0] == _ask(server, "/simple/none")[0] == 404


def test_the_bare_address_leads_people_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "simple").mkdir()
    (tmp_path / "simple" / "index.html").write_text("for installers")
    with _running(tmp_path) as running:
        status, headers, body = _ask(running, "/")
        assert (status, headers["location"], headers["content-length"], body) == (302, "/simple/", "0", b"")
        (tmp_path / "wheel").mkdir()
        (tmp_path / "wheel" / "index.html").write_text("for people")
        assert _ask(running, "/")[1]["location"] == "/wheel/"
        (tmp_path / "index.html").write_text("the owner's own page")
        status, headers, body = _ask(running, "/")
        assert (status, body) == (200, b"the owner's own page") and headers["content-type"].startswith("text/html")


def test_tags_are_compared_as_the_rfc_says(server: Server) -> None:
    _, headers, whole = _ask(server, WHEEL)
    tag = headers["etag"]
    for same in ("*", " * ", tag, f"W/{tag}", f'"other", {tag}', f'W/"other",W/{tag}'):
        status, told, body = _ask(server, WHEEL, If_None_Match=same)
        assert (status, body, told["etag"]) == (304, b"", tag), same
        assert "content-length" not in told
    for other in ('"other"', '"*"', tag.strip('"'), ""):
        assert _ask(server, WHEEL, If_None_Match=other)[0] == 200, other
    assert _ask(server, WHEEL, Range="bytes=0-3", If_Range=tag)[2] == whole[:4]
    status, told, body = _ask(server, WHEEL, Range=f"bytes={len(whole)}-")
    assert (status, told["content-range"], told["content-length"], body) == (416, f"bytes */{len(whole)}", "0", b"")
    assert headers["last-modified"].endswith(" GMT") and headers["content-length"] == str(len(whole))
    assert _ask(server, WHEEL, Range="bytes=0-3")[1]["content-length"] == "4"
    assert "content-range" not in headers


def test_one_connection_asks_many_times(server: Server) -> None:
    """Also after an answer without a page, and after one without a body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    asked = server.requests
    try:
        connection.connect()
        line = connection.sock
        for method, path, status in [
            ("GET", "/nothing", 404), ("HEAD", "/nothing", 404), ("GET", "/simple", 301), ("HEAD", WHEEL, 200),
            ("GET", WHEEL, 200), ("GET", "/", 302), ("GET", "/simple/", 200),
        ]:  # fmt: skip
            connection.request(method, path, headers={"Content-Length": "0"})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == status and answer.getheader("Connection") is None
            assert not answer.will_close and connection.sock is line
            assert (body == b"404 Not Found\n") is (status == 404 and method == "GET")
    finally:
        connection.close()
    assert server.requests == asked + 7


def test_a_body_that_nobody_asked_for_is_not_taken_for_a_request(server: Server) -> None:
    smuggled = b"GET /simple/tiny/ HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (f"Content-Length: {len(smuggled)}", "Transfer-Encoding: chunked"):
        with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10) as line:
            line.sendall(f"GET /nothing HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + smuggled)
            told = _to_the_end(line)
        assert told.startswith(b"HTTP/1.1 404 ") and b"\r\nConnection: close\r\n" in told
        assert told.count(b"HTTP/1.1 ") == 1 and told.endswith(b"404 Not Found\n")


def test_what_is_no_request_is_answered_with_the_guards(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10) as line:
        line.sendall(b"GET / / HTTP/1.1\r\nHost: x\r\n\r\n")
        told = _to_the_end(line)
    assert b" 400 " in told.splitlines()[0] and told.count(b"Connection: close") == 1
    assert b"X-Content-Type-Options: nosniff" in told


def test_an_empty_file_and_a_name_too_long_for_any_disk(tmp_path: Path) -> None:
    for folder in ("simple", "wheels"):
        (tmp_path / folder).mkdir()
    (tmp_path / "wheels" / "empty.whl").touch()
    with _running(tmp_path) as running:
        status, headers, body = _ask(running, "/wheels/empty.whl")
        assert (status, headers["content-length"], body) == (200, "0", b"")
        for path in (f"/wheels/{'x' * 300}", f"/simple/{'x' * 300}/", f"/simple/{'x' * 300}"):
            assert _ask(running, path)[0] == 404


def test_a_file_that_shrinks_while_it_is_sent_ends_the_connection(tmp_path: Path) -> None:
    """The promised length cannot be kept, and what follows must not be taken for the rest of it."""
    (tmp_path / "simple").mkdir()
    page = tmp_path / "simple" / "index.html"
    page.write_bytes(b"x" * 1000)
    with _running(tmp_path) as running:
        real = running.connections.answers

        def shrink(connection: socket.socket, size: int = 0) -> None:
            if size == 1000:
                page.write_bytes(b"x" * 10)
            real(connection, size)

        running.connections.answers = shrink  # type: ignore[method-assign]
        with socket.create_connection(("127.0.0.1", running.server_address[1]), timeout=10) as line:
            line.sendall(b"GET /simple/ HTTP/1.1\r\nHost: x\r\n\r\n")
            told = _to_the_end(line)
    assert b"Content-Length: 1000\r\n" in told and told.endswith(b"\r\n\r\n" + b"x" * 10)


class Stranger:
    """A connection of somebody else's that is being served."""

    def shutdown(self, how: int) -> None:
        raise AssertionError("it must not be hung up")


@pytest.mark.parametrize(
    ("client", "limit", "status"),
    [("127.0.0.1", "MAX_PER_CLIENT", 503), ("9.9.9.9", "MAX_PER_CLIENT", 200), ("9.9.9.9", "MAX_CONNECTIONS", 503)],
)
def test_where_there_is_no_place_the_reader_is_told_to_come_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, client: str, limit: str, status: int
) -> None:
    monkeypatch.setattr(f"rekindle.index.server.{limit}", 1)
    taken = cast("socket.socket", Stranger())
    assert server.connections.enter(taken, client)
    server.connections.answers(taken)
    try:
        answer, headers, body = _ask(server, "/simple/")
    finally:
        server.connections.leave(taken)
    assert answer == status
    assert status == 200 or ((headers["retry-after"], headers["content-length"], body) == ("5", "0", b""))
    assert _ask(server, "/simple/")[0] == 200


def test_a_server_can_be_started_again_on_its_port_at_once(tmp_path: Path) -> None:
    (tmp_path / "simple").mkdir()
    with _running(tmp_path) as running:
        port = int(running.server_address[1])
        assert running.url == f"http://127.0.0.1:{port}/"
        with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            line.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert _to_the_end(line)  # the server hangs up first, so its side of the connection lingers
    with open_server(Wheelhouse(tmp_path), "127.0.0.1", port) as again:
        assert again.server_address[1] == port and again.requests == 0


def test_an_address_of_ipv6_is_written_in_brackets(tmp_path: Path) -> None:
    (tmp_path / "simple").mkdir()
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with open_server(Wheelhouse(tmp_path), "::1", 0) as running:
        assert running.url == f"http://[::1]:{running.server_address[1]}/"


@pytest.mark.parametrize(
    ("port", "words"), [(-1, "no port"), (65536, "no port"), (0, "cannot listen"), (65535, "cannot listen")]
)
def test_ports_have_bounds(server: Server, port: int, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        open_server(server.house, "256.0.0.1", port)


def test_bounds_are_those_that_the_documents_name() -> None:
    """docs/security.md: 64 connections, 32 a client, 10 s for a whole request, 64 KiB/s for an answer."""
    assert (limits.MAX_CONNECTIONS, limits.MAX_PER_CLIENT) == (64, 32)
    assert (limits.HEAD_SECONDS, limits.ANSWER_SECONDS, limits.TIMEOUT_SECONDS) == (10, 60, 30)
    assert limits.SLOWEST_BYTES_PER_SECOND == 65536
