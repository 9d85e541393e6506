"""External processes that take long, and programs of the user's.

``run_long`` runs a command to its end. Every line goes to ``on_line`` and ``tick`` is called a few times a second, both
on the caller's thread. Whatever ends the call (the command, Ctrl-C, an error in a callback, ``kill -9`` of Rekindle),
the whole process tree is gone afterwards: on POSIX by :mod:`rekindle.host.guard`, on Windows by a job object.

``run_and_copy`` runs a program as if it had been started by hand: its bytes pass through untouched, standard output and
standard error apart, its input stays the terminal's. A copy lies in a file, in the order things were said.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from rekindle.host import guard
from rekindle.host.processes import spawn, tree_of

if TYPE_CHECKING:
    from rekindle.host.windows_job import JobObject

MAX_LINE_BYTES = 64 * 1024
GRACE_SECONDS = 8.0
TICK_SECONDS = 0.25
_CHUNK = 64 * 1024


@dataclass(kw_only=True)
class Running:
    """A live process tree: ``pid`` is its root (the guard on POSIX)."""

    process: subprocess.Popen[bytes]
    lifeline: int | None = None
    job: JobObject | None = None

    @property
    def pid(self) -> int:
        """The root's number: where there is a guard, the guard's."""
        return self.process.pid

    def descendants(self) -> list[int]:
        """Every process of the command. Windows has no guard: there the root is the command itself."""
        root = [self.pid] if os.name == "nt" else []
        return root + [process.pid for process in tree_of(self.pid)]

    def _send(self, *signals: int) -> None:
        for pid in self.descendants():
            with contextlib.suppress(OSError):
                for number in signals:
                    os.kill(pid, number)

    def interrupt(self) -> None:
        """Ask nicely: Ninja removes half-written outputs on SIGINT. Stopped processes are woken first."""
        self._send(*((signal.SIGCONT, signal.SIGINT) if os.name == "posix" else (signal.SIGTERM,)))

    def kill(self) -> None:
        """Close the lifeline: the guard kills everything; then make sure it did."""
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None
        if self.job is not None:
            self.job.terminate()
        try:
            self.process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._send(getattr(signal, "SIGKILL", signal.SIGTERM))
            self.process.kill()
            self.process.wait()


def _start(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Running:
    if os.name == "nt":
        from rekindle.host.windows_job import start_in_job

        process, job = start_in_job(argv, cwd, env)
        return Running(process=process, job=job)
    read, write = os.pipe()
    # -I -S: the guard needs nothing of ours, and must not see the target's PYTHON* variables.
    wrapped = [sys.executable, "-I", "-S", guard.__file__, str(read), "--", *argv]
    try:
        process = spawn(wrapped, env, cwd, pass_fds=(read,), start_new_session=True)
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)
    return Running(process=process, lifeline=write)


def run_long(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_line: Callable[[str], None],
    tick: Callable[[Running], float | None] | None = None,
) -> int:
    """The exit code. What ``on_line`` or ``tick`` raises stops the tree; ``tick`` may say the seconds to the next."""
    next_tick = time.monotonic()
    try:
        running = _start(argv, cwd, env)
    except FileNotFoundError as error:
        if os.name != "nt" or not cwd.is_dir():
            raise
        # Windows looks for the program before it starts anything; elsewhere the guard says the same.
        on_line(f"{argv[0]}: {error.strerror}")
        return 127
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    assert running.process.stdout is not None
    pump = threading.Thread(target=_pump, args=(running.process.stdout, lines), daemon=True)
    pump.start()
    try:
        while True:
            timeout = max(0.0, next_tick - time.monotonic()) if tick else None
            try:
                line = lines.get(timeout=timeout)
            except queue.Empty:
                pass
            else:
                if line is None:
                    break
                on_line(line)
            if tick and time.monotonic() >= next_tick:
                wait = tick(running)
                next_tick = time.monotonic() + (TICK_SECONDS if wait is None else wait)
        return running.process.wait()
    except BaseException:
        _stop(running, lines, on_line)
        raise
    finally:
        running.kill()
        # With the tree gone the pipe ends; only what escaped it could hold the other side open.
        pump.join(GRACE_SECONDS)


def _stop(running: Running, lines: queue.SimpleQueue[str | None], on_line: Callable[[str], None]) -> None:
    """Interrupt, keep writing the log for a moment, and let ``kill`` do the rest. A second Ctrl-C is quick."""
    with contextlib.suppress(KeyboardInterrupt, queue.Empty):
        running.interrupt()
        deadline = time.monotonic() + GRACE_SECONDS
        while (left := deadline - time.monotonic()) > 0 and (line := lines.get(timeout=left)) is not None:
            with contextlib.suppress(Exception):
                on_line(line)


def _pump(stream: IO[bytes], lines: queue.SimpleQueue[str | None]) -> None:
    """Lines without their ends; a carriage return also ends one; endless lines come in pieces. None is the end."""
    rest = b""
    with stream, contextlib.suppress(OSError):
        while chunk := os.read(stream.fileno(), 65536):
            *whole, rest = (rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            for line in whole:
                lines.put(line.decode("utf-8", "replace"))
            while len(rest) > MAX_LINE_BYTES:
                lines.put(rest[:MAX_LINE_BYTES].decode("utf-8", "replace"))
                rest = rest[MAX_LINE_BYTES:]
    if rest:
        lines.put(rest.decode("utf-8", "replace"))
    lines.put(None)


def start_background(argv: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """A server that the caller ends, apart from our terminal: Ctrl-C is the caller's to answer. It talks to ``log``."""
    with log.open("ab") as words:
        return spawn(argv, env, stdout=words, start_new_session=os.name == "posix")


