"""A fat wheel where the disk is full: one line says so, nothing half done stays; with room the same command works."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import needs
from binaries import make_elf
from small_disks import small_disk_at
from tiny_wheels import make_wheel

pytestmark = [pytest.mark.integration, needs.tool("mount", "umount")]
TAG = "cp311-cp311-linux_x86_64"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Sixteen megabytes, in memory."""
    with small_disk_at(tmp_path / "disk", "16M") as place:
        yield place


@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
@pytest.mark.parametrize(
    ("filled", "words"),
    [(12, "bundle needs at least 6.3 MB at"), (8, "No space left")],
    ids=["seen beforehand", "while writing"],
)
def test_a_full_disk_leaves_no_half_wheel_and_is_no_crash(
    small_disk: Path, tmp_path: Path, filled: int, words: str
) -> None:
    noise = random.Random(1).randbytes(6 << 20)  # does not shrink
    lib = tmp_path / "cuda/lib64"
    lib.mkdir(parents=True)
    (lib / "libcudart.so.11.0").write_bytes(make_elf(soname="libcudart.so.11.0") + noise)
    own = {"torch/lib/libtorch.so": make_elf(needed=["libcudart.so.11.0"], rpath="$ORIGIN"), "torch/__init__.py": b""}
    wheel = make_wheel(tmp_path, "torch", "2.0.1", tag=TAG, files=own)
    filler = small_disk / "holiday photos"
    filler.write_bytes(bytes(filled << 20))
    command = [
        sys.executable, "-m", "rekindle", "bundle", str(wheel), "--library-path", str(lib), "--out", str(small_disk),
    ]  # fmt: skip
    full = subprocess.run(command, capture_output=True, text=True)
    assert full.returncode in (1, 2, 3) and "Traceback" not in full.stderr, full.stderr
    assert words in full.stderr and "make room" in full.stderr, full.stderr
    assert [path.name for path in small_disk.iterdir()] == [filler.name], "nothing half done stays"
    filler.unlink()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (fat,) = small_disk.glob("*.whl")
    assert zipfile.ZipFile(fat).testzip() is None and "torch/lib/libcudart.so.11.0" in zipfile.ZipFile(fat).namelist()
