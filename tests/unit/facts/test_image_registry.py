"""Digests asked of a registry: a server of our own that speaks the distribution API."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest

import image_registry
from image_registry import ask_digest, read_reference
from rekindle import api
from rekindle.errors import BadInput, StageFailed

DIGEST = "ab" * 32


class Registry(http.server.BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, str]] = {}
    wants_token: ClassVar[bool] = True
    token: ClassVar[object] = {"token": "let-me-in"}
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        if self.wants_token and self.headers.get("Authorization") != "Bearer let-me-in":
            place = f"http://127.0.0.1:{self.connection.getsockname()[1]}/token"
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="{place}",service="ours"')
            self.end_headers()
            return
        digest = self.answers.get(self.path)
        self.send_response(200 if digest is not None else 404)
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.token).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(Registry, "answers", {"/v2/nvidia/cuda/manifests/12.4": f"sha256:{DIGEST}"})
    monkeypatch.setattr(Registry, "asked", [])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_digest_with_and_without_a_token(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask_digest(f"{registry}/nvidia/cuda:12.4") == DIGEST
    assert Registry.asked == ["/token?scope=repository%3Anvidia%2Fcuda%3Apull&service=ours"]
    monkeypatch.setattr(Registry, "wants_token", False)
    assert ask_digest(f"{registry}/nvidia/cuda:12.4") == DIGEST and len(Registry.asked) == 1


@pytest.mark.parametrize("token", [{}, [], {"token": 5}, {"token": "bad\nHeader: x"}])
def test_a_registry_that_gives_no_token(registry: str, token: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "token", token)
    with pytest.raises(StageFailed, match="no token"):
        ask_digest(f"{registry}/nvidia/cuda:12.4")


def test_what_is_not_there(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageFailed, match="no such image or tag"):
        ask_digest(f"{registry}/nvidia/cuda:99")
    for wrong in ("", "sha256:12", f"sha512:{DIGEST}", f"sha256:{DIGEST}0"):
        monkeypatch.setattr(Registry, "answers", {"/v2/nvidia/cuda/manifests/12.4": wrong})
        with pytest.raises(StageFailed, match="names no digest"):
            ask_digest(f"{registry}/nvidia/cuda:12.4")


def test_nobody_there_is_told_and_is_no_yes(capsys: pytest.CaptureFixture[str]) -> None:
    from rekindle.cli.main import main

    # Port 1 of this machine: refused at once.
    assert main(["facts", "check", "--image", "127.0.0.1:1/nvidia/cuda:12.4"]) == 1
    assert "cannot be asked" in capsys.readouterr().out


def test_the_tables_are_held_against_it(registry: str) -> None:
    checked = api.facts_check(images=[f"{registry}/nvidia/cuda:12.4", f"{registry}/nvidia/cuda:99"])
    assert [(row.outcome, row.found) for row in checked.compared] == [("new", DIGEST), ("skipped", None)]


def test_a_pin_that_no_longer_holds_is_drift() -> None:
    import facts_drift as drift
    from rekindle.facts import load_facts

    name, row = next(iter(load_facts().images.digest.items()))
    assert drift.image(load_facts(), name, row.sha256).outcome == "agrees"
    moved = drift.image(load_facts(), name, DIGEST)
    assert moved.outcome == "drift" and (moved.facts, moved.found) == (row.sha256, DIGEST)


@pytest.mark.parametrize(
    ("image", "address"),
    [
        ("ubuntu", "https://registry-1.docker.io/v2/library/ubuntu/manifests/latest"),
        ("nvidia/cuda:12.4.1-x", "https://registry-1.docker.io/v2/nvidia/cuda/manifests/12.4.1-x"),
        ("ghcr.io/astral-sh/uv:0.8.6", "https://ghcr.io/v2/astral-sh/uv/manifests/0.8.6"),
        ("localhost:5000/a:1", "http://localhost:5000/v2/a/manifests/1"),
    ],
)
def test_where_an_image_lies(image: str, address: str) -> None:
    assert read_reference(image).address == address


@pytest.mark.parametrize("image", ["", "a b", "../x:1", "x:../y", "ghcr.io/x:1@sha256:00", "a.b/c?d:1", "A/b:1"])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(BadInput, match="no image by tag"):
        read_reference(image)


@pytest.mark.parametrize("realm", ["http://127.0.0.1:1/token", "ftp://127.0.0.1:1/token", "", "httpss://x/token"])
def test_a_token_is_never_asked_for_on_a_plainer_line_than_the_registrys(realm: str) -> None:
    """A registry spoken to by https that sends its guests to http would let anybody in between hand out the token."""
    reference = read_reference("registry.invalid/nvidia/cuda:12.4")
    assert reference.address.startswith("https://")
    with pytest.raises(ValueError, match="cannot be asked for"):
        image_registry._token(f'Bearer realm="{realm}"', reference)
