"""``explain -- COMMAND``: output untouched, exit code kept, failures explained; pipes; a log that grows."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import Exit

FAILS = """import sys
sys.stdout.write('out\\n')
sys.stderr.write("ModuleNotFoundError: No module named 'cv2'\\n")
sys.exit({})"""


def rekindle(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    ended = subprocess.run(
        [sys.executable, "-m", "rekindle", "explain", *words], input=stdin, capture_output=True, check=False
    )
    # A command's own line ends come through as they are, and on Windows they are two bytes.
    out, err = (text.replace(b"\r\n", b"\n") for text in (ended.stdout, ended.stderr))
    return subprocess.CompletedProcess(ended.args, ended.returncode, out, err)


def test_a_failing_command_keeps_its_output_and_its_exit_code_and_is_explained() -> None:
    ended = rekindle("--", sys.executable, "-c", FAILS.format(7))
    assert ended.returncode == 7
    assert ended.stdout.startswith(b"out\n") and b"opencv" in ended.stdout
    assert ended.stderr == b"ModuleNotFoundError: No module named 'cv2'\n"


def test_a_command_that_succeeds_says_nothing_more() -> None:
    ended = rekindle("--", sys.executable, "-c", "print('fine')")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"fine\n", b"")


def test_json_is_alone_on_standard_output() -> None:
    ended = rekindle("--json", "--", sys.executable, "-c", FAILS.format(3))
    document = json.loads(ended.stdout)
    assert document["exit_code"] == ended.returncode == 3 and document["matches"][0]["id"] == "missing-module"
    assert b"out\n" in ended.stderr


def test_options_of_the_command_are_its_own() -> None:
    ended = rekindle("--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--json", "--", "-v")
    assert ended.stdout == b"['--json', '--', '-v']\n"


@pytest.mark.parametrize("words", [("--",), ("x.log", "--", "true")])
def test_bad_usage_is_told_in_one_line(words: tuple[str, ...]) -> None:
    ended = rekindle(*words)
    assert ended.returncode == 2 and ended.stderr.startswith(b"rekindle: ") and b"Traceback" not in ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_reads_as_shells_say_it() -> None:
    out = io.BytesIO()
    found = api.explain_command([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], out=out, err=out)
    assert found.exit_code == 137


@pytest.mark.parametrize("program", ["g++-99", "nvcc-of-nowhere", "no-such-program-anywhere"])
def test_a_program_that_is_not_there_is_explained_as_a_shell_would_end(program: str) -> None:
    out, err = io.BytesIO(), io.BytesIO()
    found = api.explain_command([program, "--version"], out=out, err=err)
    assert (found.exit_code, out.getvalue()) == (127, b"")
    assert err.getvalue() == f"{program}: command not found\n".encode()
    assert found.matches[0].id == "missing-command" and program in found.matches[0].title


@pytest.mark.skipif(sys.platform == "win32", reason="no mode bits")
def test_a_program_that_may_not_be_run_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "configure"
    script.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    err = io.BytesIO()
    found = api.explain_command([str(script)], out=io.BytesIO(), err=err)
    assert found.exit_code == 126 and err.getvalue().endswith(b"configure: Permission denied\n")
    assert found.matches[0].id == "permission-denied"


@pytest.mark.skipif(sys.platform == "win32", reason="no #!")
def test_a_script_whose_interpreter_is_missing_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    script.chmod(0o755)
    found = api.explain_command([str(script)], out=io.BytesIO(), err=io.BytesIO())
    assert found.exit_code == 126 and found.matches


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and signals")
def test_ctrl_c_in_a_terminal_ends_command_and_explain() -> None:
    import pty

    terminal, inside = pty.openpty()
    slow = "import time; print('begun', flush=True); time.sleep(60)"
    started = subprocess.Popen(
        [sys.executable, "-m", "rekindle", "explain", "--", sys.executable, "-c", slow],
        stdin=inside, stdout=inside, stderr=inside, preexec_fn=_own_terminal,
    )  # fmt: skip
    os.close(inside)
    said = b""
    while b"begun" not in said:
        said += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    assert started.wait(timeout=60) == Exit.INTERRUPTED
    os.close(terminal)


def _own_terminal() -> None:
    """The child leads a session of its own whose terminal is its standard input, as in a shell."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_pipe_needs_no_dash() -> None:
    ended = rekindle("--json", stdin=b"nvcc fatal   : Unsupported gpu architecture 'compute_120'\n")
    assert json.loads(ended.stdout)["matches"][0]["id"] == "unsupported-gpu-architecture-new"


def test_a_growing_log_is_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    rounds = iter(range(1000))
    written = threading.Event()

    def step() -> bool:
        number = next(rounds)
        if number == 3:
            log.write_text("[1/2] fine\n", encoding="utf-8")
        elif number == 8:
            with log.open("a", encoding="utf-8") as file:
                file.write("c++: fatal error: Killed signal terminated program cc1plus\n")
            written.set()
        return number > 500

    found = api.explain_watch(log, pause=0.001, quiet=0.003, until=step)
    assert written.is_set() and found.matches[0].id == "oom-killed"


def test_watching_ends_with_what_is_known(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("all is well\n", encoding="utf-8")
    rounds = iter(range(100))
    assert api.explain_watch(log, pause=0.001, quiet=0.002, until=lambda: next(rounds) > 20).matches == ()
