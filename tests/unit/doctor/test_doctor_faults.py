"""Whatever a machine answers, or does not answer, the doctor ends in time with the rest and says what is missing."""

from __future__ import annotations

import os
import random
import shutil
import stat
import string
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rekindle.doctor.examine import OUR_BUG, examine
from rekindle.host.capture import RecordedHost, read_capture
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey
from rekindle.model.document import decode, encode
from rekindle.model.machine import Examination
from rekindle.toolkits.programs import find_cmake, find_ninja

MACHINES = Path(__file__).parents[2] / "machines"
NAMES = sorted(path.name for path in MACHINES.iterdir())


def sound(document: Examination) -> None:
    """A valid document without a mistake of ours in it."""
    assert decode(encode(document), Examination) == document
    assert not [gap for gap in document.gaps if OUR_BUG in gap.why]


class Stuck(RecordedHost):
    """A machine on which some questions never come back, not even at their timeout."""

    def __init__(self, name: str, *stuck: str) -> None:
        super().__init__(read_capture(MACHINES / name))
        self._stuck = stuck
        self.released = threading.Event()

    def _maybe(self, question: str) -> None:
        if question in self._stuck:
            self.released.wait(30)

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self._maybe("run " + argv[0].replace("\\", "/").rsplit("/", 1)[-1])
        return super().run(argv, timeout=timeout, env=env)

    def disk(self, path: str) -> Disk | None:
        self._maybe("disk")
        return super().disk(path)

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        self._maybe("nvml")
        return super().nvml(timeout=timeout)

    def glob(self, pattern: str) -> tuple[str, ...]:
        self._maybe(f"glob {pattern}")
        return super().glob(pattern)


@pytest.mark.parametrize(
    ("stuck", "lost"),
    [
        (("disk",), {"disks"}),
        (("nvml",), {"graphics"}),
        (("run git",), {"version of git"}),
        (("run gcc", "run getconf"), {"compiler /usr/bin/gcc", "system"}),
        (("glob /usr/local/cuda*",), {"toolkits"}),
    ],
)
def test_a_question_that_never_returns_costs_only_its_own_answer(stuck: tuple[str, ...], lost: set[str]) -> None:
    host = Stuck("e5-2690v2-rtx3060-ubuntu2204", *stuck)
    try:
        begin = time.monotonic()
        document = examine(host, deadline_s=4.0).examination  # long enough for the other answers on a busy machine
        assert time.monotonic() - begin < 25, "it waited for the question itself"
    finally:
        host.released.set()
    sound(document)
    assert {gap.what for gap in document.gaps if "in time" in gap.why} == lost
    assert document.cpu.microarchitecture == "ivybridge"
    assert ("graphics" in lost) or document.gpus


