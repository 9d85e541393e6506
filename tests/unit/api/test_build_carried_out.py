"""What a build hands back: a wheel for each Python, or the one failure with its cause."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rekindle.build
from bare_host import BareHost
from rekindle import api
from rekindle.api.build_wheels import build_checks, build_one, companion_checks
from rekindle.errors import BuildFailed, Untrusted
from rekindle.host.live import LiveHost
from rekindle.host.made import was_made_here
from rekindle.model.build import BuildFailure, BuildResult, BuildResults
from rekindle.model.build_options import BuildOptions
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.readiness.case import PlannedBuild
from rekindle.spark import unpack

building: Any = importlib.import_module("rekindle.api.build_wheels")
PLAN = Plan(answer="build", project="spark", build=BuildRecipe(source="spark"))
ERROR = ("nvcc fatal   : Unsupported gpu architecture 'compute_120'",)
FAILURE = BuildFailure(project="spark", phase="compile", message="it ended with 1", error=ERROR)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildOptions:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    unpack.unpack(tmp_path / "tree")
    return BuildOptions(plan=PLAN, source=tmp_path / "tree", workspace=tmp_path / "w", pythons=("3.11",), clean=True)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool, bool]]:
    """Each run of the engine: its Python, whether it cleans, whether the tree may be edited meanwhile."""
    seen: list[tuple[str, bool, bool]] = []

    def run(plan: Plan, *_: object, python: str, options: BuildOptions, editable: bool, **__: object) -> BuildResult:
        if python == "none":
            raise BuildFailed("no", FAILURE)
        seen.append((python, options.clean, editable))
        made = msgspec.structs.replace(plan, torch=python)
        return BuildResult(project="spark", wheel=f"{python}.whl", wheel_sha256="0", plan=made, plan_digest="0")

    monkeypatch.setattr(rekindle.build, "build", run)
    return seen


def test_each_python_gets_a_wheel_and_only_the_first_cleans(
    options: BuildOptions, runs: list[tuple[str, bool, bool]]
) -> None:
    done = api.build(options, pythons=("3.11", "3.12"))
    assert isinstance(done, BuildResults) and [one.wheel for one in done.results] == ["3.11.whl", "3.12.whl"]
    assert runs == [("3.11", True, True), ("3.12", False, True)]
    assert all(was_made_here(one.plan) for one in done.results), "a statement about it leads back to what ran here"


def test_one_wheel_is_asked_for_and_one_comes(options: BuildOptions, runs: list[tuple[str, bool, bool]]) -> None:
    done = build_one(options, trust=True)
    assert isinstance(done, BuildResult) and done.wheel == "3.11.whl"
    with pytest.raises(Untrusted):
        build_one(options)


def test_the_first_failure_ends_it_and_names_its_cause(
    options: BuildOptions, runs: list[tuple[str, bool, bool]]
) -> None:
    failed = api.build(options, pythons=("3.11", "none", "3.12"))
    assert isinstance(failed, BuildFailure) and failed.phase == "compile" and len(runs) == 1
    assert failed.diagnosis.matches
    one = build_one(msgspec.structs.replace(options, pythons=("none",)), trust=True)
    assert isinstance(one, BuildFailure) and one.error == FAILURE.error


def test_a_wheel_that_holds_other_code_than_planned_is_a_failure(
    options: BuildOptions, runs: list[tuple[str, bool, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "read_back", lambda result, plan, progress: FAILURE if result.plan == plan else None)
    assert api.build(options, pythons=("3.11", "3.12")) == FAILURE and len(runs) == 1


def test_a_plan_in_a_strangers_file_is_not_built(options: BuildOptions, runs: list[tuple[str, bool, bool]]) -> None:
    assert isinstance(options.source, Path)
    file = options.source.with_name("plan.json")
    file.write_bytes(msgspec.json.encode(PLAN))
    with pytest.raises(Untrusted):
        api.build(options, plan=file)
    assert isinstance(api.build(options, plan=file, trust=True), BuildResults)


def test_what_a_build_asks_of_this_machine(options: BuildOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, PlannedBuild]] = []
    monkeypatch.setattr(building, "check_build", lambda *told: asked.append(told))
    pinned = msgspec.structs.replace(PLAN, build=BuildRecipe(source="spark", pins={"numpy": "1.26"}))
    host, place, tree = BareHost(), Path("/w"), options.source
    assert isinstance(tree, Path)
    build_checks(pinned, python="py", place=place)
    build_checks(pinned, python="py", place=place, source=tree, host=host, installs=True, places={"bundle": tree})
    (here, early), (there, late) = asked
    assert isinstance(here, LiveHost) and there is host
    assert (early.tree, early.place, early.packages, early.places) == (None, place, (), {})
    assert late.tree is not None and late.tree.project == "spark" and (late.place, late.workspace) == (tree, place)
    assert late.packages[0] == "numpy==1.26" and late.places == {"bundle": tree}


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_companion_lacks_comes_with_the_way_to_do_without_it(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    rows = [
        Check(id="a", status="fail", found="none", fix="get it"),
        Check(id="b", status="fail", found="old"),
        Check(id="c", status="ok", found="there"),
    ]
    name = "check_build" if whole else "check_companion"

    def check(host: object, plan: object) -> list[Check]:
        asked.append(host)
        return rows

    monkeypatch.setattr(building, name, check)
    host = BareHost()
    told = {"python": "py", "place": Path("/w"), "whole": whole}
    for own in (host, None):
        found = companion_checks(PLAN, "torchvision", "0.22", **told, host=own)  # type: ignore[arg-type]
        assert [check.found for check in found] == ["torchvision: none", "torchvision: old", "there"]
        assert [(check.fix or "").partition("#")[0].strip() for check in found] == ["get it", "", ""]
        assert ["--torch-only" in (check.fix or "") for check in found] == [True, True, False]
    assert asked[0] is host and isinstance(asked[1], LiveHost)
