"""Runs the tests of each planted error in a forked process, so that nothing is imported or collected twice.

An error in a function is planted in a fork of the process that collected the tests, which runs the tests of its line.
An error of the module's level is planted on import, in a fork that imports afresh: a name that begins with ``_`` is
tried by the tests that enter the module, any other by all. A script that other Pythons run (it lies in a folder that is
no package) gets its error in a copy of the tree.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from mutants import Mutant, planted

_QUIET = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:rerunfailures"]
_QUIET += ["--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
_MEMORY_BYTES = 6 << 30
_COPY_PATIENCE_S = 900
_ENTERED = 0  # stands for "a function of this file was called" where the numbers of lines stand
Task = tuple[Path, Mutant, str]
Run = tuple[str, Callable[[], bool], tuple[float, float]]  # its key; what it does; its tests' seconds, CPU and clock
Covered = dict[tuple[str, int], set[int]]  # file and line: the numbers of the tests that go over it
Keep = Callable[[str, "Outcome"], None]


class Outcome(enum.Enum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"
    UNTESTED = "untested"


def run_mutants(root: Path, tasks: Sequence[Task], tests: Sequence[str], jobs: int, keep: Keep) -> dict[str, Outcome]:
    """Every task's outcome, told to ``keep`` as soon as it is known."""
    if not tasks:
        return {}
    for name in ("hypothesis", "msgspec", "numpy", "packaging.version"):  # shared by all forks
        with contextlib.suppress(ImportError):
            __import__(name)
    scripts = [task for task in tasks if _is_script(task[0])]
    tasks = [task for task in tasks if not _is_script(task[0])]
    outcomes = _try_modules(root, tasks, tests, jobs, keep) if tasks else {}
    with _copied(root, scripts) as copy:
        if scripts and (said := _run_in(copy, tests)):
            sys.exit(f"mutate: the tests do not pass in a copy of the tree; the last they said:\n{said}")
        for path, mutant, key in scripts:
            outcomes[key] = _copy_run(copy, root, path, mutant, tests)
            keep(key, outcomes[key])
    return outcomes


def _try_modules(root: Path, tasks: Sequence[Task], tests: Sequence[str], jobs: int, keep: Keep) -> dict[str, Outcome]:
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        note = Path(folder, "warm.jsonl")
        pid = os.fork()
        if pid == 0:
            _warm_process(root, tasks, tests, jobs, note, keep)
        _, status = os.waitpid(pid, 0)
        lines = note.read_text("utf-8").splitlines() if note.exists() else []
        if not lines or status:
            said = Path(folder, "said.txt").read_text("utf-8", errors="replace").splitlines()[-30:]
            sys.exit("\n".join(["mutate: the tests do not pass as they are; the last they said:", *said]))
        told = json.loads(lines[-1])
    outcomes: dict[str, Outcome] = {}
    again: set[str] = set(told["again"])
    for key, value in told["outcomes"].items():
        if key not in again:
            outcomes[key] = Outcome(value)
    cold = [task for task in tasks if task[2] not in outcomes]
    whole = (told["seconds"], told["clock"])
    runs = (
        (key, functools.partial(_cold_run, path, mutant, told["nodes"].get(key) or tests), whole)
        for path, mutant, key in cold
    )
    for key, outcome in _in_forks(runs, jobs):
        outcomes[key] = outcome
        keep(key, outcome)
    return outcomes


def _warm_process(root: Path, tasks: Sequence[Task], tests: Sequence[str], jobs: int, note: Path, keep: Keep) -> None:
    os.chdir(root)
    plugin = _Warm(tasks, jobs, note, keep)
    with note.with_name("said.txt").open("w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        code = pytest.main([*_QUIET, *tests], plugins=[plugin])
    os._exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and note.exists() else 1)


