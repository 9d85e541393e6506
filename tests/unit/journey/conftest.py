"""The fixtures of ``up``: its stages, a wheel that a build gave, and a walk to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle.host.files import sha256_of
from rekindle.journey import from_source, up
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.journey import BuiltCompanion, Installation, Journey
from rekindle.model.machine import Examination, Os, Ready
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport
from tiny_wheels import make_wheel
from up_stages import PLAN, Stages, go


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stages:
    stages = Stages()

    def answers(name: str, answer: Callable[[], object]) -> Callable[..., object]:
        def ask(*words: object, **named: object) -> object:
            stages.asked.append(name)
            stages.told[name] = named
            return answer()

        return ask

    machine = Examination(os=Os(system="linux", distro="debian 12"), ready=Ready(build=True, use=True))
    monkeypatch.setattr(up, "doctor", answers("doctor", lambda: machine))
    monkeypatch.setattr(up, "make_plan", answers("plan", lambda: stages.plan))
    monkeypatch.setattr(up, "build_checks", answers("check", lambda: ()))
    monkeypatch.setattr(up, "look_for_network", answers("network", lambda: None))
    monkeypatch.setattr(from_source, "source_fetch", answers("fetch", lambda: stages.tree))
    monkeypatch.setattr(from_source, "source_patch", answers("patch", lambda: stages.tree))
    monkeypatch.setattr(from_source, "source_hipify", answers("hipify", lambda: stages.tree))

    def build(options: BuildOptions, progress: object) -> BuildResult | BuildFailure:
        stages.asked.append("build")
        stages.built_with = options
        return stages.built

    monkeypatch.setattr(from_source, "build_one", build)
    monkeypatch.setattr(from_source, "inspect", answers("inspect", WheelReport))
    monkeypatch.setattr(from_source, "bundle", answers("bundle", lambda: stages.fat))
    return stages


@pytest.fixture
def built(stages: Stages, tmp_path: Path) -> Path:
    wheel = make_wheel(tmp_path / "wheels", "torch", "2.7.1")
    stages.built = BuildResult(
        project="torch", wheel=str(wheel), wheel_sha256=sha256_of(wheel), plan=PLAN, plan_digest="p"
    )
    return wheel


@pytest.fixture
def proved(stages: Stages, built: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Journey]:
    """Walks a build to its end; the install and the proof are replaced by these results."""

    def walk(
        folder: Path,
        verdict: str = "proven",
        companions: tuple[BuiltCompanion, ...] = (),
        fingerprints: tuple[str, ...] = ("f",),
        **chosen: Any,
    ) -> Journey:
        installed = Installation(
            python="p", packages={"torch": "2.7.1"}, wheel_sha256=sha256_of(built), fingerprint="f"
        )
        seen = iter(fingerprints)

        def prove(**told: Any) -> VerifyReport:
            stages.told["verify"] = told
            return msgspec.convert({"verdict": verdict, "passed": 5}, VerifyReport)

        monkeypatch.setattr(up._PlannedUp, "_installed", lambda self, requests, inputs: installed)
        monkeypatch.setattr(up._PlannedUp, "_fingerprint", lambda self: next(seen))
        monkeypatch.setattr(up, "build_companions", lambda builds, wheel: companions)
        monkeypatch.setattr(up, "verify", prove)
        return go(folder, bundle=False, **chosen)

    return walk
