"""Long processes: lines, ticks, exit codes, and that nothing survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from rekindle.host.process import Running, run_long, stop_signals_as_interrupt

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")

# A child that leaves its session and its parent, as ninja's compilers and daemons do.
RUNAWAY = """
import os, sys, time, subprocess
code = "import os,sys,time; open(sys.argv[1],'w').write(str(os.getpid())); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", code, sys.argv[1]], start_new_session=True)
print("started", flush=True)
time.sleep(60)
"""


def gone(pid: int) -> bool:
    """True once the process is no more (a zombie waiting for init counts as gone)."""
    for _ in range(400):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def wait_for_pid(path: Path) -> int:
    for _ in range(1000):
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError("the child never started")


def run(code: str, tmp_path: Path, *args: str, **how: Any) -> Any:
    lines: list[str] = []
    how.setdefault("on_line", lines.append)
    return run_long([sys.executable, "-c", code, *args], cwd=tmp_path, env=os.environ, **how), lines


def test_lines_and_exit_code(tmp_path: Path) -> None:
    # Bytes: Windows would spell line ends and the umlaut its own way.
    said = "import os, sys; os.write(1, b'a\\rb\\r\\nc\\n'); os.write(2, 'ü'.encode()); sys.exit(7)"
    code, lines = run(said, tmp_path)
    assert code == 7
    assert sorted(lines) == sorted(["a", "b", "c", "ü"])


@POSIX
def test_a_command_hears_ctrl_c_though_we_were_told_to_ignore_it(tmp_path: Path) -> None:
    """A shell starts what runs in the background with SIGINT ignored, and that is inherited."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, lines = run("import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)", tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert lines == ["False"]


def test_an_endless_line_comes_in_pieces(tmp_path: Path) -> None:
    code, lines = run("print('x' * 1_000_000)", tmp_path)
    assert code == 0
    assert len("".join(lines)) == 1_000_000
    assert 64 * 1024 in map(len, lines) and max(map(len, lines)) <= 2 * 64 * 1024


@POSIX
def test_on_windows_a_missing_program_is_told_as_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*words: object) -> Running:
        raise FileNotFoundError(2, "cannot find the file")

    heard: list[str] = []
    monkeypatch.setattr("rekindle.host.process._start", start)
    with monkeypatch.context() as windows:
        windows.setattr("rekindle.host.process.os.name", "nt")
        code = run_long(["no-such"], cwd=tmp_path, env={}, on_line=heard.append)
    assert (code, heard) == (127, ["no-such: cannot find the file"])
    with pytest.raises(FileNotFoundError):
        run_long(["no-such"], cwd=tmp_path, env={}, on_line=heard.append)


@POSIX
def test_a_signal_is_told_like_a_shell_tells_it(tmp_path: Path) -> None:
    code, _ = run("import os; os.kill(os.getpid(), 9)", tmp_path)
    assert code == 137


def test_a_missing_program_is_exit_127(tmp_path: Path) -> None:
    lines: list[str] = []
    code = run_long(["/nonexistent/tool"], cwd=tmp_path, env=os.environ, on_line=lines.append)
    assert code == 127
    assert "/nonexistent/tool" in lines[0]


def test_ticks_come_while_it_is_silent(tmp_path: Path) -> None:
    ticks: list[int] = []

    def tick(running: Running) -> float:
        ticks.append(running.pid)
        return 0.02

    run("import time; time.sleep(0.3)", tmp_path, tick=tick)
    assert len(ticks) > 3 and set(ticks) == {ticks[0]} and ticks[0] > 1


def test_ticks_come_a_few_times_a_second_unless_they_say_otherwise(tmp_path: Path) -> None:
    ticks: list[int] = []
    run("import time; time.sleep(1.1)", tmp_path, tick=lambda running: ticks.append(running.pid))
    assert len(ticks) >= 3


@POSIX
def test_what_a_command_says_when_it_is_interrupted_is_kept(tmp_path: Path) -> None:
    code = (
        "import time\ntry:\n print('ready', flush=True)\n time.sleep(60)\n"
        "except KeyboardInterrupt:\n time.sleep(0.2)\n print('tidied up', flush=True)\n"
    )
    heard: list[str] = []

    def on_line(line: str) -> None:
        heard.append(line)
        if line == "ready":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(code, tmp_path, on_line=on_line)
    assert heard == ["ready", "tidied up"]


def test_an_exception_in_a_tick_leaves_no_orphan(tmp_path: Path) -> None:
    def boom(_: object) -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run(RUNAWAY, tmp_path, str(tmp_path / "pid"), tick=boom)
    assert gone(wait_for_pid(tmp_path / "pid"))


def test_a_command_that_ends_takes_its_daemons_along(tmp_path: Path) -> None:
    until = "while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]): time.sleep(0.02)\n"
    code = RUNAWAY.replace("time.sleep(60)\n", until)
    run(code, tmp_path, str(tmp_path / "pid"))
    assert gone(wait_for_pid(tmp_path / "pid"))


@pytest.mark.skipif(sys.platform not in ("linux", "win32"), reason="subreapers are Linux's, job objects Windows'")
@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_killing_rekindle_kills_everything(tmp_path: Path, how: str) -> None:
    outer = f"""
import os, sys
from pathlib import Path
from rekindle.host.process import Running, run_long, stop_signals_as_interrupt
with stop_signals_as_interrupt():
    run_long([sys.executable, "-c", {RUNAWAY!r}, sys.argv[1]], cwd=Path("."), env=os.environ, on_line=print)
"""
    pid_file = tmp_path / "pid"
    rekindle = subprocess.Popen([sys.executable, "-c", outer, str(pid_file)], cwd=tmp_path)
    pid = wait_for_pid(pid_file)
    getattr(rekindle, how)()
    rekindle.wait()
    assert gone(pid)


@POSIX
def test_sigterm_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), stop_signals_as_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)


def test_signals_are_left_alone_where_they_cannot_be_set() -> None:
    ended: list[bool] = []

    def work() -> None:
        with stop_signals_as_interrupt():
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]
