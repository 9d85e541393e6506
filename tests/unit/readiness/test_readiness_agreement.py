"""The doctor and the build cannot disagree: on every captured machine each shared question has one verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.doctor.examine import examine
from rekindle.errors import BadInput, MissingTool
from rekindle.host.capture import RecordedHost, read_capture
from rekindle.model.machine import Check, Examination
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.cuda import find_toolkit
from rekindle.readiness.register import REGISTER, check_build
from rekindle.toolkits.compilers import build_compilers

MACHINES = sorted(path for path in (Path(__file__).parents[2] / "machines").iterdir() if path.is_dir())
# The oldest torch 2 asks what the doctor asks; newer CMakes read its files with this policy.
ENV = {"CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
# Same words, other amount: the doctor speaks of the newest torch whole, a plan of its own need.
BY_AMOUNT = {"disk"}


def fails(checks: tuple[Check, ...], name: str) -> bool:
    return any(check.id == name and check.status == "fail" for check in checks)


@pytest.fixture(params=MACHINES, ids=lambda path: path.name)
def machine(request: pytest.FixtureRequest) -> tuple[Path, Examination]:
    return request.param, examine(RecordedHost(read_capture(request.param))).examination


def planned(examined: Examination, place: Path) -> PlannedBuild:
    python = next((python for python in examined.pythons if python.note is None), None)
    plan = Plan(answer="build", torch="2.0.1", build=BuildRecipe(source="torch", env=ENV))
    return PlannedBuild(plan=plan, python=python.path if python and python.path else "3.11", place=place)


def test_there_are_machines_and_shared_questions() -> None:
    assert len(MACHINES) > 10
    shared = {question.id for question in REGISTER if question.of_machine and question.for_build}
    assert shared == {"python", "disk", "compiler", "cmake", "ninja"}


def test_shared_questions_have_one_verdict(machine: tuple[Path, Examination]) -> None:
    path, examined = machine
    host = RecordedHost(read_capture(path))
    place = Path(next((disk.path for disk in examined.disks if disk.purpose == "workspace"), "/"))
    built = check_build(host, planned(examined, place))
    for question in REGISTER:
        if question.of_machine is None or question.for_build is None:
            continue
        doctor, build = fails(examined.checks, question.id), fails(built, question.id)
        if question.id in BY_AMOUNT:
            assert doctor or not build, f"{path.name}: the build has no {question.id}, and the doctor says it is there"
        elif question.id == "python":
            ready = not doctor and not fails(examined.checks, "python-headers")
            assert build is not ready or examined.os.system == "windows", f"{path.name}: {question.id}"
        else:
            assert doctor is build, f"{path.name}: {question.id}: {[c for c in built if c.id == question.id]}"


class NoCompiler(BareHost):
    """A Debian with nothing but its package manager."""

    def which(self, name: str) -> str | None:
        return "/usr/bin/apt-get" if name == "apt-get" else None


def test_a_missing_compiler_has_one_fix(tmp_path: Path) -> None:
    host = NoCompiler(env={"HOME": "/root"})
    examined = examine(host).examination
    (doctor,) = [check for check in examined.checks if check.id == "compiler"]
    (build,) = [check for check in check_build(host, planned(examined, tmp_path)) if check.id == "compiler"]
    assert (doctor.status, doctor.fix) == (build.status, build.fix) == ("fail", "apt-get install -y build-essential")
    assert build.found == "there is no C compiler on this machine"


def test_the_toolkit_that_the_doctor_calls_ready_is_found_by_the_build(machine: tuple[Path, Examination]) -> None:
    """What pip installed lies in an environment, and is named to a build by hand."""
    path, examined = machine
    host = RecordedHost(read_capture(path))
    compilers = build_compilers(examined.compilers, examined.os.system)
    compiler = (compilers[0].path if compilers else None) or "c++"
    for check in examined.checks:
        vendor = {"cuda-toolkit": "cuda", "rocm": "rocm"}.get(check.id)
        kits = [kit for kit in examined.toolkits if kit.kind == vendor]
        if vendor is None or any((kit.note or "").startswith("pip") for kit in kits):
            continue
        for version in (check.found or "none").split(", "):
            plan = Plan(answer="build", **{vendor: version})  # type: ignore[arg-type]
            try:
                found = bool(find_toolkit(host, plan, {}, compiler))
            except (MissingTool, BadInput):
                found = False
            # The build asks for its own cards, so it may find a toolkit that the doctor refuses for this one.
            assert found or check.status == "fail", f"{path.name}: {vendor} {version}"
            assert check.found or not found, f"{path.name}: the doctor has not seen {vendor}"
