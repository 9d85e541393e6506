"""How much memory is really free for compilers: the machine's, the control group's, and the pressure on it.

A container sees the machine's MemAvailable but dies at its control group's limit; both versions of control
groups are read, at every level up to the root, and the tightest counts. Page cache is free memory in disguise.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

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
    machine = _meminfo(fs)
    if machine is None:
        return None
    groups = [group for group in (_version_2(fs), _version_1(fs)) if group]
    tightest = min([machine, *groups], key=lambda memory: memory.available)
    return MemoryNow(
        total=min(memory.total for memory in [machine, *groups]),
        available=tightest.available,
        limited_by=tightest.limited_by,
        pressure=max(memory.pressure for memory in [machine, *groups]),
    )


def _meminfo(fs: Path) -> MemoryNow | None:
    values = {}
    for line in _text(fs / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if rest.split():
            values[name] = int(rest.split()[0]) * 1024
    if "MemTotal" not in values:
        return None
    free = values.get("MemAvailable", values.get("MemFree", 0) + values.get("Cached", 0))
    pressure = _pressure(_text(fs / "proc/pressure/memory"))
    return MemoryNow(total=values["MemTotal"], available=free, limited_by="machine", pressure=pressure)


@functools.lru_cache(maxsize=8)
def _group_levels(fs: Path, version: int) -> tuple[Path, ...]:
    """The folders to read, found once: a process does not change its control group while it builds."""
    name, kind, option = ("", "cgroup2", "") if version == 2 else ("memory", "cgroup", "memory")
    path, mount = _groups(fs).get(name), _mount(fs, kind, option)
    if path is None or mount is None:
        return ()
    limits = ("memory.max", "memory.high") if version == 2 else ("memory.limit_in_bytes",)
    return tuple(level for level in _levels(mount, path) if any((level / limit).exists() for limit in limits))


def _groups(fs: Path) -> dict[str, str]:
    """Controller → path of our group; the unified hierarchy has the empty name."""
    found = {}
    for line in _text(fs / "proc/self/cgroup").splitlines():
        _, controllers, path = ([*line.split(":", 2), "", ""])[:3]
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _mount(fs: Path, kind: str, option: str) -> Path | None:
    """Where a hierarchy is mounted, from /proc/self/mountinfo."""
    for line in _text(fs / "proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, after = left.split(), right.split()
        if len(fields) < 5 or len(after) < 3 or after[0] != kind:
            continue
        if not option or option in after[2].split(","):
            return fs / fields[4].replace("\\040", " ").lstrip("/")
    return None


def _levels(mount: Path, path: str) -> list[Path]:
    """Our group and every one above it. Inside a container the path may not exist: then the mount is ours."""
    place = mount / path.lstrip("/")
    if ".." in Path(path).parts or not place.is_dir():
        return [mount]
    return [place, *(parent for parent in place.parents if parent == mount or mount in parent.parents)]


def _version_2(fs: Path) -> MemoryNow | None:
    tightest = None
    for level in _group_levels(fs, 2):
        limit = min(_number(level / "memory.max"), _number(level / "memory.high"))
        if limit >= _NO_LIMIT:
            continue
        used = _number(level / "memory.current", missing=0) - _reclaimable(level, "")
        now = MemoryNow(
            total=limit,
            available=max(0, limit - used),
            limited_by=f"control group {level}",
            pressure=_pressure(_text(level / "memory.pressure")),
        )
        tightest = now if tightest is None or now.available < tightest.available else tightest
    return tightest


def _version_1(fs: Path) -> MemoryNow | None:
    tightest = None
    for level in _group_levels(fs, 1):
        limit = _number(level / "memory.limit_in_bytes")
        if limit >= _NO_LIMIT:
            continue
        used = _number(level / "memory.usage_in_bytes", missing=0) - _reclaimable(level, "total_")
        now = MemoryNow(total=limit, available=max(0, limit - used), limited_by=f"control group {level}")
        tightest = now if tightest is None or now.available < tightest.available else tightest
    return tightest


def _reclaimable(level: Path, prefix: str) -> int:
    """File pages can be dropped; of the recently used ones count half, since dropping them costs time."""
    stat = dict(line.split(" ", 1) for line in _text(level / "memory.stat").splitlines() if " " in line)
    inactive, active = (int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("inactive", "active"))
    return inactive + active // 2


def _pressure(text: str) -> float:
    for word in text.split("\n", 1)[0].split():
        if word.startswith("avg10="):
            return float(word[6:])
    return 0.0


def _number(path: Path, *, missing: int = _NO_LIMIT) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else missing


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
