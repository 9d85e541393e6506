"""``up`` along each of its ways, with the long stages replaced by their results: what is done, kept, refused, told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput, OtherPlan, StageFailed
from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.journey import from_source, up
from rekindle.journey.walk import Walk
from rekindle.model.build import Brought, BuildFailure, BuildResult, BundleReport, Left
from rekindle.model.build_options import BuildOptions
from rekindle.model.journey import BuiltCompanion, Journey, UpOptions
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Reason, Wish
from rekindle.model.progress import Silent
from rekindle.model.source import AppliedPatch, SourceTree
from rekindle.model.supply import TreePart
from tiny_wheels import make_wheel
from up_stages import FAILURE, PLAN, Stages, go, statuses


def test_nothing_fits_is_an_answer(stages: Stages, tmp_path: Path) -> None:
    stages.plan = Plan(answer="none", because=(Reason(code="x", text="No code for this card."),))
    journey = go(tmp_path)
    assert not journey.arrived and "No code for this card." in journey.verdict
    assert stages.asked == ["doctor", "plan"] and journey.next == ("rekindle plan -v",)
    assert json.loads((tmp_path / "w/plan.json").read_bytes())["answer"] == "none"


def test_a_dry_run_stops_after_the_plan(stages: Stages, tmp_path: Path) -> None:
    journey = go(tmp_path, dry_run=True)
    assert journey.arrived and "dry run" in journey.verdict
    assert not {"fetch", "build"} & set(stages.asked)
    assert journey.report is None and not (tmp_path / "w").exists()
    assert journey.card is not None and journey.card.new and "compiled here" in journey.card.what[0]


def test_without_a_yes_nothing_is_done(stages: Stages, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs a yes"):
        go(tmp_path, yes=False)
    assert not {"fetch", "patch", "build"} & set(stages.asked)


def test_a_failed_build_is_a_value_to_the_end(stages: Stages, tmp_path: Path) -> None:
    journey = go(tmp_path)
    assert journey.failure == FAILURE and not journey.arrived and "cc1plus was killed" in journey.verdict
    assert journey.next == ("rekindle explain /w/logs/build.log",)
    assert statuses(journey) == {
        "probe": "done", "plan": "done", "check": "done", "fetch": "done", "patch": "done", "build": "failed"
    }  # fmt: skip
    page = Path(journey.report or "").read_text(encoding="utf-8")
    assert "No memory was left." in page and "Killed &lt;signal&gt;" in page and "--memory 4G" in page
    assert not (tmp_path / "w/reports/build.key").exists()
    again = go(tmp_path)
    assert statuses(again)["build"] == "failed" and stages.asked.count("build") == 2


def test_the_command_line_says_what_failed_and_ends_with_1(
    stages: Stages, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--yes", "-q", "--workspace", str(tmp_path / "w")]) == 1
    said = capsys.readouterr().out
    assert "cc1plus was killed" in said and "No memory was left." in said and "/w/logs/build.log" in said


def source_build(
    folder: Path, stages: Stages, plan: Plan = PLAN, **chosen: Any
) -> tuple[Path | BuildFailure | None, dict[str, str]]:
    workspace = Workspace(folder / "w")
    walk = Walk(workspace, Silent())
    builds = from_source.SourceBuilds(walk=walk, plan=plan, python="python3", options=UpOptions(**chosen))
    made = from_source.build_from_source(builds)
    return made, {leg.name: leg.status for leg in walk.legs}


def test_a_built_wheel_is_kept_while_it_lies_there_unchanged(stages: Stages, built: Path, tmp_path: Path) -> None:
    first, legs = source_build(tmp_path, stages, bundle=False)
    assert first == built and legs == {"fetch": "done", "patch": "done", "build": "done", "inspect": "done"}
    _, legs = source_build(tmp_path, stages, bundle=False)
    assert (legs["build"], legs["inspect"]) == ("kept", "kept")
    built.write_bytes(b"another")
    _, legs = source_build(tmp_path, stages, bundle=False)
    assert legs["build"] == "done"


def test_a_rocm_build_is_hipified_after_its_patches(stages: Stages, built: Path, tmp_path: Path) -> None:
    rocm = Plan(answer="build", torch="2.6.0", rocm="6.4", build=PLAN.build)
    _, legs = source_build(tmp_path, stages, rocm, bundle=False)
    assert list(legs) == ["fetch", "patch", "hipify", "build", "inspect"]
    stages.asked.clear()
    source_build(tmp_path / "cpu", stages, bundle=False)
    assert "hipify" not in stages.asked


def test_clean_removes_only_what_another_plan_compiled(
    stages: Stages, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []

    def build(options: BuildOptions, progress: object) -> BuildResult | BuildFailure:
        told.append(options.clean)
        if not options.clean:
            raise OtherPlan("made for another plan", remedy="give --clean")
        return stages.built

    monkeypatch.setattr(from_source, "build_one", build)
    with pytest.raises(OtherPlan):
        source_build(tmp_path, stages, bundle=False)
    made, _ = source_build(tmp_path, stages, bundle=False, clean=True)
    assert made == built and told == [False, False, True]

    def continue_it(options: BuildOptions, progress: object) -> BuildResult | BuildFailure:
        told.append(options.clean)
        return stages.built

    monkeypatch.setattr(from_source, "build_one", continue_it)
    built.write_bytes(b"gone")
    source_build(tmp_path, stages, bundle=False, clean=True)
    assert told[3:] == [False], "its own tree is continued"


def test_another_tree_or_python_is_another_build(stages: Stages, built: Path, tmp_path: Path) -> None:
    source_build(tmp_path, stages, bundle=False)
    stages.tree = SourceTree(project="torch", version="2.7.1", root="/t", digest="other")
    assert source_build(tmp_path, stages, bundle=False)[1]["build"] == "done"


def test_what_was_chosen_reaches_the_build(stages: Stages, built: Path, tmp_path: Path) -> None:
    source_build(tmp_path, stages, bundle=False, memory="12G", source=tmp_path)
    assert (stages.built_with.memory, stages.built_with.pythons) == ("12G", ("python3",))
    assert "fetch" not in stages.asked


def test_where_files_are_looked_for_reaches_the_tree(stages: Stages, built: Path, tmp_path: Path) -> None:
    source_build(tmp_path, stages, bundle=False, find_links=("wheels",), offline=True)
    told = stages.told["fetch"]
    assert (told["find_links"], told["offline"]) == (("wheels",), True)


def test_only_a_target_makes_no_wheel(stages: Stages, built: Path, tmp_path: Path) -> None:
    made, legs = source_build(tmp_path, stages, target="c10")
    assert made is None and "inspect" not in legs and stages.built_with.target == "c10"


def fat(wheel: Path, out: Path | None, *, brought: bool) -> BundleReport:
    return BundleReport(
        wheel=str(wheel),
        system="linux",
        bytes_before=1,
        out=str(out) if out else None,
        sha256=sha256_of(out) if out else None,
        brought=(Brought(file="torch/lib/libcudart.so.12", origin="/x", bytes=1, why="needed"),) if brought else (),
    )


def test_a_wheel_that_needs_nothing_stays_as_it_is(stages: Stages, built: Path, tmp_path: Path) -> None:
    stages.fat = fat(built, built, brought=False)
    made, legs = source_build(tmp_path, stages)
    assert made == built and legs["bundle"] == "done" and stages.asked.count("bundle") == 1


def test_what_it_needs_is_brought_along_and_kept(stages: Stages, built: Path, tmp_path: Path) -> None:
    thick = make_wheel(tmp_path / "fat", "torch", "2.7.1")
    stages.fat = fat(built, thick, brought=True)
    made, _ = source_build(tmp_path, stages)
    assert made == thick and stages.asked.count("bundle") == 2
    _, legs = source_build(tmp_path, stages)
    assert legs["bundle"] == "kept"
    thick.write_bytes(b"changed")
    assert source_build(tmp_path, stages)[1]["bundle"] == "done"


def test_missing_third_parties_end_the_walk_with_what_helps(stages: Stages, tmp_path: Path) -> None:
    part = TreePart(name="fmt", path="third_party/fmt", way="submodule", ready=False, fix="apt install libfmt-dev")
    stages.tree = SourceTree(
        project="torch", version="2.7.1", root="/t", missing_submodules=("third_party/fmt",), parts=(part,)
    )
    with pytest.raises(StageFailed, match="1 third parties are missing: third_party/fmt") as caught:
        go(tmp_path)
    assert caught.value.remedy == "apt install libfmt-dev" and caught.value.exit_code == 1


def test_a_patch_that_does_not_fit_ends_the_walk(stages: Stages, tmp_path: Path) -> None:
    patches = (AppliedPatch(id="p1", state="conflict"), AppliedPatch(id="p2", state="applied"))
    stages.tree = SourceTree(project="torch", version="2.7.1", root="/t", patches=patches)
    with pytest.raises(StageFailed, match=r"patches that do not fit .*: p1; nothing"):
        go(tmp_path)
    assert "build" not in stages.asked


def test_a_python_that_does_not_run_is_named(stages: Stages, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="/no/such/python is no Python that runs here"):
        go(tmp_path, python="/no/such/python")


def test_the_api_says_yes_by_itself_and_holds_the_workspace(stages: Stages, tmp_path: Path) -> None:
    journey = api.up(workspace=tmp_path / "w")
    assert journey.failure == FAILURE and journey.workspace == str(tmp_path / "w")
    assert not (tmp_path / "w/.lock.holder").exists()


def test_a_left_library_is_said(tmp_path: Path) -> None:
    from rekindle.render.summary import summarise_bundle

    left = Left(name="libmpi.so", needed_by="a.so", why="not found")
    report = BundleReport(wheel="w.whl", system="linux", bytes_before=1, missing=(left,))
    assert summarise_bundle(report).endswith("not found here: libmpi.so")


def test_a_torch_for_other_cards_is_planned_for_them_and_trimmed_to_them(stages: Stages, tmp_path: Path) -> None:
    asked: list[Machine] = []

    def planned(machine: Machine, wish: Wish) -> Plan:
        asked.append(machine)
        return PLAN

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(up, "make_plan", planned)
        journey = go(tmp_path, gpu=("sm_35", "sm_90"), cpu="ivybridge")
    assert [str(gpu.arch) for gpu in asked[0].gpus] == ["sm_35", "sm_90"]
    assert asked[0].cpu.microarchitecture == "ivybridge"
    assert json.loads((tmp_path / "w/machine.json").read_bytes()).get("gpus", []) == [], "this machine has none"
    assert journey.plan == PLAN


def test_what_a_wheel_brings_along_keeps_code_for_the_planned_cards_alone(stages: Stages, tmp_path: Path) -> None:
    one = Brought(file="libcublas.so.11", origin="/l", bytes=1, why="torch")
    stages.fat = BundleReport(wheel="x", system="linux", bytes_before=1, brought=(one,))
    plan = msgspec.structs.replace(PLAN, cuda="11.8", arch_list=("3.5", "9.0+PTX"))
    from_source.bundle_wheel(tmp_path / "w.whl", plan, Workspace(tmp_path / "w"), Silent())
    assert stages.told["bundle"]["archs"] == ["3.5", "9.0"]
    from_source.bundle_wheel(tmp_path / "w.whl", PLAN, Workspace(tmp_path / "w"), Silent())
    assert stages.told["bundle"]["archs"] == []


def test_libraries_that_the_build_had_in_its_tree_go_into_the_wheel(stages: Stages, tmp_path: Path) -> None:
    stages.fat = BundleReport(wheel="x", system="linux", bytes_before=1)
    names = ("NCCL_ROOT", "CUDNN_ROOT", "CUSPARSELT_ROOT")  # as the facts list them
    places = {name: str(tmp_path / name) for name in names}
    for place in places.values():
        Path(place).mkdir()
    told = {**places, "HOME": str(tmp_path), "CUDA_HOME": str(tmp_path / "gone")}
    from_source.bundle_wheel(tmp_path / "w.whl", PLAN, Workspace(tmp_path / "w"), Silent(), told)
    assert stages.told["bundle"]["library_path"] == list(places.values())


def test_a_proven_build_names_its_wheel_and_what_comes_next(
    stages: Stages, built: Path, proved: Callable[..., Journey], tmp_path: Path
) -> None:
    journey = proved(tmp_path)
    assert journey.arrived and journey.verdict == "torch 2.7.1 runs on this machine: 5 checks passed"
    assert (journey.wheel, journey.wheel_sha256) == (str(built), sha256_of(built))
    assert journey.python and journey.next[-1].endswith('-c "import torch; print(torch.__version__)"')
    assert journey.verification and journey.verification.environment_digest == "f"
    assert stages.told["verify"]["gpu"] is None and stages.told["verify"]["companions"] == ()
    assert Path(journey.report or "").is_file()


def test_a_build_that_is_not_proven_has_not_arrived(proved: Callable[..., Journey], tmp_path: Path) -> None:
    journey = proved(tmp_path, "failed")
    assert not journey.arrived and "is installed, but not proven to work" in journey.verdict
    assert journey.next[0].startswith("rekindle verify --python") and statuses(journey)["verify"] == "failed"


def test_companions_are_told_with_what_became_of_each(
    stages: Stages, built: Path, proved: Callable[..., Journey], tmp_path: Path
) -> None:
    vision = BuiltCompanion(name="torchvision", version="0.22.1", wheel=str(built))
    audio = BuiltCompanion(name="torchaudio", why="no sources")
    journey = proved(tmp_path, companions=(vision, audio))
    assert journey.verdict.startswith("torch 2.7.1 and torchvision 0.22.1 run on this machine")
    assert journey.verdict.endswith("; torchaudio was not built: no sources")
    proven = stages.told["verify"]["companions"]
    assert "torchvision" in proven and "torchaudio" not in proven


def test_what_changed_between_install_and_proof_is_no_proof(
    built: Path, proved: Callable[..., Journey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StageFailed, match="between install and verify, so the proof is about something else"):
        proved(tmp_path, fingerprints=("another",))
    digests = iter(["as installed", "another"])
    monkeypatch.setattr(up, "sha256_of", lambda path: next(digests))
    with pytest.raises(StageFailed, match="the proof is not about this file"):
        proved(tmp_path / "second")


def test_a_torch_with_gpu_code_that_was_given_to_a_machine_without_a_gpu_is_proved_without_one(
    stages: Stages, built: Path, proved: Callable[..., Journey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "plan_taken", lambda machine, wish, wheel: stages.plan)
    monkeypatch.setattr(up, "companion_checks", lambda *words, **named: ())
    proved(tmp_path, wheel=built)
    assert stages.told["verify"]["gpu"] is False
    stages.plan = msgspec.structs.replace(PLAN, cuda="11.8")
    proved(tmp_path / "cuda", wheel=built)
    assert stages.told["verify"]["gpu"] is None


def test_where_only_a_target_was_asked_for_the_way_ends_without_a_wheel(
    stages: Stages, built: Path, tmp_path: Path
) -> None:
    journey = go(tmp_path, target="c10")
    assert journey.arrived and journey.verdict == "c10 of torch 2.7.1 is built; no wheel was asked for"
    assert (journey.wheel, journey.python, journey.verification, journey.next) == (None, None, None, ())
    assert "install" not in statuses(journey)
