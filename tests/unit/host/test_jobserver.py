"""Tokens that can be given and taken back, on a real fifo and on a pretended Windows."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle.host.jobserver import Jobserver, _Semaphore, open_jobserver

POSIX = pytest.mark.skipif(os.name != "posix", reason="a fifo")


def lying(path: str) -> int:
    """How many tokens nobody holds."""
    import fcntl
    import termios

    fd = os.open(path, os.O_RDWR)
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0])
    finally:
        os.close(fd)


def until(condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("never happened")


@pytest.fixture
def server(tmp_path: Path) -> Any:
    server = open_jobserver(str(tmp_path))
    yield server
    server.close()


@POSIX
def test_raise_and_lower(server: Jobserver) -> None:
    path = server.makeflags.split("fifo:")[1]
    server.set_level(3)
    assert lying(path) == 3
    server.set_level(1)
    until(lambda: server._circulating == 1)
    assert lying(path) == 1


@POSIX
def test_a_held_token_is_taken_when_it_comes_back(server: Jobserver) -> None:
    path = server.makeflags.split("fifo:")[1]
    server.set_level(2)
    client = os.open(path, os.O_RDWR)
    held = os.read(client, 2)
    server.set_level(0)
    time.sleep(0.05)
    assert (server.level, server._circulating) == (0, 2)
    os.write(client, held)
    until(lambda: server._circulating == 0)
    assert lying(path) == 0
    os.close(client)


@POSIX
def test_raising_feeds_those_that_wait(server: Jobserver) -> None:
    path = server.makeflags.split("fifo:")[1]
    server.set_level(1)
    client = os.open(path, os.O_RDWR)
    os.read(client, 1)
    server.set_level(0)
    server.set_level(2)
    # One token is with the client, one must be free to take; whichever waiter took the other.
    until(lambda: server._circulating == 2 and lying(path) == 1)
    assert server.level == 2
    os.close(client)


@POSIX
def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    first = open_jobserver(str(tmp_path))
    first.set_level(5)
    second = open_jobserver(str(tmp_path))
    assert lying(second.makeflags.split("fifo:")[1]) == 0
    second.close()


def test_makeflags_have_no_spaces_in_the_path(server: Jobserver) -> None:
    assert len(server.makeflags.split()) == 2


@POSIX
def test_a_place_with_spaces_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my files").mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "my files"))
    server = open_jobserver(str(tmp_path))
    path = Path(server.makeflags.split("fifo:")[1])
    assert path.parent == Path("/tmp") and path.is_fifo() and f"-{os.getuid()}-" in path.name
    server.close()
    assert not path.exists()


@POSIX
def test_waiting_for_a_token_keeps_no_program_from_ending(server: Jobserver) -> None:
    before = set(threading.enumerate())
    server.set_level(2)
    client = os.open(server.makeflags.split("fifo:")[1], os.O_RDWR)
    os.read(client, 2)
    server.set_level(0)
    waiting = set(threading.enumerate()) - before
    assert len(waiting) == 2 and all(thread.daemon for thread in waiting)
    os.close(client)


class Kernel:
    """The three calls of kernel32 a semaphore needs."""

    class _Call:
        restype = None

        def __init__(self, function: Any) -> None:
            self._function = function

        def __call__(self, *args: Any) -> Any:
            return self._function(*args)

    def __init__(self) -> None:
        self.semaphore = threading.Semaphore(0)
        self.CreateSemaphoreW = self._Call(lambda *_: 42)

    def ReleaseSemaphore(self, handle: Any, count: int, _previous: Any) -> int:
        self.semaphore.release(count)
        return 1

    def WaitForSingleObject(self, handle: Any, _timeout: int) -> int:
        self.semaphore.acquire()
        return 0

    def CloseHandle(self, handle: Any) -> int:
        return 1


def test_the_same_on_windows_calls() -> None:
    kernel = Kernel()
    server = Jobserver(_Semaphore("x", kernel))
    server.set_level(4)
    server.set_level(1)
    until(lambda: server._circulating == 1)
    assert kernel.semaphore._value == 1
    assert "--jobserver-auth=rekindle-jobs-" in server.makeflags
    server.close()


@pytest.mark.skipif(os.name != "nt", reason="kernel32")
def test_a_real_semaphore_of_windows(server: Jobserver) -> None:
    import ctypes

    kernel = getattr(ctypes, "WinDLL")("kernel32", use_last_error=True)
    kernel.OpenSemaphoreW.restype = ctypes.c_void_p
    name = server.makeflags.split("--jobserver-auth=")[1]
    client = ctypes.c_void_p(kernel.OpenSemaphoreW(0x1F0003, False, name))
    assert client.value

    def taken() -> bool:
        return bool(kernel.WaitForSingleObject(client, 0) == 0)

    assert not taken()
    server.set_level(2)
    assert taken() and taken() and not taken()
    server.set_level(1)
    assert (server.level, server._circulating) == (1, 2)
    kernel.ReleaseSemaphore(client, 1, None)
    until(lambda: server._circulating == 1)
    assert not taken()
