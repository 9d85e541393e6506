"""Emulated CPUs proved both ways with spark: what must crash crashes with the right name, what must run runs."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
import x86_spark

import needs
from rekindle import api
from rekindle.errors import BadInput
from rekindle.model.plan import Wish
from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.model.wheel import AxisVerdict, OperatorTrial

pytestmark = [
    pytest.mark.integration,
    needs.tool("qemu-x86_64", *x86_spark.COMPILERS),
    pytest.mark.skipif(
        platform.machine() != "x86_64" and sys.version_info[:2] != (3, 11),
        reason="Debian 12's emulated Python is 3.11, so spark is compiled against headers of 3.11",
    ),
]


def failed(report: VerifyReport) -> dict[str, VerifyCheck]:
    return {check.id: check for check in report.checks if check.status == "failed"}


def try_on(wheel: Path, cpu: str, **more: object) -> VerifyReport:
    return api.verify(wheel=wheel, cpu=cpu, dependencies=False, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def dispatched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return x86_spark.wheel_for(tmp_path_factory.mktemp("dispatched") / "b", sys.version_info[:2])


def test_a_dispatched_build_runs_on_ivy_bridge(dispatched: Path) -> None:
    report = try_on(dispatched, "ivybridge")
    assert report.good, failed(report)
    status = {check.id: check for check in report.checks}
    assert "refuses fma bmi1 bmi2 movbe avx2" in status["cpu.features"].detail
    assert status["core.capability"].detail == "DEFAULT"


def test_a_dispatched_build_takes_the_better_code_on_haswell(dispatched: Path) -> None:
    report = try_on(dispatched, "haswell", only=("core",))
    assert report.failed == 0 and report.passed, failed(report)
    assert report.verdict == "not-proven", "a part of the checks is no proof"
    assert {check.id: check.detail for check in report.checks}["core.capability"] == "AVX2"


def test_forcing_the_better_code_on_the_older_cpu_crashes_in_that_code(dispatched: Path) -> None:
    report = try_on(dispatched, "ivybridge", only=("core.dot",), env={"SPARK_CPU_CAPABILITY": "AVX2"})
    crash = failed(report)["core.dot"].crash
    assert crash is not None and crash.signal == "SIGILL" and crash.isa in ("avx2", "fma")
    assert crash.function and "AVX2" in crash.function
    assert crash.unit == "kernels.cpp.AVX2.cpp"


def test_a_forbidden_instruction_outside_dispatched_code_is_named(tmp_path: Path) -> None:
    wheel = x86_spark.wheel_for(tmp_path / "b", sys.version_info[:2], USE_UNGUARDED_AVX2="ON")
    report = try_on(wheel, "ivybridge", only=("core",))
    bad = failed(report)
    assert set(bad) == {"core.checksum"}
    crash = bad["core.checksum"].crash
    assert crash is not None and crash.signal == "SIGILL" and crash.isa == "avx2"
    assert crash.function == "spark::checksum(float const*, unsigned long)" or crash.function == (
        "_ZN5spark8checksumEPKfm"
    )
    assert not failed(try_on(wheel, "haswell", only=("core",))), "the same wheel runs where AVX2 is"


def test_the_xeon_e5_v2_story(tmp_path: Path) -> None:
    """Flags found in old build scripts for this CPU name FMA, which it does not have; the plan's flags do not."""
    folklore = x86_spark.wheel_for(tmp_path / "folklore", sys.version_info[:2], SPARK_BASELINE_FLAGS="-mavx -mfma")
    bad = failed(try_on(folklore, "xeon e5 v2", only=("core",)))
    assert {check.crash.isa for check in bad.values() if check.crash} == {"fma"}

    machine = api.machine_from_flags(cpu="ivybridge", os="linux", arch="x86_64", compiler="gcc-12")
    plan = api.plan(machine, Wish(build=True))
    assert plan.build is not None and "-march=ivybridge" in plan.build.env["CXXFLAGS"]
    planned = x86_spark.wheel_for(
        tmp_path / "planned", sys.version_info[:2], SPARK_BASELINE_FLAGS=plan.build.env["CXXFLAGS"]
    )
    report = try_on(planned, "xeon e5 v2", only=("core",))
    assert not failed(report)
    # Not for nothing: the planned build does use what this CPU has and an older one lacks.
    older = failed(try_on(planned, "westmere", only=("core",)))
    assert {check.crash.isa for check in older.values() if check.crash} == {"avx"}


def test_a_cpu_the_emulator_cannot_be_ends_the_run(dispatched: Path) -> None:
    report = try_on(dispatched, "skylake_avx512")
    if report.good:
        pytest.skip("this qemu emulates AVX-512")
    assert [check.id for check in report.checks] == ["cpu.features"]
    assert "avx512f" in report.checks[0].detail
    assert report.verdict == "not-proven", "a wrong emulator refutes nothing about the wheel"


def test_a_wheel_that_the_emulated_python_cannot_import_is_not_proven(dispatched: Path, tmp_path: Path) -> None:
    mine = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    other = tmp_path / dispatched.name.replace(mine, "cp39")
    other.write_bytes(dispatched.read_bytes())
    python = sys.executable if platform.machine() == "x86_64" else None
    for level in ("smoke", "full"):
        report = try_on(other, "ivybridge", level=level, python=python)
        assert report.verdict == "not-proven" and report.failed == 0 and report.passed > 0
        missing = {one.id: one.why for one in report.missing}
        assert "3.9" in missing["import.spark"] and "dot" in missing
        assert any("cpython-3.9-linux-x86_64-gnu" in step for step in report.next)


def test_a_wheel_for_another_processor_is_refused(tmp_path: Path, dispatched: Path) -> None:
    other = tmp_path / dispatched.name.replace("x86_64", "aarch64")
    other.write_bytes(dispatched.read_bytes())
    with pytest.raises(BadInput, match="no AArch64 CPU"):
        try_on(other, "ivybridge")


def test_inspect_and_verify_say_one_thing(dispatched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that dispatches, and one with AVX2 outside of it, judged by reading and by trying for the same CPU."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    machine = api.inspect_machine("ivybridge")

    def read(wheel: Path) -> tuple[AxisVerdict, tuple[OperatorTrial, ...]]:
        verdict = api.inspect(str(wheel), machine=machine).verdict
        assert verdict is not None
        return next(axis for axis in verdict.axes if axis.axis == "cpu"), verdict.operators

    axis, operators = read(dispatched)
    assert axis.runs == "yes" and not operators
    assert not try_on(dispatched, "ivybridge", only=("operator", "checksum")).operators

    wheel = x86_spark.wheel_for(tmp_path / "b", sys.version_info[:2], USE_UNGUARDED_AVX2="ON")
    assert read(wheel)[0].runs == "no"
    tried = try_on(wheel, "ivybridge")
    assert tried.verdict == "failed"
    assert [one.outcome for one in tried.operators] == ["not-tried"], "no known call reaches spark's own functions"
    axis, operators = read(wheel)
    assert axis.runs == "no" and "SIGILL" in axis.text and "tried by verify" in axis.text
    assert operators == tried.operators
