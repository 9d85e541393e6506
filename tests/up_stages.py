"""``up`` with its long stages replaced by their results: what each answers, and which were asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rekindle.host.workspace import Workspace
from rekindle.journey import up
from rekindle.journey.walk import Walk
from rekindle.model.build import BuildFailure, BuildResult, BundleReport
from rekindle.model.build_options import BuildOptions
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.journey import Journey, UpOptions
from rekindle.model.machine import Machine, Os
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Silent
from rekindle.model.source import SourceTree

PLAN = Plan(answer="build", torch="2.7.1", variant="cu118", build=BuildRecipe(source="git", env={"CUDA_HOME": "/no"}))
TREE = SourceTree(project="torch", version="2.7.1", root="/t", digest="d")
OUT_OF_MEMORY = Match(id="oom", confidence="high", cause="No memory was left.", fix=("--memory 4G",))
FAILURE = BuildFailure(
    project="torch",
    phase="compile",
    message="cc1plus was killed",
    error=("g++: fatal error: Killed <signal>",),
    log="/w/logs/build.log",
    diagnosis=Diagnosis(matches=(OUT_OF_MEMORY,)),
)


@dataclass
class Stages:
    """What each stage would answer, and which were asked."""

    plan: Plan = PLAN
    tree: SourceTree = TREE
    built: BuildResult | BuildFailure = FAILURE
    fat: BundleReport | None = None
    asked: list[str] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)
    built_with: BuildOptions = field(default_factory=BuildOptions)


def go(folder: Path, *, yes: bool = True, **chosen: Any) -> Journey:
    options = UpOptions(**chosen)
    return up.run_up(Workspace(folder / "w"), options, Silent(), lambda *_: yes)


def statuses(journey: Journey) -> dict[str, str]:
    return {leg.name: leg.status for leg in journey.legs}


def planned(stages: Stages, folder: Path, plan: Plan, **chosen: Any) -> up._PlannedUp:
    workspace = Workspace(folder / "w")
    machine = Machine(os=Os(system="linux", distro="debian 12"))
    shared: dict[str, Any] = {"workspace": workspace, "progress": Silent(), "machine": machine, "plan": plan}
    return up._PlannedUp(walk=Walk(workspace, Silent()), options=UpOptions(**chosen), **shared)
