"""The engine's own part: what goes into the build's environment, who governs, what is told however it ends."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bare_host import BareHost
from rekindle.build import companion, engine, finish, steps
from rekindle.build.environment import BuildEnvironment
from rekindle.build.launchers import Launcher
from rekindle.build.tree import TreeState
from rekindle.build.work import Work
from rekindle.errors import NotReady, RekindleError, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build import Fact
from rekindle.model.build_options import BuildOptions
from rekindle.model.farm import DistrustedWorker, FarmStatus
from rekindle.model.machine import Check
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
        Path(f"{self.compiler}+").write_bytes(b"the other")
        self.ended: Work | None = None
        self.wheel: Path | None = None
        self.makes: Path | None = None
        self.checks: tuple[Check, ...] = ()
        self.cmakes: list[str | None] = []
        self.toolkit: dict[str, str] = {}

    def tree(self) -> SourceTree:
        return SourceTree(project="spark", version="0.3.0", root=str(self.root))

    @contextlib.contextmanager
    def jobs(self, *words: object, farm: int | None = None) -> Iterator[Any]:
        self.farm_jobs.append(farm)
        tell = lambda env, chooses: env.update(JOBS="told")  # noqa: E731
        yield SimpleNamespace(governor=self.governor, learnt="what was learnt", note=None, tell=tell)

    def compile(self, work: Work, *words: object) -> Path | None:
        self.compiled.append(dict(self.env.full))
        return self.makes

    def cmake(self, host: object, given: str | None) -> Tool:
        self.cmakes.append(given)
        return Tool(name="cmake", path=given or "/usr/bin/cmake", version="3.27")

    def finish(self, work: Work, wheel: Path | None, *words: object) -> Any:
        self.ended, self.wheel = work, wheel
        return "result"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    tool = Tool(name="g++", path=str(made.compiler), version="12.2.0")
    python = SimpleNamespace(version="3.11.2", path="/usr/bin/python3", tag="cp311")
    target = SimpleNamespace(python="/usr/bin/python3", bin=tmp_path, interpreter=python)
    overrides = SimpleNamespace(overrides=lambda cc, cxx: {"LDSHARED": "theirs", "LDCXXSHARED": f"{cc} {cxx}"})
    replaced = {
        "find_ninja": lambda host, given: tool,
        "find_cmake": made.cmake,
        "find_compilers": lambda host, settings: (tool, Tool(name="cxx", path=f"{tool.path}+", version="12.2.0")),
        "find_toolkit": lambda *words: {},
        "find_build_python": lambda host, given: python,
        "check_build": lambda host, planned: made.checks,
        "_target_python": lambda *words: target,
        "keep_place_out": lambda *words: False,
        "python_tools": lambda *words: overrides,
        "toolkit_places": lambda *words: {},
        "chosen_cuda": lambda *words: made.toolkit,
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
    linker = f"{world.compiler} {world.compiler}+"
    assert world.compiled == [{"KEPT": "1", "LDCXXSHARED": linker, "JOBS": "told"}]
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
    assert list(world.ended.compilers) == [str(world.compiler), f"{world.compiler}+"]
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


def ended(world: World) -> Work:
    assert world.ended is not None
    return world.ended


def build(world: World, tmp_path: Path, plan: Plan = PLAN, tree: SourceTree | None = None, **more: Any) -> Work:
    values: dict[str, Any] = {"python": "3.11", "options": BuildOptions(), "host": BareHost(), **more}
    engine.build(plan, tree or world.tree(), Workspace(tmp_path / "ws"), **values)
    return ended(world)


def test_the_wheel_that_was_compiled_is_finished(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world.makes = tmp_path / "a.whl"
    build(world, tmp_path)
    assert world.wheel == world.makes
    lend(monkeypatch, LentFarm(), tmp_path)
    world.wheel = None
    build(world, tmp_path, options=BuildOptions(farm="office"))
    assert world.wheel == world.makes, "a farm that got nothing wrong changes nothing"


def test_what_compiles_is_told_by_its_target_or_as_a_wheel(world: World, tmp_path: Path) -> None:
    told = {}
    for target in (None, "", "c10", "c10,c11"):
        work = build(world, tmp_path, options=BuildOptions(target=target))
        [told[target]] = [line for line in work.log.recent if line.startswith("== compile")]
    wheel = "== compile wheel for Python 3.11.2"
    assert told == {None: wheel, "": wheel, "c10": "== compile c10", "c10,c11": "== compile 2 targets"}


def test_switches_by_hand_are_the_builds_and_without_options_there_are_none(world: World, tmp_path: Path) -> None:
    by_hand = build(world, tmp_path, options=BuildOptions(settings=(("USE_CUDA", "0"),)))
    assert by_hand.plan.build is not None and by_hand.plan.build.env == {"USE_CUDA": "0"}
    bare = build(world, tmp_path, options=None, tree=msgspec.structs.replace(world.tree(), version="0.4"))
    assert bare.plan == PLAN and bare.options == BuildOptions() and not bare.editable


def test_a_machine_that_is_given_is_the_one_that_is_asked(world: World, tmp_path: Path) -> None:
    host = BareHost()
    assert build(world, tmp_path, host=host).host is host
    assert isinstance(build(world, tmp_path, host=None).host, LiveHost)


def test_only_an_untouched_tree_is_remembered_by_its_digest(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[TreeState] = []
    monkeypatch.setattr("rekindle.build.tree.save_state", lambda tree, state: saved.append(state))
    tree = msgspec.structs.replace(world.tree(), digest="d" * 64)
    assert not build(world, tmp_path, tree=tree).editable and build(world, tmp_path, tree=tree, editable=True).editable
    assert [state.source_digest for state in saved] == ["d" * 64, None], "what is edited has none that stays"


@pytest.mark.parametrize(
    ("pins", "options", "asked"),
    [
        ({}, {}, [None]),
        ({}, {"cmake": "/my/cmake"}, ["/my/cmake"]),
        ({"cmake": "<4"}, {}, ["target"]),
        ({"cmake": "<4"}, {"cmake": "/my/cmake"}, ["/my/cmake"]),
        ({"cmake": "<4"}, {"as_is": True}, [None]),
    ],
)
def test_a_cmake_that_the_plan_pins_is_that_of_the_targets_environment(
    pins: dict[str, str], options: dict[str, Any], asked: list[str | None], world: World, tmp_path: Path
) -> None:
    plan = msgspec.structs.replace(PLAN, build=BuildRecipe(source="spark", pins=pins))
    work = build(world, tmp_path, plan, options=BuildOptions(**options))
    assert world.cmakes == [str(tmp_path / "cmake") if each == "target" else each for each in asked]
    assert work.toolchain["cmake"] == f"3.27 ({world.cmakes[0] or '/usr/bin/cmake'})"
    assert work.toolchain["python"] == "3.11.2 (/usr/bin/python3)"


def test_doubts_about_the_machine_are_told_and_what_is_fine_is_not(world: World, tmp_path: Path) -> None:
    world.checks = (
        Check(id="a", status="ok", found="all is well"),
        Check(id="b", status="warn", found="little memory", fix="close something"),
        Check(id="c", status="warn", found="an old disk"),
        Check(id="d", status="warn", fix="nothing to name"),
    )
    assert build(world, tmp_path).notes == ["little memory → close something", "an old disk"]
    world.checks = (Check(id="e", status="fail", found="no compiler"),)
    with pytest.raises(NotReady, match="not ready for the build: no compiler"):
        build(world, tmp_path)


def test_the_launcher_is_told_the_plans_settings(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    @contextlib.contextmanager
    def opened(*words: Any) -> Iterator[None]:
        asked.append(words)
        yield None

    monkeypatch.setattr(engine, "opened_launcher", opened)
    recipe = BuildRecipe(source="spark", env={"USE_CUDA": "1"}, cmake={"USE_CUDA": "0", "CCACHE_DIR": "/c"})
    build(world, tmp_path, msgspec.structs.replace(PLAN, build=recipe))
    [(_, options, settings, root, logs)] = asked
    assert settings == {"USE_CUDA": "1", "CCACHE_DIR": "/c"} and options == BuildOptions()
    assert (root, logs) == (world.root, tmp_path / "ws" / "logs")


def test_a_launchers_own_server_is_the_governors_to_see(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = SimpleNamespace(pid=55)

    @contextlib.contextmanager
    def opened(*words: Any) -> Iterator[Launcher]:
        yield Launcher(name="sccache", path="sccache", jobs=9, client=client)

    monkeypatch.setattr(engine, "opened_launcher", opened)
    monkeypatch.setattr(engine, "count_from_here", lambda host, launcher: launcher)
    build(world, tmp_path)
    assert world.governor.server == 55 and world.farm_jobs == [9]


def extension(world: World, monkeypatch: pytest.MonkeyPatch, torch: str = "2.6.0+ours (CUDA 12.4)") -> SourceTree:
    """A tree of somebody's own; the Python holds ``torch``."""
    (world.root / "setup.py").write_text("from torch.utils import cpp_extension\nsetup(name='ours', version='1.0')\n")
    fact = Fact(name="torch", wanted="any", found=torch, ok=True)
    monkeypatch.setattr(companion, "check_torch", lambda *words: fact)
    monkeypatch.setattr(companion, "torch_requirement", lambda *words: "torch==2.6.0")
    monkeypatch.setattr(companion, "toolkit_for_cmake", lambda host, plan, fact, root: f"/cuda of {fact.found}")
    return SourceTree(project="ours", version="1.0", root=str(world.root))


