"""The guard of a command: who is below it, who is stopped, and that all go with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rekindle.host import guard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def until(fact: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not fact() and time.monotonic() < end:
        time.sleep(0.005)
    return fact()


@pytest.fixture
def shell() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with a child of its own, in a group of its own."""
    process = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True)
    assert until(lambda: len(guard.descendants(process.pid)) == 1)
    yield process
    os.killpg(process.pid, signal.SIGCONT)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_descendants_are_all_that_live_below(shell: subprocess.Popen[bytes]) -> None:
    below = guard.descendants(shell.pid)
    assert shell.pid not in below and {shell.pid, *below} <= set(guard.descendants(os.getpid()))
    ended = subprocess.Popen(["true"])
    assert until(lambda: guard._fields(ended.pid)[:1] == [b"Z"])
    assert ended.pid not in guard.descendants(os.getpid()), "a zombie is no more"
    ended.wait()
    assert guard._fields(ended.pid) == [] and not guard.is_stopped(ended.pid)
    assert guard._fields(os.getpid())[1] == str(os.getppid()).encode()


def test_all_stop_with_the_governor_and_go_on_with_it(shell: subprocess.Popen[bytes]) -> None:
    governor = subprocess.Popen(["sleep", "60"])
    [child] = guard.descendants(shell.pid)
    try:
        assert guard.follow(governor.pid, shell.pid, []) == [] and not guard.is_stopped(child)
        os.kill(governor.pid, signal.SIGSTOP)
        assert until(lambda: guard.is_stopped(governor.pid))
        held = guard.follow(governor.pid, shell.pid, [])
        assert held == [child] and until(lambda: guard.is_stopped(child))
        assert guard.follow(governor.pid, shell.pid, held) == [child], "none is stopped twice"
        os.kill(governor.pid, signal.SIGCONT)
        assert until(lambda: not guard.is_stopped(governor.pid))
        assert guard.follow(governor.pid, shell.pid, held) == [] and until(lambda: not guard.is_stopped(child))
        # Stopped by somebody else, for want of memory: it is neither held nor woken.
        os.kill(child, signal.SIGSTOP)
        assert until(lambda: guard.is_stopped(child))
        os.kill(governor.pid, signal.SIGSTOP)
        assert until(lambda: guard.is_stopped(governor.pid))
        assert guard.follow(governor.pid, shell.pid, []) == []
        assert guard.is_stopped(child)
    finally:
        governor.kill()
        governor.wait()


def _guarded(*command: str, close: bool = False) -> tuple[int, str]:
    """The guard as it is started; ``close``: the pipe's other end goes while the command runs."""
    read, write = os.pipe()
    words = [sys.executable, guard.__file__, str(read), "--", *command]
    process = subprocess.Popen(words, pass_fds=[read], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    os.close(read)
    assert process.stdout is not None
    first = process.stdout.readline() if close else ""
    if close:
        os.close(write)
    said, _ = process.communicate(timeout=60)
    if not close:
        os.close(write)
    return process.returncode, first + said


def test_the_commands_own_code_or_its_signal_is_told() -> None:
    assert _guarded("sh", "-c", "echo said; exit 7") == (7, "said\n")
    assert _guarded("sh", "-c", "kill -TERM $$")[0] == 128 + signal.SIGTERM
    code, said = _guarded("/no/such/program")
    assert code == 127 and said == "/no/such/program: No such file or directory\n"


def test_nothing_is_left_when_the_command_ends_or_we_go(tmp_path: Path) -> None:
    script = f"setsid sleep 60 & echo $! > {tmp_path}/pid; echo started"
    assert _guarded("sh", "-c", script)[0] == 0
    left = int((tmp_path / "pid").read_text())
    assert until(lambda: guard._fields(left)[:1] in ([], [b"Z"]))
    assert _guarded("sh", "-c", f"{script}; sleep 60", close=True) == (137, "started\n")
    left = int((tmp_path / "pid").read_text())
    assert until(lambda: guard._fields(left)[:1] in ([], [b"Z"]))


def test_a_command_in_a_group_of_its_own_hears_ctrl_c() -> None:
    told = "import os, signal; print(os.getpgid(0) == os.getpid(), signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert _guarded(sys.executable, "-c", told) == (0, "True False\n")
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_kernel_is_told_what_is_meant() -> None:
    """Read back by the kernel's own questions: PR_GET_PDEATHSIG is 2, PR_GET_CHILD_SUBREAPER 37 (prctl(2))."""
    for option, question, value in ((guard.PR_SET_PDEATHSIG, 2, 15), (guard.PR_SET_CHILD_SUBREAPER, 37, 1)):
        child = os.fork()
        if child == 0:
            answer = ctypes.c_int(99)
            try:
                guard._prctl(option, value)
                ctypes.CDLL(None).prctl(question, ctypes.byref(answer), 0, 0, 0)
            finally:
                os._exit(answer.value)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == value
