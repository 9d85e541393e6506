"""The runner against little packages that work, lie, crash, hang and vanish. No compiler, no torch."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport
from rekindle.verify.gather import read_events
from rekindle.verify.runner import _ending_words, _with_complaint, run_checks
from rekindle.verify.target import CHECKS, Target, Trial
from spark_stand_in import GOOD

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")

ILLEGAL = """
def dot(x, y):
    import ctypes, mmap, platform
    code = b"\\x0f\\x0b" if platform.machine() in ("x86_64", "AMD64") else b"\\0\\0\\0\\0"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
NULL = "\ndef dot(x, y):\n    import ctypes\n    return ctypes.string_at(0)\n"


HANG = "\ndef dot(x, y):\n    import time\n    time.sleep(600)\n"


def try_package(
    folder: Path, source: str, *, level: str = "full", patience: float = 1.0, inline: bool = False, **more: object
) -> VerifyReport:
    package = folder / "päckages here" / "spark"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source, encoding="utf-8")
    target = Target(
        command=(sys.executable,),
        env={"PYTHONPATH": str(package.parent)},
        package="spark",
        patience=patience,
        inline=inline,
    )
    return run_checks(target, Trial(level=level, **more))  # type: ignore[arg-type]


def status(report: VerifyReport) -> dict[str, str]:
    return {check.id: check.status for check in report.checks}


def find(report: VerifyReport, id: str):  # type: ignore[no-untyped-def]
    return next(check for check in report.checks if check.id == id)


def test_a_good_package_passes_and_what_cannot_be_tried_is_skipped(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD)
    got = status(report)
    assert got["dot"] == got["checksum"] == got["import.spark"] == "passed"
    assert got["cuda"] == "skipped" and "without CUDA" in find(report, "cuda").detail
    assert report.failed == 0 and report.good


def test_smoke_is_a_part_of_full(tmp_path: Path) -> None:
    smoke = try_package(tmp_path / "a", GOOD, level="smoke")
    full = try_package(tmp_path / "b", GOOD, level="full")
    assert set(status(smoke)) < set(status(full))


def test_a_wrong_number_fails_with_both_numbers(tmp_path: Path) -> None:
    report = try_package(
        tmp_path, GOOD + "\ndef axpy(a, x, y): return [a * u + v + (1e-3 if u == x[5] else 0) for u, v in zip(x, y)]\n"
    )
    bad = find(report, "axpy")
    assert bad.status == "failed" and "reference" in bad.detail and bad.remedy
    assert status(report)["dot"] == "passed"


def test_not_a_number_is_never_close(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD + "\ndef axpy(a, x, y): return [float('nan')] * len(x)\n")
    assert status(report)["axpy"] == "failed"


@posix
@pytest.mark.parametrize(("source", "signal"), [(ILLEGAL, "SIGILL"), (NULL, "SIGSEGV")])
def test_a_crash_is_one_failed_check_and_the_rest_still_runs(tmp_path: Path, source: str, signal: str) -> None:
    report = try_package(tmp_path, GOOD + source)
    bad = find(report, "dot")
    assert bad.status == "failed" and bad.crash is not None and bad.crash.signal == signal
    assert bad.crash.instruction, "the bytes at the program counter"
    if signal == "SIGILL":
        assert bad.crash.instruction.startswith(("0f0b", "00000000"))
    else:
        assert (bad.crash.library and "libc" in bad.crash.library) or "python" in bad.crash.library
    assert status(report)["checksum"] == "passed"
    assert {check.id for check in report.checks if check.status == "failed"} == {"dot", "errors"}  # both call it


