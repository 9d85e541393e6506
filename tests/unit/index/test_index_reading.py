"""Wheels are checked whole before they are let in: each fault is found and named."""

from __future__ import annotations

import base64
import hashlib
import struct
import zipfile
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.index.wheelhouse import reading
from rekindle.index.wheelhouse.reading import read_wheel
from rekindle.model.progress import Silent
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


class Steps(Silent):
    """Notes how far the work says it is."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float | None, str]] = []

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.seen.append((done, total, detail))


def test_the_work_is_told_by_the_bytes_of_the_members(tmp_path: Path) -> None:
    files = {"tiny/a.py": b"x" * 700, "tiny/empty.py": b"", "tiny/b.py": b"y" * 300}
    wheel, steps = make_wheel(tmp_path, files=files), Steps()
    read_wheel(wheel, steps)
    with zipfile.ZipFile(wheel) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    assert [detail for _, _, detail in steps.seen] == [name for name in sizes if not name.endswith("/RECORD")]
    assert (
        steps.seen[0][0] == 700
        and steps.seen[2][0] == 1000
        and {total for _, total, _ in steps.seen} == {sum(sizes.values())}
    )
    assert steps.seen[-1][0] == sum(sizes.values()) - sizes["tiny-1.0.dist-info/RECORD"]


def test_an_archive_may_have_folders_and_unpack_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(zipfile.ZipInfo("tiny/"), b"")
        size = sum(info.file_size for info in archive.infolist())
    assert read_wheel(wheel).name.project == "tiny" and reading.MAX_UNPACKED == 34_359_738_368
    monkeypatch.setattr(reading, "MAX_UNPACKED", size)
    assert read_wheel(wheel)
    monkeypatch.setattr(reading, "MAX_UNPACKED", size - 1)
    with pytest.raises(BadInput, match="unpacks to more"):
        read_wheel(wheel)


def test_an_archive_without_members_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(BadInput, match="has no RECORD"):
        read_wheel(path)


@pytest.mark.parametrize("missing", ["METADATA", "WHEEL", "RECORD"])
def test_a_wheel_lacks_none_of_its_papers(tmp_path: Path, missing: str) -> None:
    path = make_wheel(tmp_path)
    bare = tmp_path / "bare" / path.name
    bare.parent.mkdir()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(bare, "w") as new:
        for info in old.infolist():
            if not info.filename.endswith(f"/{missing}"):
                new.writestr(info, old.read(info.filename))
    with pytest.raises(BadInput, match=missing):
        read_wheel(bare)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ({"other-1.0.dist-info/x": b""}, "RECORD"),
        ({"tiny/deep/other-1.0.dist-info/x": b""}, None),
        ({"tiny-1.0.dist-info/sboms/a.json": b"{}"}, None),
        ({"tiny-1.0.dist-info/sboms/a.json": b"[" * 100_000}, "bill of materials"),
        ({"tiny-1.0.dist-info/sboms/a.txt": b"{"}, None),
        ({"tiny/sboms/a.json": b"{", "tiny/b.json": b"{"}, None),
        ({"tiny/.gitmodules": b"", "tiny/x.git": b""}, None),
    ],
)
def test_what_may_lie_in_a_wheel(tmp_path: Path, inside: dict[str, bytes], words: str | None) -> None:
    wheel = make_wheel(tmp_path, files=inside)
    if words is None:
        assert read_wheel(wheel).warnings == ()
        return
    with pytest.raises(BadInput, match=words):
        read_wheel(wheel)


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512", "md5", "sha1"])
def test_only_hashes_that_count_are_taken(tmp_path: Path, algorithm: str) -> None:
    files = {"tiny/__init__.py": b"x"}
    wheel = make_wheel(tmp_path, files=files)
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read("tiny-1.0.dist-info/RECORD").decode()
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, b"x").digest()).rstrip(b"=").decode()
    own = record.replace(hash_row("tiny/__init__.py", b"x"), f"tiny/__init__.py,{algorithm}={digest},1\n")
    named = make_wheel(tmp_path / "b", files=files, record=own)
    if algorithm.startswith("sha1") or algorithm == "md5":
        with pytest.raises(BadInput):
            read_wheel(named)
    else:
        assert read_wheel(named).name.project == "tiny"


@pytest.mark.parametrize(
    ("requires", "read"),
    [(">=3.8", ">=3.8"), (None, None), (">=3.8, <4", "<4,>=3.8"), ("newest", None)],
)
def test_the_python_that_is_required(tmp_path: Path, requires: str | None, read: str | None) -> None:
    wheel = make_wheel(tmp_path, requires_python=requires)
    if requires == "newest":
        with pytest.raises(BadInput, match="Requires-Python"):
            read_wheel(wheel)
    else:
        assert read_wheel(wheel).requires_python == read


def test_metadata_must_name_the_same_release(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"says inside that it is 'evil' '1\.0'"):
        read_wheel(_with_metadata(tmp_path / "a", "Name: evil\nVersion: 1.0"))
    with pytest.raises(BadInput, match=r"says inside that it is 'tiny' '1\.1'"):
        read_wheel(_with_metadata(tmp_path / "b", "Name: tiny\nVersion: 1.1"))
    with pytest.raises(BadInput, match="says inside that it is '' ''"):
        read_wheel(_with_metadata(tmp_path / "c", ""))
    assert read_wheel(_with_metadata(tmp_path / "d", "Name: Tiny\nVersion: 1.0.0")).requires_python is None


def _with_metadata(folder: Path, text: str) -> Path:
    raw = f"Metadata-Version: 2.1\n{text}\n\n".encode()
    info = "tiny-1.0.dist-info"
    wheel = b"Wheel-Version: 1.0\nTag: py3-none-any\n"
    record = hash_row(f"{info}/METADATA", raw) + hash_row(f"{info}/WHEEL", wheel) + f"{info}/RECORD,,\n"
    folder.mkdir()
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("METADATA", raw), ("WHEEL", wheel), ("RECORD", record.encode())):
            archive.writestr(f"{info}/{name}", data)
    return path


def test_one_tag_in_common_is_enough(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, tag="py3-none-any", file="tiny-1.0-py2.py3-none-any.whl")
    assert read_wheel(wheel).warnings == ()
