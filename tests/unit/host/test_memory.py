"""Free memory from files as kernels write them: no control group, version 1, version 2, nested, in a container."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rekindle.host import memory
from rekindle.host.memory import read_memory

GIB = 1 << 30
MIB = 1 << 20


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:       16777216 kB\nMemFree:  1000 kB\nMemAvailable:    8388608 kB\n"
V2 = {
    "proc/meminfo": MEMINFO,
    "proc/self/cgroup": "0::/user.slice/build\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/user.slice/memory.max": f"{4 * GIB}\n",
    "sys/fs/cgroup/user.slice/memory.high": "max\n",
    "sys/fs/cgroup/user.slice/memory.current": f"{3 * GIB}\n",
    "sys/fs/cgroup/user.slice/memory.stat": f"anon {2 * GIB}\ninactive_file {512 * MIB}\nactive_file {256 * MIB}\n",
    "sys/fs/cgroup/user.slice/memory.pressure": "some avg10=12.50 avg60=1.0 avg300=0.0 total=1\nfull avg10=1.0\n",
    "sys/fs/cgroup/user.slice/build/memory.max": "max\n",
}


def test_the_machine_alone(tmp_path: Path) -> None:
    now = read_memory(write(tmp_path, {"proc/meminfo": MEMINFO}))
    assert now is not None
    assert (now.total, now.available, now.limited_by) == (16 * GIB, 8 * GIB, "machine")


def test_version_2_counts_the_level_above_and_its_cache(tmp_path: Path) -> None:
    now = read_memory(write(tmp_path, V2))
    assert now is not None
    assert now.total == 4 * GIB
    assert now.available == 4 * GIB - (3 * GIB - 512 * MIB - 128 * MIB)
    assert now.pressure == 12.5
    assert "user.slice" in now.limited_by


def test_version_1(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:memory:/job\n0::/\n",
        "proc/self/mountinfo": "1 1 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/memory/job/memory.stat": f"cache 1\ntotal_inactive_file {100 * MIB}\n",
    }
    now = read_memory(write(tmp_path, files))
    assert now is not None
    assert (now.total, now.available) == (2 * GIB, GIB + 100 * MIB)


def test_a_container_that_sees_only_its_own_root(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/../../docker/abc\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        "sys/fs/cgroup/memory.max": f"{GIB}\n",
        "sys/fs/cgroup/memory.current": f"{GIB // 2}\n",
    }
    now = read_memory(write(tmp_path, files))
    assert now is not None
    assert now.available == GIB // 2


def test_a_machine_with_less_than_its_group_allows(tmp_path: Path) -> None:
    files = {**V2, "proc/meminfo": MEMINFO.replace("8388608", "524288")}
    now = read_memory(write(tmp_path, files))
    assert now is not None
    assert now.available == 512 * MIB
    assert now.limited_by == "machine"


def test_nothing_to_read_is_none(tmp_path: Path) -> None:
    assert read_memory(tmp_path) is None


def test_this_machine() -> None:
    now = read_memory()
    assert now is not None
    assert 0 < now.available <= now.total


def test_a_kernel_that_does_not_say_what_is_available(tmp_path: Path) -> None:
    old = "MemTotal: 1000 kB\nMemFree: 300 kB\nCached: 200 kB\n"
    now = read_memory(write(tmp_path / "a", {"proc/meminfo": old}))
    assert now is not None and now.available == 500 * 1024
    bare = read_memory(write(tmp_path / "b", {"proc/meminfo": "MemTotal: 1000 kB\n"}))
    assert bare is not None and bare.available == 0


def test_elsewhere_than_on_linux_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=8, available=3))
    monkeypatch.setattr(sys, "platform", "darwin")
    now = read_memory()
    assert now is not None and (now.total, now.available, now.limited_by, now.pressure) == (8, 3, "machine", 0.0)


def test_where_nothing_says_what_is_available_free_and_cached_count(tmp_path: Path) -> None:
    old = "MemTotal: 100 kB\nMemFree: 20 kB\nCached: 30 kB\n"
    now = read_memory(write(tmp_path, {"proc/meminfo": old, "proc/pressure/memory": "some avg10=2.5 avg60=1\n"}))
    assert now is not None and (now.available, now.pressure) == (50 << 10, 2.5)
    assert read_memory(tmp_path / "none") is None


def test_a_group_that_goes_while_memory_is_read_counts_no_more(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n",
        "proc/self/cgroup": "0::/build\n",
        "sys/fs/cgroup/build/memory.max": f"{1 << 30}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = memory.read_memory(tmp_path)
    assert before is not None and (before.total, before.available) == (1 << 30, 1 << 30)
    (tmp_path / "sys/fs/cgroup/build/memory.max").write_text("max\n")
    after = memory.read_memory(tmp_path)
    assert after is not None and (after.total, after.limited_by) == (16 << 30, "machine")
