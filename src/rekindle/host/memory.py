"""How much memory is really free for compilers: the machine's, the control group's, and the pressure on it. A container
sees the machine's MemAvailable but dies at its control group's limit: both versions of control groups are read, at
every level up to the root, and the tightest counts. Page cache is free memory in disguise."""

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rekindle.host.text import key_values, memory_sizes, text_of

Read = Callable[[str], bytes | None]
# cgroup v1 says "no limit" as a page-rounded LONG_MAX; nothing real comes near.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, kw_only=True)
class MemoryNow:
    """Bytes. ``pressure`` is the share of time (percent, last ten seconds) in which something waited for memory."""

    total: int
    available: int
    limited_by: str
    pressure: float = 0.0


def read_memory(fs: Path = Path("/")) -> MemoryNow | None:
    """The tightest of machine and control groups; None where nothing can be read."""
    if sys.platform != "linux" and fs == Path("/"):
        import psutil

        seen = psutil.virtual_memory()
        return MemoryNow(total=seen.total, available=seen.available, limited_by="machine")
    read = _reader(fs)
    values = memory_sizes(read("/proc/meminfo"))
    if "MemTotal" not in values:
        return None
    free = values.get("MemAvailable", values.get("MemFree", 0) + values.get("Cached", 0))
    pressure = _pressure(read("/proc/pressure/memory"))
    machine = MemoryNow(total=values["MemTotal"], available=free, limited_by="machine", pressure=pressure)
    levels = [machine, *_limits(fs)]
    tightest = min(levels, key=lambda memory: memory.available)
    pressure = max(memory.pressure for memory in levels)
    return replace(tightest, total=min(memory.total for memory in levels), pressure=pressure)


@functools.lru_cache(maxsize=8)
def _group_levels(fs: Path) -> tuple[tuple[int, str], ...]:
    """The groups that set a limit, found once: a process does not change its control group while it builds."""
    read = _reader(fs)
    return tuple(group for group in groups_of(read, "memory") if memory_limit(read, *group) is not None)


def _limits(fs: Path) -> Iterator[MemoryNow]:
    read = _reader(fs)
    for version, place in _group_levels(fs):
        if (limit := memory_limit(read, version, place)) is None:
            continue
        name, prefix = ("memory.current", "") if version == 2 else ("memory.usage_in_bytes", "total_")
        count, counts = text_of(read(f"{place}/{name}")).strip(), key_values(text_of(read(f"{place}/memory.stat")), " ")
        inactive, active = (int(counts.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
        # File pages can be dropped; of the recently used ones count half, since dropping them costs time.
        used = (int(count) if count.isdigit() else 0) - (inactive + active // 2)
        group, pressure = f"control group {fs / place.lstrip('/')}", _pressure(read(f"{place}/memory.pressure"))
        yield MemoryNow(total=limit, available=max(0, limit - used), limited_by=group, pressure=pressure)


def _reader(fs: Path) -> Read:
    def read(path: str) -> bytes | None:
        with contextlib.suppress(OSError):
            return (fs / path.lstrip("/")).read_bytes()
        return None

    return read


def _pressure(raw: bytes | None) -> float:
    share = re.match(r"some .*?\bavg10=([\d.]+)", text_of(raw))
    return float(share[1]) if share else 0.0


def groups_of(read: Read, controller: str) -> Iterator[tuple[int, str]]:
    """Version and directory of every group whose limit of ``controller`` (memory, cpu) holds for this process."""
    mounts = _mounts(read)
    for line in text_of(read("/proc/self/cgroup")).splitlines():
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
        parts = [part for part in below.split("/") if part and part != ".."]
        for count in range(len(parts), -1, -1):
            yield version, "/".join([root.rstrip("/"), *parts[:count]])


def memory_limit(read: Read, version: int, place: str) -> int | None:
    """What this one group allows, in bytes; None where it sets no limit."""
    names = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
    limits = [int(text) for name in names if (text := text_of(read(f"{place}/{name}")).strip()).isdigit()]
    return min((value for value in limits if value < _NO_LIMIT), default=None)


def _mounts(read: Read) -> dict[str, tuple[str, str]]:
    """Controller ("" for the unified tree) → where it is mounted, and which part of it is the mounted root."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in text_of(read("/proc/self/mountinfo")).splitlines():
        left, mark, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not mark or len(fields) < 5 or not kind:
            continue
        place = fields[4].replace("\\040", " ")
        if kind[0] == "cgroup2":
            mounts.setdefault("", (place, fields[3]))
        elif kind[0] == "cgroup":
            for name in kind[-1].split(","):
                mounts.setdefault(name, (place, fields[3]))
    return mounts
