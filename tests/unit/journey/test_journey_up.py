"""``up`` along each of its ways, with the long stages replaced by their results: what is done, kept, refused, told."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput, OtherPlan, StageFailed
from rekindle.host.files import sha256_of
from rekindle.host.made import MARK
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import python_of
from rekindle.journey import from_source, up
from rekindle.journey import install as installing
from rekindle.journey.walk import Walk
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.bundle import Brought, BundleReport, Left
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.journey import BuiltCompanion, Installation, Journey, Package, UpOptions
from rekindle.model.machine import Examination, Machine, Os, Ready
from rekindle.model.plan import BuildRecipe, Plan, Reason, Request, Wish
from rekindle.model.progress import Silent
from rekindle.model.source import AppliedPatch, SourceTree
from rekindle.model.supply import TreePart
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport
from tiny_wheels import make_wheel

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


def go(folder: Path, *, yes: bool = True, **chosen: Any) -> Journey:
    options = UpOptions(**chosen)
    return up.run_up(Workspace(folder / "w"), options, Silent(), lambda *_: yes)


def statuses(journey: Journey) -> dict[str, str]:
    return {leg.name: leg.status for leg in journey.legs}


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


@pytest.fixture
def built(stages: Stages, tmp_path: Path) -> Path:
    wheel = make_wheel(tmp_path / "wheels", "torch", "2.7.1")
    stages.built = BuildResult(
        project="torch", wheel=str(wheel), wheel_sha256=sha256_of(wheel), plan=PLAN, plan_digest="p"
    )
    return wheel


def source_build(
    folder: Path, stages: Stages, plan: Plan = PLAN, **chosen: Any
) -> tuple[Path | BuildFailure | None, dict[str, str]]:
    workspace = Workspace(folder / "w")
    walk = Walk(workspace, Silent())
    shared: dict[str, Any] = {
        "walk": walk,
        "workspace": workspace,
        "plan": plan,
        "python": "python3",
        "progress": Silent(),
    }
    made = from_source.build_from_source(from_source.SourceBuilds(**shared, options=UpOptions(**chosen)))
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


def test_a_proven_build_names_its_wheel_and_what_comes_next(
    stages: Stages, built: Path, proved: Callable[..., Journey], tmp_path: Path
) -> None:
    journey = proved(tmp_path)
    assert journey.arrived and journey.verdict == "torch 2.7.1 runs on this machine: 5 checks passed"
    assert (journey.wheel, journey.wheel_sha256) == (str(built), sha256_of(built))
    assert journey.python and journey.next[-1].endswith('-c "import torch; print(torch.__version__)"')
    assert journey.verification and journey.verification.environment_digest == "f"
    assert stages.told["verify"]["gpu"] is None and stages.told["verify"]["beside"] == ()
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
    assert "torchvision" in stages.told["verify"]["beside"] and "torchaudio" not in stages.told["verify"]["beside"]


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


def planned(stages: Stages, folder: Path, plan: Plan, **chosen: Any) -> up._PlannedUp:
    workspace = Workspace(folder / "w")
    machine = Machine(os=Os(system="linux", distro="debian 12"))
    shared: dict[str, Any] = {"workspace": workspace, "progress": Silent(), "machine": machine, "plan": plan}
    return up._PlannedUp(walk=Walk(workspace, Silent()), options=UpOptions(**chosen), **shared)


@pytest.mark.parametrize(("answer", "network", "told"), [("install", "no", True), ("install", None, False)])
def test_where_the_index_is_silent_the_card_says_what_can_be_had(
    answer: str, network: str | None, told: bool, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "look_for_network", lambda places: network)
    monkeypatch.setattr(up, "reachable_ways", lambda machine, options: ("rekindle up --torch 2.6.0",))
    monkeypatch.setattr(up._PlannedUp, "_foresee", lambda self, requests: ((),))
    request = Request(name="torch", version="2.7.1", index="https://example.org/cpu")
    card = planned(stages, tmp_path, Plan(answer="install", torch="2.7.1", requests=(request,))).make_card()
    assert card.reachable == (("rekindle up --torch 2.6.0",) if told else ())
    assert (card.packages, card.network) == (None if network else 0, network)
    built = planned(stages, tmp_path, PLAN).make_card()
    assert built.reachable == (), "sources come from one place"


def test_where_a_build_fetches_from_and_what_is_there_already(stages: Stages, tmp_path: Path) -> None:
    git = "https://github.com/pytorch/pytorch"
    fresh = planned(stages, tmp_path, PLAN)
    assert len(fresh._upstream()) == 1 and git in fresh._upstream()[0]
    (fresh.workspace.source / "torch-2.7.1").mkdir(parents=True)
    assert fresh._upstream() == () and planned(stages, tmp_path, PLAN, source=tmp_path)._upstream() == ()
    debian = msgspec.structs.replace(PLAN, build=BuildRecipe(source="debian", origin="debian"))
    assert planned(stages, tmp_path, debian)._upstream() == ()
    assert planned(stages, tmp_path, debian)._archive() == ("Debian's archive of sources",)
    assert planned(stages, tmp_path, debian, offline=True)._archive() == ()
    assert planned(stages, tmp_path, debian, source=tmp_path)._archive() == fresh._archive() == ()


def test_where_the_phases_after_a_build_write(stages: Stages, tmp_path: Path) -> None:
    assert planned(stages, tmp_path, PLAN, target="c10")._later_places() == {}
    both = planned(stages, tmp_path, PLAN, venv=tmp_path / "env", bundle=True)
    assert both._later_places() == {"bundle": both.workspace.wheels, "verify": tmp_path / "env"}
    assert planned(stages, tmp_path, PLAN, venv=tmp_path / "env", bundle=False)._later_places().keys() == {"verify"}


def test_a_walk_is_done_only_while_its_python_and_its_plan_are_the_same(stages: Stages, tmp_path: Path) -> None:
    walk = planned(stages, tmp_path, PLAN, python=sys.executable)
    assert not walk.is_done()
    walk._arrived.parent.mkdir(parents=True)
    walk._arrived.write_text(walk.inputs, "ascii")
    assert walk.is_done()
    other = msgspec.structs.replace(PLAN, torch="2.7.0")
    assert not planned(stages, tmp_path, other, python=sys.executable).is_done()
    for more in ({"torch_only": True}, {"index": "https://mine.example"}):
        assert not planned(stages, tmp_path, PLAN, python=sys.executable, **more).is_done()
    gone = planned(stages, tmp_path, PLAN, python=str(tmp_path / "gone" / "python"))
    gone._arrived.write_text(gone.inputs, "ascii")
    assert not gone.is_done()


def test_a_new_environment_is_made_with_the_python_that_was_named_or_planned(stages: Stages, tmp_path: Path) -> None:
    assert planned(stages, tmp_path, PLAN).base == sys.executable
    named = planned(stages, tmp_path, PLAN, python="/opt/python", venv=tmp_path / "env")
    assert named.base == named.build_python == "/opt/python"


def test_a_walk_that_arrived_before_says_so_in_a_dry_run(stages: Stages, tmp_path: Path) -> None:
    stages.plan = msgspec.structs.replace(PLAN, answer="install", build=None)
    before = planned(stages, tmp_path, stages.plan, python=sys.executable)
    before._arrived.parent.mkdir(parents=True)
    before._arrived.write_text(before.inputs, "ascii")
    journey = go(tmp_path, python=sys.executable, dry_run=True)
    assert journey.arrived and journey.verdict.endswith("(done before)") and journey.card is None


@pytest.mark.parametrize(
    ("named", "wished", "python"), [(None, None, None), ("3.11", None, "3.11"), ("3.11", "3.12", "3.12")]
)
def test_the_plan_is_for_the_python_that_was_named_unless_the_wish_says_another(
    named: str | None, wished: str | None, python: str | None, stages: Stages, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    wishes: list[Wish] = []

    def plan(machine: object, wish: Wish) -> Plan:
        wishes.append(wish)
        return Plan(answer="none")

    monkeypatch.setattr(up, "make_plan", plan)
    monkeypatch.setattr(up, "wanted_python", lambda host, options: named)
    go(tmp_path, dry_run=True, wish=Wish(python=wished))
    assert [wish.python for wish in wishes] == [python]


INSTALL = Plan(
    answer="install", torch="2.7.1", requests=(Request(name="torch", version="2.7.1", index="https://i.example"),)
)


def test_things_come_from_the_index_of_the_plan_or_from_folders_alone(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(stages, tmp_path, INSTALL)._places() == ("https://i.example",)
    assert planned(stages, tmp_path, INSTALL, index="https://mine.example")._places() == ("https://mine.example",)
    assert planned(stages, tmp_path, INSTALL, offline=True, find_links=("here",))._places() == ("here",)
    built = planned(stages, tmp_path, PLAN)
    assert built._places() == built._upstream() != ()

    def nothing(*_: object, **__: object) -> None:
        raise StageFailed("no such wheel here", remedy="as pip said")

    monkeypatch.setattr(installing, "foresee", nothing)
    for offline, ways, remedy in (
        (True, ("rekindle up",), "rekindle up takes"),
        (True, (), "as"),
        (False, ("x",), "as"),
    ):
        monkeypatch.setattr(up, "reachable_ways", lambda machine, options, ways=ways: ways)
        with pytest.raises(StageFailed) as stopped:
            planned(stages, tmp_path, INSTALL, offline=offline, find_links=("here",)).make_card()
        assert (stopped.value.remedy or "").startswith(remedy)


def test_what_comes_is_asked_once_of_the_environment_or_of_the_python_it_will_be_made_with(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool, bool]] = []
    answer: list[tuple[Package, ...] | None] = [None]

    def foresee(host: object, python: str, *_: object, fresh: bool, substituted: bool, **__: object) -> Any:
        asked.append((python, fresh, substituted))
        return tuple(answer)

    monkeypatch.setattr(installing, "foresee", foresee)
    there = planned(stages, tmp_path, INSTALL, python=sys.executable, index="https://mine.example")
    for _ in range(2):
        assert there._foresee(there.requests) == (None,)
    assert asked == [(sys.executable, False, True)], "what an environment cannot tell it cannot tell later"
    new = planned(stages, tmp_path, INSTALL, venv=tmp_path / "new")
    new._foresee(new.requests)
    answer[:] = [()]
    for _ in range(2):
        assert new._foresee(new.requests) == ((),)
    assert asked[1:] == [(new.base, True, False)] * 2, "the environment's own pip may know more than its base"


def test_an_environment_of_ours_stands_for_the_python_it_was_made_with(stages: Stages, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    python = python_of(folder)
    python.parent.mkdir(parents=True)
    python.touch()
    walk = planned(stages, tmp_path, PLAN, venv=folder)
    (folder / "pyvenv.cfg").touch()
    assert walk.target.exists and walk.build_python == str(python)
    assert walk._keep_folder == walk.workspace.root / "keep", "nothing goes into what was there before"
    (folder / MARK).touch()
    assert walk.build_python == sys.executable and walk._keep_folder == folder / "rekindle"
    given = planned(stages, tmp_path, PLAN, python=sys.executable)
    assert given.build_python == sys.executable and given._keep_folder == given.workspace.root / "keep"


@pytest.mark.parametrize(
    ("numpy", "companions", "limited"), [("<2", 1, True), ("<2", 0, False), (">=2", 1, False), (None, 1, False)]
)
def test_a_companion_does_not_bring_a_numpy_that_the_torch_cannot_use(
    numpy: str | None, companions: int, limited: bool, stages: Stages, built: Path, proved: Callable[..., Journey],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    stages.plan = msgspec.structs.replace(PLAN, numpy=numpy)
    vision = make_wheel(tmp_path, "torchvision", "0.22.1")
    made = BuiltCompanion(name="torchvision", version="0.22.1", wheel=str(vision), wheel_sha256="0")
    failed = BuiltCompanion(name="torchaudio", version="2.7.1", why="no network")
    asked: list[tuple[Request, ...]] = []
    proved(tmp_path, companions=(made,) * companions + (failed,))
    installed = up._PlannedUp._installed

    def install(self: Any, requests: tuple[Request, ...], inputs: str) -> Installation:
        asked.append(requests)
        return installed(self, requests, inputs)

    monkeypatch.setattr(up._PlannedUp, "_installed", install)
    monkeypatch.setattr(up._PlannedUp, "_fingerprint", lambda self: "f")
    go(tmp_path, bundle=False)
    assert [one.name for one in asked[0]] == ["torch", *["torchvision"] * companions, *["numpy"] * limited]


class Installs:
    """Stands in for pip: what was installed where, and what the environment's state is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Path] = []
        self.count = 0
        self.fails = False
        monkeypatch.setattr(installing, "own_environment", self.environment)
        monkeypatch.setattr(installing, "foresee", lambda *_, **__: ((),))
        monkeypatch.setattr(installing, "install", self.install)
        monkeypatch.setattr(installing, "install_companions", lambda *told: told[4])
        monkeypatch.setattr(up, "look_into", lambda host, python: SimpleNamespace(fingerprint=f"f{self.count}"))
        monkeypatch.setattr(up, "write_keeps", lambda folder, *_: (str(folder),))
        monkeypatch.setattr(up, "set_variables", lambda *_: None)

    def environment(self, installer: object, python: str, folder: Path, log: Path) -> None:
        python_of(folder).parent.mkdir(parents=True)
        python_of(folder).touch()
        self.made.append(folder)

    def install(self, host: object, python: str, *_: object) -> Installation:
        if self.fails:
            raise StageFailed("pip failed")
        self.count += 1
        return Installation(python=python, packages={"torch": "2.7.1"}, fingerprint=f"f{self.count}")


