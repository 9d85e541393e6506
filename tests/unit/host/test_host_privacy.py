"""Files that only their owner reads, processes that are told from all others, names that are taken out of texts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.host.files import free_space, sweep_left_behind, write_atomically
from rekindle.host.memory import _mounts
from rekindle.host.processes import process_mark, processes_of
from rekindle.host.protocol import Disk
from rekindle.host.redact import redactor_for


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_atomically(tmp_path / "secret", "x", private=True)
        write_atomically(tmp_path / "open", "x")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"secret": 0o600, "open": 0o666}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_mark_is_of_one_process_alone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = process_mark(child.pid)
    assert mark and mark == process_mark(child.pid) and mark != process_mark(os.getpid())
    boot, _, tick = mark.partition("/")
    assert len(boot) == 36 and tick.isdigit()
    child.communicate(b"\n")
    assert process_mark(child.pid) is None


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "/home/anna", "USER": "anna"},
        {"USERPROFILE": "/home/anna", "USERNAME": "anna"},
        {"HOME": "", "USERPROFILE": "/home/anna", "USER": "", "USERNAME": "anna"},
    ],
)
def test_whose_names_are_taken_out(env: dict[str, str]) -> None:
    said = redactor_for(env, "annas-laptop").text("/home/anna/x on annas-laptop")
    assert "anna" not in said and said.endswith(redactor_for(env, "annas-laptop").text("annas-laptop"))
    assert redactor_for({}, "").text("/home/bert/x") is not None


@pytest.mark.parametrize(
    "damaged", ["", "garbage", "1 2 3 /a - cgroup2 x rw", "1 2 0:3 / /b rw -", "1 2 0:3 / /b rw - ", "- cgroup2"]
)
def test_a_damaged_list_of_mounts_is_passed_over(damaged: str) -> None:
    good = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"
    listed = f"{damaged}\n{good}\n31 23 0:27 /me /sys/fs/memory rw - cgroup cgroup rw,memory\n".encode()
    found = _mounts(lambda path: listed)
    assert found[""] == ("/sys/fs/cgroup", "/") and found["memory"] == ("/sys/fs/memory", "/me")


def test_only_what_was_left_for_a_day_is_swept(tmp_path: Path) -> None:
    for name, age in (("old", 86_400 + 60), ("young", 86_400 - 60)):
        for place in (tmp_path / f"{name}.part", tmp_path / f"{name}-folder"):
            place.mkdir() if "folder" in place.name else place.touch()
            os.utime(place, (time.time() - age, time.time() - age))
    sweep_left_behind(tmp_path, "*.part")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old-folder", "young-folder", "young.part"]
    sweep_left_behind(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["young-folder", "young.part"]


def test_free_space_is_told_with_its_file_system() -> None:
    host = BareHost()
    assert free_space(host)("/x") is None
    host.disk = lambda path: Disk(total=9, free=7, device=3)  # type: ignore[method-assign]
    assert free_space(host)("/x") == (3, 7)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_programs_of_a_folder_are_found_by_where_they_lie(tmp_path: Path) -> None:
    inside = tmp_path / "env" / "bin" / "sleeper"
    inside.parent.mkdir(parents=True)
    inside.symlink_to("/bin/sleep")
    mine = subprocess.Popen([str(inside), "60"])
    other = subprocess.Popen(["/bin/sleep", "60"])
    try:
        found = {process.pid for process in processes_of(tmp_path / "env")}
        assert mine.pid in found and other.pid not in found and os.getpid() not in found
        assert processes_of(tmp_path / "none") == []
    finally:
        for child in (mine, other):
            child.kill()
            child.wait()
