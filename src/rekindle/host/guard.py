"""Runs one command and promises that nothing of it outlives Rekindle, not even after ``kill -9``.

Started as a script of its own (standard library only, no import of this package): ``guard.py FD -- ARGV…``. FD is the
read end of a pipe whose write end only Rekindle holds: when Rekindle is gone, the pipe closes and every descendant is
killed. On Linux the guard is a "child subreaper", so that those which left their session or lost their parent are
found. While Rekindle itself is stopped (Ctrl-Z) nobody watches memory, so the guard stops everything too, and wakes it
afterwards. Exit code: the command's own, or 128 + signal as a shell would say.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_ROUNDS = 200
WATCH_SECONDS = 0.5


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _fields(pid: str | int) -> list[bytes]:
    """What the kernel says of a process after its name, its state first; empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (no pathlib: start-up time)
            stat = file.read()
    except OSError:
        return []
    # The command name may hold spaces and brackets; the fields after the last ")" do not.
    return stat[stat.rfind(b")") + 2 :].split()


def descendants(root: int) -> list[int]:
    """Every process below ``root``, from one pass over /proc."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 (as above)
            fields = _fields(name)
            if fields and fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(name))
    pids: list[int] = []
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            pids.append(pid)
            waiting.append(pid)
    return pids


def is_stopped(pid: int) -> bool:
    """Does it wait for a signal to go on?"""
    return _fields(pid)[:1] in ([b"T"], [b"t"])


def follow(governor: int, guard: int, held: list[int]) -> list[int]:
    """Stop all while the governor is stopped, and wake those afterwards, not what it had stopped; what is held."""
    if is_stopped(governor):
        for _ in range(3):  # a process may fork while we look
            for pid in descendants(guard):
                if pid not in held and not is_stopped(pid):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGSTOP)
                        held.append(pid)
        return held
    for pid in held:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    return []


def kill_all(root: int, child: int) -> None:
    """Kill until none is left: a process may fork while we look."""
    for _ in range(KILL_ROUNDS):
        if not (alive := descendants(root)):
            return
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        _reap(child)
        time.sleep(0.01)


def _reap(child: int) -> int | None:
    """Collect every child that ended; the wait status of ``child`` if it was among them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = ended[1] if ended[0] == child else status
    return status


def main(argv: list[str]) -> int:
    """Start the command, then watch it, the lifeline and whether the governor is stopped."""
    lifeline, command = int(argv[0]), argv[2:]
    os.set_inheritable(lifeline, False)
    _prctl(PR_SET_CHILD_SUBREAPER, True)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    guard, governor = os.getpid(), os.getppid()
    held: list[int] = []
    child = os.fork()
    if child == 0:
        # If the guard itself is killed, its command goes with it.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(137)
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        # A Rekindle in the background was told to ignore Ctrl-C; its compilers must still hear it from Rekindle.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvpe(command[0], command, os.environ)  # noqa: S606
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([lifeline, wake_read], [], [], WATCH_SECONDS)
        if lifeline in ready:
            kill_all(guard, child)
            return 137
        held = follow(governor, guard, held)
        if wake_read not in ready:
            continue
        os.read(wake_read, select.PIPE_BUF)
        status = _reap(child)
        if status is not None:
            kill_all(guard, child)
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
