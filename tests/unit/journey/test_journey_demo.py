"""``demo`` with its compilers and its proof replaced by their results: what it plans, keeps, tells and leaves alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
from rekindle.errors import MissingTool
from rekindle.host.files import sha256_of
from rekindle.journey import demo as demonstrating
from rekindle.journey import from_source
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import load
from rekindle.model.journey import Journey
from rekindle.model.machine import Check, Examination, Gpu, Machine, Os, Ready
from rekindle.model.plan import Plan
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport
from rekindle.spark.unpack import tree_version
from rekindle.toolkits.cuda import UsableCuda
from tiny_wheels import make_wheel
from up_stages import FAILURE, statuses

NO_COMPILER = Check(id="compiler", status="fail", fix="winget install it")


class Demo:
    """The machine, the builder and the proof that the demo meets, and what it asked of them."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "w"
        self.wheel = make_wheel(folder / "made", "spark-miniature", "1.0")
        self.machine = Examination(os=Os(system="linux", distro="debian 12"), ready=Ready(build=True, use=True))
        self.fails: BuildFailure | None = None
        self.verdict = "proven"
        self.built: list[BuildOptions] = []
        self.proved: list[dict[str, Any]] = []

    def build(self, options: BuildOptions, progress: object) -> BuildResult | BuildFailure:
        self.built.append(options)
        digest = sha256_of(self.wheel)
        return self.fails or BuildResult(
            project="spark", wheel=str(self.wheel), wheel_sha256=digest, plan=Plan(answer="build"), plan_digest="0"
        )

    def prove(self, **told: Any) -> VerifyReport:
        self.proved.append(told)
        return VerifyReport(verdict=self.verdict, passed=7, failed=int(self.verdict != "proven"))  # type: ignore[arg-type]

    def run(self, **chosen: Any) -> Journey:
        return demonstrating.demo(workspace=self.place, **chosen)

    def plan(self) -> Plan:
        return load(self.place / "plan.json", Plan)


@pytest.fixture
def way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made = Demo(tmp_path)
    monkeypatch.setattr(demonstrating, "doctor", lambda **_: made.machine)
    monkeypatch.setattr(demonstrating, "build_one", made.build)
    monkeypatch.setattr(demonstrating, "verify", made.prove)
    monkeypatch.setattr(demonstrating, "find_usable_cuda", lambda _: UsableCuda(why_not="There is no nvcc."))
    monkeypatch.setattr(from_source, "inspect", lambda wheel: WheelReport(name="spark-miniature"))
    return made


def test_the_whole_way_is_walked_told_and_written(way: Demo) -> None:
    journey = way.run()
    assert statuses(journey) == dict.fromkeys(
        ("probe", "plan", "unpack", "patch", "build", "inspect", "verify"), "done"
    )
    assert journey.arrived and journey.verdict == "spark runs on this machine: 7 checks passed"
    assert (journey.goal, journey.next) == (f"spark {tree_version()}", ("rekindle plan", "rekindle up"))
    assert (journey.wheel, journey.wheel_sha256) == (str(way.wheel), sha256_of(way.wheel))
    assert journey.machine == "debian 12, unknown CPU, no GPU" and journey.workspace == str(way.place)
    assert journey.report == str(way.place / "reports" / "report.html") and Path(journey.report).is_file()
    assert load(way.place / "reports" / "report.json", Journey).verdict == journey.verdict
    assert load(way.place / "machine.json", Machine).os.distro == "debian 12" and way.plan() == journey.plan
    assert journey.inspection == WheelReport(name="spark-miniature") and journey.verification is not None
    (options,), (proof,) = way.built, way.proved
    assert options.plan == journey.plan and options.pythons == (sys.executable,) and options.as_is
    assert options.workspace == way.place and (way.place / "source" / "spark" / "setup.py").is_file()
    assert (proof["wheel"], proof["python"]) == (way.wheel, sys.executable)
    assert proof["plan"] == way.place / "plan.json", "the proof asks for what was planned"


def test_a_second_demo_keeps_what_the_first_made(way: Demo) -> None:
    way.run()
    assert {name for name, status in statuses(way.run()).items() if status == "kept"} == {"build", "inspect", "verify"}
    assert len(way.built) == len(way.proved) == 1
    way.wheel.write_bytes(b"not a wheel any more")
    assert statuses(way.run())["build"] == "done" and len(way.built) == 2


