"""How much memory, how many processors and how much disk this process may really use.

The smallest of the machine, its container and its job counts. A container's limits are files: cgroup v2 ``memory.max``
and ``memory.high``, cgroup v1 ``memory.limit_in_bytes``, at every level from the process's own group up to the root
that is mounted here.
"""

import re

import msgspec

from rekindle.host.asking import Asking
from rekindle.host.memory import groups_of, memory_limit
from rekindle.host.text import memory_sizes, text_of
from rekindle.model.machine import Volume
from rekindle.model.spoken import gib


class MemoryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes; ``limited_by`` names what leaves less than the machine has."""

    usable: int | None = None
    physical: int | None = None
    swap: int | None = None
    limited_by: str | None = None


def probe_memory(host: Asking) -> MemoryLimits:
    is_linux = host.system == "linux"
    meminfo = memory_sizes(host.read("/proc/meminfo")) if is_linux else {}
    physical, swap = meminfo.get("MemTotal"), meminfo.get("SwapTotal")
    limits: list[tuple[int | None, str | None]] = []
    if physical is None and (memory := host.memory()) is not None:
        physical, swap = memory.total, memory.swap
        limits += [(memory.job_limit, "job object"), (memory.commit_limit, "commit limit")]
    elif physical is None:
        host.gap("memory", "the system did not say")
    for version, place in groups_of(host.read, "memory") if is_linux else ():
        limits.append((memory_limit(host.read, version, place), f"cgroup v{version}"))
    # The smallest one, and what said so where it is not the machine itself.
    known = [(size, name) for size, name in ((physical, None), *limits) if size is not None]
    usable, why = min(known, key=lambda limit: limit[0], default=(None, None))
    return MemoryLimits(usable=usable, physical=physical, swap=swap, limited_by=why)


def allowed_processors(host: Asking) -> float | None:
    """The smallest of quota and affinity; None where nothing limits or nobody says (Windows)."""
    if host.system != "linux":
        return None
    limits: list[float] = []
    for version, place in groups_of(host.read, "cpu"):
        if version == 2:
            words = text_of(host.read(f"{place}/cpu.max")).split()
        else:
            words = [text_of(host.read(f"{place}/cpu.cfs_{name}_us")).strip() for name in ("quota", "period")]
        # "max" (v2) and -1 (v1) mean: no limit.
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
            limits.append(round(int(words[0]) / int(words[1]), 2))
    match = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)", text_of(host.read("/proc/self/status")), re.MULTILINE)
    spans = [part.split("-") for part in match[1].split(",")] if match else []
    affinity = sum(int(span[-1]) - int(span[0]) + 1 for span in spans if len(span) < 3 and all(map(str.isdigit, span)))
    if affinity > 0:
        limits.append(float(affinity))
    return min(limits, default=None)


def probe_disks(host: Asking, *, workspace: str) -> tuple[Volume, ...]:
    """Free space where builds happen, and where compilers put their temporary files."""
    variable, usual = ("TEMP", r"C:\Windows\Temp") if host.system == "windows" else ("TMPDIR", "/tmp")  # noqa: S108
    volumes = []
    for purpose, path in (("workspace", workspace), ("temporary files", host.env.get(variable) or usual)):
        disk = host.disk(path)
        if disk is None:
            host.gap(f"disk space for {purpose}", f"{path} did not answer")
        else:
            volumes.append(Volume(purpose=purpose, path=path, free_gib=gib(disk.free) or 0.0))
    return tuple(volumes)
