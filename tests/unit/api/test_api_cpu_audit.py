"""When verify reads the libraries, which ones, and what it does where they cannot be read."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rekindle.api.inspect_wheel  # noqa: F401
from rekindle.errors import BadInput
from rekindle.model.machine import Cpu
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyOptions
from rekindle.model.wheel import CodeEvidence, WheelCpu, WheelReport

cpu_audit: Any = importlib.import_module("rekindle.api.verify_torch")

FOUND = CodeEvidence(function="fresh", file="x.so", isa=("avx2", "sve"), why="", address="0x1")


class Reader:
    """Stands for inspect: notes what it was asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.error = error

    def __call__(self, target: str, *, python: str | None = None, **_: Any) -> WheelReport:
        self.asked.append((target, python))
        if self.error:
            raise self.error
        return WheelReport(cpu=WheelCpu(evidence=(FOUND,)))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    made = Reader()
    monkeypatch.setattr(sys.modules["rekindle.api.inspect_wheel"], "inspect", made)
    monkeypatch.setattr(cpu_audit, "_features", lambda cpu: frozenset({"sse4_2"}))
    return made


def audit(*, thorough: bool = True, **more: Any) -> cpu_audit.Audit:
    return cpu_audit.audit_for(VerifyOptions(level="full" if thorough else "smoke", **more), Silent())


def test_the_interpreter_that_is_tried_is_the_one_that_is_read(reader: Reader) -> None:
    assert audit(python="/there/python").place is not None
    audit()
    audit(wheel=Path("a.whl"), python="/there/python")
    (first, default, wheel) = reader.asked
    assert first == ("torch", "/there/python")
    assert default[1] and Path(default[1]).name.startswith("python")
    assert wheel == ("a.whl", None)


def test_a_quick_run_reads_nothing_and_an_emulated_one_always_reads(reader: Reader) -> None:
    quick = audit(thorough=False)
    assert not reader.asked and quick.place is None
    assert all(one.call is not None for one in quick.suspects)
    assert audit(wheel=Path("a.whl"), cpu="nehalem", thorough=False).suspects[0].functions == ("fresh",)
    assert len(reader.asked) == 1


def test_what_cannot_be_read_leaves_the_usual_suspects(reader: Reader) -> None:
    reader.error = BadInput("damaged")
    found = audit(wheel=Path("a.whl"), cpu="nehalem")
    assert found.place is None and [one.call.id for one in found.suspects if one.call][:1] == ["linear-dynamic-onednn"]


def test_a_cpu_nobody_knows_is_suspected_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Reader()
    monkeypatch.setattr(sys.modules["rekindle.api.inspect_wheel"], "inspect", made)
    assert audit(cpu="no such processor", wheel=Path("a.whl")) == cpu_audit.Audit()
    assert not made.asked


def test_the_cpu_here_is_asked_for_within_seconds_and_a_named_one_not_at_all(
    monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(sys.modules["rekindle.api.inspect_wheel"], "inspect", reader)
    deadlines: list[float] = []

    monkeypatch.setattr(cpu_audit, "Asking", lambda host, probe, deadline: deadlines.append(deadline))
    monkeypatch.setattr(cpu_audit, "time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr(cpu_audit, "probe_cpu", lambda asking: Cpu(features=("sse4_2",)))
    here = audit()
    assert deadlines == [105.0]
    assert [one.functions for one in here.suspects] == [("fresh",)], "a CPU without AVX2 is suspected"
    old, new = (audit(cpu=cpu, wheel=Path("a.whl")).suspects for cpu in ("nehalem", "haswell"))
    assert [one.functions for one in old] == [("fresh",)] and len(deadlines) == 1
    assert list(new) != list(old)


def test_the_miniature_has_none_of_the_operators_of_torch(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def usual(package: str, arch: str, features: object) -> tuple[()]:
        asked.append(package)
        return ()

    monkeypatch.setattr(cpu_audit, "usual_suspects", usual)
    for told in ({"wheel": Path("Spark-1.whl")}, {"wheel": Path("torch-1.whl")}, {"package": "xformers"}, {}):
        audit(thorough=False, **told)
    assert asked == ["spark", "torch", "xformers", "torch"]
