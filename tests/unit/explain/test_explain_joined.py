"""The engine inside build, verify and doctor."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rekindle.api.explain_log import examination_with_causes, proof_with_causes, with_cause
from rekindle.model.build import BuildFailure
from rekindle.model.machine import Check, Examination, Os
from rekindle.model.verify import Crash, VerifyCheck, VerifyReport

KILLED = "c++: fatal error: Killed signal terminated program cc1plus"


def failure(error: tuple[str, ...], log: Path | None = None) -> BuildFailure:
    return BuildFailure(project="torch", phase="compile", message="x", error=error, log=str(log) if log else None)


def test_a_failed_command_is_diagnosed() -> None:
    assert with_cause(failure((KILLED,))).diagnosis.matches[0].id == "oom-killed"


def test_the_whole_log_is_read_where_the_command_says_nothing(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text(f"[1/2] x\n{KILLED}\nninja: build stopped\n", encoding="utf-8")
    assert with_cause(failure(("ninja: build stopped",), log)).diagnosis.matches[0].line == 2
    nothing = with_cause(failure(("ninja: build stopped",), tmp_path / "gone.log")).diagnosis.matches
    assert [(match.id, match.confidence) for match in nothing] == [("step-failed", "low")]


def test_a_configure_is_read_to_its_end(tmp_path: Path) -> None:
    """CMake says first that nvcc cannot be used, and a hundred lines later why."""
    said = (
        "CMake Error at CMakeDetermineCompilerId.cmake:866 (message):",
        "  Compiling the CUDA compiler identification source file",
        '  "CMakeCUDACompilerId.cu" failed.',
    )
    log = tmp_path / "build.log"
    why = "/usr/bin/ld: cannot find -lcudart_static: No such file or directory"
    log.write_text("\n".join([*said, "", "  The output was:", *["  #$ x"] * 100, f"  {why}", ""]), encoding="utf-8")
    asked = BuildFailure(project="torch", phase="configure", message="x", error=said, log=str(log))
    assert with_cause(asked).diagnosis.matches[0].id == "link-cannot-find-library"
    assert with_cause(msgspec.structs.replace(asked, log=None)).diagnosis.matches[0].id == "cmake-cuda-compiler-broken"


def test_failed_checks_are_diagnosed_and_good_reports_left_alone() -> None:
    said = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    report = VerifyReport(checks=(VerifyCheck(id="matmul", status="failed", detail=said),), failed=1)
    assert proof_with_causes(report).diagnosis.matches[0].id == "no-kernel-image"
    fine = VerifyReport(checks=(VerifyCheck(id="matmul", status="passed", detail=said),), passed=1)
    assert proof_with_causes(fine) is fine


def test_a_known_instruction_needs_no_guess_from_the_words() -> None:
    """On an Arm CPU the words alone once led to AVX2."""
    said = "died of SIGILL: in _mi_options_init, at libc10.so+0xd0fec, lse instruction 1600f6f8df1240f1…"
    for isa, guessed in (("lse", False), (None, True)):
        crash = Crash(signal="SIGILL", instruction="1600f6f8", isa=isa)
        report = VerifyReport(
            checks=(VerifyCheck(id="core.load", status="failed", detail=said, crash=crash),), failed=1
        )
        found = proof_with_causes(report).diagnosis
        assert bool(found and any(match.confidence == "low" for match in found.matches)) == guessed


def test_a_broken_torch_gets_the_remedy_of_its_error() -> None:
    why = "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by /x/libtorch_cpu.so)"
    check = Check(id="torch", status="warn", why=why, fix="install another")
    other = Check(id="cmake", status="fail", why="missing")
    seen = examination_with_causes(Examination(os=Os(system="linux"), checks=(check, other)))
    assert "glibc-too-old" in str(seen.checks[0].why) and seen.checks[0].fix != "install another"
    assert seen.checks[1] is other


def test_an_uncertain_cause_changes_nothing() -> None:
    check = Check(id="torch", status="warn", why="illegal instruction: it was built for a newer processor", fix="f")
    examination = Examination(os=Os(system="linux", arch="x86_64"), checks=(check,))
    assert examination_with_causes(examination) == examination