OURS = Plan(answer="build", project="ours", torch="2.6.0", build=BuildRecipe(source="ours"))


def test_an_extension_is_compiled_against_the_torch_that_is_there(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = extension(world, monkeypatch)
    targets: list[Any] = []
    target: Any = engine._target_python

    def noted(work: Work, interpreter: Any, torch: str | None) -> Any:
        targets.append(torch)
        return target(work, interpreter, torch)

    monkeypatch.setattr(engine, "_target_python", noted)
    work = build(world, tmp_path, OURS, tree, options=BuildOptions(against="torch==2.6.0"))
    assert targets == ["torch==2.6.0"] and [fact.name for fact in work.facts] == ["torch"]
    assert world.env.chosen["PYTORCH_VERSION"] == "2.6.0+ours", "nobody published it, so its metadata names it whole"
    assert world.env.chosen["CUDA_HOME"] == "/cuda of 2.6.0+ours (CUDA 12.4)"
    build(world, tmp_path, OURS, tree, options=BuildOptions(as_is=True))
    assert targets == ["torch==2.6.0", None], "the user's own Python has what it has"
    build(world, tmp_path)
    assert targets[2:] == [None] and world.ended is not None and world.ended.facts == ()


def test_an_extension_with_cuda_is_told_its_toolkit_and_headers_that_are_lacking(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = extension(world, monkeypatch)
    monkeypatch.setattr(companion, "toolkit_for_cmake", lambda *words: None)
    monkeypatch.setattr(engine, "cuda_home", lambda host, settings, cuda: "/usr/local/cuda-12.4")
    monkeypatch.setattr(engine, "headers_beside_torch", lambda host, python, home: ("/env/a", "/env/b"))
    cuda = msgspec.structs.replace(OURS, cuda="12.4")
    work = build(world, tmp_path, cuda, tree)
    assert world.env.chosen["CUDA_HOME"] == "/usr/local/cuda-12.4"
    assert world.env.chosen["CPATH"] == os.pathsep.join(("/env/a", "/env/b"))
    assert work.notes == ["/usr/local/cuda-12.4 lacks libraries' headers; they come from /env/a, /env/b"]
    for name in ("CPATH", "CUDA_HOME"):
        del world.env.chosen[name]
    assert build(world, tmp_path, OURS, tree).notes == [], "for the CPU none is wanted"
    build(world, tmp_path, msgspec.structs.replace(PLAN, cuda="12.4"))
    assert "CUDA_HOME" not in world.env.chosen, "torch looks for it by CMake"
    monkeypatch.setattr(engine, "headers_beside_torch", lambda *words: ())
    assert build(world, tmp_path, cuda, tree).notes == [] and "CPATH" not in world.env.chosen


def test_what_configure_is_told_of_toolkit_and_compilers_is_in_the_record(world: World, tmp_path: Path) -> None:
    world.toolkit = {"CUDACXX": "/usr/local/cuda/bin/nvcc"}
    build(world, tmp_path)
    assert world.env.chosen["CUDACXX"] == world.env.full["CUDACXX"] == "/usr/local/cuda/bin/nvcc"


def test_what_is_said_of_the_jobs_is_told(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    @contextlib.contextmanager
    def jobs(*words: object, farm: int | None = None) -> Iterator[Any]:
        tell = lambda env, chooses: told.append(chooses)  # noqa: E731
        yield SimpleNamespace(governor=world.governor, learnt="", note="a fixed number of jobs", tell=tell)

    monkeypatch.setattr(engine, "elastic_jobs", jobs)
    assert build(world, tmp_path).notes == ["a fixed number of jobs"] and told == [False]


def test_two_builds_do_not_work_in_one_tree(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(work: Work, *words: object) -> None:
        with pytest.raises(RekindleError, match=f"another build works in {world.root / 'build'}"):
            build(world, tmp_path)

    monkeypatch.setattr(steps, "compile_tree", again)
    build(world, tmp_path)
