"""Memory and disk by the operating system's own calls."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

from rekindle.host.protocol import Disk, Memory


def read_memory() -> Memory | None:
    if sys.platform == "win32":
        return _windows_memory()  # type: ignore[unreachable,unused-ignore]
    try:
        import psutil

        virtual, swap = psutil.virtual_memory(), psutil.swap_memory()
    except (OSError, RuntimeError, NotImplementedError, ImportError):
        return None
    return Memory(total=virtual.total, available=virtual.available, swap=swap.total)


def read_cores() -> int | None:
    try:
        import psutil

        return int(psutil.cpu_count(logical=False) or 0) or None
    except (OSError, RuntimeError, NotImplementedError, ImportError):
        return None


def read_hwcap() -> tuple[int, int] | None:
    """AT_HWCAP and AT_HWCAP2 (elf.h: 16 and 26) of this process: under emulation, the emulated processor's."""
    if sys.platform != "linux":
        return None
    try:
        ask = ctypes.CDLL(None).getauxval
    except (OSError, AttributeError):
        return None
    ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
    return int(ask(16)), int(ask(26))


def read_disk(path: str) -> Disk | None:
    place = Path(path)
    while True:
        try:
            usage = shutil.disk_usage(place)
        except OSError:
            if place.parent == place:
                return None
            place = place.parent
        else:
            return Disk(total=usage.total, free=usage.free, device=place.stat().st_dev)


class _MemoryStatus(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("total", "available", "page_total", "page_available", "virtual")),
        ("virtual_available", ctypes.c_uint64),
        ("extended", ctypes.c_uint64),
    ]


def _windows_memory() -> Memory | None:
    from rekindle.host.windows_job import JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ExtendedLimits

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    status = _MemoryStatus()
    status.length = ctypes.sizeof(status)
    if not kernel.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    limits = ExtendedLimits()
    job = None
    # A null handle asks about the job this process runs in.
    kind, size = JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.sizeof(limits)
    if kernel.QueryInformationJobObject(None, kind, ctypes.byref(limits), size, None):
        flags = limits.BasicLimitInformation.LimitFlags
        known = [limits.ProcessMemoryLimit] * bool(flags & 0x100) + [limits.JobMemoryLimit] * bool(flags & 0x200)
        job = min(known, default=None)
    return Memory(
        total=status.total,
        available=status.available,
        swap=max(0, status.page_total - status.total),
        commit_limit=status.page_total,
        job_limit=job,
    )
