"""One request: which addresses, how often it is asked again, what the certificates come from. No network."""

from __future__ import annotations

import email.message
import http.client
import io
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.formats import ranges
from rekindle.formats.ranges import NoRanges, RangeFile, RangeStream, Unreachable, read_page, request, tls_context


class Answer(io.BytesIO):
    def __init__(self, body: bytes = b"", status: int | None = 200, **headers: str) -> None:
        super().__init__(body)
        if status != -1:
            self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Web:
    """Gives its answers one after the other, the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Answer | Exception) -> None:
        self.answers, self.asked, self.waited = list(answers), list[tuple[Any, float, Any]](), list[float]()
        monkeypatch.setattr(urllib.request, "urlopen", self)
        monkeypatch.setattr("rekindle.formats.ranges.time.sleep", self.waited.append)

    def __call__(self, ask: Any, *, timeout: float, context: Any) -> Answer:
        self.asked.append((ask, timeout, context))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(code: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://x/", code, "no", email.message.Message(), io.BytesIO())


def test_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(monkeypatch, Answer(b"body", 203, A="b"))
    status, headers, body = request("http://x/y", {"Range": "bytes=0-1"}, None, 7)
    assert (status, headers, body.read()) == (203, {"A": "b"}, b"body")
    [(ask, timeout, context)] = web.asked
    assert (ask.full_url, timeout, context) == ("http://x/y", 7, None)
    assert dict(ask.header_items()) == {"Accept-encoding": "identity", "Range": "bytes=0-1"} and web.waited == []


@pytest.mark.parametrize("status", [None, -1])
def test_answers_without_a_status_are_fine(status: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    Web(monkeypatch, Answer(b"", status))
    assert request("file:///x", {}, None, 1)[0] == 200


@pytest.mark.parametrize("url", ["ftp://x/y", "x/y", "data:,x", "HTTPX://x"])
def test_other_addresses_are_not_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(monkeypatch, Answer())
    with pytest.raises(BadInput, match="neither"):
        request(url, {}, None, 1)
    assert not web.asked


@pytest.mark.parametrize(("code", "tries"), [(404, 1), (499, 1), (500, 4), (503, 4)])
def test_a_server_in_trouble_is_asked_again_and_one_that_says_no_is_not(
    code: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(monkeypatch, refused(code))
    with pytest.raises(Unreachable, match=f"answers {code} no"):
        request("https://x/", {}, None, 1)
    assert len(web.asked) == tries and web.waited == [0.5, 1, 2][: tries - 1]


@pytest.mark.parametrize(
    "error", [urllib.error.URLError("away"), TimeoutError("away"), http.client.HTTPException("away")]
)
def test_nobody_there(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(monkeypatch, error)
    with pytest.raises(Unreachable, match="cannot be reached: away"):
        request("http://x/", {}, None, 1)
    assert len(web.asked) == 4 and web.waited == [0.5, 1, 2]
    again = Web(monkeypatch, error, refused(500), error, Answer(b"late"))
    assert request("http://x/", {}, None, 1)[2].read() == b"late" and again.waited == [0.5, 1, 2]
    files = Web(monkeypatch, error)
    with pytest.raises(Unreachable):
        request("file:///x", {}, None, 1)
    assert len(files.asked) == 1 and files.waited == []


def test_a_page_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(monkeypatch, Answer(b"page"))
    assert read_page("http://x/") == b"page" and web.asked[0][0].get_header("Accept") == "*/*"
    assert web.asked[0][1] == 60
    web = Web(monkeypatch, Answer(b"page"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert read_page("http://x/", accept="text/html", context=context, timeout=3) == b"page"
    assert (web.asked[0][0].get_header("Accept"), web.asked[0][1:]) == ("text/html", (3, context))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (200, "bytes 0-3/4"),
        (206, ""),
        (206, "bytes 0-3/*"),
        (206, "bytes 0-3/4 x"),
        (207, "bytes 0-3/4"),
        (206, "x bytes 0-3/4"),
    ],
)
def test_answers_that_are_no_parts(status: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Web(monkeypatch, Answer(b"abcd", status, Content_Range=said))
    with pytest.raises(NoRanges):
        RangeFile("http://x/")


class Broken(Answer):
    def read(self, size: int | None = -1, /) -> bytes:
        raise http.client.IncompleteRead(b"")


def test_an_answer_that_breaks_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    web = Web(
        monkeypatch, Broken(b"", 206, Content_Range="bytes 0-3/4"), Answer(b"abcd", 206, Content_Range="bytes 0-3/4")
    )
    file = RangeFile("http://x/", timeout=9)
    assert (file.length, file.requests, file.fetched) == (4, 2, 4) and web.waited == [0.5]
    assert web.asked[0][1] == 9 and web.asked[0][0].get_header("Range") == "bytes=-65536"
    assert file.read_at(0, 4) == b"abcd" and file.read_at(1, 2) == b"bc" and len(web.asked) == 2


def test_positions_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    Web(monkeypatch, Answer(b"abcd", 206, Content_Range="bytes 0-3/4"))
    stream = RangeStream(RangeFile("http://x/"))
    assert stream.tell() == 0 and stream.readable() and stream.seekable() and stream.seek(2) == 2
    buffer = bytearray(b"....")
    assert stream.readinto(buffer) == 2 and bytes(buffer) == b"cd.." and stream.tell() == 4
    assert stream.readinto(buffer) == 0 and stream.seek(-1, io.SEEK_END) == 3 and stream.seek(-9) == 0


def test_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str | None] = []
    monkeypatch.setattr(ssl, "create_default_context", lambda cafile=None: chosen.append(cafile))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    own, first, second = (tmp_path / name for name in ("own", "first", "second"))
    for path in (own, first, second):
        path.write_text("", encoding="ascii")
    tls_context()
    tls_context(str(tmp_path / "none"))
    tls_context(str(own))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(second))
    tls_context()
    monkeypatch.setenv("SSL_CERT_FILE", str(first))
    tls_context()
    tls_context(str(own))
    assert chosen == [None, None, str(own), str(second), str(first), str(own)]


def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    path.write_text("nothing", encoding="ascii")
    with pytest.raises(Unreachable, match="cannot be read"):
        tls_context(str(path))
    assert isinstance(tls_context(), ssl.SSLContext)
    assert ranges.BLOCK == ranges.TAIL == 65536
