"""The control groups this process is in, from its own up to the root that is mounted here (v1 and v2).

Everything is read through a function, so that a recorded machine answers like a live one. ``memory.max`` kills,
``memory.high`` slows down until nothing moves: for what a process may use, the lower of the two counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rekindle.host.text import lines_of, text_of

Read = Callable[[str], bytes | None]
# cgroup v1 says "no limit" as a page-rounded LONG_MAX; nothing real comes near.
_NO_LIMIT = 1 << 60


def groups_of(read: Read, controller: str) -> Iterator[tuple[int, str]]:
    """Version and directory of every group whose limit of ``controller`` (memory, cpu) holds for this process."""
    mounts = _mounts(read)
    for line in lines_of(read("/proc/self/cgroup")):
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


def memory_limit(read: Read, version: int, place: str) -> int | None:
    """What this one group allows, in bytes; None where it sets no limit."""
    names = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
    found = [int(text) for name in names if (text := text_of(read(f"{place}/{name}")).strip()).isdigit()]
    return min((value for value in found if value < _NO_LIMIT), default=None)


def _upwards(root: str, below: str) -> list[str]:
    parts = [part for part in below.split("/") if part and part != ".."]
    return ["/".join([root.rstrip("/"), *parts[:count]]) for count in range(len(parts), -1, -1)]


def _mounts(read: Read) -> dict[str, tuple[str, str]]:
    """Controller ("" for the unified tree) → where it is mounted, and which part of it is the mounted root."""
    found: dict[str, tuple[str, str]] = {}
    for line in lines_of(read("/proc/self/mountinfo")):
        left, mark, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not mark or len(fields) < 5 or not kind:
            continue
        place = fields[4].replace("\\040", " ")
        if kind[0] == "cgroup2":
            found.setdefault("", (place, fields[3]))
        elif kind[0] == "cgroup":
            for name in kind[-1].split(","):
                found.setdefault(name, (place, fields[3]))
    return found