class _Warm:
    """A pytest plugin: collects as usual, then does its own loop over the planted errors."""

    def __init__(self, tasks: Sequence[Task], jobs: int, note: Path, keep: Keep) -> None:
        self.tasks = [task for task in tasks if task[1].function is not None]
        self.at_module_level = [task for task in tasks if task[1].function is None]
        self.jobs, self.note, self.keep = jobs, note, keep
        self.failures: list[str] = []
        self.lines = _Lines(
            {str(path) for path, _, _ in tasks},
            {(str(path), *mutant.function) for path, mutant, _ in tasks if mutant.function is not None},
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)  # shrinking a failure takes time and says nothing new here
        settings.register_profile("mutation", settings(), phases=phases, derandomize=True, database=None)
        settings.load_profile("mutation")
        with self.lines.watching("import"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        with self.lines.watching(f"fixture {fixturedef.argname} {fixturedef.baseid}"):
            return (yield)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = session.items
        covered, seconds, clock = self._survey(session)
        # What the tests import late would come in fresh, without its error: it must be there before the forks.
        with self.lines.watching("import"):
            for path in {path for path, _, _ in self.tasks}:
                _import(path)
        imported = self.lines.seen["import"]
        functions = _live_functions({str(path) for path, _, _ in self.tasks})
        caches = _caches()
        outcomes: dict[str, str] = {}
        again: list[str] = []

        def runs() -> Iterator[Run]:
            for path, mutant, key in self.tasks:
                chosen = sorted(_tests_of(covered, path, mutant), key=lambda number: seconds[number])
                if not chosen:
                    outcomes[key] = Outcome.UNTESTED.value
                    continue
                if (str(path), *(mutant.function or ())) not in functions:
                    outcomes[key] = Outcome.UNTESTED.value
                    again.append(key)  # a function made while a test runs: its error must come with the import
                    continue
                yield (
                    key,
                    functools.partial(_warm_run, session, [items[n] for n in chosen], path, mutant, functions, caches),
                    (sum(seconds[number] for number in chosen), sum(clock[number] for number in chosen)),
                )

        for done, (key, outcome) in enumerate(_in_forks(runs(), self.jobs), 1):
            outcomes[key] = outcome.value
            self.keep(key, outcome)
            if done % 50 == 0:
                print(f"mutate: {done} of {len(self.tasks)}", file=sys.stderr, flush=True)
        for path, mutant, key in self.tasks:
            at_import = any((str(path), line) in imported for line in range(mutant.lines[0], mutant.lines[1] + 1))
            if at_import and outcomes[key] in ("survived", "untested") and key not in again:
                again.append(key)  # it ran while the tests were collected, before the error was planted
        nodes = {
            key: [items[number].nodeid for number in sorted(covered.get((str(path), _ENTERED), ()))]
            for path, mutant, key in self.at_module_level
            if mutant.private
        }
        took = {"seconds": sum(seconds.values()), "clock": sum(clock.values())}
        with self.note.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"outcomes": outcomes, "again": again, "nodes": nodes, **took}) + "\n")
        return True

    def _survey(self, session: pytest.Session) -> tuple[Covered, dict[int, float], dict[int, float]]:
        """Which test goes over which line; its seconds of CPU and on the clock. In a fork, so that nothing sticks."""
        with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
            pid = os.fork()
            if pid == 0:
                os._exit(self._survey_fork(session, file.name))
            _, status = os.waitpid(pid, 0)
            if status:
                os._exit(1)
            told = json.loads(Path(file.name).read_text("utf-8"))
        covered: Covered = defaultdict(set)
        for number, lines in told["lines"].items():
            for name, line in lines:
                covered[name, line].add(int(number))
        seconds, clock = ({int(number): took for number, took in told[name].items()} for name in ("seconds", "clock"))
        return covered, seconds, clock

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.append(str(report.longrepr))

    def _survey_fork(self, session: pytest.Session, name: str) -> int:
        caches = _caches()
        lines: dict[int, list[tuple[str, int]]] = {}
        seconds: dict[int, float] = {}
        clock: dict[int, float] = {}
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        for number, item in enumerate(session.items):
            following = session.items[number + 1] if number + 1 < len(session.items) else None
            for cache in caches:
                cache.cache_clear()
            started, began = time.process_time(), time.monotonic()
            with self.lines.watching(f"test {number}"):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[number], clock[number] = time.process_time() - started, time.monotonic() - began
            own = set(self.lines.seen[f"test {number}"])
            for definitions in getattr(item, "_fixtureinfo").name2fixturedefs.values():  # noqa: B009
                for one in definitions:
                    own |= self.lines.seen.get(f"fixture {one.argname} {one.baseid}", set())
            lines[number] = sorted(own)
            if session.testsfailed:
                print(f"\n{item.nodeid} fails", *self.failures, sep="\n", flush=True)
                return 1
        Path(name).write_text(json.dumps({"lines": lines, "seconds": seconds, "clock": clock}), "utf-8")
        return 0


