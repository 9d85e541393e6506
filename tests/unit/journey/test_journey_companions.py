"""Companions of a built torch: built where they can be, told and left out where not; the torch stays good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle import api
from rekindle.api.build_wheels import companion_checks
from rekindle.errors import BadInput, Interrupted
from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.journey import from_source
from rekindle.journey.walk import Walk
from rekindle.model.build import BuildFailure, BuildResult, BundleReport
from rekindle.model.build_options import BuildOptions
from rekindle.model.journey import UpOptions
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SourceTree

MADE: dict[str, Any] = {"plan_digest": "p", "log": "log", "report": "report"}


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        if text.startswith("  "):  # a stage's own words, under its leg
            self.notes.append(text[2:])


def shared(
    workspace: Workspace, plan: Plan, options: UpOptions, walk: Walk | None = None, progress: Progress | None = None
) -> from_source.SourceBuilds:
    walk = walk or Walk(workspace, progress or Silent())
    return from_source.SourceBuilds(walk=walk, plan=plan, python="python", options=options)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    fetched: list[dict[str, Any]] = []
    told: dict[str, Any] = {"fetched": fetched, "monkeypatch": monkeypatch, "digest": "d"}

    def fetch(**wanted: Any) -> SourceTree:
        fetched.append(wanted)
        return SourceTree(
            project=wanted["project"], version=wanted["release"], root=str(tmp_path), digest=told["digest"]
        )

    def build(options: BuildOptions, progress: object) -> BuildResult:
        tree, plan = options.source, options.plan
        assert isinstance(tree, SourceTree) and isinstance(plan, Plan)
        wheel = tmp_path / f"{tree.project}.whl"
        wheel.write_text(tree.project)
        return BuildResult(project=tree.project, wheel=str(wheel), wheel_sha256=sha256_of(wheel), plan=plan, **MADE)

    monkeypatch.setattr(from_source, "source_fetch", fetch)
    monkeypatch.setattr(from_source, "build_one", build)
    return told


def walk_it(tmp_path: Path, origin: str = "debian", torch: str = "2.6.0") -> tuple[list[str], list[str]]:
    workspace = Workspace(tmp_path / "ws")
    heard = Heard()
    wheel = tmp_path / "torch.whl"
    wheel.write_text("torch")
    plan = Plan(answer="build", torch=torch, build=BuildRecipe(source="x", origin=origin))
    options = UpOptions(bundle=False)
    found = from_source.build_companions(shared(workspace, plan, options, progress=heard), wheel)
    return [one.name for one in found if one.wheel], heard.notes


@pytest.mark.parametrize(("origin", "place"), [("debian", "debian"), ("git", "git"), ("tarball", "git")])
def test_both_come_from_where_torch_came_from(tmp_path: Path, room: dict[str, Any], origin: str, place: str) -> None:
    names, notes = walk_it(tmp_path, origin)
    assert (names, notes) == (["torchvision", "torchaudio"], [])
    assert [(one["release"], one["place"]) for one in room["fetched"]] == [("0.21.0", place), ("2.6.0", place)]


def test_one_that_cannot_be_had_does_not_take_the_others_down(tmp_path: Path, room: dict[str, Any]) -> None:
    kept: Callable[..., SourceTree] = vars(from_source)["source_fetch"]

    def fetch(**wanted: Any) -> SourceTree:
        if wanted["project"] == "torchvision":
            raise BadInput("Debian has no torchvision 0.21.0 that we know of")
        return kept(**wanted)

    room["monkeypatch"].setattr(from_source, "source_fetch", fetch)
    names, notes = walk_it(tmp_path)
    assert names == ["torchaudio"]
    assert notes == ["torchvision 0.21.0 is not built: Debian has no torchvision 0.21.0 that we know of"]


def test_one_that_fails_is_told(tmp_path: Path, room: dict[str, Any]) -> None:
    def fail(*_args: Any, **_more: Any) -> BuildFailure:
        return BuildFailure(project="x", phase="compile", message="no such header", log="log")

    room["monkeypatch"].setattr(from_source, "build_one", fail)
    names, notes = walk_it(tmp_path)
    assert names == []
    assert notes == [
        "torchvision 0.21.0 is not built: no such header", "torchaudio 2.6.0 is not built: no such header",
    ]  # fmt: skip


def test_no_network_for_a_companion_leaves_the_torch_and_says_how_to_go_on(
    tmp_path: Path, room: dict[str, Any]
) -> None:
    def cut(**_wanted: Any) -> SourceTree:
        raise Interrupted("no such host")

    room["monkeypatch"].setattr(from_source, "source_fetch", cut)
    names, notes = walk_it(tmp_path)
    assert names == []
    assert notes[0] == "torchvision 0.21.0 is not built: no such host; the same command tries it again"


def test_a_build_cut_short_is_not_swallowed(tmp_path: Path, room: dict[str, Any]) -> None:
    def cut(*_args: Any, **_more: Any) -> BuildResult:
        raise Interrupted("cut")

    room["monkeypatch"].setattr(from_source, "build_one", cut)
    with pytest.raises(Interrupted):
        walk_it(tmp_path)


@pytest.mark.parametrize(
    ("origin", "torch", "words"), [("/tree", "2.6.0", "a tree of your own"), ("git", "9.9.9", "not known")]
)
def test_without_a_place_or_a_pair_nothing_is_guessed(
    tmp_path: Path, room: dict[str, Any], origin: str, torch: str, words: str
) -> None:
    names, notes = walk_it(tmp_path, origin, torch)
    assert (names, room["fetched"]) == ([], [])
    assert words in notes[0]


@pytest.mark.parametrize(
    ("origin", "torch", "wanted"),
    [
        ("debian", "1.13.1", [("torchvision", "0.14.1", None), ("torchaudio", "0.13.1", "has no")]),
        ("tarball", "2.6.0", [("torchvision", "0.21.0", None), ("torchaudio", "2.6.0", None)]),
        ("git", "9.9", [("torchvision", None, "is not known"), ("torchaudio", None, "is not known")]),
        ("/tree", "2.6.0", [("torchvision", "0.21.0", "your own"), ("torchaudio", "2.6.0", "your own")]),
    ],
)  # fmt: skip
def test_what_is_to_be_built_is_known_before_anything_starts(
    origin: str, torch: str, wanted: list[tuple[str, str | None, str | None]]
) -> None:
    plan = Plan(answer="build", torch=f"{torch}+cpu", build=BuildRecipe(source="x", origin=origin))
    found = from_source.wanted_companions(plan, UpOptions())
    assert [(one.name, one.version) for one in found] == [one[:2] for one in wanted]
    for one, (*_, why) in zip(found, wanted, strict=True):
        assert (why in (one.why or "")) if why else one.why is None
    for none in (UpOptions(torch_only=True), UpOptions(target="c10")):
        assert from_source.wanted_companions(plan, none) == ()
    assert from_source.wanted_companions(Plan(answer="install", torch=torch), UpOptions()) == ()


@pytest.mark.parametrize("whole", [False, True])
def test_what_they_ask_of_the_machine_is_asked_before_torch_is_built(tmp_path: Path, whole: bool) -> None:
    plan = Plan(answer="build", torch="1.13.1", build=BuildRecipe(source="x"))
    told: dict[str, Any] = {"python": "python", "place": tmp_path, "whole": whole, "host": BareHost()}
    checks = companion_checks(plan, "torchvision", "0.14.1", **told)
    (short,) = [one for one in checks if one.id == "libraries"]
    assert short.status == "fail" and (short.found or "").startswith("torchvision: missing on this system: libpng")
    assert (short.fix or "").endswith("# or leave torchvision and torchaudio out: --torch-only")
    ids = {one.id for one in checks}
    assert ("compiler" in ids, "ninja" in ids) == (whole, whole), "what every build asks was asked for torch already"
    settings = {"TORCHVISION_USE_PNG": "0", "TORCHVISION_USE_JPEG": "0", "TORCHVISION_USE_FFMPEG": "0"}
    without = Plan(answer="build", torch="1.13.1", build=BuildRecipe(source="x", env=settings))
    assert not [one for one in companion_checks(without, "torchvision", "0.14.1", **told) if one.id == "libraries"]


def test_a_companion_is_built_against_that_very_wheel_and_bundled(tmp_path: Path, room: dict[str, Any]) -> None:
    asked: list[str] = []
    build: Callable[..., BuildResult] = vars(from_source)["build_one"]

    def watched(options: BuildOptions, progress: object) -> BuildResult:
        asked.append(options.against or "")
        return build(options, progress)

    def fatten(wheel: Path, *_: Any) -> BundleReport:
        fat = wheel.with_name(f"fat-{wheel.name}")
        fat.write_text("fat")
        return BundleReport(wheel=str(wheel), system="linux", bytes_before=1, out=str(fat), sha256=sha256_of(fat))

    room["monkeypatch"].setattr(from_source, "build_one", watched)
    room["monkeypatch"].setattr(from_source, "bundle_wheel", fatten)
    torch = tmp_path / "torch.whl"
    torch.write_text("torch")
    workspace = Workspace(tmp_path / "ws")
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="x"))
    options = UpOptions()
    walk = Walk(workspace, Silent())
    made = from_source.build_companions(shared(workspace, plan, options, walk), torch)
    assert asked == [str(torch), str(torch)]
    assert [Path(one.wheel or "").name for one in made] == ["fat-torchvision.whl", "fat-torchaudio.whl"]
    again = Walk(workspace, Silent())
    assert from_source.build_companions(shared(workspace, plan, options, again), torch) == made
    kept = {leg.name: leg.status for leg in again.legs if not leg.name.endswith("-source")}
    assert set(kept.values()) == {"kept"} and "torchvision-bundle" in kept
    room["digest"] = "edited"
    from_source.build_companions(shared(workspace, plan, options), torch)
    assert len(asked) == 4, "edited sources are built again"
    torch.write_text("another build of the same release")
    from_source.build_companions(shared(workspace, plan, options), torch)
    assert len(asked) == 6, "another torch: both are built again"


def test_a_build_of_up_does_the_safe_remedy_by_itself(tmp_path: Path, room: dict[str, Any]) -> None:
    """``up --build`` asks nobody: a compiler killed for memory costs half of the jobs and is told."""
    well: Callable[..., BuildResult] = vars(from_source)["build_one"]
    jobs: list[int | None] = []

    def build(options: BuildOptions, progress: object) -> BuildResult | BuildFailure:
        jobs.append(options.jobs)
        if options.jobs is not None and options.jobs <= 2:
            return well(options, progress)
        killed = api.explain("c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n")
        return BuildFailure(project="torch", phase="build", message="it failed", diagnosis=killed)

    room["monkeypatch"].setattr(from_source, "build_one", build)
    heard = Heard()
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="x", origin="debian"))
    builds = shared(Workspace(tmp_path / "ws"), plan, UpOptions(jobs=8), progress=heard)
    tree = SourceTree(project="torch", version="2.6.0", root=str(tmp_path), digest="d")
    assert isinstance(builds.build("build", "a build", tree, "inputs"), BuildResult)
    assert jobs == [8, 4, 2]
    assert [note.split(": ", 1)[1] for note in heard.notes] == [
        "at most 4 compilers at once; the build goes on", "at most 2 compilers at once; the build goes on",
    ]  # fmt: skip