def test_an_install_is_kept_while_the_environment_is_as_it_was_left(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs = Installs(monkeypatch)
    proofs: list[dict[str, Any]] = []

    def prove(**told: Any) -> VerifyReport:
        proofs.append(told)
        return VerifyReport(verdict="proven", passed=5)

    monkeypatch.setattr(up, "verify", prove)
    stages.plan = INSTALL
    first = go(tmp_path)
    assert first.arrived and first.verdict == "torch 2.7.1 runs on this machine: 5 checks passed"
    assert installs.made == [Path(first.python or "").parents[1]] and first.wheel is None
    assert statuses(go(tmp_path)) | {"install": "kept", "verify": "kept"} == statuses(go(tmp_path))
    installs.count += 1
    again = go(tmp_path)
    assert (statuses(again)["install"], statuses(again)["verify"]) == ("done", "done") and len(proofs) == 2


@pytest.mark.parametrize("given", [True, False])
def test_an_install_that_fails_leaves_no_environment_of_ours(
    given: bool, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs = Installs(monkeypatch)
    installs.fails = True
    stages.plan = INSTALL
    with pytest.raises(StageFailed, match="pip failed"):
        go(tmp_path, python=sys.executable if given else None)
    assert len(installs.made) == (not given) and not any(folder.exists() for folder in installs.made)
    assert Path(sys.executable).exists()
