"""The server: only what is ours, ranges and tags as the RFC says, and nothing above the root."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle import api
from rekindle.errors import BadInput
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
    with open_server(Wheelhouse(base / "house"), "127.0.0.1", 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


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
