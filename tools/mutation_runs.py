"""Runs the tests of each planted error in a forked process, so that nothing is imported or collected twice."""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import importlib
import json
import os
import resource
import signal
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
Task = tuple[Path, Mutant, str]
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
    inside = [task for task in tasks if task[1].function is not None]
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        note = Path(folder, "warm.jsonl")
        pid = os.fork()
        if pid == 0:
            _warm_process(root, inside, {path for path, _, _ in tasks}, tests, jobs, note, keep)
        _, status = os.waitpid(pid, 0)
        lines = note.read_text("utf-8").splitlines() if note.exists() else []
        if not lines or status:
            sys.exit("mutate: the tests do not pass as they are (run them with pytest first)")
        told = json.loads(lines[-1])
    outcomes: dict[str, Outcome] = {}
    again: set[str] = set(told["again"])
    for key, value in told["outcomes"].items():
        if key not in again:
            outcomes[key] = Outcome(value)
    cold = [task for task in tasks if task[2] not in outcomes]
    runs = ((key, functools.partial(_cold_run, path, mutant, tests)) for path, mutant, key in cold)
    for key, outcome in _in_forks(runs, jobs, 10 + 3 * told["seconds"]):
        outcomes[key] = outcome
        keep(key, outcome)
    return outcomes


def _warm_process(
    root: Path, tasks: Sequence[Task], files: set[Path], tests: Sequence[str], jobs: int, note: Path, keep: Keep
) -> None:
    os.chdir(root)
    plugin = _Warm(tasks, files, jobs, note, keep)
    with Path(os.devnull).open("w", encoding="utf-8") as sink, contextlib.redirect_stdout(sink):
        code = pytest.main([*_QUIET, *tests], plugins=[plugin])
    os._exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and note.exists() else 1)


class _Warm:
    """A pytest plugin: collects as usual, then does its own loop over the planted errors."""

    def __init__(self, tasks: Sequence[Task], files: set[Path], jobs: int, note: Path, keep: Keep) -> None:
        self.tasks, self.jobs, self.note, self.keep = tasks, jobs, note, keep
        self.lines = _Lines({str(path) for path in files})

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
        covered, seconds = self._survey(session)
        # What the tests import late would come in fresh, without its error: it must be there before the forks.
        with self.lines.watching("import"):
            for path in {path for path, _, _ in self.tasks}:
                _import(path)
        imported = self.lines.seen["import"]
        functions = _live_functions({str(path) for path, _, _ in self.tasks})
        caches = _caches()
        outcomes: dict[str, str] = {}
        again: list[str] = []

        def runs() -> Iterator[tuple[str, Callable[[], bool]]]:
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
                )

        total = sum(seconds.values())
        for done, (key, outcome) in enumerate(_in_forks(runs(), self.jobs, 5 + 3 * total), 1):
            outcomes[key] = outcome.value
            self.keep(key, outcome)
            if done % 50 == 0:
                print(f"mutate: {done} of {len(self.tasks)}", file=sys.stderr, flush=True)
        for path, mutant, key in self.tasks:
            at_import = any((str(path), line) in imported for line in range(mutant.lines[0], mutant.lines[1] + 1))
            if at_import and outcomes[key] in ("survived", "untested") and key not in again:
                again.append(key)  # it ran while the tests were collected, before the error was planted
        with self.note.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"outcomes": outcomes, "again": again, "seconds": total}) + "\n")
        return True

    def _survey(self, session: pytest.Session) -> tuple[dict[tuple[str, int], set[int]], dict[int, float]]:
        """Which test goes over which line, and how long each takes; found in a fork, so that nothing sticks."""
        with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
            pid = os.fork()
            if pid == 0:
                os._exit(self._survey_fork(session, file.name))
            _, status = os.waitpid(pid, 0)
            if status:
                os._exit(1)
            told = json.loads(Path(file.name).read_text("utf-8"))
        covered: dict[tuple[str, int], set[int]] = defaultdict(set)
        for number, lines in told["lines"].items():
            for name, line in lines:
                covered[name, line].add(int(number))
        return covered, {int(number): took for number, took in told["seconds"].items()}

    def _survey_fork(self, session: pytest.Session, name: str) -> int:
        caches = _caches()
        lines: dict[int, list[tuple[str, int]]] = {}
        seconds: dict[int, float] = {}
        _silent()
        for number, item in enumerate(session.items):
            following = session.items[number + 1] if number + 1 < len(session.items) else None
            for cache in caches:
                cache.cache_clear()
            started = time.process_time()
            with self.lines.watching(f"test {number}"):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[number] = time.process_time() - started
            own = set(self.lines.seen[f"test {number}"])
            for definitions in getattr(item, "_fixtureinfo").name2fixturedefs.values():  # noqa: B009
                for one in definitions:
                    own |= self.lines.seen.get(f"fixture {one.argname} {one.baseid}", set())
            lines[number] = sorted(own)
            if session.testsfailed:
                Path(".mutation").mkdir(exist_ok=True)
                Path(".mutation/failed.txt").write_text(item.nodeid + "\n", "utf-8")
                return 1
        Path(name).write_text(json.dumps({"lines": lines, "seconds": seconds}), "utf-8")
        return 0


class _Lines:
    """Notes the lines of some files that run, under the name of what is running."""

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.seen: dict[str, set[tuple[str, int]]] = defaultdict(set)

    @contextlib.contextmanager
    def watching(self, name: str) -> Iterator[None]:
        before, sink = sys.gettrace(), self.seen[name]

        def in_function(frame: FrameType, event: str, _: object) -> Any:
            if event == "line":
                sink.add((frame.f_code.co_filename, frame.f_lineno))
            return in_function

        def trace(frame: FrameType, event: str, _: object) -> Any:
            return in_function if frame.f_code.co_filename in self.files else None

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
    if name and name not in sys.modules:
        importlib.import_module(name)


def _tests_of(covered: dict[tuple[str, int], set[int]], path: Path, mutant: Mutant) -> set[int]:
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


def _in_forks(
    runs: Iterator[tuple[str, Callable[[], bool]]], jobs: int, limit_s: float
) -> Iterator[tuple[str, Outcome]]:
    """Each run in its own process; ``limit_s`` counts its CPU seconds, and ten times that on the clock."""
    going: dict[int, tuple[str, float]] = {}
    empty = False
    while not empty or going:
        while not empty and len(going) < jobs:
            try:
                key, run = next(runs)
            except StopIteration:
                empty = True
                break
            pid = os.fork()
            if pid == 0:
                _be_fork(run, limit_s)
            going[pid] = (key, time.monotonic() + 10 * limit_s + 20)
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
