"""A program that is heard twice: where it would speak, and in a copy; its end as shells say it. And Windows' jobs."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle.host import windows_job
from rekindle.host.keys import believed_keys, key_folder, new_key
from rekindle.host.process import run_and_copy, start_background
from rekindle.host.text import joined, key_values, last_line, memory_sizes, version_in, version_key
from rekindle.host.windows_job import start_in_job


def _copy(*argv: str, out: Any = None, **more: Any) -> tuple[int, bytes, bytes, bytes]:
    copy, told, err = io.BytesIO(), out or io.BytesIO(), io.BytesIO()
    code = run_and_copy(argv, copy, out=told, err=err, **more)
    return code, told.getvalue(), err.getvalue(), copy.getvalue()


@needs.posix()
def test_both_streams_are_heard_and_copied() -> None:
    code, out, err, copy = _copy("sh", "-c", "echo said; echo complained >&2; exit 7")
    assert (code, out, err) == (7, b"said\n", b"complained\n")
    assert sorted(copy.splitlines()) == [b"complained", b"said"]
    assert _copy("sh", "-c", "kill -TERM $$")[0] == 128 + 15
    assert _copy("sh", "-c", "echo $X", env={"PATH": os.environ["PATH"], "X": "told"})[1] == b"told\n"


@needs.posix()
def test_what_cannot_be_started_is_told_as_shells_do(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    words = f"{missing}: command not found\n".encode()
    assert _copy(missing) == (127, b"", words, words)
    plain = tmp_path / "plain"
    plain.write_text("text")
    assert _copy(str(plain))[::2] == (126, f"{plain}: Permission denied\n".encode())
    plain.write_text("#!/no/such/interpreter\n")
    plain.chmod(0o755)
    assert _copy(str(plain))[::2] == (126, f"{plain}: cannot execute: required file not found\n".encode())
    plain.write_bytes(b"\x7fELF and nothing more")
    assert _copy(str(plain))[::2] == (126, f"{plain}: Exec format error\n".encode())


@needs.posix()
def test_who_copies_keeps_no_program_from_ending() -> None:
    copying: list[bool] = []

    class Told(io.BytesIO):
        def write(self, data: Any) -> int:
            copying.append(threading.current_thread().daemon)
            return super().write(data)

    assert _copy("sh", "-c", "echo said", out=Told())[1] == b"said\n" and set(copying) == {True}


class Closing(io.BytesIO):
    """A reader that goes away after its first piece."""

    def write(self, data: Any) -> int:
        if self.tell():
            raise BrokenPipeError
        return super().write(data)


@needs.posix()
def test_a_reader_that_goes_away_does_not_end_the_program() -> None:
    script = "import sys, time\nfor n in range(3):\n print(n, flush=True); time.sleep(0.02)\nsys.exit(5)"
    code, out, _, copy = _copy(sys.executable, "-c", script, out=Closing())
    assert code == 5 and copy == b"0\n1\n2\n" and out.strip() == b"0"


@needs.posix()
def test_a_server_speaks_to_its_log_and_not_to_our_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    script = "import os, sys; print(os.getsid(0) == os.getpid(), os.environ['X']); sys.stderr.write('err\\n')"
    process = start_background([sys.executable, "-c", script], {"X": "told"}, log)
    assert process.wait(timeout=60) == 0
    assert sorted(log.read_text().splitlines()) == ["True told", "before", "err"]


# Words and numbers out of what tools say


def test_words_and_numbers_of_tools() -> None:
    assert joined("windows", "C:\\CUDA", "bin") == "C:\\CUDA\\bin" and joined("linux", "/usr", "bin") == "/usr/bin"
    assert version_in("cmake version 3.25.1\n4.0") == "3.25.1" and version_in("version 3") is None
    assert version_key("11.4.4") < version_key("11.10") and version_key(None) == () == version_key("none")
    assert version_key("1.2.3.4.5") == (1, 2, 3, 4)
    assert last_line("one\n two \n\n") == "two" and last_line("\n", "nothing") == "nothing"
    assert key_values("A=1\n#B=2\nA=3\nC='x'\n=4\nnone") == {"A": "1", "C": "x"}
    assert memory_sizes(b"MemTotal: 2 kB\nHugePages: 3\nOdd: x\nNone:\n") == {"MemTotal": 2048, "HugePages": 3}


@needs.posix()
def test_keys_lie_where_the_variable_says_or_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "own"))
    assert key_folder() == tmp_path / "own" and believed_keys() == ()
    made = new_key("mine", tmp_path / "own")
    other = new_key("other", tmp_path / "elsewhere")
    assert [key.id for key in believed_keys()] == [made.id]
    assert [key.id for key in believed_keys([other.path])] == [other.id]
    monkeypatch.delenv("REKINDLE_KEYS")
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name, appauthor: f"/c/{name}{'/' * appauthor}")
    assert key_folder() == Path("/c/rekindle/keys")


class Kernel:
    """Windows' calls for jobs; ``refuses`` is the one that does not work."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses, self.calls = refuses, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        class Call:
            restype: object = None

            def __call__(call, *words: Any) -> int:
                limits = [word._obj for word in words if hasattr(word, "_obj")]
                self.calls.append((name, [each.BasicLimitInformation.LimitFlags for each in limits]))
                return 0 if name == self.refuses else 9

        self.__dict__[name] = Call()
        return self.__dict__[name]

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class Started:
    """A process as Windows' Popen is; it ends when it is told to."""

    _handle = 77

    def __init__(self, *_: object, **words: Any) -> None:
        self.words, self.killed = words, False

    def wait(self) -> int:
        return 0

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr("ctypes.WinDLL", lambda name, **_: kernel, raising=False)
    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(windows_job.JobObject, "_watch", lambda self, process: None)
    return kernel


def test_a_process_of_windows_runs_once_its_job_holds_it(
    windows: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching: list[bool] = []
    monkeypatch.setattr(
        windows_job.JobObject, "_watch", lambda self, process: watching.append(threading.current_thread().daemon)
    )
    process, job = start_in_job(["tool"], tmp_path, {})
    while not watching:
        time.sleep(0.01)
    assert watching == [True], "who watches it keeps no program from ending"
    assert windows.names() == [
        "CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject", "NtResumeProcess"
    ]  # fmt: skip
    assert windows.calls[1][1] == [0x2000], "what is in the job ends with it"
    assert process.words["creationflags"] == 0x204, "suspended, in a group of its own"  # type: ignore[attr-defined]
    job.terminate()
    job.terminate()
    assert windows.names()[4:] == ["TerminateJobObject", "CloseHandle"], "the first call counts"


@pytest.mark.parametrize("refuses", ["CreateJobObjectW", "SetInformationJobObject", "AssignProcessToJobObject"])
def test_without_a_job_nothing_runs(windows: Kernel, tmp_path: Path, refuses: str) -> None:
    windows.refuses = refuses
    with pytest.raises(OSError, match="job object"):
        start_in_job(["tool"], tmp_path, {})
    assert "NtResumeProcess" not in windows.names()
