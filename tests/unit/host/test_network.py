"""A way to an address: answers of any kind are one; each way of having none has its own words."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest

from rekindle.host.download import why_unreachable


class Answers(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(int(self.path.strip("/") or 200))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("code", [200, 403, 404, 500])
def test_any_answer_is_a_way_there(address: str, code: int) -> None:
    assert why_unreachable(f"{address}/{code}") is None


@pytest.mark.parametrize("code", [502, 504])
def test_a_gateway_that_reaches_nobody_is_none(address: str, code: int) -> None:
    assert str(code) in (why_unreachable(f"{address}/{code}") or "")


def test_a_closed_door_a_wrong_name_and_silence_have_words_of_their_own() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert why_unreachable(f"http://127.0.0.1:{closed.getsockname()[1]}") == "the connection is refused"
    assert why_unreachable("http://no-such-name.invalid") is not None
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        said = why_unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        assert said == "no answer within 0.2 s"


def test_files_need_no_network() -> None:
    assert why_unreachable("file:///nowhere") is None
    assert why_unreachable("/a/folder") is None
