"""``explain -- COMMAND``: output untouched, exit code kept, failures explained; pipes; a log that grows."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput

FAILS = """import sys
sys.stdout.write('out\\n')
sys.stderr.write("ModuleNotFoundError: No module named 'cv2'\\n")
sys.exit({})"""


def rekindle(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rekindle", "explain", *words], input=stdin, capture_output=True, check=False
    )


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


@pytest.mark.parametrize("words", [("--",), ("x.log", "--", "true"), ("--", "no-such-program-anywhere")])
def test_bad_usage_is_told_in_one_line(words: tuple[str, ...]) -> None:
    ended = rekindle(*words)
    assert ended.returncode == 2 and ended.stderr.startswith(b"rekindle: ") and b"Traceback" not in ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_reads_as_shells_say_it() -> None:
    out = io.BytesIO()
    found = api.explain_command([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], out=out, err=out)
    assert found.exit_code == 137


def test_a_program_that_is_not_there_is_bad_input() -> None:
    with pytest.raises(BadInput, match="no program"):
        api.explain_command(["no-such-program-anywhere"], out=io.BytesIO(), err=io.BytesIO())


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
