"""Pythons before 3.11.4 (Debian 12 has 3.11.2) know no filter in tarfile: an archive is unpacked as safely."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.source.archive import unpack

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and links of files")


@pytest.fixture(params=["with the filter", "without"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "without":
        now = tarfile.TarFile.extract

        def extract(self: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
            """As in 3.11.2: it knows no ``filter``, and trusts everybody."""
            now(self, member, path, filter="fully_trusted")

        monkeypatch.setattr(tarfile.TarFile, "extract", extract)
        monkeypatch.delattr(tarfile, "data_filter")
    return str(request.param)


def archive(folder: Path, *members: tuple[str, dict[str, Any]]) -> Path:
    path = folder / "tree.tar"
    with tarfile.open(path, "w") as tar:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            content = fields.pop("content", b"")
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_files_come_with_a_plain_mode_and_the_owner_who_unpacks(python: str, tmp_path: Path) -> None:
    made = archive(
        tmp_path,
        ("t/run.sh", {"content": b"#!/bin/sh\n", "mode": 0o6777, "uid": 12345, "gid": 12345}),
        ("t/read.me", {"content": b"read", "mode": 0o666, "uid": 12345}),
        ("t/same", {"type": tarfile.SYMTYPE, "linkname": "read.me"}),
    )
    unpack(made, tmp_path / "out")
    run, read = tmp_path / "out/run.sh", tmp_path / "out/read.me"
    assert stat.S_IMODE(run.stat().st_mode) == 0o755
    assert stat.S_IMODE(read.stat().st_mode) == 0o644
    assert (run.stat().st_uid, run.stat().st_gid) == (os.getuid(), os.getgid())
    assert (tmp_path / "out/same").read_bytes() == b"read"


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE])
def test_a_detour_over_a_link_does_not_lead_out(python: str, kind: bytes, tmp_path: Path) -> None:
    """``here`` is the tree itself, so ``here/..`` is outside, though its name alone looks inside."""
    made = archive(
        tmp_path,
        ("here", {"type": tarfile.SYMTYPE, "linkname": "."}),
        ("out", {"type": tarfile.SYMTYPE, "linkname": "here/.."}),
        ("out/escaped", {"type": kind, "content": b"" if kind != tarfile.REGTYPE else b"x", "linkname": "a"}),
    )
    with pytest.raises(BadInput):
        unpack(made, tmp_path / "deep/tree")
    assert not list(tmp_path.rglob("escaped"))
    assert not (tmp_path / "deep/tree").exists()


@pytest.mark.parametrize("goal", ["../secret", "/etc/hostname", "t/../../secret"])
def test_a_hard_link_takes_nothing_from_outside(python: str, goal: str, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/secret").write_text("mine")
    made = archive(tmp_path, ("t/b", {"content": b"x"}), ("t/a", {"type": tarfile.LNKTYPE, "linkname": goal}))
    with pytest.raises(BadInput):
        unpack(made, tmp_path / "deep/tree")
    assert (tmp_path / "deep/secret").stat().st_nlink == 1 and not (tmp_path / "deep/tree").exists()
