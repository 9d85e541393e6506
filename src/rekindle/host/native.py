"""Memory by the operating system's own calls."""

from __future__ import annotations

import ctypes
import sys

from msgspec.structs import replace

from rekindle.host.protocol import Memory


def read_memory() -> Memory | None:
    """What there is, and on Windows what may be promised: to all programs together, and to the job we run in."""
    try:
        import psutil

        virtual, swap = psutil.virtual_memory(), psutil.swap_memory()
    except (OSError, RuntimeError, NotImplementedError, ImportError):
        return None
    memory = Memory(total=virtual.total, available=virtual.available, swap=swap.total)
    if sys.platform != "win32":
        return memory
    # psutil's swap is what Windows promises beyond the physical memory.
    return replace(memory, commit_limit=virtual.total + swap.total, job_limit=_job_limit())  # type: ignore[unreachable,unused-ignore]


def _job_limit() -> int | None:
    from rekindle.host.windows_job import JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ExtendedLimits

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    limits = ExtendedLimits()
    # A null handle asks about the job this process runs in.
    kind, size = JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.sizeof(limits)
    if not kernel.QueryInformationJobObject(None, kind, ctypes.byref(limits), size, None):
        return None
    flags = limits.BasicLimitInformation.LimitFlags
    known = [limits.ProcessMemoryLimit] * bool(flags & 0x100) + [limits.JobMemoryLimit] * bool(flags & 0x200)
    return min(known, default=None)
