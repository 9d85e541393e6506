"""Requests to an object store: what is tried again, and what never is."""

from __future__ import annotations

import ssl

import pytest

from rekindle.errors import BadInput
from rekindle.host.object_store import TRIES, Answer, Credentials, ObjectStore, Place

PLACE = Place(endpoint="https://store.invalid", bucket="wheels")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr("rekindle.host.object_store.time.sleep", lambda seconds: None)
    return ObjectStore(PLACE, Credentials(key="k", secret="s"))


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (ssl.SSLCertVerificationError("self-signed certificate"), 1),
        (ssl.SSLError("record too short"), TRIES),
        (ConnectionResetError("reset"), TRIES),
    ],
    ids=["no trust", "a broken line", "reset"],
)
def test_a_certificate_that_is_not_believed_is_not_asked_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, fault: OSError, times: int
) -> None:
    asked: list[str] = []

    def send(method: str, *_: object) -> Answer:
        asked.append(method)
        raise fault

    monkeypatch.setattr(store, "_send", send)
    with pytest.raises(BadInput, match="does not answer"):
        store._ask("GET", "x", {})
    assert len(asked) == times


@pytest.mark.parametrize(("status", "times"), [(503, TRIES), (429, TRIES), (403, 1), (404, 1)])
def test_only_what_fails_for_a_moment_is_tried_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, status: int, times: int
) -> None:
    asked: list[str] = []

    def send(method: str, *_: object) -> Answer:
        asked.append(method)
        return Answer(status, {}, b"")

    monkeypatch.setattr(store, "_send", send)
    with pytest.raises(BadInput):
        store._ask("GET", "x", {})
    assert len(asked) == times


def test_a_status_that_is_allowed_is_an_answer(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_send", lambda *_: Answer(404, {}, b""))
    assert store._ask("GET", "x", {}, allow=(404,)).status == 404
