"""The engine's own part: what goes into the build's environment, who governs, what is told however it ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bare_host import BareHost
from rekindle.build import engine, finish, steps
from rekindle.build.environment import BuildEnvironment
from rekindle.build.launchers import Launcher
from rekindle.build.tree import TreeState
from rekindle.build.work import Work
from rekindle.errors import StageFailed
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.farm import DistrustedWorker, FarmStatus
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.case import PlannedBuild
from rekindle.toolkits.programs import Tool

PLAN = Plan(answer="build", project="spark", variant="cpu", build=BuildRecipe(source="spark"))


class World:
    """Every step of a build, replaced by a note of what it was given."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        (self.root / "build").mkdir(parents=True)
        (self.root / "setup.py").write_text("")
        self.env = BuildEnvironment(full={"KEPT": "1"}, chosen={"LDSHARED": "ours"}, dropped=(), cache_settings={})
        self.governor = SimpleNamespace(server=None, max_jobs=1)
        self.compiled: list[dict[str, str]] = []
        self.farm_jobs: list[int | None] = []
        self.compiler = folder / "g++"
        self.compiler.write_bytes(b"compiler")
        self.ended: Work | None = None

    def tree(self) -> SourceTree:
        return SourceTree(project="spark", version="0.3.0", root=str(self.root))

    @contextlib.contextmanager
    def jobs(self, *words: object, farm: int | None = None) -> Iterator[Any]:
        self.farm_jobs.append(farm)
        tell = lambda env, chooses: env.update(JOBS="told")  # noqa: E731
        yield SimpleNamespace(governor=self.governor, learnt="what was learnt", note=None, tell=tell)

    def compile(self, work: Work, *words: object) -> None:
        self.compiled.append(dict(self.env.full))

    def finish(self, work: Work, *words: object) -> Any:
        self.ended = work
        return "result"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    tool = Tool(name="g++", path=str(made.compiler), version="12.2.0")
    python = SimpleNamespace(version="3.11.2", path="/usr/bin/python3", tag="cp311")
    target = SimpleNamespace(python="/usr/bin/python3", bin=tmp_path, interpreter=python)
    overrides = SimpleNamespace(overrides=lambda cc, cxx: {"LDSHARED": "theirs", "LDCXXSHARED": "theirs"})
    replaced = {
        "find_ninja": lambda host, given: tool,
        "find_cmake": lambda host, given: tool,
        "find_compilers": lambda host, settings: (tool, tool),
        "find_toolkit": lambda *words: {},
        "find_build_python": lambda host, given: python,
        "check_build": lambda host, planned: (),
        "_target_python": lambda *words: target,
        "keep_place_out": lambda *words: False,
        "python_tools": lambda *words: overrides,
        "toolkit_places": lambda *words: {},
        "chosen_cuda": lambda *words: {},
        "compilers_to_name": lambda *words: {},
        "elastic_jobs": made.jobs,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(engine, name, value)
    monkeypatch.setattr(steps, "environment", lambda *words, own_paths: made.env)
    monkeypatch.setattr(steps, "configure", lambda work, target, env, now, before: now)
    monkeypatch.setattr(steps, "compile_tree", made.compile)
    monkeypatch.setattr(finish, "finish", made.finish)
    return made


def run(world: World, tmp_path: Path, **options: Any) -> Any:
    chosen = BuildOptions(target="spark_core", **options)
    place = Workspace(tmp_path / "ws")
    return engine.build(PLAN, world.tree(), place, python="3.11", options=chosen, host=BareHost())


def test_what_the_build_chose_is_not_overridden_by_pythons_own_words(world: World, tmp_path: Path) -> None:
    assert run(world, tmp_path) == "result"
    assert world.compiled == [{"KEPT": "1", "LDCXXSHARED": "theirs", "JOBS": "told"}]
    assert world.farm_jobs == [None] and world.governor.server is None


def test_libraries_in_the_tree_are_named_to_the_build_unless_it_was_told_others(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = {"CUDNN_ROOT": "/tree/cudnn", "NCCL_ROOT": "/tree/nccl"}
    monkeypatch.setattr(PlannedBuild, "roots", property(lambda _: roots))
    by_hand = msgspec.structs.replace(PLAN, build=BuildRecipe(source="spark", env={"CUDNN_ROOT": "/mine"}))
    for plan, cudnn in ((by_hand, None), (PLAN, "/tree/cudnn")):
        options = BuildOptions(target="spark_core")
        engine.build(plan, world.tree(), Workspace(tmp_path / "ws"), python="3.11", options=options, host=BareHost())
        told = world.env.chosen
        assert (told["NCCL_ROOT"], told.get("CUDNN_ROOT")) == ("/tree/nccl", cudnn)


def test_a_time_line_is_written_where_one_is_asked_for_however_it_ends(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace.json"
    run(world, tmp_path)
    assert not trace.exists()
    run(world, tmp_path, trace=trace)
    names = [event["name"] for event in json.loads(trace.read_bytes())["traceEvents"]]
    assert names == ["process_name", "environment", "compile"]
    trace.unlink()

    def fail(*words: object) -> None:
        raise StageFailed("no")

    monkeypatch.setattr(steps, "compile_tree", fail)
    with pytest.raises(StageFailed):
        run(world, tmp_path, trace=trace)
    assert "compile" in trace.read_text()


class LentFarm:
    """A farm that lent twelve slots; ``wrong`` is what it got wrong."""

    def __init__(self, wrong: tuple[DistrustedWorker, ...] = ()) -> None:
        self.found, self.wrong, self.redone, self.ended, self.distrusted = wrong, (), 0, 0, []  # type: ignore[var-annotated]
        self.governor: Any = None
        self.learnt: Any = None
        self.status = FarmStatus(slots=12)
        self.farm = SimpleNamespace(name_of=lambda address: f"<{address}>")

    def news(self) -> list[str]:
        return ["one worker is slow"]

    def suspects(self) -> tuple[list[DistrustedWorker], set[str]]:
        return list(self.found), {"a.o"}

    def distrust(self, workers: list[DistrustedWorker]) -> None:
        self.distrusted += workers

    def compilations(self) -> list[Any]:
        return []

    def keep_home(self, learnt: Any) -> None:
        self.learnt = learnt

    def end(self) -> None:
        self.ended += 1


def lend(monkeypatch: pytest.MonkeyPatch, farm: LentFarm, tmp_path: Path) -> None:
    client = SimpleNamespace(pid=77)

    @contextlib.contextmanager
    def opened(host: object, options: BuildOptions, *words: object) -> Iterator[Any]:
        assert options.farm == "office"
        yield Launcher(name="sccache", path="sccache", jobs=14, client=client), farm, "two workers"  # type: ignore[arg-type]

    @contextlib.contextmanager
    def cache(work: object) -> Iterator[Any]:
        yield SimpleNamespace(pid=78), {"SCCACHE_RECACHE": "1"}

    monkeypatch.setattr(engine, "opened_farm", opened)
    monkeypatch.setattr(engine, "opened_cache", cache)


def test_a_farms_jobs_and_server_are_the_governors(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = LentFarm()
    lend(monkeypatch, farm, tmp_path)
    run(world, tmp_path, farm="office")
    assert world.farm_jobs == [14] and world.governor.server == 77 and farm.governor is world.governor
    assert len(world.compiled) == 1 and farm.ended == 1 and not farm.distrusted
    assert world.ended is not None and world.ended.notes == ["two workers", "one worker is slow"]
    assert list(world.ended.compilers) == [str(world.compiler)]
    run(world, tmp_path, farm="office", jobs=3)
    # A number that was asked for stays, whoever comes and goes.
    assert len(world.ended.compilers[str(world.compiler)]) == 64


def test_with_a_number_of_jobs_the_farm_moves_none(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = LentFarm()
    lend(monkeypatch, farm, tmp_path)
    run(world, tmp_path, farm="office", jobs=3)
    assert farm.governor is None and farm.learnt == "what was learnt"


def test_what_a_worker_got_wrong_is_made_again_without_the_farm(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = LentFarm((DistrustedWorker(address="10.0.0.2:1", object="dir/a.o", date="today"),))
    lend(monkeypatch, farm, tmp_path)
    (world.root / "build" / "a.o").touch()
    (world.root / "build" / ".ninja_log").write_text("# ninja log v6\n0\t5\t0\ta.o\tabc\n")
    run(world, tmp_path, farm="office")
    assert len(world.compiled) == 2 and "SCCACHE_RECACHE" not in world.compiled[0]
    assert world.compiled[1]["SCCACHE_RECACHE"] == "1" and world.governor.server == 78
    assert not (world.root / "build" / "a.o").exists() and farm.redone == 1 and len(farm.distrusted) == 1
    assert world.ended is not None
    assert world.ended.notes[-1] == (
        "dir/a.o from <10.0.0.2:1> differs from what this machine makes: 1 objects made again here"
    )


def test_the_state_says_that_it_runs_no_more(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[TreeState] = []
    monkeypatch.setattr("rekindle.build.tree.save_state", lambda tree, state: saved.append(state))
    run(world, tmp_path)
    assert [state.running for state in saved] == [False] and saved[0].project == "spark"
