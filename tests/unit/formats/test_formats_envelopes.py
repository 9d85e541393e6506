"""Signed envelopes: the bytes that are signed, the forms that are read, and the first that is not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.formats import statement
from rekindle.formats.statement import Envelope, pre_authentication, read_envelope, read_provenance, seal, signed_by


def made(**changes: Any) -> bytes:
    whole = {"payloadType": "t", "payload": "aGk=", "signatures": [{"keyid": "k", "sig": "c2ln"}]}
    return json.dumps({key: value for key, value in {**whole, **changes}.items() if value is not None}).encode()


def test_the_bytes_that_are_signed() -> None:
    # the example of the specification
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pre_authentication("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_sealed_and_read_again() -> None:
    raw = seal("kind", b"\0\xff payload", "key", lambda message: message[::-1])
    assert raw.endswith(b"}\n")
    assert read_envelope(raw, "x") == Envelope(
        payload_type="kind",
        payload=b"\0\xff payload",
        signatures=(("key", pre_authentication("kind", b"\0\xff payload")[::-1]),),
    )
    assert list(json.loads(raw)) == ["payload", "payloadType", "signatures"]
    assert raw.splitlines()[1].startswith(b' "payload"')


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b'"x"', b"\xff", made(payload=None), made(payload=5), made(payloadType=None), made(payloadType=5),
     made(signatures=None), made(signatures=5), made(signatures=[5]), made(signatures=[{}]), made(payload="a"),
     made(payload="a*=="), made(signatures=[{"sig": None}]), b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_envelope(raw: bytes) -> None:
    with pytest.raises(BadInput, match=r"here is no signed envelope \(DSSE\)"):
        read_envelope(raw, "here")


def test_one_to_sixteen_signatures() -> None:
    one = {"sig": "c2ln"}
    assert read_envelope(made(signatures=[one] * 16), "x").signatures == (("", b"sig"),) * 16
    assert len(read_envelope(made(signatures=[one]), "x").signatures) == 1
    for count in (0, 17):
        with pytest.raises(BadInput, match=f"x has {count} signatures; 1 to 16 are read"):
            read_envelope(made(signatures=[one] * count), "x")


def test_an_envelope_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statement.MAX_ENVELOPE_BYTES == 64 * 1024 * 1024
    raw = made()
    monkeypatch.setattr(statement, "MAX_ENVELOPE_BYTES", len(raw))
    assert read_envelope(raw, "x").payload == b"hi"
    with pytest.raises(BadInput, match="x is larger than 0 MiB"):
        read_envelope(raw + b" ", "x")
    monkeypatch.setattr(statement, "MAX_ENVELOPE_BYTES", 3 << 20)
    with pytest.raises(BadInput, match="x is larger than 3 MiB"):
        read_envelope(raw + b" " * (3 << 20), "x")


@pytest.mark.parametrize("data", [b"", b"a", b"ab", b"abc", b"abcd", b"\xfb\xff\xfe\x00"])
def test_both_alphabets_with_and_without_padding(data: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(data).decode()
        for form in (text, text.rstrip("=")):
            assert read_envelope(made(payload=form), "x").payload == data


def provenance(**changes: Any) -> bytes:
    one = {
        "envelope": {"statement": "aGk=", "signature": "c2ln"},
        "verification_material": {"key_id": "k"},
        **changes,
    }
    other = {"envelope": {"statement": "bm8=", "signature": "bm8="}}
    bundles = [{"attestations": [one, other]}, {"attestations": [other]}]
    return json.dumps({"attestation_bundles": bundles}).encode()


def test_the_first_attestation_an_index_serves() -> None:
    found = Envelope(payload_type=statement.IN_TOTO, payload=b"hi", signatures=(("k", b"sig"),))
    assert read_provenance(provenance(), "x") == found
    nothing: tuple[dict[str, str] | None, ...] = ({}, None)
    for material in nothing:
        assert read_provenance(provenance(verification_material=material), "x").signatures == (("", b"sig"),)


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"{}", b'{"attestation_bundles": []}', b'{"attestation_bundles": [{"attestations": []}]}',
     provenance(envelope={"statement": "aGk="}), provenance(envelope=None), provenance(verification_material=5)],
)  # fmt: skip
def test_what_is_no_provenance(raw: bytes) -> None:
    with pytest.raises(BadInput, match=r"here is no provenance of an index \(PEP 740\)"):
        read_provenance(raw, "here")


def test_the_first_known_key_that_fits() -> None:
    envelope = Envelope(payload_type="t", payload=b"p", signatures=(("a", b"1"), ("b", b"2"), ("c", b"3")))
    asked: list[tuple[str, bytes, bytes]] = []

    def check(key: str, signature: bytes, message: bytes) -> str | None:
        asked.append((key, signature, message))
        return {"b": "", "c": "Carol"}.get(key)

    assert signed_by(envelope, check) == ""
    message = pre_authentication("t", b"p")
    assert asked == [("a", b"1", message), ("b", b"2", message)]
    assert signed_by(envelope, lambda key, signature, message: None) is None
