"""Keys: private, never overwritten, told apart; signatures that cover type and payload."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import needs
from rekindle.errors import BadInput
from rekindle.formats.statement import IN_TOTO, pre_authentication, read_envelope, seal, signed_by
from rekindle.host.keys import checker, new_key, read_private, read_public, trust, trusted_keys


def test_the_bytes_that_are_signed_are_those_of_the_specification() -> None:
    # The example of the DSSE protocol document.
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_a_pair_is_made_once_and_the_private_half_is_private(tmp_path: Path) -> None:
    made = new_key("mine", tmp_path / "keys")
    private = tmp_path / "keys" / "mine.key"
    if sys.platform != "win32":
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert read_private("mine", tmp_path / "keys").id == made.id == read_public(made.path).id
    assert read_private(str(private)).id == made.id
    with pytest.raises(BadInput, match="already"):
        new_key("mine", tmp_path / "keys")
    assert new_key("other", tmp_path / "keys").id != made.id
    assert re.fullmatch(r"ed25519:[0-9a-f]{32}", made.id)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "x" * 65, "a b", "ä"])
def test_a_name_cannot_be_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="no name"):
        new_key(name, tmp_path)


def test_a_signature_holds_for_its_type_its_payload_and_its_key_only(tmp_path: Path) -> None:
    new_key("mine", tmp_path / "a")
    new_key("other", tmp_path / "b")
    key = read_private("mine", tmp_path / "a")
    raw = seal(IN_TOTO, b'{"a": 1}', key.id, key.sign)
    mine, other = checker(trusted_keys(tmp_path / "a")), checker(trusted_keys(tmp_path / "b"))
    assert signed_by(read_envelope(raw, "x"), mine) == "mine"
    assert signed_by(read_envelope(raw, "x"), other) is None and signed_by(read_envelope(raw, "x"), checker(())) is None
    for old, new in ((b"in-toto", b"in-xoto"), (b"eyJhIjogMX0", b"eyJhIjogMn0")):
        assert old in raw
        assert signed_by(read_envelope(raw.replace(old, new), "x"), mine) is None
    # A wrong id is only a wrong hint.
    assert signed_by(read_envelope(raw.replace(key.id.encode(), b"ed25519:0"), "x"), mine) == "mine"


def test_trust_keeps_two_keys_of_one_name_apart(tmp_path: Path) -> None:
    made = new_key("maker", tmp_path / "theirs")
    assert trust(made.path, folder=tmp_path / "mine").id == made.id
    assert trust(made.path, folder=tmp_path / "mine").id == made.id, "twice is no error"
    other = new_key("maker", tmp_path / "others")
    with pytest.raises(BadInput, match="another key"):
        trust(other.path, folder=tmp_path / "mine")
    assert trust(other.path, "second", folder=tmp_path / "mine").name == "second"
    assert [key.name for key in trusted_keys(tmp_path / "mine")] == ["maker", "second"]


@pytest.mark.parametrize("raw", [b"", b"hello", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_what_is_no_key_is_one_line(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.pub").write_bytes(raw)
    (tmp_path / "x.key").write_bytes(raw)
    with pytest.raises(BadInput, match="no public key"):
        read_public(tmp_path / "x.pub")
    with pytest.raises(BadInput, match="no private key that can be read"):
        read_private("x", tmp_path)
    with pytest.raises(BadInput, match="no signing key"):
        read_private("y", tmp_path)
    with pytest.raises(BadInput, match="cannot read"):
        read_public(tmp_path / "y.pub")


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    try:
        found = read_envelope(raw, "x")
    except BadInput as error:
        assert error.message.startswith("x ")
    else:
        assert 0 < len(found.signatures) <= 16


@needs.tool("openssl")
def test_openssl_reads_our_keys_and_agrees_on_the_signature(tmp_path: Path) -> None:
    made = new_key("mine", tmp_path)
    key = read_private("mine", tmp_path)
    (tmp_path / "m").write_bytes(b"message")
    (tmp_path / "s").write_bytes(key.sign(b"message"))
    argv = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(made.path), "-rawin"]
    done = subprocess.run([*argv, "-in", str(tmp_path / "m"), "-sigfile", str(tmp_path / "s")], capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("private", [True, False])
def test_a_key_of_another_kind_is_no_key_of_ours(private: bool, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    secret, shown = tmp_path / "x.key", tmp_path / "x.pub"
    secret.write_bytes(key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()))
    shown.write_bytes(key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(BadInput, match=rf"x\.{'key' if private else 'pub'} is no Ed25519 key") as refused:
        read_private(str(secret)) if private else read_public(shown)
    assert "rekindle key new" in (refused.value.remedy or "")
