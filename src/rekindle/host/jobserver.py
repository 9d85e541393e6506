"""A GNU make jobserver whose number of tokens can be raised and lowered while clients run: Ninja ≥ 1.13, make, and
compilers that know the protocol take a token per job beyond their first and give it back. A fifo on POSIX, a named
semaphore on Windows.

Lowering is the hard part: Ninja gives a token back and takes it again within microseconds, so a poller never sees one
(measured: none in a second of trying). A reader that is already asleep in ``read`` is woken first and wins within
one or two jobs. So every token to be withdrawn gets a waiting thread; raising again simply feeds the waiters.
"""

import contextlib
import ctypes
import hashlib
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any


class _Fifo:
    """POSIX: tokens lie in a pipe with a name. ``take`` blocks."""

    def __init__(self, key: str) -> None:
        # Not in the workspace: MAKEFLAGS is split at spaces, and a user's path may have them.
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        self.path = Path(tempfile.gettempdir()) / f"rekindle-jobs-{os.getuid()}-{name}"
        if " " in str(self.path):
            self.path = Path("/tmp") / self.path.name  # noqa: S108 (the name is ours alone and checked below)
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path, 0o600)
        # Read and write: never end-of-file for clients, and opening does not wait for one.
        self._fd = os.open(self.path, os.O_RDWR)
        self.auth = f"--jobserver-auth=fifo:{self.path}"

    def put(self, count: int) -> None:
        if count:
            os.write(self._fd, b"+" * count)

    def take(self) -> None:
        os.read(self._fd, 1)

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.close(self._fd)


class _Semaphore:
    """Windows: the same by a semaphore, whose name ``--jobserver-auth`` carries."""

    def __init__(self, key: str, kernel: Any = None) -> None:
        self._kernel = kernel or getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009
        name = f"rekindle-jobs-{hashlib.sha256(key.encode()).hexdigest()[:16]}-{os.getpid()}"
        self._kernel.CreateSemaphoreW.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._kernel.CreateSemaphoreW(None, 0, 0x7FFFFFFF, name))
        if not self._handle:
            raise OSError("Windows gave no semaphore for the jobserver")
        self.auth = f"--jobserver-auth={name}"

    def put(self, count: int) -> None:
        if count:
            self._kernel.ReleaseSemaphore(self._handle, count, None)

    def take(self) -> None:
        self._kernel.WaitForSingleObject(self._handle, 0xFFFFFFFF)

    def close(self) -> None:
        self._kernel.CloseHandle(self._handle)


class Jobserver:
    """``set_level(n)``: n tokens in circulation, that is n + 1 jobs for one client. Safe from any thread."""

    def __init__(self, pool: _Fifo | _Semaphore) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._circulating = 0  # what clients may really hold: above the level until they have given back
        self._waiting = 0
        self.makeflags = f"-j1000 {pool.auth}"

    @property
    def level(self) -> int:
        """What was asked for last: tokens that still have to come back are not counted."""
        with self._lock:
            return self._circulating - self._waiting

    def set_level(self, wanted: int) -> None:
        wanted = max(0, wanted)
        with self._lock:
            change = wanted - (self._circulating - self._waiting)
            if change > 0:
                self._circulating += change
                self._pool.put(change)
            elif change < 0:
                self._waiting -= change
                for _ in range(-change):
                    threading.Thread(target=self._withdraw, daemon=True).start()

    def _withdraw(self) -> None:
        with contextlib.suppress(OSError):
            self._pool.take()
            with self._lock:
                self._waiting -= 1
                self._circulating -= 1

    def close(self) -> None:
        """Wake those that still wait, then take the pool away."""
        with self._lock:
            self._pool.put(self._waiting)
        self._pool.close()


def open_jobserver(key: str) -> Jobserver:
    """``key`` names the build, so that what a killed run left behind is found and replaced."""
    return Jobserver(_Semaphore(key) if sys.platform == "win32" else _Fifo(key))
