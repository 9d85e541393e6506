"""Wheels are checked whole before they are let in: each fault is found and named."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.index.wheelhouse import reading
from rekindle.index.wheelhouse.reading import read_wheel
from tiny_wheels import hash_row, make_wheel


def test_a_good_wheel_tells_its_metadata(tmp_path: Path) -> None:
    read = read_wheel(make_wheel(tmp_path, "tiny", "1.0"))
    assert read.name.project == "tiny" and read.requires_python == ">=3.8" and not read.warnings
    assert b"Name: tiny" in read.metadata


def test_a_retagged_wheel_is_only_a_warning(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, tag="cp311-cp311-linux_x86_64", file="tiny-1.0-cp311-cp311-manylinux1_x86_64.whl")
    assert "linux_x86_64" in read_wheel(wheel).warnings[0]


def test_a_changed_member_does_not_match_record(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"tiny/__init__.py": b"good"})
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read("tiny-1.0.dist-info/RECORD").decode()
    evil = make_wheel(tmp_path / "evil", files={"tiny/__init__.py": b"evil"}, record=record)
    with pytest.raises(BadInput, match="does not match its hash"):
        read_wheel(evil)


def test_a_member_outside_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not listed in RECORD"):
        read_wheel(make_wheel(tmp_path, unlisted={"tiny/extra.py": b"x"}))


def test_a_listed_member_that_is_missing_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read("tiny-1.0.dist-info/RECORD").decode()
    with pytest.raises(BadInput, match="which is not in the wheel"):
        read_wheel(make_wheel(tmp_path / "b", record=record + hash_row("tiny/gone.py", b"")))


def test_name_outside_and_inside_must_agree(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="disagree"):
        read_wheel(make_wheel(tmp_path, "tiny", file="other-1.0-py3-none-any.whl"))
    with pytest.raises(BadInput, match="disagree"):
        read_wheel(make_wheel(tmp_path, "tiny", "1.0", file="tiny-2.0-py3-none-any.whl"))


@pytest.mark.parametrize("member", ["../evil.py", "/etc/evil", "a\\..\\evil", "C:evil/x"])
def test_members_that_leave_their_directory_are_refused(tmp_path: Path, member: str) -> None:
    with pytest.raises(BadInput, match="outside the installation"):
        read_wheel(make_wheel(tmp_path, files={member: b""}))


def test_truncation_is_refused_at_every_length(tmp_path: Path) -> None:
    whole = make_wheel(tmp_path).read_bytes()
    cut = tmp_path / "cut" / "tiny-1.0-py3-none-any.whl"
    cut.parent.mkdir()
    for length in range(0, len(whole) - 1, 7):
        cut.write_bytes(whole[:length])
        with pytest.raises(BadInput):
            read_wheel(cut)


def test_any_flipped_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """Flip each byte of the wheel: either it is refused, or every member still reads as RECORD says."""
    whole = bytearray(make_wheel(tmp_path).read_bytes())
    place = tmp_path / "flipped" / "tiny-1.0-py3-none-any.whl"
    place.parent.mkdir()
    for at in range(0, len(whole), 3):
        whole[at] ^= 0x41
        place.write_bytes(whole)
        whole[at] ^= 0x41
        try:
            read = read_wheel(place)
        except BadInput:
            continue
        assert read.name.project == "tiny"


def test_a_million_members_are_refused_without_reading_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    raw = bytearray(wheel.read_bytes())
    at = raw.rfind(b"PK\x05\x06")
    struct.pack_into("<HHI", raw, at + 8, 0xFFFF, 0xFFFF, 0xF0000000)
    wheel.write_bytes(raw)
    monkeypatch.setattr("zipfile.ZipFile", lambda *_: pytest.fail("opened it"))
    with pytest.raises(BadInput, match="directory of"):
        read_wheel(wheel)


def test_a_bomb_is_refused_by_its_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_UNPACKED", 100)
    with pytest.raises(BadInput, match="unpacks to more"):
        read_wheel(make_wheel(tmp_path, files={"tiny/zeros": b"\0" * 10_000}))


def test_no_zip_at_all(tmp_path: Path) -> None:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    path.write_bytes(b"hello")
    with pytest.raises(BadInput, match="not a zip file"):
        read_wheel(path)


@pytest.mark.parametrize(
    "member",
    [
        "tiny/a\x1b[2Jb.py", "tiny/gpj\u202eyp.exe", "tiny/a\u200b.py", "tiny/line\nbreak.py", ".git/config",
        "tiny/.GIT./hooks/x", "git~1/config", "tiny/NUL", "tiny/con.py", "tiny/aux.h", "tiny/dot./x", "tiny/blank /x",
    ],
)  # fmt: skip
def test_names_that_lie_or_mean_something_else_elsewhere_are_refused(tmp_path: Path, member: str) -> None:
    with pytest.raises(BadInput):
        read_wheel(make_wheel(tmp_path, files={member: b""}))


def test_names_that_only_windows_keeps_are_fine_in_a_wheel_for_linux(tmp_path: Path) -> None:
    read_wheel(make_wheel(tmp_path, files={"tiny/aux.h": b""}, tag="cp311-cp311-linux_x86_64"))
    read_wheel(make_wheel(tmp_path, files={"tiny/größe.py": b"", "tiny/.gitignore": b"", "tiny/console.py": b""}))


@pytest.mark.parametrize("before", [b"MZ", b"#!/bin/sh\n", None])
def test_an_archive_behind_something_else_is_refused(tmp_path: Path, before: bytes | None) -> None:
    """A program, a script, or another wheel (None) in front: zip readers take what comes last."""
    path = make_wheel(tmp_path)
    raw = path.read_bytes()
    path.write_bytes((raw if before is None else before) + raw)
    with pytest.raises(BadInput):
        read_wheel(path)


@pytest.mark.parametrize("line", ["evil @@ x", "a b c", "evil>=1 and more"])
def test_requirements_and_bills_can_be_read(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadInput, match="Requires-Dist"):
        read_wheel(make_wheel(tmp_path, metadata=f"Requires-Dist: {line}\n"))
    good = "Requires-Dist: numpy (>=1.2) ; python_version < '3.13'\nRequires-Dist: x[y]>=1\n"
    read_wheel(make_wheel(tmp_path, metadata=good))
    with pytest.raises(BadInput, match="bill of materials"):
        read_wheel(make_wheel(tmp_path, files={"tiny-1.0.dist-info/sboms/a.cdx.json": b"{"}))


def test_a_statement_that_nobody_believed_signed_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    from rekindle import api
    from rekindle.host.files import sha256_of

    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "stranger"))
    api.key_new("stranger")
    wheel = make_wheel(tmp_path)
    statement = {"_type": "s", "subject": [{"name": wheel.name, "digest": {"sha256": sha256_of(wheel)}}]}
    wheel.with_name(f"{wheel.name}.intoto.json").write_text(json.dumps(statement))
    api.key_sign(wheel, "stranger")
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "ours"))
    (added,) = api.index_add(str(tmp_path / "house"), [str(wheel)], look_inside=False).wheels
    assert any("no key that is believed here" in text for text in added.warnings)
    assert not list((tmp_path / "house").rglob("*.provenance"))
