"""What is the machine's fault or the caller's is never called a bug in rekindle: exit 4 is for bugs alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ARGV = [sys.executable, "-m", "rekindle", "facts", "show", "cuda"]


def run(argv: list[str], **options: object) -> tuple[int, str]:
    done = subprocess.run(argv, stderr=subprocess.PIPE, timeout=60, **options)  # type: ignore[call-overload]
    return done.returncode, done.stderr.decode("utf-8", "replace")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("argv", [ARGV, [sys.executable, "-m", "rekindle", "plan", "--gpu", "sm_86", "--json"]])
def test_a_full_output_is_a_full_disk(argv: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        code, said = run(argv, stdout=full)
    assert code == 1, said
    assert "bug" not in said and "No space left" in said


def test_a_closed_output_is_one_line() -> None:
    code, said = run(["sh", "-c", '"$@" >&-', "sh", *ARGV])
    assert code == 2, said
    assert len(said.strip().splitlines()) <= 2 and "bug" not in said


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    big = tmp_path / "big.json"
    big.write_bytes(b'{"x": [' + b"[]," * 15_000_000 + b"[]]}")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    code, said = run([sys.executable, "-m", "rekindle", "export", "sh", "--plan", str(big)], preexec_fn=limit)
    assert code in (1, 2), said
    assert "bug in rekindle" not in said


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -1 >/dev/null; exit "${PIPESTATUS[0]}"', "bash", *ARGV],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_no_crash_report_can_be_written_and_it_still_says_so(monkeypatch: pytest.MonkeyPatch, capsys: object) -> None:
    from rekindle.cli import main as door

    monkeypatch.setattr(door, "_dispatch", lambda argv: 1 // 0)
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    assert door.main(["x"]) == 4
    said = capsys.readouterr().err  # type: ignore[attr-defined]
    assert "no crash report could be written" in said


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_sighup_leaves_no_crash_report(tmp_path: Path) -> None:
    code = (
        "import os,signal,time\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup would have it ignored
        "from rekindle.cli import main as door\n"
        "def wait(argv):\n    os.kill(os.getpid(), signal.SIGHUP); time.sleep(5); return 0\n"
        "door._dispatch = wait\nimport sys\nsys.exit(door.main(['x']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True
    )
    assert done.returncode in (3, -1), done
    assert not list(tmp_path.glob("rekindle-crash-*"))
