"""The control groups this process is in, from its own up to the root that is mounted here (v1 and v2)."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.doctor.probing import Asking
from rekindle.doctor.text import lines_of


def groups_of(host: Asking, controller: str) -> Iterator[tuple[int, str]]:
    """Version and directory of every group whose limit of ``controller`` (memory, cpu) holds for this process."""
    mounts = _mounts(host)
    for line in lines_of(host.read("/proc/self/cgroup")):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            version, key, default = 2, "", "/sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, key, default = 1, controller, f"/sys/fs/cgroup/{controller}"
        else:
            continue
        root, inside = mounts.get(key, (default, "/"))
        # Inside a container the path may be the one outside; then only the mounted root is ours to read.
        below = path.removeprefix(inside.rstrip("/")) if path.startswith(inside) else ""
        for place in _upwards(root, below):
            yield version, place


def _upwards(root: str, below: str) -> list[str]:
    parts = [part for part in below.split("/") if part and part != ".."]
    return ["/".join([root.rstrip("/"), *parts[:count]]) for count in range(len(parts), -1, -1)]


def _mounts(host: Asking) -> dict[str, tuple[str, str]]:
    """Controller ("" for the unified tree) → where it is mounted, and which part of it is the mounted root."""
    found: dict[str, tuple[str, str]] = {}
    for line in lines_of(host.read("/proc/self/mountinfo")):
        left, mark, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not mark or len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("", (fields[4], fields[3]))
        elif kind[0] == "cgroup":
            for name in kind[-1].split(","):
                found.setdefault(name, (fields[4], fields[3]))
    return found