class _Lines:
    """Notes the lines of some functions that run, and the files that are entered, under the name of what is running."""

    def __init__(self, files: set[str], functions: set[tuple[str, str, int]]) -> None:
        self.files, self.functions = files, functions
        self.inner: dict[CodeType, bool] = {}  # a lambda or comprehension belongs to the function around it
        self.seen: dict[str, set[tuple[str, int]]] = defaultdict(set)

    @contextlib.contextmanager
    def watching(self, name: str) -> Iterator[None]:
        before, sink = sys.gettrace(), self.seen[name]

        def in_function(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                sink.add((frame.f_code.co_filename, frame.f_lineno))
            return in_function

        def trace(frame: FrameType, event: str, _: object) -> Any:
            code = frame.f_code
            if code.co_filename not in self.files:
                return None
            if code.co_name != "<module>":
                sink.add((code.co_filename, _ENTERED))
            if code not in self.inner:
                outer = code.co_qualname.partition(".<locals>")[0]
                self.inner[code] = any(file == code.co_filename and name == outer for file, name, _ in self.functions)
            return in_function if self.inner[code] else None

        import threading

        sys.settrace(trace)
        threading.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)


def _import(path: Path) -> None:
    """Imports a module by its file, under the name its package gives it."""
    parts = [path.stem] if path.stem != "__init__" else []
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(parts)
    if name not in sys.modules:
        importlib.import_module(name)


def _is_script(path: Path) -> bool:
    """Whether the file is run by its path: it says so, or lies below a folder that is in a package and is none."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return (folder.parent / "__init__.py").exists() or '\nif __name__ == "__main__":' in path.read_text("utf-8")


@contextlib.contextmanager
def _copied(root: Path, scripts: Sequence[Task]) -> Iterator[Path]:
    """A copy of the tree for errors in scripts; none is made where there are none. The scripts are written there as
    they will be with an error, without comments and with other quotes: what notices that alone notices no error."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder, "tree")
        if scripts:
            left_out = shutil.ignore_patterns(".*", "__pycache__", "node_modules")
            for name in ("src", "tests", "tools", "docs", "pyproject.toml", "pytest.ini"):
                if (root / name).is_dir():
                    shutil.copytree(root / name, copy / name, symlinks=True, ignore=left_out)
                elif (root / name).exists():
                    copy.mkdir(exist_ok=True)
                    shutil.copy2(root / name, copy / name)
        for path in {path for path, _, _ in scripts}:
            (copy / path.relative_to(root)).write_text(ast.unparse(ast.parse(path.read_text("utf-8"))), "utf-8")
        yield copy


def _copy_run(copy: Path, root: Path, path: Path, mutant: Mutant, tests: Sequence[str]) -> Outcome:
    """The tests in the copy with the error in its script, as a command; the script is put back afterwards."""
    script = copy / path.relative_to(root)
    before = script.read_text("utf-8")
    script.write_text(ast.unparse(planted(path.read_text("utf-8"), mutant)), "utf-8")
    try:
        return Outcome.KILLED if _run_in(copy, _naming_first(copy, tests, path.stem)) else Outcome.SURVIVED
    except subprocess.TimeoutExpired:
        return Outcome.TIMEOUT
    finally:
        script.write_text(before, "utf-8")


