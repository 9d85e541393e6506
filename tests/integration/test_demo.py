"""The whole way on spark with real tools: killed in the middle, continued, repeated, with another CMake."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import psutil
import pytest

import needs

pytestmark = [pytest.mark.integration, needs.tool("c++"), pytest.mark.skipif(os.name == "nt", reason="POSIX signals")]


def demo(workspace: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "rekindle", "demo", "--yes", "--json", "--workspace", str(workspace), *more]


def run(workspace: Path, *more: str) -> dict[str, object]:
    done = subprocess.run(demo(workspace, *more), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def statuses(journey: dict[str, object]) -> dict[str, str]:
    return {leg["name"]: leg["status"] for leg in journey["legs"]}  # type: ignore[attr-defined]


def objects(workspace: Path) -> list[Path]:
    """What the build compiled; CMake's own probes do not count."""
    return list((workspace / "source/spark/build/CMakeFiles/spark_core.dir").rglob("*.o"))


def wait_for_objects(workspace: Path, process: subprocess.Popen[bytes], count: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if len(objects(workspace)) >= count:
            return
        time.sleep(0.05)
    pytest.fail("the build never came that far")


def still_there(workspace: Path) -> list[str]:
    """Processes that work inside the workspace."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        text = " ".join(process.info["cmdline"] or []) + " " + (process.info["cwd"] or "")
        if str(workspace) in text and process.pid != os.getpid():
            found.append(text)
    return found


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("Glühende Späne")


@pytest.fixture(scope="module")
def packaged_cmake() -> str:
    import cmake

    return str(Path(cmake.CMAKE_BIN_DIR) / "cmake")


def test_killed_in_the_middle_it_continues(workspace: Path, packaged_cmake: str) -> None:
    process = subprocess.Popen(
        demo(workspace, "--cmake", packaged_cmake), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_objects(workspace, process, 4)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + 15
    while (orphans := still_there(workspace)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert orphans == []
    kept = {path: path.stat().st_mtime_ns for path in objects(workspace)}
    journey = run(workspace, "--cmake", packaged_cmake)
    assert journey["arrived"] is True
    unchanged = [path for path, stamp in kept.items() if path.stat().st_mtime_ns == stamp]
    # The compilers that were at work when the kill came begin again; the rest is kept.
    assert len(unchanged) >= len(kept) - 3
    assert {"cmake-4-policies", "setuptools-74-msvccompiler"} <= set(journey["plan"]["build"]["patches"])  # type: ignore[index]
    wheel = Path(str(journey["wheel"]))
    assert zipfile.ZipFile(wheel).testzip() is None
    report = Path(str(journey["report"])).read_text(encoding="utf-8")
    assert "checks passed" in report and "http" not in report.split("</style>")[1].split("<details>")[0]


def test_a_second_run_keeps_everything(workspace: Path, packaged_cmake: str) -> None:
    journey = run(workspace, "--cmake", packaged_cmake)
    assert {statuses(journey)[leg] for leg in ("build", "inspect", "verify")} == {"kept"}


def test_a_lost_wheel_is_made_again(workspace: Path, packaged_cmake: str) -> None:
    for wheel in (workspace / "wheels").glob("*.whl"):
        wheel.write_bytes(b"not a wheel any more")
    journey = run(workspace, "--cmake", packaged_cmake)
    assert statuses(journey)["build"] == "done"
    assert journey["arrived"] is True


@needs.tool("cmake")
def test_the_machines_own_cmake_3_needs_no_cmake_patch(tmp_path: Path) -> None:
    said = subprocess.run(["cmake", "--version"], capture_output=True, text=True, check=True).stdout
    system = next((path for path in ("/usr/bin/cmake",) if Path(path).exists()), None)
    if system is None or " 3." not in subprocess.run([system, "--version"], capture_output=True, text=True).stdout:
        pytest.skip(f"needs a CMake 3 at /usr/bin/cmake (PATH has {said.split()[2]})")
    journey = run(tmp_path, "--cmake", system, "--no-cuda")
    assert journey["arrived"] is True
    assert "cmake-4-policies" not in journey["plan"]["build"]["patches"]  # type: ignore[index]


@pytest.mark.skipif(os.environ.get("REKINDLE_LONG") != "1", reason="minutes; with REKINDLE_LONG=1")
def test_twenty_kills_over_the_whole_way_end_in_the_same_wheel(tmp_path: Path, packaged_cmake: str) -> None:
    """From nothing, killed at twenty random moments wherever the way is just then; each run goes on from the last."""
    calm, wild = tmp_path / "calm", tmp_path / "wild"
    began = time.monotonic()
    wanted = run(calm, "--cmake", packaged_cmake)["wheel_sha256"]
    whole = time.monotonic() - began  # moments all over the way, however slow the machine
    dice, reached = random.Random(20), set()
    for kill in range(20):
        process = subprocess.Popen(
            demo(wild, "--cmake", packaged_cmake), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(timeout=dice.uniform(0.02, 0.8) * whole)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reached |= {path.name for path in wild.glob("reports/*.key")} | {len(objects(wild))}
        if kill % 5 == 4:
            # What was done is not done again from the beginning: now and then a leg's result goes, as a user's would.
            for wheel in (wild / "wheels").glob("*.whl"):
                wheel.unlink()
    deadline = time.monotonic() + 15
    while (orphans := still_there(wild)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert orphans == [] and len(reached) > 2, f"the kills fell into too few places: {reached}"
    journey = run(wild, "--cmake", packaged_cmake)
    assert journey["arrived"] is True and journey["wheel_sha256"] == wanted
