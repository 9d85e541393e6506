"""Control groups as kernels write them: both versions, nested, mounted elsewhere, half of them missing."""

from __future__ import annotations

import pytest

from rekindle.host.memory import groups_of, memory_limit


def groups(files: dict[str, str], controller: str = "memory") -> list[tuple[int, str]]:
    return list(groups_of(lambda path: files[path].encode() if path in files else None, controller))


def limit(version: int, **files: str) -> int | None:
    named = {f"/g/{name.replace('__', '.')}": text for name, text in files.items()}
    return memory_limit(lambda path: named[path].encode() if path in named else None, version, "/g")


def test_from_the_own_group_up_to_the_root() -> None:
    assert groups({"/proc/self/cgroup": "0::/a/b\n"}) == [
        (2, "/sys/fs/cgroup/a/b"),
        (2, "/sys/fs/cgroup/a"),
        (2, "/sys/fs/cgroup"),
    ]


def test_only_the_hierarchy_with_the_controller_counts() -> None:
    text = "5:cpu,cpuacct:/x\n4:memory:/y\n1:name=systemd:/z\n"
    assert groups({"/proc/self/cgroup": text}) == [(1, "/sys/fs/cgroup/memory/y"), (1, "/sys/fs/cgroup/memory")]
    assert groups({"/proc/self/cgroup": text}, "cpu") == [(1, "/sys/fs/cgroup/cpu/x"), (1, "/sys/fs/cgroup/cpu")]


def test_a_mounted_part_of_the_tree_is_the_root_here() -> None:
    """A container sees its own group mounted as the root, under a path with a space."""
    files = {
        "/proc/self/cgroup": "0::/docker/abc/inner\n",
        "/proc/self/mountinfo": "30 23 0:26 /docker/abc /mnt/my\\040cg rw - cgroup2 cgroup2 rw\nnonsense\n",
    }
    assert groups(files) == [(2, "/mnt/my cg/inner"), (2, "/mnt/my cg")]


@pytest.mark.parametrize("path", ["/../../outside", "/elsewhere"])
def test_a_path_from_outside_leaves_the_mounted_root(path: str) -> None:
    mount = "30 23 0:26 /docker/abc /cg rw - cgroup2 cgroup2 rw\n"
    found = groups({"/proc/self/cgroup": f"0::{path}\n", "/proc/self/mountinfo": mount})
    assert found == [(2, "/cg")]


def test_nothing_to_read_is_no_group() -> None:
    assert groups({}) == []


def test_the_lower_of_max_and_high_counts() -> None:
    assert limit(2, memory__max="200\n", memory__high="100\n") == 100
    assert limit(2, memory__max="100\n", memory__high="200\n") == 100
    assert limit(2, memory__max="max\n", memory__high="300\n") == 300
    assert limit(2, memory__max="300\n", memory__high="max\n") == 300
    assert limit(2, memory__max="max\n", memory__high="max\n") is None
    assert limit(2) is None


def test_version_1_has_one_limit_and_a_number_for_none() -> None:
    assert limit(1, memory__limit_in_bytes=f"{(1 << 60) - 1}\n") == (1 << 60) - 1
    assert limit(1, memory__limit_in_bytes=f"{1 << 60}\n") is None
    assert limit(1, memory__max="5\n") is None
