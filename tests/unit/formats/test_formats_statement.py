"""Statements about files: written the same each time, read in each form they come in, and odd ones within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.formats import statement
from rekindle.formats.statement import (
    IN_TOTO,
    WHEEL_LIST,
    Statement,
    fill_places,
    hide_places,
    provenance_object,
    read_envelope,
    read_statement,
    seal,
    signed_by,
    sub_table,
    write_statement,
)


def written() -> bytes:
    return write_statement(
        [("a.whl", "0" * 64), ("b.whl", "1" * 64)],
        kind="rekindle/build/v1",
        asked={"project": "grün"},
        settings={"plan": {"schema": 1}},
        materials=[{"uri": "x", "digest": {"sha256": "2"}}],
        tools={"ninja": "1.13", "cmake": "4"},
    )


def enveloped(payload: bytes, kind: str = IN_TOTO) -> bytes:
    return seal(kind, payload, "ed25519:1", lambda message: b"signature of %d" % len(message))


def test_a_written_statement_is_the_same_each_time_and_says_all() -> None:
    raw = written()
    assert raw == written() and raw.endswith(b"}\n") and "grün".encode() in raw
    assert raw.startswith(b'{\n "_type": "https://in-toto.io/Statement/v1",\n "predicate": {\n  "buildDefinition"')
    found = read_statement(raw, "x")
    assert found.envelope is None
    assert found.subjects == {"a.whl": "0" * 64, "b.whl": "1" * 64}
    assert found.definition["buildType"] == "rekindle/build/v1" and found.definition["resolvedDependencies"]
    assert found.content["predicateType"] == "https://slsa.dev/provenance/v1"
    builder = sub_table(found.content, "predicate", "runDetails", "builder")
    assert list(builder["version"]) == ["cmake", "ninja"]


def test_the_same_is_read_from_an_envelope_and_from_what_an_index_serves() -> None:
    raw = written()
    signed = enveloped(raw)
    served = provenance_object(signed, "x")
    for form in (signed, served):
        found = read_statement(form, "x")
        assert found.content == json.loads(raw) and found.envelope is not None
        assert found.envelope.payload == raw and found.envelope.payload_type == IN_TOTO
        assert [key for key, _ in found.envelope.signatures] == ["ed25519:1"]
    assert read_statement(enveloped(raw, WHEEL_LIST), "x").envelope.payload_type == WHEEL_LIST  # type: ignore[union-attr]
    assert json.loads(served)["attestation_bundles"][0]["publisher"] == {"kind": "own-key", "claims": None}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "no readable statement"),
        (b"[]", "no readable statement"),
        (b"7", "no readable statement"),
        (b"[" * 60_000, "no readable statement"),
        (b'{"payload": "x"}', "no signed envelope"),
        (b'{"attestation_bundles": []}', "no provenance of an index"),
        (enveloped(b"[1]"), "no readable statement"),
        (enveloped(b"{"), "no readable statement"),
    ],
)
def test_what_is_no_statement_is_one_line(raw: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=f"^there {'holds' if 'readable' in words else 'is'} {words}"):
        read_statement(raw, "there")


@pytest.mark.parametrize(
    ("said", "subjects"),
    [
        ({}, {}),
        ({"subject": {"name": "a"}}, {}),
        ({"subject": [7, None, {"name": "a", "digest": ["sha256"]}]}, {"a": "None"}),
        ({"subject": [{"digest": {"sha256": "1"}}]}, {"None": "1"}),
    ],
)
def test_odd_subjects_are_no_crash(said: dict[str, Any], subjects: dict[str, str]) -> None:
    assert Statement(said).subjects == subjects
    assert Statement(said).definition == {} == sub_table({"predicate": [1]}, "predicate", "buildDefinition")


def test_places_are_hidden_and_filled_again() -> None:
    plan = {"root": "/home/me/tree/a", "other": "/home/mean/x", "env": {"A": "/home/me"}, "name": "grün"}
    hidden = hide_places(plan, {"home": "/home/me", "source": "/home/me/tree/", "root": "/ab", "short": "/a"})
    assert hidden == {"root": "<source>/a", "other": "/home/mean/x", "env": {"A": "<home>"}, "name": "grün"}
    assert hide_places({"at": "/abc"}, {"it": "/abc"}) == {"at": "<it>"}
    assert hide_places({"at": "/ab"}, {"it": "/ab"}) == {"at": "/ab"}, "three letters name no place"
    assert fill_places(hidden, {"home": 'C:\\"me"', "source": "/s"})["env"] == {"A": 'C:\\"me"'}


def test_an_envelope_up_to_a_size_and_a_number_of_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statement.MAX_ENVELOPE_BYTES == 64 << 20
    raw = enveloped(b"{}")
    monkeypatch.setattr(statement, "MAX_ENVELOPE_BYTES", len(raw))
    assert read_envelope(raw, "x").payload == b"{}"
    with pytest.raises(BadInput, match="larger than"):
        read_envelope(raw + b" ", "x")
    monkeypatch.undo()
    made = json.loads(raw)
    (one,) = made["signatures"]
    for count, is_read in ((0, False), (1, True), (16, True), (17, False)):
        text = json.dumps({**made, "signatures": [one] * count}).encode()
        if is_read:
            assert len(read_envelope(text, "x").signatures) == count
        else:
            with pytest.raises(BadInput, match=f"has {count} signatures"):
                read_envelope(text, "x")


def test_the_first_signature_that_somebody_knows_names_the_signer() -> None:
    envelope = read_envelope(enveloped(b"{}"), "x")
    message = b"DSSEv1 %d %s 2 {}" % (len(IN_TOTO), IN_TOTO.encode())
    asked: list[tuple[str, bytes, bytes]] = []

    def check(key: str, signature: bytes, said: bytes) -> str | None:
        asked.append((key, signature, said))
        return "maker"

    assert signed_by(envelope, check) == "maker"
    assert asked == [("ed25519:1", b"signature of %d" % len(message), message)]
    assert signed_by(envelope, lambda *_: None) is None
