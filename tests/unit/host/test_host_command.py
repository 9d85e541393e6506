"""Short commands: a hang, a flood, a fork, a strange code page cost their own answer and nothing else."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from rekindle.host.live import MAX_OUTPUT_BYTES, LiveHost, decode, kill_group


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def gone(pid: int) -> bool:
    for _ in range(100):
        # A killed child whose parent died is reaped by init a moment later; a zombie counts as gone.
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_a_hanging_tool_is_stopped_with_its_children(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(noted)!r}, 'w').write(str(child.pid))\n"
        "print('so far', flush=True)\n"
        "time.sleep(60)\n"
    )
    # A Windows Python takes its time to start.
    done = LiveHost().run(python(script), timeout=2.0 if sys.platform != "win32" else 10.0)
    assert done.timed_out and done.code is None
    assert done.out == "so far\n"
    assert gone(int(noted.read_text()))


def test_a_tool_that_leaves_a_daemon_with_its_pipes_is_not_waited_for() -> None:
    script = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']); print('hi')"
    )
    begin = time.monotonic()
    done = LiveHost().run(python(script), timeout=15)
    assert done.ok and done.out == "hi\n"
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(("most", "kept"), [(9, "123456789"), (10, "1234567890"), (11, "1234567890")])
def test_of_a_flood_as_much_is_kept_as_fits(most: int, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.host.live.MAX_OUTPUT_BYTES", most)
    assert LiveHost().run(python("print('1234567890', end='')"), timeout=30).out == kept


def test_a_flood_is_cut() -> None:
    done = LiveHost().run(python("import sys\nfor _ in range(200): sys.stdout.write('x' * 65536)"), timeout=30)
    assert done.ok
    assert len(done.out) == MAX_OUTPUT_BYTES


def test_bytes_of_no_known_code_page_are_marked_not_raised() -> None:
    done = LiveHost().run(python("import sys; sys.stdout.buffer.write(b'caf\\xe9 \\x80\\r\\n')"), timeout=10)
    assert done.out == "caf\ufffd \ufffd\n"


def test_what_cannot_start_says_so(tmp_path: Path) -> None:
    assert LiveHost().run([str(tmp_path / "none")], timeout=1).code is None
    plain = tmp_path / "plain"
    plain.write_text("not a program")
    done = LiveHost().run([str(plain)], timeout=1)
    assert done.code is None and ("ermission" in done.err or "WinError" in done.err)


def test_tools_are_asked_in_english() -> None:
    done = LiveHost().run(python("import os; print(os.environ['LC_ALL'])"), timeout=10)
    assert done.out == "C.UTF-8\n"


@pytest.mark.parametrize("text", ["Default Version: 2", "Ubuntu 22.04"])
def test_utf16_without_a_mark_is_understood(text: str) -> None:
    """wsl.exe writes it so."""
    assert decode(text.encode("utf-16-le")) == text
    assert decode(text.encode("utf-16")) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\x00b\x00", "ab"),
        (b"a\x00b", "a\x00b"),
        (b"a\x00\x62\x63", "a\x00bc"),
        ("\ufeffab".encode("utf-16"), "ab"),
        (b"a\r\nb\xff", "a\nb\ufffd"),
        (b"", ""),
    ],
)
def test_text_of_a_tool_is_read_in_the_code_it_is_written_in(raw: bytes, text: str) -> None:
    assert decode(raw).lstrip("\ufeff") == text


@pytest.mark.skipif(sys.platform == "win32", reason="groups of processes")
def test_a_group_is_ended_by_its_own_number_and_on_windows_child_by_child(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        pid, killed, waited = 4321, False, False

        def kill(self) -> None:
            self.killed = True

        def wait(self, seconds: float) -> None:
            self.waited = True

        def children(self, recursive: bool) -> list[Process]:
            return [child] if recursive else []

    process, child = Process(), Process()
    groups: list[int] = []
    monkeypatch.setattr("os.killpg", lambda pid, number: groups.append(pid))
    monkeypatch.setattr(psutil, "Process", lambda pid: process)
    kill_group(process)  # type: ignore[arg-type]
    assert groups == [4321] and process.killed and process.waited and not child.killed
    monkeypatch.setattr(sys, "platform", "win32")
    kill_group(process)  # type: ignore[arg-type]
    assert groups == [4321] and child.killed