class Babel(RecordedHost):
    """A machine whose every answer may be replaced by nonsense."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(read_capture(MACHINES / name))
        self._dice = random.Random(seed)
        self._lock = threading.Lock()

    def _luck(self) -> bool:
        with self._lock:
            return self._dice.random() < 0.5

    def _text(self) -> str:
        with self._lock:
            dice = self._dice
            letters = string.printable + "äé漢\x00\x1b\ufffd,:=|"
            words = [
                "10de:2503",
                "0x",
                "gfx",
                "gfx9",
                "-1",
                "9" * 30,
                "N/A",
                "{}",
                "[]",
                "null",
                "8.6",
                "1.2.3",
                "14.40.33807",
            ]
            pieces = [
                dice.choice(words) if dice.random() < 0.4 else dice.choice(letters) for _ in range(dice.randrange(40))
            ]
            return "".join(pieces)

    def _value(self, depth: int = 2) -> Any:
        with self._lock:
            kind = self._dice.randrange(7 if depth else 5)
        if kind == 5:
            return [self._value(depth - 1) for _ in range(2)]
        if kind == 6:
            return {self._text(): self._value(depth - 1)}
        return [None, self._text(), -1, 2.5, True][kind]

    def _mapping(self, real: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return {key: self._value() if self._luck() else value for key, value in (real or {}).items()}

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if self._luck():
            return super().run(argv, timeout=timeout, env=env)
        code = [0, 0, 1, 18, None][len(self._text()) % 5]
        return Completed(argv=tuple(argv), code=code, out=self._text() + "\n" + self._text(), err=self._text())

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        real = super().read(path, limit=limit)
        if real is None or self._luck():
            return real
        with self._lock:
            if self._dice.random() < 0.5:
                return real[: self._dice.randrange(len(real) + 1)]
        return self._text().encode("utf-16" if self._luck() else "utf-8")

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self._mapping(super().nvml())

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self._mapping(super().python(path))

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        return self._mapping(super().torch(path))

    def registry(self, key: str) -> RegistryKey | None:
        real = super().registry(key)
        if real is None or self._luck():
            return real
        values = {name: -5 if self._luck() else self._text() for name in real.values}
        return RegistryKey(values=values, keys=(*real.keys, self._text()))

    def cpuid(self) -> Cpuid | None:
        real = super().cpuid()
        if real is None or self._luck():
            return real
        return Cpuid(leaves={(0, 0): (0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), (0x80000002, 0): (255, 254, 253, 252)})

    def memory(self) -> Memory | None:
        return super().memory() if self._luck() else None


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_nonsense_is_no_answer_and_no_crash(name: str, seed: int) -> None:
    sound(examine(Babel(name, seed), deadline_s=20).examination)


def tool(place: Path, name: str, body: str) -> None:
    path = place / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.skipif(os.name != "posix", reason="fake tools are shell scripts")
def test_real_tools_that_hang_lie_or_may_not_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the live host, with its timeouts and its killing of process groups."""
    tools = tmp_path / "bin"
    tools.mkdir()
    tool(tools, "nvidia-smi", "sleep 60 & sleep 60")
    for name in ("cmake", "uv"):
        tool(tools, name, f"printf '{name} version \\303\\050 \\377\\376'")
    for name in ("ninja", "lld"):
        tool(tools, name, "echo 'Version inconnue' >&2; exit 3")
    tool(tools, "ccache", "yes")
    tool(tools, "git", "echo git version 2.39.5")
    (tools / "sccache").write_text("not executable for anyone")
    # Nothing else of this machine: it may have a real sccache.
    for name in ("sleep", "yes"):
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("HOME", str(tmp_path))
    begin = time.monotonic()
    # Long enough for a busy machine to start a shell; what hangs hangs for a minute.
    document = examine(LiveHost(), deadline_s=10.0).examination
    assert time.monotonic() - begin < 50
    sound(document)
    assert document.tools["git"] == "2.39.5"
    assert document.tools["uv"] == "?" and document.tools["lld"] == "?"
    # Of these a build then takes our own.
    assert document.tools["cmake"] == find_cmake(LiveHost(), None).version
    assert document.tools["ninja"] == find_ninja(LiveHost(), None).version
    # The machine may have a real one further along PATH; ours must not count.
    assert document.tools["sccache"] is None
    said = " ".join(f"{gap.what}: {gap.why}" for gap in document.gaps)
    assert "version of uv" in said and "Version inconnue" in said


@pytest.mark.skipif(sys.platform == "win32", reason="fake tools are shell scripts")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc")
def test_nothing_is_left_running_when_everything_hangs(tmp_path: Path) -> None:
    """The whole program, with every tool hanging and forking: it ends, and so does all it started."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("git", "cmake", "gcc", "clang", "getconf", "ldd", "python3", "python", "nvidia-smi", "dpkg-query"):
        tool(tools, name, "sleep 300 & sleep 300")
    script = (
        "import sys\nfrom rekindle.doctor.examine import examine\nfrom rekindle.host.live import LiveHost\n"
        "examination = examine(LiveHost(), deadline_s=2.0).examination\n"
        "sys.exit(0 if any('time' in gap.why for gap in examination.gaps) else 5)\n"
    )
    mark = f"REKINDLE_TEST_MARK={tmp_path}"
    env = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "REKINDLE_TEST_MARK": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes() and ") Z " not in (process / "stat").read_text():
                left.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    assert left == []
