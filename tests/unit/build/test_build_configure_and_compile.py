"""Configure and compile: what is run for which tree, what is kept of it, and what must come out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from failed_builds import failed
from rekindle.build import steps
from rekindle.build import tree as state
from rekindle.build.assertwanted import SUMMARY_FILE
from rekindle.build.environment import BuildEnvironment
from rekindle.build.frontend import FrontEnd
from rekindle.build.history import History, ObjectCosts
from rekindle.build.steps import compile_tree, configure, giants_first
from rekindle.build.work import Work
from rekindle.errors import BuildFailed
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import TargetPython
from rekindle.model.build_options import BuildOptions
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Silent
from rekindle.model.source import SourceTree
from rekindle.toolkits.programs import Tool

PLAN = Plan(answer="build", project="torch", torch="2.6.0", build=BuildRecipe(source="x", env={"USE_CUDA": "0"}))
NOW = state.TreeState(project="torch", version="1", settings={"env USE_CUDA": "0"})
SUMMARY = ["-- ******** Summary ********", "--   USE_CUDA : OFF", "-- done"]
TOOL = Tool(name="tool", path="/usr/bin/tool", version="1")


class Log:
    """The lines of a build."""

    def __init__(self, path: Path) -> None:
        self.path, self.recent, self.lines = path, [], 0  # type: ignore[var-annotated]

    def write(self, line: str) -> None:
        self.recent.append(line)
        self.lines += 1


class Watched(Work):
    """A build whose commands are noted instead of run; ``prints`` is what each of them says, ``leaves`` its wheels."""

    def run(self, phase: str, argv: list[str], env: dict[str, str], *, watch: Any = lambda line: None) -> None:
        self.ran.append((phase, argv, dict(env)))
        for line in self.prints:
            self.log.write(line)
            watch(line)
        for name in self.leaves:
            (self.workspace.build / "dist" / name).touch()

    ran: list[tuple[str, list[str], dict[str, str]]]
    prints: list[str]
    leaves: tuple[str, ...]


def build(folder: Path, kind: str = "cmake-setup", *, only_flag: bool = True, prints: Any = SUMMARY) -> Watched:
    root = folder / "tree"
    (root / "build").mkdir(parents=True, exist_ok=True)
    log: Any = Log(folder / "build.log")
    made = Watched(
        plan=PLAN,
        tree=SourceTree(project="torch", version="2.6.0", root=str(root)),
        workspace=Workspace(folder / "ws"),
        options=BuildOptions(),
        progress=Silent(),
        host=LiveHost(),
        log=log,
        front=FrontEnd(kind=kind, root=root, only_flag=only_flag),
        version="2.6.0+ours",
    )
    made.ran, made.prints, made.leaves = [], list(prints), ("torch-2.6.0-cp311-cp311-linux_x86_64.whl",)
    return made


def python(path: str = "/env/bin/python") -> TargetPython:
    return TargetPython(interpreter=Interpreter(path="/py", version="3.11.7", implementation="CPython"), python=path)


def environment() -> BuildEnvironment:
    return BuildEnvironment(
        full={"A": "1"}, chosen={}, dropped=(), cache_settings={}, after_configure={"CFLAGS": "-g0"}
    )


def configured(work: Work, before: state.TreeState | None = None, path: str = "/env/bin/python") -> state.TreeState:
    return configure(work, python(path), environment(), NOW, before)


def test_a_first_run_configures_and_remembers_it(tmp_path: Path) -> None:
    work = build(tmp_path)
    done = configured(work)
    [(phase, argv, env)] = work.ran
    assert phase == "configure" and argv == ["/env/bin/python", "setup.py", "build", "--cmake-only"]
    assert env == {"A": "1"}
    assert (done.configured, done.running, done.runs, done.python) == (True, True, 1, "/env/bin/python")
    assert state.load_state(work.front.build_tree) == done and done.settings == NOW.settings
    assert (work.front.build_tree / SUMMARY_FILE).read_text() == "--   USE_CUDA : OFF\n-- done"
    assert [fact.name for fact in work.facts if fact.ok] == ["USE_CUDA"] and not work.resumed
    assert [span.name for span in work.spans] == ["configure"]


def test_a_tree_that_stops_by_a_variable_is_told_by_it(tmp_path: Path) -> None:
    work = build(tmp_path, only_flag=False)
    configured(work)
    [(_, argv, env)] = work.ran
    assert argv == ["/env/bin/python", "setup.py", "build"] and env == {"A": "1", "CMAKE_ONLY": "1"}


def test_what_is_configured_for_this_python_is_only_checked_again(tmp_path: Path) -> None:
    first = build(tmp_path)
    before = configured(first)
    again = build(tmp_path)
    done = configured(again, before)
    assert again.ran == [] and again.resumed and done.runs == 2 and done.configured
    assert [fact.name for fact in again.facts if fact.ok] == ["USE_CUDA"], "by the summary that was kept"


@pytest.mark.parametrize(("path", "kept"), [("/other/bin/python", False), ("/env/bin/python", True)])
def test_for_another_python_it_is_configured_anew_without_the_old_one(path: str, kept: bool, tmp_path: Path) -> None:
    work = build(tmp_path)
    before = configured(work)
    (work.front.build_tree / "CMakeCache.txt").write_text("PYTHON_EXECUTABLE:FILEPATH=/env/bin/python\nA:BOOL=ON\n")
    work.ran.clear()
    configured(work, before, path)
    assert ("PYTHON_EXECUTABLE" in (work.front.build_tree / "CMakeCache.txt").read_text()) is kept
    assert [argv[-1] for _, argv, _ in work.ran] == ([] if kept else ["--cmake"]) and work.resumed is kept


def test_a_run_that_was_cut_off_while_it_configured_does_it_over(tmp_path: Path) -> None:
    work = build(tmp_path)
    (work.front.build_tree / "CMakeCache.txt").write_text("PYTHON_EXECUTABLE:FILEPATH=/py\n")
    cut = state.TreeState(project="torch", version="1", settings={}, running=True, runs=4, python=None)
    done = configured(work, cut)
    assert [argv[-1] for _, argv, _ in work.ran] == ["--cmake"] and done.runs == 5 and not work.resumed
    assert "PYTHON" in (work.front.build_tree / "CMakeCache.txt").read_text(), "no other Python was there"


def test_while_it_configures_the_tree_says_so(tmp_path: Path) -> None:
    class CutOff(Watched):
        def run(self, *words: Any, **more: Any) -> None:
            raise KeyboardInterrupt

    work = build(tmp_path)
    work.__class__ = CutOff
    with pytest.raises(KeyboardInterrupt):
        configured(work)
    left = state.load_state(work.front.build_tree)
    assert left is not None and (left.running, left.configured, left.runs) == (True, False, 1)


def test_a_tree_that_cannot_only_configure_is_checked_later(tmp_path: Path) -> None:
    work = build(tmp_path, "setup")
    done = configured(work)
    assert work.ran == [] and work.facts == () and done.configured
    assert not (work.front.build_tree / SUMMARY_FILE).exists()


def compiled(work: Work) -> Path | None:
    return compile_tree(work, python(), TOOL, TOOL, environment())


def test_the_wheel_is_what_the_front_end_leaves(tmp_path: Path) -> None:
    work = build(tmp_path)
    out = tmp_path / "ws" / "build" / "dist"
    assert compiled(work) == out / work.leaves[0]
    [(phase, argv, env)] = work.ran
    assert phase == "compile" and argv[1:] == ["setup.py", "bdist_wheel", "--dist-dir", str(out)]
    assert env == {"A": "1", "CFLAGS": "-g0"}, "configure is over, so what was kept from it comes in"
    assert work.facts == (), "it was checked when it was configured"


@pytest.mark.parametrize("leaves", [(), ("a.whl", "b.whl")])
def test_no_wheel_or_more_than_one_is_a_failure(leaves: tuple[str, ...], tmp_path: Path) -> None:
    work = build(tmp_path, prints=["removing build"])
    work.leaves = leaves
    with pytest.raises(BuildFailed, match=f"the build ended well but left {len(leaves)} wheels instead of one") as no:
        compiled(work)
    failure = failed(no)
    assert (failure.project, failure.phase) == ("torch", "compile") and "removing build" in failure.error


def test_a_tree_that_configures_by_itself_is_checked_while_it_compiles(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "CMakeCache.txt").write_text("USE_CUDA:BOOL=ON\n")
    work = build(tmp_path, "setup", prints=[f"-- Build files have been written to: {inner}"])
    with pytest.raises(BuildFailed, match="USE_CUDA was planned as 0 but configured as ON"):
        compiled(work)


def test_giants_are_told_of_only_where_there_are_some(tmp_path: Path) -> None:
    work = build(tmp_path, prints=[])
    jobs: Any = SimpleNamespace(env={}, learnt=ObjectCosts(History(objects={"a.cpp.o": (1, 900.0)})))
    work.jobs = jobs
    compiled(work)
    assert not any("take long" in line for line in work.log.recent)
    (work.front.build_tree / "build.ninja").write_text("build b.cpp.o: cxx\nbuild a.cpp.o: cxx\n")
    compiled(work)
    assert "rekindle: 1 files that take long are started first" in work.log.recent


@pytest.mark.parametrize("too_large", [False, True])
def test_a_file_that_is_too_large_to_be_sorted_stays_as_it_is(
    too_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "build b.cpp.o: cxx\nbuild a.cpp.o: cxx\n"
    file = tmp_path / "build.ninja"
    file.write_text(text)
    monkeypatch.setattr(steps, "MAX_BYTES", len(text) - too_large)
    learnt = ObjectCosts(History(objects={"a.cpp.o": (1, 900.0)}))
    assert giants_first(tmp_path, learnt) == (not too_large)
    assert (file.read_text() == text) is too_large