@posix
def test_a_crash_in_the_import_ends_the_run_with_its_name(tmp_path: Path) -> None:
    report = try_package(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    bad = find(report, "import.spark")
    assert bad.status == "failed" and "SIGSEGV" in bad.detail
    assert "dot" not in status(report) and not report.good


def test_an_import_error_is_a_failed_check(tmp_path: Path) -> None:
    report = try_package(tmp_path, "raise ImportError('libspark.so: cannot open shared object file')\n")
    assert "libspark.so" in find(report, "import.spark").detail


@posix
def test_a_hanging_check_is_stopped_and_the_rest_still_runs(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD + HANG, patience=0.05)
    assert "no answer" in find(report, "dot").detail
    assert "hangs" in str(find(report, "dot").remedy), "not what helps against wrong numbers"
    assert status(report)["checksum"] == "passed"


@posix
def test_a_check_that_leaves_without_a_word_failed(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD + "\ndef dot(x, y):\n    import os\n    os._exit(0)\n")
    assert "without a word" in find(report, "dot").detail


def test_only_what_was_asked_for_runs(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD, only=("dot", "op*"))
    assert set(status(report)) == {"import.spark", "dot", "operators"}


def test_what_the_plan_promises_is_compared(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD, expect={"version": "0.4.0", "settings": {"USE_CUDA": "ON"}})
    assert status(report)["version"] == status(report)["settings"] == "failed"
    assert "USE_CUDA is OFF, ON was planned" in find(report, "settings").detail


def test_settings_agree_in_whatever_words(tmp_path: Path) -> None:
    report = try_package(tmp_path, GOOD, expect={"settings": {"USE_CUDA": "0", "BUILD_PYTHON": "ON"}})
    assert status(report)["settings"] == "passed" and "1 settings as planned" in find(report, "settings").detail


def test_a_package_that_prints_does_not_disturb(tmp_path: Path) -> None:
    report = try_package(tmp_path, "print('{\"event\": \"done\"}')\nimport os; os.write(1, b'noise\\n')\n" + GOOD)
    assert report.good and "dot" in status(report)


def test_an_interpreter_that_ends_at_once_is_a_failed_start(tmp_path: Path) -> None:
    target = Target(command=(sys.executable, "-c", "raise SystemExit('not today')"), package="spark")
    report = run_checks(target)
    assert report.failed == 1 and "not today" in report.checks[0].detail


def test_a_line_of_more_than_a_megabyte_is_nothing_an_agent_says(tmp_path: Path) -> None:
    says = (
        "import json\n"
        "for size in (1 << 20, (1 << 20) + 1):\n"
        "    event = {'event': 'end', 'id': str(size), 'status': 'passed', 'detail': ''}\n"
        "    event['detail'] = 'x' * (size - len(json.dumps(event)))\n"
        "    print(json.dumps(event))\n"
        "print(json.dumps({'event': 'done'}))\n"
    )
    report = run_checks(Target(command=(sys.executable, "-c", says), package="spark"))
    assert [check.id for check in report.checks] == [str(1 << 20)]


@pytest.mark.parametrize("source", [ILLEGAL, "\ndef dot(x, y):\n    import os\n    os._exit(9)\n"])
def test_without_fork_a_crash_still_costs_one_check_each(tmp_path: Path, source: str) -> None:
    report = try_package(tmp_path, GOOD + source, inline=True)
    got = status(report)
    assert got["dot"] == got["errors"] == "failed" and got["checksum"] == got["operators"] == "passed"
    assert len(got) == len(report.checks), "each check is told about once"
    assert find(report, "dot").detail


def test_without_fork_a_good_package_passes(tmp_path: Path) -> None:
    forked, inline = try_package(tmp_path / "a", GOOD), try_package(tmp_path / "b", GOOD, inline=True)
    assert status(forked) == status(inline)


def test_without_fork_a_crash_in_the_import_ends_the_run(tmp_path: Path) -> None:
    report = try_package(tmp_path, "import os\nos._exit(5)\n", inline=True)
    assert find(report, "import.spark").status == "failed" and "dot" not in status(report)


def alive(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_a_killed_run_leaves_no_check_behind(tmp_path: Path, number: str) -> None:
    package = tmp_path / "spark"
    package.mkdir()
    (package / "__init__.py").write_text(GOOD + HANG)
    mark = f"REKINDLE_TEST_MARK={tmp_path}"
    script = (
        "import sys; from rekindle.verify.runner import run_checks; from rekindle.verify.target import CHECKS, Target\n"
        f"class Tell:\n    def stage(self, *a): pass\n    def step(self, d, t, x=''): print(x, flush=True)\n"
        "    def note(self, x): pass\n"
        f"run_checks(Target(command=(sys.executable,), package='spark', env={{'PYTHONPATH': {str(tmp_path)!r}, "
        f"'REKINDLE_TEST_MARK': {str(tmp_path)!r}}}), progress=Tell())\n"
    )
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    while (line := run.stdout.readline()) and line.strip() != "dot":
        pass
    # The check is announced just before it is started.
    deadline = time.monotonic() + 30
    while not alive(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(mark), "the hanging check runs"
    run.send_signal(getattr(signal, number))
    run.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while alive(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(mark)


def other_pythons() -> list[str]:
    """Interpreters of other versions, as developers have them."""
    places = [*Path.home().glob(".pyenv/versions/3.*/bin/python"), *Path("/opt/python").glob("cp3*/bin/python")]
    found = {place.parent.parent.name: str(place) for place in places}
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize("python", other_pythons() or [None])
def test_the_agent_runs_under_every_python_from_3_6(python: str | None, tmp_path: Path) -> None:
    if python is None:
        pytest.skip("no other Python versions on this machine")
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "__init__.py").write_text(GOOD + NULL)
    target = Target(command=(python,), env={"PYTHONPATH": str(tmp_path)}, package="spark")
    report = run_checks(target, Trial(level="full"))
    assert status(report)["checksum"] == "passed", report.checks
    crash = find(report, "dot").crash
    assert crash is not None and crash.signal == "SIGSEGV"


def test_what_an_agent_said_elsewhere_becomes_the_same_report(tmp_path: Path) -> None:
    """On a machine without Rekindle the agent is run by hand; its words are read here."""
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "__init__.py").write_text(GOOD + NULL)
    agent = [sys.executable, str(CHECKS / "agent.py")]
    said = subprocess.run(
        agent,
        input=b'{"package": "spark", "level": "full"}',
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        check=True,
    ).stdout
    (tmp_path / "events.jsonl").write_bytes(said)
    report = read_events(LiveHost(), tmp_path / "events.jsonl", "full", Silent())
    target = Target(command=(sys.executable,), env={"PYTHONPATH": str(tmp_path)}, package="spark")
    assert status(report) == status(run_checks(target, Trial(level="full")))
    (tmp_path / "half.jsonl").write_bytes(said[: len(said) // 2].rpartition(b"\n")[0])
    assert not read_events(LiveHost(), tmp_path / "half.jsonl", "full", Silent()).good
    (tmp_path / "junk.jsonl").write_text("[1, 2]\n")
    with pytest.raises(BadInput):
        read_events(LiveHost(), tmp_path / "junk.jsonl", "full", Silent())


def test_what_was_complained_about_last_is_read_from_the_end(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    assert _with_complaint("it died", log) == "it died"
    log.write_bytes(b"\n \n")
    assert _with_complaint("it died", log) == "it died"
    log.write_bytes(b"first\n  last words \xff\n\n")
    assert _with_complaint("it died", log) == "it died: last words \ufffd"
    log.write_bytes(b"x" * 5000 + b"\nout of memory\n")
    assert _with_complaint("it died", log) == "it died: out of memory"
    log.write_bytes(b"y" * 5000)
    assert _with_complaint("it died", log) == f"it died: {'y' * 300}"


class OpenBox:
    """A sandbox that hides nothing."""

    def wrap(
        self, argv: Sequence[str], *, work: Path, env: Mapping[str, str], shown: Iterable[Path] = ()
    ) -> tuple[list[str], dict[str, str]]:
        return list(argv), dict(env)


@pytest.mark.parametrize(
    ("boxed", "code", "words"),
    [
        (True, 137, "died of signal 9"),
        (True, 129, "died of signal 1"),
        (True, 128, "exit code 128"),
        (False, 137, "exit code 137"),
        (True, 1, "exit code 1"),
    ],
)
def test_a_sandbox_tells_of_signals_as_shells_do(boxed: bool, code: int, words: str) -> None:
    box: Any = OpenBox() if boxed else None
    target = Target(command=(sys.executable, "-c", f"import os; os._exit({code})"), package="spark", sandbox=box)
    assert words in run_checks(target).checks[0].detail


def test_windows_codes_are_told_as_windows_names_them() -> None:
    assert _ending_words(0xC0000005).endswith("0xc0000005") and _ending_words(2**31 - 1).endswith("2147483647")
    assert (
        _ending_words(2**31).endswith("0x80000000")
        and _ending_words(-11).endswith("signal 11")
        and _ending_words(0).endswith("exit code 0")
    )


@pytest.mark.parametrize(
    ("told", "claims"),
    [
        ({"gpu": False}, ("cpu",)),
        ({"gpu": False, "expect": {"cuda": "12.4"}}, ("cpu",)),
        ({"expect": {"rocm": "6.2"}}, ("cpu", "gpu")),
        ({"gpu": True}, ("cpu", "gpu")),
        ({}, ("cpu", "gpu")),
    ],
)
def test_what_is_claimed_of_a_gpu_is_what_was_told_or_promised(
    told: dict[str, Any], claims: tuple[str, ...], tmp_path: Path
) -> None:
    assert try_package(tmp_path, GOOD, level="smoke", **told).claims == claims
