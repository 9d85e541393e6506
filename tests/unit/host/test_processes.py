"""The process tree: every descendant, whoever forked it, by both ways of reading it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rekindle.host import processes
from rekindle.host.processes import prefer_as_victim

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

NESTED = (
    "import subprocess,sys,time; subprocess.Popen([sys.executable,'-c','import time; time.sleep(30)']); time.sleep(30)"
)


@pytest.fixture
def family() -> Any:
    child = subprocess.Popen([sys.executable, "-c", NESTED])
    deadline = time.monotonic() + 20
    while len(processes.tree_of(child.pid)) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    yield child
    for process in processes.tree_of(child.pid):
        processes.kill([process.pid])
    child.kill()
    child.wait()


def test_both_ways_agree(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = {process.pid for process in processes.tree_of(family.pid)}
    monkeypatch.setattr(processes, "_children", lambda pid: None)
    assert {process.pid for process in processes.tree_of(family.pid)} == walked
    assert len(walked) == 1


def test_children_of_other_threads_count(family: Any) -> None:
    started = []
    thread = threading.Thread(target=lambda: started.append(subprocess.Popen(["sleep", "30"])))
    thread.start()
    thread.join()
    try:
        assert started[0].pid in {process.pid for process in processes.tree_of(os.getpid())}
    finally:
        started[0].kill()
        started[0].wait()


def test_pause_and_go_on(family: Any) -> None:
    def stopped() -> bool:
        mine = {process.pid: process for process in processes.tree_of(os.getpid())}
        return mine[family.pid].stopped

    def becomes(wanted: bool) -> bool:
        end = time.monotonic() + 30
        while stopped() is not wanted and time.monotonic() < end:
            time.sleep(0.01)
        return stopped() is wanted

    processes.pause([family.pid])
    assert becomes(True)
    processes.go_on([family.pid])
    assert becomes(False)


def test_peaks_and_command_lines(family: Any) -> None:
    assert processes.peak_rss(family.pid) > 1 << 20
    assert processes.command_line(family.pid)[1] == "-c"
    assert processes.command_line(2**22 + 5) == []
    assert processes.peak_rss(2**22 + 5) == 0


def test_names_with_brackets(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    fields = "S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 555 100 3 0"
    (tmp_path / "7/stat").write_text(f"7 (a (odd) name) {fields}\n")
    found = processes._read_process("7", str(tmp_path))
    assert found is not None
    assert (found.name, found.parent, found.started) == ("a (odd) name", 1, 555.0)


def test_what_a_process_is_by_its_fields(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()

    def read(state: str, fields: int = 23) -> processes.Proc | None:
        words = f"{state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 555 100 3 0".split()[:fields]
        (tmp_path / "7/stat").write_text(f"7 (name) {' '.join(words)}\n")
        return processes._read_process("7", str(tmp_path))

    running, stopped = read("S"), read("T")
    assert running and not running.stopped and running.rss == 3 * os.sysconf("SC_PAGE_SIZE")
    assert stopped and stopped.stopped
    assert read("Z") is None and read("X") is None and read("S", 21) is None and read("S", 22) is not None
    (tmp_path / "7/stat").write_text("S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 555 100 3 0")
    assert processes._read_process("7", str(tmp_path)) is None, "without a name it is none"
    assert processes._read_process("8", str(tmp_path)) is None


def test_everything_below_one_of_them() -> None:
    rows = [processes.Proc(pid, parent, "x", 0.0, 0) for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 1), (6, 9))]
    children = processes.by_parent(rows)
    assert sorted(process.pid for process in processes.below(2, children)) == [3, 4]
    assert processes.below(6, children) == [] and sorted(children) == [1, 2, 3, 9]


def test_the_cores_we_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0: {0, 4, 5}}[pid])
    assert processes.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, cores in ((8, 8), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert processes.cores() == cores


def test_a_program_that_does_not_say_its_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows answers for some processes with an error of its own, not with one of psutil's."""
    import psutil

    class Nameless(psutil.Process):  # type: ignore[misc]
        def name(self) -> str:
            raise OSError(87, "Invalid parameter")

    python = tmp_path / "env" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    with subprocess.Popen([python, "-c", "input()"], stdin=subprocess.PIPE) as started:
        try:
            both = [Nameless(), Nameless(os.getppid()), Nameless(started.pid)]
            monkeypatch.setattr(psutil, "process_iter", lambda attrs=None: [p for p in both if not attrs or p.name()])
            deadline = time.monotonic() + 60
            while not (seen := processes.processes_of(tmp_path / "env")) and time.monotonic() < deadline:
                time.sleep(0.05)
        finally:
            started.kill()
    assert [(process.pid, process.name) for process in seen] == [(started.pid, "")]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_compiler_is_the_kernel_s_first_victim() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        prefer_as_victim(child.pid)
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "800"
    finally:
        child.kill()
        child.wait()
    prefer_as_victim(child.pid)
