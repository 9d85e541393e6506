"""``inspect`` joined: how a target is opened and judged, wheels that cannot be read, and what is called a machine."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rekindle import api
from rekindle.errors import BadInput
from rekindle.model.document import encode
from rekindle.model.machine import Cpu, Machine, Os
from rekindle.model.progress import Silent
from rekindle.model.wheel import CodeEvidence, InspectOptions, KeptTrials, WheelCpu, WheelFinding, WheelReport
from rekindle.plan.describe import machine_from_flags
from tiny_wheels import make_wheel

reading: Any = importlib.import_module("rekindle.api.inspect_wheel")
NOTE = WheelFinding(code="several", text="the newest was taken", severity="note")
FOUND = WheelFinding(code="glibc-newer", text="needs 2.35", severity="error")
EVIDENCE = (CodeEvidence(function="f", file="x.so", isa=("avx2",), why="", address="0x1"),)


class Listener(Silent):
    """Notes the stages it is told of."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, str]] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append((name, detail))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How targets were opened and read; each tells something while it is looked for."""
    seen: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def open_target(target: str, *, tell: Any, **told: Any) -> Iterator[str]:
        seen.append({"target": target, **told})
        tell(NOTE)
        yield target

    def inspect_source(source: object, **told: Any) -> WheelReport:
        seen[-1] |= told
        return WheelReport(name="x", findings=(FOUND,), cpu=WheelCpu(evidence=EVIDENCE))

    monkeypatch.setattr(reading, "open_target", open_target)
    monkeypatch.setattr(reading, "inspect_source", inspect_source)
    return seen


def test_a_target_is_read_as_it_was_asked_for_and_what_was_met_on_the_way_is_told_first(
    opened: list[dict[str, Any]],
) -> None:
    listener = Listener()
    report = api.inspect("a", progress=listener)
    assert report.findings == (NOTE, FOUND) and report.verdict is None
    api.inspect("b", InspectOptions(quick=True), python="3.12", platform="win_amd64", cpu=False)
    first, second = opened
    assert first["progress"] is listener and isinstance(second["progress"], Silent)
    fields = ("python", "platform", "quick", "cpu")
    assert [first[name] for name in fields] == [None, None, False, True]
    assert [second[name] for name in fields] == ["3.12", "win_amd64", True, False]


@pytest.mark.parametrize(("features", "kept"), [(("sse4_2",), True), (("sse4_2",), False), ((), True)])
def test_a_machine_is_judged_with_what_was_tried_on_a_cpu_like_its_own(
    features: tuple[str, ...], kept: bool, opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, judged, asked = KeptTrials(subject="x", date="2026-01-01", verdict="proven"), [], []
    place = Path("/cache/trials.json")

    def place_of(cache: Path, evidence: object, cpu: frozenset[str]) -> Path | None:
        asked.append((evidence, cpu))
        return place if kept else None

    monkeypatch.setattr("rekindle.verify.crash.place_of", place_of)
    monkeypatch.setattr(reading, "load_kept", lambda where, kind: tried if where == place else None)
    monkeypatch.setattr("rekindle.inspect.verdict.verdict_for", lambda *words: judged.append(words))
    machine = Machine(os=Os(system="linux"), cpu=Cpu(features=features))
    api.inspect("a", machine=machine, machine_name="the old one")
    ((report, who, name, trials),) = judged
    assert who == machine and name == "the old one" and report.name == "x"
    assert trials is (tried if features and kept else None)
    assert asked == ([(EVIDENCE, frozenset(features))] if features else [])


def test_a_wheel_that_cannot_be_read_is_told_and_passed_over(tmp_path: Path) -> None:
    make_wheel(tmp_path, "one", "1.0")
    (tmp_path / "two-1.0-py3-none-any.whl").write_bytes(b"no archive")
    listener = Listener()
    shelf = api.inspect_shelf(str(tmp_path), cpu=False, progress=listener)
    assert [report.name for report in shelf.wheels] == ["one"] and shelf.place == str(tmp_path)
    (finding,) = shelf.findings
    assert (finding.code, finding.severity) == ("unreadable-wheel", "error")
    assert finding.text.startswith("two-1.0-py3-none-any.whl: ")
    assert {name for name, _ in listener.stages} >= {"reading"}
    assert api.inspect_shelf(str(tmp_path), InspectOptions(cpu=False)).wheels == shelf.wheels


def test_two_wheels_are_compared_and_one_is_shown(tmp_path: Path) -> None:
    old, new = (make_wheel(tmp_path, "tiny", version) for version in ("1.0", "2.0"))
    (row,) = [row for row in api.inspect_diff(str(old), str(new)).differences if row.what == "version"]
    assert (row.before, row.after) == ("1.0", "2.0")
    api.inspect_page(api.inspect(str(old)), tmp_path / "page.html")
    assert "tiny" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_machine_is_this_one_a_file_a_profile_a_card_or_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = machine_from_flags(gpu=["RTX 3060"], os="linux")
    monkeypatch.setattr(importlib.import_module("rekindle.api.plan_torch"), "this_machine", lambda: here)
    assert api.inspect_machine("this") is here
    file = tmp_path / "machine.json"
    file.write_bytes(encode(here))
    assert api.inspect_machine(str(file)) == here
    file.write_text("{}", encoding="utf-8")
    (tmp_path / "sm_61").write_text("{}", encoding="utf-8")
    for broken in (str(file), str(tmp_path / "sm_61"), "gone.json"):
        with pytest.raises(BadInput):
            api.inspect_machine(broken)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput):
        api.inspect_machine("sm_61")  # a file of that name is meant
    assert [str(gpu.arch) for gpu in api.inspect_machine("sm_35").gpus] == ["sm_35"]
    cpu = api.inspect_machine("nehalem")
    assert cpu.cpu.microarchitecture == "nehalem" and cpu.gpus == ()
    assert api.inspect_machine("none") == replace(machine_from_flags(gpu=["none"]))