@contextlib.contextmanager
def stop_signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end work the way Ctrl-C does: orderly. Only the main thread may set this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_and_copy(
    argv: Sequence[str], copy: BinaryIO, *, out: BinaryIO, err: BinaryIO, env: Mapping[str, str] | None = None
) -> int:
    """The program's exit code, as shells say it: 128 plus the number where a signal ended it, 127 where there is no
    such program and 126 where it cannot be started (both are told on ``err``, and copied)."""
    program = shutil.which(argv[0])
    if program is None:
        why, code = ("Permission denied", 126) if Path(argv[0]).is_file() else ("command not found", 127)
        return _refuse_start(f"{argv[0]}: {why}", code, copy, err)
    try:
        process = subprocess.Popen([program, *argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    except OSError as error:
        # The program was found: what is not there is what its first line names, or its loader.
        reason = "cannot execute: required file not found" if error.errno == errno.ENOENT else error.strerror or error
        return _refuse_start(f"{argv[0]}: {reason}", 126, copy, err)
    assert process.stdout is not None and process.stderr is not None
    lock = threading.Lock()
    pumps = [
        threading.Thread(target=_copy_stream, args=(source, target, copy, lock), daemon=True)
        for source, target in ((process.stdout, out), (process.stderr, err))
    ]
    for pump in pumps:
        pump.start()
    try:
        code = process.wait()
    except BaseException:
        # Ctrl-C reaches the program too; it gets a moment to end by itself.
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    for pump in pumps:
        pump.join()
    process.stdout.close()
    process.stderr.close()
    return code if code >= 0 else 128 - code


def _refuse_start(words: str, code: int, copy: BinaryIO, err: BinaryIO) -> int:
    line = f"{words}\n".encode()
    copy.write(line)
    err.write(line)
    err.flush()
    return code


def _copy_stream(source: IO[bytes], target: BinaryIO, copy: BinaryIO, lock: threading.Lock) -> None:
    read = getattr(source, "read1", source.read)
    while chunk := read(_CHUNK):
        with lock:
            copy.write(chunk)
        # Where the reader went away (``| head``) the program is still heard to its end.
        with contextlib.suppress(BrokenPipeError, ValueError):
            target.write(chunk)
            target.flush()