@needs.posix("a stand-in for CMake is a script of the shell")
def test_what_is_patched_and_built_follows_the_cmake_that_was_named(way: Demo, tmp_path: Path) -> None:
    def patches(version: str) -> tuple[str, ...]:
        cmake = tmp_path / f"cmake-{version}"
        cmake.write_text(f"#!/bin/sh\necho cmake version {version}\n")
        cmake.chmod(0o755)
        assert statuses(way.run(cmake=str(cmake)))["build"] == "done" and way.built[-1].cmake == str(cmake)
        build = way.plan().build
        return build.patches if build else ()

    assert "cmake-4-policies" in patches("4.0.1") and "cmake-4-policies" not in patches("3.22.1")


def test_the_tree_is_unpacked_again_only_where_it_is_not_whole(way: Demo) -> None:
    def told() -> str:
        return next(leg.detail for leg in way.run().legs if leg.name == "unpack")

    root = way.place / "source" / "spark"
    assert told() == str(root)
    (root / "mine.txt").write_text("kept")
    assert told() == f"{root} (kept)" and (root / "mine.txt").exists()
    for spoil in (
        lambda: (way.place / "source" / "spark.unpacked").write_text("of another release"),
        lambda: (way.place / "source" / "spark.unpacked").unlink(),
        lambda: root.rename(way.place / "elsewhere"),
    ):
        (root / "mine.txt").touch()
        spoil()
        assert told() == str(root) and root.is_dir() and not (root / "mine.txt").exists()


def test_clean_forgets_what_the_demo_made_and_nothing_else(way: Demo) -> None:
    way.run(clean=True)
    for name in ("logs/build.log", "mine/notes.txt", "source/torch/setup.py", "wheels/old.whl", "source/spark/x.o"):
        (way.place / name).parent.mkdir(parents=True, exist_ok=True)
        (way.place / name).write_text("")
    way.run()
    assert (way.place / "wheels" / "old.whl").is_file() and (way.place / "source" / "spark" / "x.o").is_file()
    journey = way.run(clean=True)
    assert set(statuses(journey).values()) == {"done"}
    assert [(way.place / name).exists() for name in ("wheels/old.whl", "source/spark/x.o")] == [False, False]
    for name in ("logs/build.log", "mine/notes.txt", "source/torch/setup.py"):
        assert (way.place / name).is_file(), name


def test_a_build_that_fails_is_the_end_and_says_why(way: Demo) -> None:
    way.fails = FAILURE
    journey = way.run()
    assert not journey.arrived and journey.verdict == "spark was not built: cc1plus was killed"
    assert journey.failure == FAILURE and way.proved == [] and journey.next == ()


def test_what_is_not_proven_has_not_arrived(way: Demo) -> None:
    way.verdict = "failed"
    journey = way.run()
    assert not journey.arrived and journey.verdict.startswith("spark was built, but it is not proven to work: ")
    assert statuses(journey)["verify"] == "failed" and journey.wheel == str(way.wheel)


@pytest.mark.parametrize(("gpus", "owed"), [((), False), ((Gpu(vendor="nvidia"),), None)])
def test_only_a_machine_with_a_gpu_owes_a_proof_of_it(gpus: tuple[Gpu, ...], owed: bool | None, way: Demo) -> None:
    way.machine = msgspec.structs.replace(way.machine, gpus=gpus)
    way.run()
    assert [told["gpu"] for told in way.proved] == [owed]


@pytest.mark.parametrize(
    ("chosen", "why"),
    [({}, "There is no nvcc."), ({"use_cuda": False}, "CUDA was left out (--no-cuda).")],
)
def test_without_cuda_the_plan_says_why(chosen: dict[str, bool], why: str, way: Demo) -> None:
    way.run(**chosen)
    assert why in {reason.text for reason in way.plan().because} and way.plan().cuda is None


@pytest.mark.parametrize(
    ("system", "checks", "ends"),
    [
        ("windows", (NO_COMPILER,), True),
        ("windows", (msgspec.structs.replace(NO_COMPILER, status="warn"),), False),
        ("windows", (msgspec.structs.replace(NO_COMPILER, id="cmake"),), False),
        ("linux", (NO_COMPILER,), False),
    ],
)
def test_a_windows_without_a_compiler_is_told_what_to_install(
    system: Any, checks: tuple[Check, ...], ends: bool, way: Demo
) -> None:
    way.machine = msgspec.structs.replace(way.machine, os=Os(system=system), checks=checks)
    run: Callable[[], Journey] = way.run
    if not ends:
        assert run().arrived
        return
    with pytest.raises(MissingTool, match="this Windows has no Visual Studio") as refused:
        run()
    assert refused.value.remedy == "winget install it" and way.built == []
    way.machine = msgspec.structs.replace(way.machine, checks=(msgspec.structs.replace(NO_COMPILER, fix=None),))
    with pytest.raises(MissingTool) as refused:
        run()
    assert refused.value.remedy == "rekindle doctor"