def _run_in(copy: Path, tests: Sequence[str]) -> str:
    """What the tests said last if one fails in the copy, otherwise nothing."""
    command = [sys.executable, "-m", "pytest", *_QUIET, *tests]
    env = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=_COPY_PATIENCE_S, check=False)
    return "\n".join(ended.stdout.decode(errors="replace").splitlines()[-30:]) if ended.returncode else ""


def _naming_first(root: Path, tests: Sequence[str], name: str) -> list[str]:
    """The files of the tests; those that name the script come first."""
    files = [
        file
        for place in map(root.joinpath, tests)
        for file in ([place] if place.is_file() else place.rglob("test_*.py"))
    ]
    return [
        str(file.relative_to(root))
        for file in sorted(files, key=lambda file: (name not in file.read_text("utf-8"), file))
    ]


def _tests_of(covered: Covered, path: Path, mutant: Mutant) -> set[int]:
    lines = range(mutant.lines[0], mutant.lines[1] + 1)
    return set().union(*(covered.get((str(path), line), set()) for line in lines))


def _warm_run(
    session: pytest.Session, items: Sequence[pytest.Item], path: Path, mutant: Mutant,
    functions: dict[tuple[str, str, int], list[FunctionType]], caches: Sequence[Any],
) -> bool:  # fmt: skip
    """In the fork: plant the error, run the tests; True if one of them fails."""
    assert mutant.function is not None
    name, first = mutant.function
    module = compile(planted(path.read_text("utf-8"), mutant), str(path), "exec")
    code = next(one for one in _codes(module) if one.co_qualname == name and one.co_firstlineno == first)
    for function in functions.get((str(path), name, first), []):
        function.__code__ = code
    for cache in caches:
        cache.cache_clear()
    for number, item in enumerate(items):
        following = items[number + 1] if number + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return True
    return False


def _cold_run(path: Path, mutant: Mutant, tests: Sequence[str]) -> bool:
    """In a fork that has imported nothing of ours yet: the module gets its error when it is imported."""
    real = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if Path(self.get_filename(fullname)).resolve() == path:
            return compile(planted(path.read_text("utf-8"), mutant), str(path), "exec")
        return real(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    return pytest.main([*_QUIET, *tests]) != pytest.ExitCode.OK


def _in_forks(runs: Iterator[Run], jobs: int) -> Iterator[tuple[str, Outcome]]:
    """Each run in its own process, cut after some three times the seconds that its tests take without the error."""
    going: dict[int, tuple[str, float]] = {}
    empty = False
    while not empty or going:
        while not empty and len(going) < jobs:
            try:
                key, run, (seconds, clock) = next(runs)
            except StopIteration:
                empty = True
                break
            pid = os.fork()
            if pid == 0:
                _be_fork(run, 10 + 3 * seconds)
            going[pid] = (key, time.monotonic() + 40 + 4 * clock)
        for pid in list(going):
            key, deadline = going[pid]
            done, status = os.waitpid(pid, os.WNOHANG)
            late = not done and time.monotonic() > deadline
            if late:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if done or late:
                del going[pid]
                cut = late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL))
                survived = not cut and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
                yield key, Outcome.TIMEOUT if cut else Outcome.SURVIVED if survived else Outcome.KILLED
        time.sleep(0.003)


def _be_fork(run: Callable[[], bool], limit_s: float) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    _silent()
    code = 1
    try:
        code = 1 if run() else 0
    except BaseException:  # noqa: BLE001 - whatever the error did to the tests, it was noticed
        code = 1
    finally:
        os._exit(code)


def _silent() -> None:
    sink = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(sink, number)


def _caches() -> list[Any]:
    wrapper = type(functools.lru_cache(lambda: None))
    return [each for each in gc.get_objects() if type(each) is wrapper and each.__module__.startswith("rekindle")]


def _live_functions(files: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in files:
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
