"""Windows: a process inside a job object that dies, with all its children, when its last handle closes. The handle is
ours alone, so the kernel ends the whole tree when Rekindle ends, however it ends."""

import ctypes
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.host.processes import spawn

JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x2000
CREATE_SUSPENDED, CREATE_NEW_PROCESS_GROUP = 0x4, 0x200


class _BasicLimits(ctypes.Structure):
    _fields_ = [
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    ]


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION (winnt.h)."""

    _fields_ = [
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    ]


def start_in_job(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> "tuple[subprocess.Popen[bytes], JobObject]":
    """Start suspended, put into the job, then let run: no child can slip out before the job holds it."""
    kernel = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009 (absent elsewhere)
    kernel.CreateJobObjectW.restype = ctypes.c_void_p
    job = kernel.CreateJobObjectW(None, None)
    limits = ExtendedLimits()
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
    if not job or not kernel.SetInformationJobObject(
        ctypes.c_void_p(job), JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
    ):
        raise OSError("Windows gave no job object, so nothing would end what a build leaves behind")
    try:
        process = spawn(argv, env, cwd, creationflags=CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP)
    except BaseException:
        kernel.CloseHandle(ctypes.c_void_p(job))
        raise
    handle = ctypes.c_void_p(int(process._handle))  # type: ignore[attr-defined]
    if not kernel.AssignProcessToJobObject(ctypes.c_void_p(job), handle):
        process.kill()
        raise OSError("the build's process could not be put into a job object")
    getattr(ctypes, "WinDLL")("ntdll").NtResumeProcess(handle)  # noqa: B009
    return process, JobObject(job, process, kernel)


class JobObject:
    """What the command leaves behind ends with it: it may hold the other side of the pipe that is read to its end."""

    def __init__(self, handle: int, process: subprocess.Popen[bytes], kernel: Any) -> None:
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p(handle)
        self._kernel = kernel
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self.terminate()

    def terminate(self) -> None:
        """Everything in it ends now; the first call counts."""
        with self._lock:
            if self._handle is not None:
                self._kernel.TerminateJobObject(self._handle, 1)
                self._kernel.CloseHandle(self._handle)
                self._handle = None
