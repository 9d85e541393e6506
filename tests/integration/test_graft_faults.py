"""Graft under bad luck: killed at ten moments of every step, and a disk that is full at ten others.

What is cut short leaves no wheel and no graft file half written under its name, and the same command then gives the
very file that an undisturbed one gives. The moments are counted in what the process does to files, not in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from binaries import make_entry
from gpu_libraries import make_cubin, make_gpu_library, ptx_entry
from rekindle.host.files import sha256_of
from tiny_wheels import make_wheel

pytestmark = [pytest.mark.integration, pytest.mark.skipif(sys.platform != "linux", reason="Linux")]
UNIT = "91c5f4d9_8_First_cu_54a8c5b0"
KERNELS = {"scale": (8, 4)}
MOMENTS = 10
# In front of the command: dies, or finds the disk full, at the given one of all its changes to files below a folder.
BAD_LUCK = """
import os, signal, sys
below, at, how = os.environ["BELOW"], int(os.environ["AT"]), os.environ["HOW"]
seen = 0
def watch(event, words):
    global seen
    if event == "open":
        path, _, flags = words
        if not flags or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event in ("os.rename", "os.mkdir"):
        path = words[0]
    else:
        return
    if not isinstance(path, (str, bytes)) or not os.fsdecode(path).startswith(below):
        return
    seen += 1
    if seen == at:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(28, "No space left on device", path)
sys.addaudithook(watch)
from rekindle.cli.main import main
code = main(sys.argv[1:])
if how == "count":
    print(seen, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel with two units that have PTX, and a toolkit that gives the very code that is due."""
    folder = tmp_path_factory.mktemp("world")
    container = [make_entry(2, 80, payload=make_cubin(80, KERNELS, unit=UNIT)), ptx_entry(80)]
    files = {"demo/lib.so": make_gpu_library([container, container])}
    wheel = make_wheel(folder / "official", "demo", "1.0", tag="py3-none-linux_x86_64", files=files)
    (folder / "code.cubin").write_bytes(make_cubin(120, KERNELS, unit=UNIT))
    (folder / "bin").mkdir()
    script = folder / "bin" / "ptxas"
    script.write_text(
        "#!/bin/sh\ncase $1 in --version) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit;; esac\n"
        f'while [ $# -gt 0 ]; do [ "$1" = -o ] && exec cp {folder}/code.cubin "$2"; shift; done\nexit 1\n'
    )
    script.chmod(0o755)
    return {"wheel": wheel, "toolkit": folder}


def _run(below: Path, *words: str | Path, at: int = 0, how: str = "count") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "BELOW": str(below), "AT": str(at), "HOW": how}
    told = [sys.executable, "-c", BAD_LUCK, "graft", *map(str, words), "--json", "-q"]
    return subprocess.run(told, capture_output=True, text=True, timeout=120, env=env)


def _words(step: str, folder: Path, world: dict[str, Path], graft: Path) -> tuple[str | Path, ...]:
    place = ("--workspace", folder / "ws", "--out", folder / "out")
    if step == "apply":
        return ("apply", world["wheel"], graft, *place)
    made = (world["wheel"], "--gpu", "sm_120", "--toolkit", world["toolkit"], *place)
    return ("make", *made) if step == "make" else made


@pytest.fixture(scope="module")
def expected(world: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int]]:
    """Of each step the file it gives undisturbed, and how often it changes a file."""
    found: dict[str, tuple[Path, int]] = {}
    graft = Path()
    for step in ("make", "graft", "apply"):
        folder = tmp_path_factory.mktemp(step)
        done = _run(folder, *_words(step, folder, world, graft))
        assert done.returncode == 0, done.stdout + done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        graft = Path(said["graft"]) if step == "make" else graft
        found[step] = (graft if step == "make" else Path(said["out"]), int(done.stderr.split()[-1]))
    return found


def _moments(count: int) -> list[int]:
    assert count > MOMENTS
    return sorted({1 + number * (count - 1) // (MOMENTS - 1) for number in range(MOMENTS)})


def _is_whole_or_absent(folder: Path, wanted: Path) -> None:
    """Under the names that people use there is the right file or none."""
    out = folder / "out"
    names = [path for path in out.glob("*") if path.suffix in (".whl", ".graft")] if out.is_dir() else []
    assert all(path.name == wanted.name and sha256_of(path) == sha256_of(wanted) for path in names), names


@pytest.mark.parametrize("step", ["graft", "make", "apply"])
def test_killed_at_ten_moments(
    step: str, world: dict[str, Path], expected: dict[str, tuple[Path, int]], tmp_path: Path
) -> None:
    wanted, count = expected[step]
    words = _words(step, tmp_path, world, expected["make"][0])
    for moment in _moments(count):
        killed = _run(tmp_path, *words, at=moment, how="kill")
        # What an earlier call finished is not done again, so later ones may have less to do.
        assert killed.returncode in (-signal.SIGKILL, 0), killed.stderr
        _is_whole_or_absent(tmp_path, wanted)
    done = _run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert sha256_of(tmp_path / "out" / wanted.name) == sha256_of(wanted)
    assert not list((tmp_path / "out").glob(".*.making")), "what a kill left of a wheel is gone"


@pytest.mark.parametrize("step", ["graft", "make", "apply"])
def test_a_disk_that_is_full_at_ten_moments(
    step: str, world: dict[str, Path], expected: dict[str, tuple[Path, int]], tmp_path: Path
) -> None:
    wanted, count = expected[step]
    words = _words(step, tmp_path, world, expected["make"][0])
    for moment in _moments(count):
        full = _run(tmp_path, *words, at=moment, how="full")
        assert full.returncode in (0, 1, 2, 3), full.stderr
        assert "Traceback" not in full.stderr and "bug in rekindle" not in full.stderr
        if full.returncode:
            assert "No space left" in full.stderr or "full" in full.stderr, full.stderr
        _is_whole_or_absent(tmp_path, wanted)
    done = _run(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert sha256_of(tmp_path / "out" / wanted.name) == sha256_of(wanted)
