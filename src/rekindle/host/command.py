"""Short external commands with a hard end: the whole process group dies at the deadline, children included.

Output is bounded in memory and decoded however the tool wrote it; a tool that floods, hangs, forks or
speaks another code page costs its own answer and nothing else.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from rekindle.host.protocol import Completed

MAX_OUTPUT_BYTES = 4 << 20
# How long a killed group may take to close its pipes before we walk away from it (a process stuck in the
# kernel cannot be killed at all).
_GRACE_S = 0.2


# What runs now. A thread that is given up at a deadline must not leave its process behind.
_running: set[subprocess.Popen[bytes]] = set()


@atexit.register
def _end_what_runs() -> None:
    for process in list(_running):
        kill_group(process)


def run_command(argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
    """Run to the end or to the deadline; never raises for what the command does."""
    # Tools speak the user's language unless told otherwise, and we read their words.
    merged = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **(env or {})}
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=merged,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
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
    code = None if timed_out else process.returncode
    return Completed(argv=tuple(argv), code=code, out=decode(bytes(out)), err=decode(bytes(err)), timed_out=timed_out)


def kill_group(process: subprocess.Popen[bytes]) -> None:
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
    if len(raw) >= 4 and raw[1:64:2].count(0) > len(raw[1:64:2]) // 2:
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
