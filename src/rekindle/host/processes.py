"""Starting a process, and a process tree at one moment, cheaply: who belongs to whom, how large, running what. Read a
few times a second while a build runs, so on Linux straight from /proc; the rest through psutil."""

import contextlib
import functools
import mmap
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil


@dataclass(frozen=True, slots=True)
class Proc:
    """``started`` orders processes by age (clock ticks or seconds); ``rss`` is resident bytes now."""

    pid: int
    parent: int
    name: str
    started: float
    rss: int
    stopped: bool = False


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None = None, **more: Any) -> subprocess.Popen[bytes]:
    """Start a program that gets nothing to read; unless ``more`` says otherwise, all it says is heard together."""
    streams = {"stdin": DEVNULL, "stdout": PIPE, "stderr": STDOUT, **more}
    return subprocess.Popen(list(argv), cwd=cwd, env=dict(env), **streams)


def tree_of(root: int) -> list[Proc]:
    """Every process below ``root``, as it is now."""
    first = _children(str(root)) if sys.platform == "linux" else None
    if first is None:
        return _tree_by_psutil(root)
    # From the root downwards: a build has tens of processes, a machine hundreds.
    processes: list[Proc] = []
    waiting = first
    while waiting:
        pid = waiting.pop()
        if process := _read_process(pid):
            processes.append(process)
        waiting += _children(pid) or ()
    return processes


def below(root: int, children: dict[int, list[Proc]]) -> list[Proc]:
    """All that descend from ``root``, by the table of :func:`by_parent`."""
    processes = list(children.get(root, ()))
    for process in processes:
        processes += children.get(process.pid, ())  # grows while it is walked
    return processes


def by_parent(processes: list[Proc]) -> dict[int, list[Proc]]:
    """The children of each process."""
    children: dict[int, list[Proc]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    return children


def _read_process(pid: str, proc: str = "/proc") -> Proc | None:
    try:
        # Plain strings, no buffer: this runs for every process of the machine, four times a second.
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            stat = file.read(1024) or b""
    except OSError:
        return None
    head, closed, rest = stat.rpartition(b")")
    fields = rest.split()
    if not closed or len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return Proc(int(pid), int(fields[1]), name, float(fields[19]), int(fields[21]) * mmap.PAGESIZE, fields[0] == b"T")


def _children(pid: str) -> list[str] | None:
    """The kernel's own lists of a process's children, one per thread; None where it was built without them."""
    children: list[str] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123 (as above)
                children += file.read().decode().split()
    except OSError:
        return None
    return children


def name_of(process: "psutil.Process") -> str:
    """Empty where the system does not say it: that must not hide the process."""
    with contextlib.suppress(OSError):
        return str(process.name())
    return ""


def _tree_by_psutil(root: int) -> list[Proc]:
    import psutil

    processes = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(root).children(recursive=True):
            with contextlib.suppress(psutil.Error), child.oneshot():
                rss, begun = child.memory_info().rss, child.create_time()
                stopped = child.status() == psutil.STATUS_STOPPED
                processes.append(Proc(child.pid, child.ppid(), name_of(child), begun, rss, stopped))
    return processes


def peak_rss(pid: int) -> int:
    """The most a process ever had resident (VmHWM), or 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def cores() -> int:
    """Cores this process may use, not those the machine has."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()) or 1


def process_mark(pid: int) -> str | None:
    """What tells a process of Linux from others of its number: the system's start and its own; None once it is gone."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{process.started:.0f}" if (process := _read_process(str(pid))) else None
    return None


def command_line(pid: int) -> list[str]:
    """The words it was started with; empty where it is gone or not ours to see."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return list(psutil.Process(pid).cmdline())
    return []


def _call_each(method: str, pids: list[int]) -> None:
    import psutil

    for pid in pids:
        with contextlib.suppress(psutil.Error):
            getattr(psutil.Process(pid), method)()


# A paused process keeps its memory, which grows no more.
pause, go_on, kill = (functools.partial(_call_each, method) for method in ("suspend", "resume", "kill"))


def prefer_as_victim(pid: int) -> None:
    """Should the kernel have to kill someone, let it be a compiler, which can be retried, not Ninja or us."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("800", encoding="ascii")


def processes_of(folder: Path) -> list[Proc]:
    """Programs that were started from inside a folder, by whatever way; ours and what started us left out."""
    import psutil

    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    processes = []
    for process in (each for each in psutil.process_iter() if each.pid not in ours):
        with contextlib.suppress(psutil.Error, OSError):
            words = process.cmdline()[:1]
            # The interpreter of an environment is a link: only how it was called tells whose it is.
            called = [Path(process.cwd()) / word for word in words if "/" in word or "\\" in word]
            if any(Path(os.path.normpath(path)).is_relative_to(folder) for path in (*called, Path(process.exe()))):
                processes.append(Proc(process.pid, process.ppid(), name_of(process), process.create_time(), 0))
    return processes
