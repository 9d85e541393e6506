"""Ctrl-Z: a stopped Rekindle never leaves compilers running that nobody governs; fg goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rekindle.host.guard import is_stopped

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

PROGRAM = """
import os, sys
from pathlib import Path
from rekindle.host.process import run_long
script = 'echo $$ > "$0"; sleep 1000 & echo $! >> "$0"; while :; do echo x >> "$0.log"; sleep 0.05; done'
run_long(["sh", "-c", script, sys.argv[1]], cwd=Path("."), env=dict(os.environ), on_line=lambda line: None)
"""


def until(fact: object, seconds: float = 30.0) -> bool:
    for _ in range(int(seconds / 0.05)):
        if fact():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def test_what_it_runs_stops_and_goes_on_with_it(tmp_path: Path) -> None:
    pids, log = tmp_path / "pids", tmp_path / "pids.log"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(pids)], start_new_session=True)
    try:
        assert until(lambda: pids.exists() and len(pids.read_text(encoding="ascii").split()) == 2 and log.exists())
        children = [int(word) for word in pids.read_text(encoding="ascii").split()]
        # As a governor does for want of memory: this one must not be woken by us.
        os.kill(children[1], signal.SIGSTOP)
        assert until(lambda: is_stopped(children[1]))
        # Ctrl-Z ends in the same state; its own signal is ignored outside of a shell's job control.
        os.kill(process.pid, signal.SIGSTOP)
        assert until(lambda: is_stopped(process.pid))
        assert until(lambda: is_stopped(children[0]))
        os.kill(process.pid, signal.SIGCONT)
        assert until(lambda: not is_stopped(children[0]))
        size = log.stat().st_size
        assert until(lambda: log.stat().st_size > size)
        assert is_stopped(children[1])
    finally:
        process.kill()
        process.wait()
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
