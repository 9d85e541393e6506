"""After configure: what was planned and is off stops the build, and the next run configures again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.build import tree as state
from rekindle.build.steps import check, check_when_configured
from rekindle.errors import BuildFailed
from rekindle.model.build import BuildFailure
from rekindle.model.plan import BuildRecipe, Plan

PLAN = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="git", env={"USE_CUDA": "1"}))


def work_in(tree: Path) -> Any:
    tree.mkdir(parents=True, exist_ok=True)
    began = state.TreeState(
        project="torch", version="2.6.0", settings={}, python="python3", configured=True, running=True, runs=2
    )
    state.save_state(tree, began)
    return SimpleNamespace(
        plan=PLAN,
        tree=SimpleNamespace(project="torch"),
        front=SimpleNamespace(build_tree=tree),
        log=SimpleNamespace(path=tree / "build.log", write=lambda line: None),
        facts=(),
    )


def configured(tree: Path, use_cuda: str) -> None:
    (tree / "CMakeCache.txt").write_text(f"USE_CUDA:BOOL={use_cuda}\n", encoding="utf-8")


def test_what_is_off_stops_the_build_and_is_configured_again(tmp_path: Path) -> None:
    work = work_in(tmp_path / "build")
    configured(tmp_path / "build", "OFF")
    with pytest.raises(BuildFailed, match="USE_CUDA was planned as 1 but configured as OFF") as stopped:
        check(work, [])
    failure = stopped.value.failure
    assert isinstance(failure, BuildFailure) and failure.phase == "check" and failure.facts == work.facts
    left = state.load_state(tmp_path / "build")
    assert left is not None and (left.configured, left.running, left.runs) == (False, False, 2)


def test_what_is_on_leaves_the_state_as_it_is(tmp_path: Path) -> None:
    work = work_in(tmp_path / "build")
    configured(tmp_path / "build", "ON")
    check(work, [])
    left = state.load_state(tmp_path / "build")
    assert left is not None and (left.configured, left.running) == (True, True)
    assert [fact.ok for fact in work.facts if fact.name == "USE_CUDA"] == [True]


def test_a_front_end_that_configures_by_itself_is_checked_once_when_cmake_is_through(tmp_path: Path) -> None:
    inner = tmp_path / "build" / "temp"
    work = work_in(tmp_path / "build")
    inner.mkdir()
    configured(inner, "OFF")
    watch = check_when_configured(work)
    watch("-- Configuring done")
    assert work.facts == ()
    with pytest.raises(BuildFailed):
        watch(f"-- Build files have been written to: {inner}")
    watch(f"-- Build files have been written to: {inner}")
