"""The real machine: what is on PATH, on the disk and in Windows' registry, and what another Python answers."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.host import live
from rekindle.host.live import LiveHost, ask_python
from rekindle.host.protocol import Completed


def _program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


posix = pytest.mark.skipif(os.name == "nt", reason="programs are scripts here")


@posix
def test_every_program_of_a_name_in_the_order_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two, one = _program(tmp_path / "two/tool"), _program(tmp_path / "one/tool")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (two.parent, "", tmp_path / "empty", one.parent, two.parent))))
    host = LiveHost()
    assert host.which_all("tool") == (str(two), str(one)) and host.which("tool") == str(two)
    assert host.which_all("none") == () and host.which_all("python") == (sys.executable,)


def test_what_is_read_is_bounded_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    host = LiveHost()
    (tmp_path / "a").write_bytes(b"12345")
    assert host.read(str(tmp_path / "a"), limit=3) == b"123" and host.read(str(tmp_path / "b")) is None
    (tmp_path / "large").write_bytes(bytes((1 << 20) + 1))
    assert len(host.read(str(tmp_path / "large")) or b"") == 1 << 20
    assert host.access(str(tmp_path / "a")) is True and host.access(str(tmp_path / "b")) is None


def test_a_machine_has_one_name_for_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, name in (("AMD64", "x86_64"), ("arm64", "aarch64"), ("aarch64", "aarch64")):
        monkeypatch.setattr("platform.machine", lambda said=said: said)
        assert LiveHost().machine == name


def test_the_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    here, there = LiveHost().disk(str(tmp_path)), LiveHost().disk(str(tmp_path / "not/yet"))
    assert here and there and here.total == there.total > 0 and here.device == there.device


def test_memory_is_known_where_swap_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows with its performance counters switched off."""
    import psutil

    def refuse() -> Any:
        raise RuntimeError("PdhAddEnglishCounterW failed. Performance counters may be disabled.")

    monkeypatch.setattr(psutil, "swap_memory", refuse)
    memory = LiveHost().memory()
    assert memory and memory.total > 0 and memory.swap is None and memory.commit_limit is None
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(live, "_job_limit", lambda: 5)
    windows = LiveHost().memory()
    assert windows and windows.total == memory.total and windows.commit_limit is None and windows.job_limit == 5


def test_memory_is_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = LiveHost().memory()
    assert (
        memory and LiveHost().memory() and 0 < (memory.available or 0) <= memory.total and memory.commit_limit is None
    )
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(live, "_job_limit", lambda: 7)
    windows = LiveHost().memory()
    assert windows and windows.job_limit == 7 and windows.commit_limit == windows.total + (windows.swap or 0)


@pytest.mark.parametrize(
    ("flags", "ok", "limit"), [(0x300, 1, 40), (0x100, 1, 50), (0x200, 1, 40), (0, 1, None), (0x300, 0, None)]
)
def test_the_job_that_bounds_us_on_windows(
    monkeypatch: pytest.MonkeyPatch, flags: int, ok: int, limit: int | None
) -> None:
    class Kernel:
        def QueryInformationJobObject(self, job: object, kind: int, limits: Any, *_: object) -> int:
            asked = limits._obj
            asked.BasicLimitInformation.LimitFlags = flags
            asked.ProcessMemoryLimit, asked.JobMemoryLimit = 50, 40
            return ok

    monkeypatch.setattr("ctypes.WinDLL", lambda name: Kernel(), raising=False)
    assert live._job_limit() == limit


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library")
def test_the_kernel_says_what_the_processor_can(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def getauxval(self, kind: int) -> int:
            return kind * 1000

    class Call:
        def __init__(self, function: Any) -> None:
            self.function = function

        def __call__(self, kind: int) -> int:
            return int(self.function(kind))

    monkeypatch.setattr("ctypes.CDLL", lambda name: type("C", (), {"getauxval": Call(Library().getauxval)})())
    assert LiveHost().hwcap() == (16000, 26000)
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert LiveHost().hwcap() is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert LiveHost().hwcap() is None and LiveHost().system == "macos"


def test_cores_are_unknown_where_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, known in ((4, 4), (None, None), (0, None)):
        monkeypatch.setattr("psutil.cpu_count", lambda logical, said=said: said if logical is False else 99)
        assert LiveHost().cores() == known


@posix
def test_a_python_that_cannot_answer_says_why(tmp_path: Path) -> None:
    host = LiveHost()
    assert (host.python(sys.executable) or {}).get("version")
    broken = _program(tmp_path / "broken", "#!/bin/sh\necho one >&2; echo two >&2; exit 5\n")
    assert host.python(str(broken)) == {"error": "two", "exit_code": 5}
    silent = _program(tmp_path / "silent", "#!/bin/sh\nexit 1\n")
    assert host.python(str(silent)) == {"error": "it said nothing", "exit_code": 1}
    old = _program(tmp_path / "old", '#!/bin/sh\n[ "$1" = -I ] && exit 2\necho \'{"words": "\'$1 $2\'"}\'\n')
    assert host.python(str(old)) == {"words": "-E -s"}
    deep = _program(tmp_path / "deep", '#!/bin/sh\necho "{\\"deep\\": \\"$REKINDLE_DEEP\\"}"\n')
    assert host.torch(str(deep)) == {"deep": ""} and host.torch(str(deep), deep=True) == {"deep": "1"}


class Answering(BareHost):
    """A machine whose programs end with ``code`` and say ``out``."""

    def __init__(self, code: int, out: str, err: str = "") -> None:
        super().__init__()
        self.said = (code, out, err)

    def run(self, argv: Any, *, timeout: float = 5.0, env: Any = None) -> Completed:
        code, out, err = self.said
        return Completed(argv=tuple(argv), code=code, out=out, err=err)


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        (Answering(0, "noise\n[1]\n"), ([1], "no message")),
        (Answering(1, "[1]\n", "first\nlast\n"), (None, "last")),
        (Answering(0, "no json", "why"), (None, "why")),
        (Answering(0, ""), (None, "no message")),
    ],
)
def test_a_script_in_another_python(host: BareHost, answer: tuple[object, str]) -> None:
    assert ask_python(host, "python3", "print(1)") == answer
