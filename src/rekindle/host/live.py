"""The machine this process runs on; short commands with a hard end; and the question scripts: standard Python, sent as
text to any interpreter, each answered by one line of JSON.

At its deadline a command dies with all its children. Output is bounded in memory and decoded however the tool wrote it:
a tool that floods, hangs, forks or speaks another code page costs its own answer alone.
"""

import atexit
import contextlib
import glob
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

from msgspec.structs import replace

from rekindle.host.files import read_head
from rekindle.host.processes import spawn
from rekindle.host.protocol import Completed, Cpuid, Disk, Host, Memory, RegistryKey
from rekindle.host.text import last_line
from rekindle.model.machine import cpu_arch

_MAX_ENTRIES = 512
_SYSTEMS = {"linux": "linux", "win32": "windows", "darwin": "macos"}
_SCRIPTS = Path(__file__).parent / "questions"
MAX_OUTPUT_BYTES = 4 << 20
# How long a killed group may take to close its pipes before we walk away from it: it may be stuck in the kernel.
_GRACE_S = 0.2
# What runs now. A thread that is given up at a deadline must not leave its process behind.
_running: set[subprocess.Popen[bytes]] = set()


class LiveHost:
    """Satisfies :class:`rekindle.host.protocol.Host` with the real thing."""

    env: Mapping[str, str] = os.environ

    @property
    def system(self) -> str:
        return _SYSTEMS.get(sys.platform, sys.platform)

    @property
    def machine(self) -> str:
        """Of this process: under emulation, the emulated one."""
        return cpu_arch(platform.machine())

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        """Run to the end or to the deadline; never raises for what the command does."""
        # Tools speak the user's language unless told otherwise, and we read their words.
        settings = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **(env or {})}
        try:
            flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
            process = spawn(argv, settings, stderr=PIPE, start_new_session=True, creationflags=flags)
        except (OSError, ValueError) as error:
            return Completed(argv=tuple(argv), code=None, err=str(error))
        _running.add(process)
        assert process.stdout is not None and process.stderr is not None
        (out, out_drain), (err, err_drain) = _drain(process.stdout), _drain(process.stderr)
        timed_out = False
        try:
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                kill_group(process)
            # A tool may leave a daemon behind that holds its pipes open (ccache, adb): do not wait for it.
            out_drain.join(_GRACE_S)
            err_drain.join(_GRACE_S)
        except BaseException:
            kill_group(process)
            raise
        finally:
            _running.discard(process)
        code, said, complaint = None if timed_out else process.returncode, decode(bytes(out)), decode(bytes(err))
        return Completed(argv=tuple(argv), code=code, out=said, err=complaint, timed_out=timed_out)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        with contextlib.suppress(OSError):
            return read_head(Path(path), limit)
        return None

    def glob(self, pattern: str) -> tuple[str, ...]:
        """With Python's own rules: a star matches no hidden name."""
        return tuple(sorted(glob.glob(pattern)))  # noqa: PTH207 (patterns are absolute, with several stars)

    def which(self, name: str) -> str | None:
        return shutil.which(name)

    def which_all(self, name: str) -> tuple[str, ...]:
        """The first of each folder on PATH."""
        places = filter(None, os.environ.get("PATH", os.defpath).split(os.pathsep))
        found = ((place, shutil.which(name, path=place)) for place in places)
        # On Windows the current directory is searched too; what lies there is no installation.
        paths = dict.fromkeys(path for place, path in found if path and Path(path).parent == Path(place))
        # Windows seldom has Python on PATH (the py launcher, embedded ones); the one that runs us is there.
        return tuple(paths) or ((sys.executable,) if name == "python" and sys.executable else ())

    def realpath(self, path: str) -> str:
        return os.path.realpath(path)

    def access(self, path: str) -> bool | None:
        return os.access(path, os.R_OK | os.W_OK) if os.path.exists(path) else None  # noqa: PTH110 (may be a device)

    def hwcap(self) -> tuple[int, int] | None:
        """AT_HWCAP and AT_HWCAP2 (elf.h: 16 and 26) of this process: under emulation, the emulated processor's."""
        import ctypes

        if sys.platform != "linux":
            return None
        try:
            ask = ctypes.CDLL(None).getauxval
        except (OSError, AttributeError):
            return None
        ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return int(ask(16)), int(ask(26))

    def disk(self, path: str) -> Disk | None:
        """Of the nearest folder above it that is there."""
        for place in (Path(path), *Path(path).parents):
            with contextlib.suppress(OSError):
                usage = shutil.disk_usage(place)
                return Disk(total=usage.total, free=usage.free, device=place.stat().st_dev)
        return None

    def memory(self) -> Memory | None:
        """What there is, and on Windows what may be promised: to all programs together, and to the job we run in."""
        try:
            import psutil

            virtual = psutil.virtual_memory()
        except (OSError, RuntimeError, NotImplementedError, ImportError):
            return None
        memory = Memory(total=virtual.total, available=virtual.available)
        # Windows answers this by performance counters, which may be switched off.
        with contextlib.suppress(OSError, RuntimeError, NotImplementedError):
            memory = replace(memory, swap=psutil.swap_memory().total)
        if sys.platform != "win32":
            return memory
        # psutil's swap is what Windows promises beyond the physical memory.
        limit = None if memory.swap is None else memory.total + memory.swap  # type: ignore[unreachable,unused-ignore]
        return replace(memory, commit_limit=limit, job_limit=_job_limit())

    def cores(self) -> int | None:
        """Counted by psutil, which some systems give no answer."""
        with contextlib.suppress(OSError, RuntimeError, NotImplementedError, ImportError):
            import psutil

            return int(psutil.cpu_count(logical=False) or 0) or None
        return None

    def cpuid(self) -> Cpuid | None:
        from rekindle.host.cpuid import read_cpuid

        return read_cpuid()

    def registry(self, key: str) -> RegistryKey | None:
        r"""``HKLM\…`` or ``HKCU\…`` in the 64-bit view; None where the key is missing or may not be read."""
        if sys.platform != "win32":
            return None
        import winreg  # type: ignore[unreachable,unused-ignore]

        roots = {"HKLM": winreg.HKEY_LOCAL_MACHINE, "HKCU": winreg.HKEY_CURRENT_USER}
        root, _, path = key.partition("\\")
        values: dict[str, str | int] = {}
        try:
            with winreg.OpenKey(roots[root], path, 0, winreg.KEY_READ | winreg.KEY_WOW64_64KEY) as handle:
                subkeys, entries, _ = winreg.QueryInfoKey(handle)
                for number in range(min(entries, _MAX_ENTRIES)):
                    name, value, _ = winreg.EnumValue(handle, number)
                    if isinstance(value, (str, int)):
                        values[name] = value
                    elif isinstance(value, list):
                        values[name] = "\n".join(map(str, value))
                keys = tuple(winreg.EnumKey(handle, number) for number in range(min(subkeys, _MAX_ENTRIES)))
        except OSError:
            return None
        return RegistryKey(values=values, keys=keys)

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        """Asked in a process of its own: a driver half updated may hang in the kernel or crash the caller."""
        return self._ask(sys.executable, "nvml", timeout)

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self._ask(path, "python", timeout)

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        return self._ask(path, "torch", timeout, deep=deep)

    def _ask(self, python: str, question: str, timeout: float, *, deep: bool = False) -> Mapping[str, Any] | None:
        """Run one of the question scripts in a Python and read its one line of JSON."""
        script = question_text(question)
        spoken = {"PYTHONIOENCODING": "utf-8", **({"REKINDLE_DEEP": "1"} if deep else {})}
        # Not by a subclass's words for commands: these are scripts of our own.
        done = LiveHost.run(self, [python, "-I", "-c", script], timeout=timeout, env=spoken)
        if done.code == 2 and not done.out:
            # Python 2 does not know -I.
            done = LiveHost.run(self, [python, "-E", "-s", "-c", script], timeout=timeout, env=spoken)
        if done.timed_out:
            return {"error": f"no answer within {timeout:.1f} s", "timed_out": True}
        if (answer := read_answer(done.out)) is not None:
            return answer
        return {"error": last_line(done.err, "it said nothing")[:300], "exit_code": done.code}


