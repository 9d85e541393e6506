"""Machines that fail underfoot: no place for temporary files, no inodes, a clock that jumps back, a group at its limit.

Each ends in one line that says what it was, never in "a bug in rekindle", and the same command goes on afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from canary import LONG, limited

import needs
import rekindle.spark
from rekindle.build import tree as resume
from rekindle.errors import Interrupted
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from tiny_wheels import make_wheel

pytestmark = [pytest.mark.integration, pytest.mark.skipif(sys.platform != "linux", reason="Linux")]


def spark_in(folder: Path, **more: str) -> Path:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    settings = {"USE_HEAVY": "0", "CMAKE_POLICY_VERSION_MINIMUM": "3.5", "SPARK_OPS": "1", **more}
    recipe = BuildRecipe(source="spark", env=settings, pins={"setuptools": "<74"})
    (folder / "plan.json").write_bytes(encode(Plan(answer="build", project="spark", variant="cpu", build=recipe)))
    return root


def build(root: Path, workspace: Path, *before: str) -> subprocess.CompletedProcess[str]:
    argv = [*before, sys.executable, "-m", "rekindle", "build", "--trust", "--plan", str(root.parent / "plan.json"),
            "--source", str(root), "--workspace", str(workspace), "--python", sys.executable]  # fmt: skip
    return subprocess.run(argv, capture_output=True, text=True, errors="replace")


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode in (1, 2, 3), (done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr and "bug in rekindle" not in done.stderr, done.stderr[-2000:]
    return done.stdout + done.stderr


@needs.tool("bwrap")
def test_no_place_for_temporary_files(tmp_path: Path) -> None:
    """/tmp, /var/tmp and the folder one stands in are read-only, as on a sealed machine."""
    bare = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    if subprocess.run([*bare, "true"], capture_output=True).returncode:
        pytest.skip("bubblewrap may not work here")
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files={"torch/__init__.py": b""})
    log = tmp_path / "build.log"
    log.write_text("c++: fatal error: Killed signal terminated program cc1plus\n")
    for words in (
        ("verify", "--wheel", str(wheel), "--no-deps", "--python", sys.executable),
        ("bundle", str(wheel)),
        ("index", "add", str(wheel), "--root", str(tmp_path / "house")),
        ("demo", "--yes", "--workspace", str(tmp_path / "ws")),
        ("inspect", str(wheel)),
        ("explain", str(log)),
        ("doctor",),
    ):
        argv = [*bare, "--chdir", str(tmp_path), sys.executable, "-m", "rekindle", *words]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode in (0, 1, 2), (words, done.returncode, done.stderr[-2000:])
        assert "Traceback" not in done.stderr and "bug in rekindle" not in done.stderr, (words, done.stderr[-2000:])
        if words[0] in ("inspect", "explain"):
            assert done.returncode in (0, 1) and done.stdout, "what only reads needs no place to write"


@pytest.fixture
def few_inodes(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    options = "size=4000M,nr_inodes=320"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk (root)")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@needs.tool("mount", "umount", "g++")
def test_no_more_files_fit(few_inodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told before a build starts; and in the middle it stops in order, so that the same command goes on."""
    root = spark_in(few_inodes)
    free = os.statvfs(few_inodes).f_favail
    resume.stop_before_full(root)
    monkeypatch.setattr(resume, "MIN_FREE_BYTES", 0)
    monkeypatch.setattr(resume, "MIN_FREE_FILES", free + 1)
    with pytest.raises(Interrupted, match=f"only {free} more files fit"):
        resume.stop_before_full(root)
    said = one_line(build(root, tmp_path / "ws"))
    assert "more files fit on the disk" in said, said[-2000:]


@LONG
@needs.tool("g++")
def test_a_clock_that_jumps_back_in_the_middle(tmp_path: Path) -> None:
    root = spark_in(tmp_path)
    assert build(root, tmp_path / "ws").returncode == 0
    tomorrow = time.time() + 86_400
    for path in root.rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    said = one_line(build(root, tmp_path / "ws"))
    assert "in the future" in said and "clock" in said, said[-2000:]
    for path in root.rglob("*"):
        os.utime(path)
    assert build(root, tmp_path / "ws").returncode == 0


@pytest.fixture
def tight_group() -> Iterator[Path]:
    """A control group in which a compiler does not fit."""
    one, two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    place = (one if one.is_dir() else two) / f"rekindle-test-{os.getpid()}"
    try:
        place.mkdir()
        limit = place / ("memory.limit_in_bytes" if one.is_dir() else "memory.max")
        limit.write_text(str(150 << 20))
    except OSError as error:
        with_what = error.strerror or error
        pytest.skip(f"no control group can be made here: {with_what}")
    yield place
    time.sleep(0.2)
    place.rmdir()


@LONG
@needs.tool("g++")
def test_a_control_group_at_its_limit(tight_group: Path, tmp_path: Path) -> None:
    root = spark_in(tmp_path, USE_HEAVY="1", SPARK_HEAVY_SIZE="2000")
    join = ["sh", "-c", f'echo $$ > "{tight_group}/cgroup.procs"; exec "$@"', "sh"]
    said = one_line(build(root, tmp_path / "ws", *join))
    assert "memory" in said.lower(), said[-2000:]


@LONG
def test_a_log_of_500_megabytes(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    line = b"[%d/9000] Building CXX object caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/file_%d.cpp.o\n"
    with log.open("wb") as out:
        block = b"".join(line % (n, n) for n in range(9000))
        while out.tell() < 500 << 20:
            out.write(block)
        out.write(b"c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n" + block)
    done = limited("explain", str(log), "-q", cpu_seconds=120, address_space=900 << 20)
    assert done.returncode == 0 and "memory" in done.stdout.lower(), (done.returncode, done.stderr[-500:])
