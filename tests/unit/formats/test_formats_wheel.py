"""Wheels from strangers: whole ones are read, bad ones get one clear sentence."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binaries import make_wheel
from rekindle.errors import BadInput, RekindleError
from rekindle.formats.wheel import WheelZip

GOOD = make_wheel({"demo/a.py": b"x = 1\n" * 50, "demo/lib.so": bytes(range(256)) * 40})


def open_wheel(data: bytes) -> WheelZip:
    return WheelZip(lambda: io.BytesIO(data), "demo.whl")


def test_members_and_metadata() -> None:
    wheel = open_wheel(GOOD)
    assert wheel.read("demo/lib.so") == bytes(range(256)) * 40
    assert dict(wheel.headers("METADATA"))["Name"] == "demo"
    assert wheel.record is not None
    row = wheel.record["demo/a.py"]
    assert row.digest is not None
    assert row.digest.hex() == wheel.inflate("demo/a.py", lambda _: None)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>404</html>", "web page"),
        (GOOD[: len(GOOD) // 2], "truncated"),
        (b"hello" * 100, "no wheel"),
    ],
    ids=["empty", "page", "truncated", "other"],
)
def test_not_a_wheel(data: bytes, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        open_wheel(data)


@pytest.mark.parametrize("name", ["../evil.py", "/etc/passwd", "a/../../b", "..\\evil", "C:/evil", "\\\\host\\x"])
def test_escaping_member(name: str) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(BadInput, match="outside"):
        open_wheel(out.getvalue())


def test_doubled_member() -> None:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    with pytest.raises(BadInput, match="two members"):
        open_wheel(out.getvalue())


def test_encrypted() -> None:
    data = bytearray(GOOD)
    at = data.find(b"PK\x01\x02")
    data[at + 8] |= 1
    with pytest.raises(BadInput, match="encrypted"):
        open_wheel(bytes(data))


def test_zip_bomb() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros.so", "w") as member:
        for _ in range(80):
            member.write(b"\0" * (1 << 20))
    with pytest.raises(BadInput, match="bomb"):
        open_wheel(out.getvalue())


def test_a_member_that_inflates_past_its_declared_size() -> None:
    data = bytearray(make_wheel({"a": b"x" * 5000}))
    at = data.find(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 10)
    with pytest.raises(BadInput, match="declares"):
        open_wheel(bytes(data)).read("a")


def test_damage_is_found() -> None:
    data = bytearray(GOOD)
    data[45] ^= 0xFF
    with pytest.raises(BadInput, match=r"damaged|nothing is stored"):
        wheel = open_wheel(bytes(data))
        for name in wheel.members:
            wheel.inflate(name, lambda _: None)


def digests(wheel: WheelZip) -> list[str]:
    return sorted(wheel.inflate(name, lambda _: None) for name in wheel.members)


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=8))
@example([(489, 0), (1149, 0)])
def test_any_bytes_changed_never_crash(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    try:
        wheel = open_wheel(bytes(data))
        contents = digests(wheel)
        _ = wheel.record, wheel.headers("METADATA")
    except RekindleError as error:
        assert str(error)
    else:  # what the checksums cover is as it was; the rest (times, attributes, a name in both its places) may differ
        assert contents == digests(open_wheel(GOOD))