def _job_limit() -> int | None:
    import ctypes

    from rekindle.host.windows_job import JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ExtendedLimits

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
    limits = ExtendedLimits()
    # A null handle asks about the job this process runs in.
    kind, size = JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.sizeof(limits)
    if not kernel.QueryInformationJobObject(None, kind, ctypes.byref(limits), size, None):
        return None
    flags = limits.BasicLimitInformation.LimitFlags
    bounds = [limits.ProcessMemoryLimit] * bool(flags & 0x100) + [limits.JobMemoryLimit] * bool(flags & 0x200)
    return min(bounds, default=None)


def question_text(name: str) -> str:
    """The script ``questions/NAME.py``. Text, not a path: the target may not see our files (containers, WSL)."""
    return (_SCRIPTS / f"{name}.py").read_text(encoding="utf-8")


def ask_python(host: Host, python: str, script: str, *words: str, timeout: float = 30.0) -> tuple[Any, str]:
    """What a script prints in a Python without the user's packages, as JSON; None with its complaint's last line."""
    done = host.run([python, "-I", "-c", script, *words], timeout=timeout)
    complaint = last_line(done.err, "no message")
    with contextlib.suppress(ValueError):
        return json.loads(last_line(done.out)) if done.ok else None, complaint
    return None, complaint


def read_answer(out: str) -> dict[str, Any] | None:
    """The last line that is a JSON object: what a Python prints before it is its own business."""
    for line in reversed(out.splitlines()):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
    return None


@atexit.register
def _end_what_runs() -> None:
    for process in list(_running):
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End it with all it started; one that is stuck in the kernel is left behind."""
    if sys.platform == "win32":
        import psutil

        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
    else:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)


def decode(raw: bytes) -> str:
    """Text from a tool: UTF-8, or UTF-16 (wsl.exe), or whatever code page, with what cannot be read marked."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    # wsl.exe writes UTF-16 without a mark: every second byte of ASCII text is zero.
    if len(raw) >= 4 and raw[1::2].count(0) > len(raw) // 4:
        return raw.decode("utf-16-le", "replace")
    return raw.decode("utf-8", "replace").replace("\r\n", "\n")


def _drain(pipe: IO[bytes]) -> tuple[bytearray, threading.Thread]:
    """Read a pipe in the background, and keep at most ``MAX_OUTPUT_BYTES`` of it."""
    kept = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError), pipe:
            while part := os.read(pipe.fileno(), 65536):
                kept.extend(part[: MAX_OUTPUT_BYTES - len(kept)])

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return kept, thread
