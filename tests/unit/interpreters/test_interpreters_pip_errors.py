"""What pip printed, and what of it says why."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from rekindle.errors import CommandFailed, Unprepared
from rekindle.interpreters.installer import InstallerRun, gave_up_waiting, telling_lines
from rekindle.journey.install import run_logged
from rekindle.render.progress import LineProgress
from rekindle.verify import environment


def test_marked_errors_stand_for_all_without_the_mark() -> None:
    said = "Looking in indexes: x\r\nERROR: Could not find a version\r\n  ERROR: No matching distribution\nnotice\n"
    assert telling_lines(said) == ["Could not find a version", "No matching distribution"]


def test_without_a_mark_all_that_was_said_counts() -> None:
    assert telling_lines("\n  one\n\n two \n") == ["one", "two"]
    assert telling_lines(" \n\n") == []


PIP = "ERROR: Could not install packages due to an OSError: (Caused by ReadTimeoutError: Read timed out.)"
UV = "error: Failed to download distribution due to network timeout. Try increasing UV_HTTP_TIMEOUT (now: 30s)."


@pytest.mark.parametrize("said", [PIP, UV])
def test_an_installer_that_gave_up_waiting_may_wait_longer(said: str) -> None:
    assert gave_up_waiting(["Collecting torch", said])
    assert not gave_up_waiting(["ERROR: No matching distribution found for torch==2.6.0"])


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An installer that needs patience, and keeps how often it was called."""
    for name in ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    calls = tmp_path / "calls"
    script = (
        "import os, sys\n"
        f"open({str(calls)!r}, 'a').write('x')\n"
        f"sys.exit(None if int(os.environ.get('PIP_DEFAULT_TIMEOUT', 15)) >= int(sys.argv[1]) else {PIP!r})\n"
    )
    (tmp_path / "installer.py").write_text(script, encoding="utf-8")
    return [sys.executable, str(tmp_path / "installer.py")]


def test_a_proof_waits_for_a_slow_index(slow: list[str], tmp_path: Path) -> None:
    environment._install([*slow, "300"], tmp_path, "the wheel")
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "xx"
    with pytest.raises(Unprepared, match="Read timed out") as refused:
        environment._install([*slow, "301"], tmp_path, "the wheel")
    assert "PIP_DEFAULT_TIMEOUT=900" in (refused.value.remedy or "")


def test_up_waits_for_a_slow_index(slow: list[str], tmp_path: Path) -> None:
    log, shown = tmp_path / "install.log", io.StringIO()
    run_logged([*slow, "300"], log, LineProgress(shown))
    assert "the index was slow" in shown.getvalue()
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "xx"
    assert "once more, waiting up to 300 s" in log.read_text(encoding="utf-8")
    with pytest.raises(CommandFailed, match="Read timed out") as refused:
        run_logged([*slow, "301"], log, None)
    assert "PIP_DEFAULT_TIMEOUT=900" in (refused.value.remedy or "")


def ended(*lines: str) -> InstallerRun:
    return InstallerRun(argv=("pip",), code=1, lines=lines)


def test_the_reason_is_one_line() -> None:
    assert ended("Collecting x", "ERROR: first", "ERROR: last", "notice").reason == "ERROR: last"
    assert ended("ERROR: Exception:", "Traceback", "OSError: no room").reason == "OSError: no room"
    assert ended("  × No solution found", "  ╰─▶ because a", "      is not there").reason == (
        "No solution found because a is not there"
    )
    assert ended("some error here", "notice").reason == "some error here"
    assert ended("one", "two").reason == "two" and ended().reason == "it said nothing"


def test_usual_troubles_have_a_remedy() -> None:
    assert "venv" in (ended("The virtual environment was not created: ensurepip is not available").remedy or "")
    assert "TMPDIR" in (ended("OSError: [Errno 28] No space left on device").remedy or "")
    assert "whole wheel" in (ended("error: Failed to read from zip file").remedy or "")
    assert ended("ERROR: No matching distribution found").remedy is None
