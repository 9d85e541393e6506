"""What a machine may do to a build: no room left, folders nobody may write to, names with spaces and other letters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import needs
import rekindle.spark
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from small_disks import small_disk_at

pytestmark = [pytest.mark.integration, needs.tool("g++"), pytest.mark.skipif(sys.platform != "linux", reason="Linux")]


def prepare(folder: Path, **env: str) -> Path:
    """spark's tree in ``folder`` and a plan beside it."""
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    settings = {"USE_HEAVY": "0", "CMAKE_POLICY_VERSION_MINIMUM": "3.5", **env}
    recipe = BuildRecipe(source="spark", env=settings, pins={"setuptools": "<74"})
    (folder / "plan.json").write_bytes(encode(Plan(answer="build", project="spark", variant="cpu", build=recipe)))
    return root


def argv(root: Path, workspace: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "rekindle", "build", "--trust",
        "--plan", str(root.parent / "plan.json"), "--source", str(root),
        "--workspace", str(workspace), "--python", sys.executable, *more,
    ]  # fmt: skip


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with room enough to start, kept in memory."""
    with small_disk_at(tmp_path / "disk", "2400M") as place:
        yield place


@needs.tool("mount", "umount")
def test_a_disk_that_fills_up_is_noticed_before_it_is_full(small_disk: Path, tmp_path: Path) -> None:
    root = prepare(small_disk, SPARK_OPS="16")
    command = argv(root, tmp_path / "ws", "--jobs", "1", "--json")
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(root.glob("build/CMakeFiles/spark_core.dir/**/*.o")) and time.monotonic() < deadline:
        assert started.poll() is None, started.stderr and started.stderr.read()[-2000:]
        time.sleep(0.05)
    filler = small_disk / "holiday photos"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1500 << 20)
    _, said = started.communicate(timeout=300)
    assert started.returncode == 3, said[-2000:]
    assert "MiB are left on the disk of" in said
    assert "the same command continues" in said
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 1, "too little to start with is said at once"
    assert "GiB are free where" in again.stderr
    filler.unlink()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["results"][0]["resumed"] is True


def test_spaces_and_other_letters_all_the_way_to_the_wheel(tmp_path: Path) -> None:
    root = prepare(tmp_path / "Müllers Bücher & Söhne (neu)", SPARK_OPS="1")
    done = subprocess.run(argv(root, root.parent / "mein Platz"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = (root.parent / "mein Platz/wheels").glob("*.whl")
    assert f"--wheel '{wheel}'" in done.stdout, "a command to copy must survive the shell"
    with zipfile.ZipFile(wheel) as archive:
        told = [name for name in archive.namelist() if "Söhne".encode() in archive.read(name)]
    assert told == [], "where it was built is nobody's business, and the same source gives the same bytes"


@needs.tool("mount", "umount")
def test_places_that_cannot_be_written_to_are_one_line_each(small_disk: Path, tmp_path: Path) -> None:
    root = prepare(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for command, place, way_out in (
        (argv(root, small_disk / "ws"), small_disk / "ws", "--workspace DIR"),
        (argv(root, tmp_path / "ws"), root, "copy the tree"),
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        fact, remedy = done.stderr.strip().splitlines()
        assert str(place) in fact
        assert "Read-only file system" in fact
        assert way_out in remedy
