"""Operators that may crash are called apart from the checks, and inspect then says what verify found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rekindle.compat.processor import OperatorCall, Suspicion, describe_trials
from rekindle.inspect.verdict import verdict_for
from rekindle.model.document import load_kept
from rekindle.model.machine import Cpu, Machine, Os
from rekindle.model.verify import Crash, VerifyCheck, VerifyReport
from rekindle.model.wheel import CodeEvidence, IsaUse, KeptTrials, OperatorTrial, WheelCpu, WheelReport
from rekindle.render.screen import Screen
from rekindle.render.verify import view_verification
from rekindle.verify.crash import crash_place, keep_trials, outcomes, place_of, remedy_for
from rekindle.verify.output import compare, junit
from rekindle.verify.runner import run_checks
from rekindle.verify.target import Target, Trial
from spark_stand_in import GOOD

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
FUNCTION = "fbgemm::FindMinMax"
FOUND = CodeEvidence(function=FUNCTION, file="libtorch_cpu.so", isa=("avx", "avx2"), why="", address="0x10")
CORNER = (IsaUse(isa="avx", functions=1, examples=(FUNCTION,)), IsaUse(isa="avx2", functions=1, examples=(FUNCTION,)))


def suspicion(id: str, call: str) -> Suspicion:
    row = OperatorCall(
        id=id, operator=f"spark.{id}", package="spark", reaches=("f",), arch="x86_64", isa=("avx2",), call=call,
        avoid=f"not {id}", source=("here",), date="2026-11-16", how="measured",
    )  # fmt: skip
    return Suspicion(call=row, functions=(FUNCTION,), isa=("avx2",))


SUSPECTS = (
    suspicion("dies", "import os\nstep('float64')\nos.kill(os.getpid(), 4)"),
    suspicion("works", "assert spark.dot([1.0], [2.0]) == 2"),
    suspicion("refuses", "raise RuntimeError('no such engine')"),
    suspicion("absent", "spark.nosuch()"),
    Suspicion(call=None, functions=("somebody::fresh",), isa=("avx2",)),
)
WANTED = ["crashes", "runs", "refuses", "not-tried", "not-tried"]


def run(folder: Path, *, inline: bool = False, **more: object) -> VerifyReport:
    (folder / "spark").mkdir(parents=True, exist_ok=True)
    (folder / "spark" / "__init__.py").write_text(GOOD, encoding="utf-8")
    target = Target(
        command=(sys.executable,), env={"PYTHONPATH": str(folder)}, package="spark", inline=inline, subject="it"
    )
    return run_checks(target, Trial(suspects=SUSPECTS, gpu=False, **more))  # type: ignore[arg-type]


@posix
@pytest.mark.parametrize("inline", [False, True], ids=["apart", "in one process"])
def test_each_is_tried_and_none_takes_the_proof_along(tmp_path: Path, inline: bool) -> None:
    report = run(tmp_path, inline=inline)
    assert [one.outcome for one in report.operators] == WANTED
    assert report.verdict == "proven" and report.failed == 0
    assert not any(check.id.startswith("operator") for check in report.checks)
    crash, _, refused, absent, unknown = report.operators
    assert "signal 4" in crash.detail or "SIGILL" in crash.detail
    assert crash.operator == ("spark.dies" if inline else "spark.dies on float64"), "told where it can be"
    assert "no such engine" in refused.detail and "nosuch" in absent.detail
    assert unknown.detail == "no known call reaches it"


@posix
def test_people_read_runs_and_which_operators_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run(tmp_path)
    view_verification(report, Screen(sys.stdout, width=4000))
    text = capsys.readouterr().out
    assert "runs; these operators crash: spark.dies on float64;" in text.splitlines()[0]
    assert "not tried, no known call reaches it: spark.absent, somebody::fresh" in text.splitlines()[0]
    assert "instead: not dies" in text and "not works" not in text
    assert b'name="operator spark.dies on float64" value="crashes"' in junit(report)


def machine(cpu: str = "nehalem") -> Machine:
    return Machine(os=Os(system="linux", arch="x86_64"), cpu=Cpu(microarchitecture=cpu))


def wheel(*evidence: CodeEvidence, required: tuple[str, ...] = ()) -> WheelReport:
    cpu = WheelCpu(arch="x86_64", functions=9, runs_from="x86-64", unconditional=CORNER, evidence=evidence or (FOUND,))
    return WheelReport(
        tags=("cp311-cp311-linux_x86_64",),
        cpu=WheelCpu(**{name: getattr(cpu, name) for name in cpu.__struct_fields__} | {"required": required}),
    )


def cpu_axis(report: WheelReport, kept: object = None):  # type: ignore[no-untyped-def]
    verdict = verdict_for(report, machine(), "it", kept)  # type: ignore[arg-type]
    return verdict, next(axis for axis in verdict.axes if axis.axis == "cpu")


@pytest.mark.parametrize("required", [(), ("avx2",)], ids=["a corner", "said to be needed by all"])
def test_inspect_says_what_verify_found(tmp_path: Path, required: tuple[str, ...]) -> None:
    trials = (OperatorTrial(operator="torch.x", functions=(FUNCTION,), isa=("avx2",), outcome="crashes", avoid="y"),)
    report = VerifyReport(verdict="proven", subject="w", operators=trials)
    place = place_of(tmp_path, [FOUND], ["sse4_2"])
    assert place is not None
    keep_trials(report, place)
    kept = load_kept(place, KeptTrials)
    verdict, axis = cpu_axis(wheel(required=required), kept)
    assert verdict.operators == report.operators
    assert describe_trials(report.operators) in axis.text and axis.runs == "partly" and axis.remedy == "y"
    assert verdict.runs is True, "verify said proven"


def test_where_all_that_was_suspected_runs_inspect_says_yes() -> None:
    from rekindle.model.wheel import KeptTrials

    trials = (OperatorTrial(operator="torch.x", outcome="runs"),)
    kept = KeptTrials(subject="w", date="2026-11-16", verdict="proven", trials=trials)
    assert cpu_axis(wheel(), kept)[1].runs == "yes"
    failed = KeptTrials(subject="w", date="2026-11-16", verdict="failed", trials=trials)
    assert cpu_axis(wheel(required=("avx2",)), failed)[1].runs == "no", "a failed run proves nothing good"


def test_a_crash_in_a_check_is_a_no_from_both(tmp_path: Path) -> None:
    crash = Crash(signal="SIGILL")
    dead = VerifyCheck(id="import.torch", status="failed", detail="died of SIGILL", crash=crash)
    place = tmp_path / "x.json"
    keep_trials(VerifyReport(verdict="failed", checks=(dead,)), place)
    verdict, axis = cpu_axis(wheel(), load_kept(place, KeptTrials))
    assert verdict.runs is False and "import.torch died of SIGILL" in axis.text
    keep_trials(VerifyReport(verdict="failed", checks=(VerifyCheck(id="x", status="failed"),)), place)
    assert cpu_axis(wheel(), load_kept(place, KeptTrials))[0].runs is True, "a failure of another kind is not the CPU's"


def test_untried_it_is_only_suspected() -> None:
    callers = ("PackedLinearWeightsOnednn::apply_dynamic",)
    known = CodeEvidence(function=FUNCTION, file="libtorch_cpu.so", isa=("avx2",), why="", callers=callers)
    verdict, axis = cpu_axis(wheel(known))
    assert [one.outcome for one in verdict.operators] == ["suspected"]
    assert "these operators should crash: torch.ao.nn.quantized.dynamic.Linear" in axis.text
    assert "verify" in (axis.remedy or "")


def test_another_build_or_another_kind_of_cpu_is_another_trial(tmp_path: Path) -> None:
    moved = CodeEvidence(function=FUNCTION, file="libtorch_cpu.so", isa=("avx", "avx2"), why="", address="0x20")
    old, older = ["sse4_2", "avx"], ["sse4_2"]
    places = {place_of(tmp_path, [one], cpu) for one in (FOUND, moved) for cpu in (old, older)}
    assert len(places) == 4
    assert place_of(tmp_path, [FOUND], ["avx", "avx2"]) is None, "nothing is lacking"
    assert place_of(tmp_path, [FOUND], [*old, "sha_ni"]) in places, "what is not in question does not count"


def test_damaged_memory_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    assert load_kept(tmp_path / "x.json", KeptTrials) is None
    assert load_kept(tmp_path / "none.json", KeptTrials) is None


def test_an_operator_that_began_to_crash_is_worse() -> None:
    def report(outcome: str) -> VerifyReport:
        return VerifyReport(operators=(OperatorTrial(operator="torch.x", outcome=outcome),))  # type: ignore[arg-type]

    assert [one.id for one in compare(report("runs"), report("crashes")).worse] == ["operator torch.x"]
    assert not compare(report("crashes"), report("crashes")).worse


def test_what_an_illegal_instruction_asks_for_depends_on_where_it_was() -> None:
    copy = Crash(signal="SIGILL", unit="ReduceOpsKernel.cpp.AVX2.cpp")
    assert "ATEN_CPU_CAPABILITY" in str(remedy_for(copy)) and "AVX2" in str(remedy_for(copy))
    plain = remedy_for(Crash(signal="SIGILL", unit="plain.cpp"))
    assert plain and "rekindle plan --build" in plain and "ATEN" not in plain
    assert remedy_for(Crash(signal="SIGSEGV", unit="x.AVX2.cpp")) is None, "the check's own remedy stands"
    assert len(crash_place(Crash(signal="SIGILL", function="f" * 500))) < 200


def test_many_that_died_alike_are_not_all_printed(capsys: pytest.CaptureFixture[str]) -> None:
    crash = Crash(signal="SIGILL")
    dead = [VerifyCheck(id=f"ops.{n}", status="failed", detail=f"why {n}", crash=crash) for n in range(5)]
    wrong = VerifyCheck(id="ops.wrong", status="failed", detail="3 instead of 4")
    report = VerifyReport(verdict="failed", checks=(*dead, wrong), failed=6)
    view_verification(report, Screen(sys.stdout, width=200))
    text = capsys.readouterr().out
    assert "why 2" in text and "why 3" not in text and "3 instead of 4" in text
    assert "2 more died of SIGILL: ops.3, ops.4" in text
    view_verification(report, Screen(sys.stdout, width=200, verbosity=1))
    assert "why 4" in capsys.readouterr().out


def test_what_an_older_cpu_goes_on_with_is_no_suspicion(tmp_path: Path) -> None:
    """lzcnt runs as another instruction there: it never crashes, so its trial is kept nowhere."""
    quiet = CodeEvidence(function="f", file="a.so", isa=("lzcnt",), why="", address="0x10")
    assert place_of(tmp_path, [quiet], ["sse4_2"]) is None
    both = CodeEvidence(function="f", file="a.so", isa=("lzcnt", "avx2"), why="", address="0x10")
    alone = CodeEvidence(function="f", file="a.so", isa=("avx2",), why="", address="0x10")
    assert place_of(tmp_path, [both, quiet], []) == place_of(tmp_path, [alone], [])


def test_what_nobody_came_to_was_not_tried() -> None:
    (found,) = outcomes(SUSPECTS[:1], {})
    assert (found.outcome, found.detail) == ("not-tried", "the run ended before its turn")
