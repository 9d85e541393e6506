"""``explain --fix``: a command that fails, the fix its cause offers, and the command again. A *fix* is one action of
the diagnosis made ready for this command: it says in lines what it will do, does it, and can be taken back. The same is
never tried twice, at most three are made, and what did not lead to a command that passes is undone. Nothing is run that
needs root, and nothing whose cause is only a guess."""

import contextlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from rekindle.api.explain_log import explain_command
from rekindle.api.source import source_patch, source_status, source_unpatch
from rekindle.errors import RekindleError, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.made import own_directories
from rekindle.host.protocol import Host
from rekindle.interpreters.installer import Installer, pip_of, run_installer
from rekindle.interpreters.kept_places import KeptPlaces, remove
from rekindle.interpreters.packages import package_places
from rekindle.model import diagnosis as causes
from rekindle.model.build import BuildFailure
from rekindle.model.build_options import BuildOptions
from rekindle.model.diagnosis import Action, Diagnosis, FixAttempt, FixReport, Match
from rekindle.model.toml import read_beside
from rekindle.scripts.quoting import paste_line, paste_with

MOST_FIXES = 3
_JOBS = re.compile(r"^(?:-j|--jobs=|--parallel=)(\d+)$")
_PYTHON_NAME = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?$")
_JOB_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
_BUILD_FOLDERS = (".", "build", "_build", "cmake-build-release", "cmake-build-debug")

Undo = Callable[[], None]


def _do_nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Call:
    """A command with the variables that are set for it beyond the user's own."""

    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """The whole environment; an empty value takes a variable away."""
        whole = {**os.environ, **self.variables}
        return {name: value for name, value in whole.items() if value or name not in self.variables}

    @property
    def line(self) -> str:
        return paste_with(self.variables, paste_line(self.command))

    def setting(self, **variables: str) -> "Call":
        return Call(command=self.command, variables={**self.variables, **variables})

    def saying(self, *words: str) -> "Call":
        return Call(command=(*self.command, *words), variables=self.variables)


@dataclass(frozen=True, kw_only=True)
class Fix:
    """What will be done, in lines; the call to repeat; what changes the machine, and how to take that back and to
    settle it."""

    shown: tuple[str, ...]
    call: Call
    do: Callable[[], tuple[Undo, Undo]] = lambda: (_do_nothing, _do_nothing)
    by_person: bool = False


def fix_command(
    command: Sequence[str], *, out: BinaryIO, err: BinaryIO, confirm: Callable[[str], bool], say: Callable[[str], None]
) -> FixReport:
    """Run a command; while it fails for a cause that can be fixed, fix it and run it again."""

    def run(call: Call) -> Diagnosis:
        return explain_command(call.command, out=out, err=err, env=call.env)

    def end(outcome: Any, words: str, **said: str) -> None:
        say(words)
        attempts[-1] = replace(attempts[-1], outcome=outcome, **said)

    first = call = Call(command=tuple(command))
    diagnosis, host = run(call), LiveHost()
    attempts: list[FixAttempt] = []
    settles, tried = list[Undo](), 0
    # What was changed is undone on the way out, an interrupt's too, unless the command passes in the end.
    with contextlib.ExitStack() as undoing:
        while diagnosis.exit_code and tried < MOST_FIXES:
            shown = [each.shown for each in attempts]
            helped = [each.action for each in attempts if each.outcome == "helped"]
            installed = sum(isinstance(action, causes.InstallPackages) for action in helped)
            offers = (
                (match, action, fix)
                for match, action in _safe_actions(diagnosis)
                if (fix := prepare(action, call, host, installed)) is not None and fix.shown not in shown
            )
            if (offered := next(offers, None)) is None:
                break
            match, action, fix = offered
            for line in (f"{match.title} ({match.id})", *(f"  {line}" for line in fix.shown)):
                say(line)
            attempt = FixAttempt(cause=match.id, title=match.title, action=action, shown=fix.shown, outcome="printed")
            attempts.append(attempt)
            if fix.by_person:
                continue
            if not confirm("do this, and run the command again?"):
                attempts[-1] = replace(attempt, outcome="refused")
                break
            try:
                undo, settle = fix.do()
            except RekindleError as error:
                end("undone", f"that could not be done: {error.message}", said=error.message)
                continue
            tried += 1
            fewer = isinstance(action, causes.FewerJobs)
            with contextlib.ExitStack() as trying:
                trying.callback(undo)
                after = run(fix.call)
                if kept := fewer or not after.exit_code or _first_failure(diagnosis) != _first_failure(after):
                    undoing.push(trying.pop_all())
            if not kept:
                end("undone", "that was not it: undone")
                continue
            settles.append(settle)
            call, diagnosis = fix.call, after
            if after.exit_code:
                end("helped", "not yet" if fewer else "that helped: now something else fails")
            else:
                end("fixed", "fixed: it passes now")
                undoing.pop_all()
    code = diagnosis.exit_code or 0
    if code and settles:
        say("it still fails: everything is undone")
        attempts = [replace(each, outcome="undone") if each.outcome == "helped" else each for each in attempts]
    for settle in settles if not code else ():
        settle()
    return FixReport(
        command=first.command,
        exit_code=code,
        attempts=tuple(attempts),
        keep=() if code or call == first else (call.line,),
        diagnosis=diagnosis if code else None,
    )


def _first_failure(diagnosis: Diagnosis) -> tuple[str, str] | None:
    """What tells whether it is the very same failure, or the command got further."""
    return next(((match.id, match.evidence) for match in diagnosis.matches), None)


def _safe_actions(diagnosis: Diagnosis) -> list[tuple[Match, Action]]:
    """What the first cause offers, best first; nothing where it is only a possibility."""
    return [(match, each) for match in diagnosis.matches[:1] if match.confidence != "low" for each in match.actions]


def prepare(action: Action, call: Call, host: Host, earlier: int = 0) -> Fix | None:
    """The action made ready for a command, after so many ``earlier`` installations; None where it does not apply."""
    match action:
        case causes.InstallPackages():
            return _prepare_install(action, call, host, earlier)
        case causes.ConstrainBuild():
            return _prepare_constraints(action, call)
        case causes.FewerJobs():
            return fewer_jobs(call)
        case causes.RemoveCache():
            return _prepare_removal(action, call)
        case causes.ApplyPatch():
            return _prepare_patch(action, call)
        case causes.AskPerson():
            return Fix(shown=(action.line,), call=call, by_person=True)
        case causes.AddOption():
            if not _is_installing(call.command) or set(action.words) <= set(call.command):
                return None
            changed = call.saying(*action.words)
        case causes.SetVariable():
            homes = {name: value for name, value in action.variables.items() if value[:1] == "~"}
            whole = {name: str(Path(value).expanduser()) for name, value in homes.items()}
            changed = call.setting(**action.variables | whole)
        case causes.SetCMake():
            define = f"-D{action.name}={action.value}"
            words = " ".join(filter(None, (call.env.get("CMAKE_ARGS"), define)))
            by_variables = call.setting(**{"CMAKE_ARGS": words, action.name: action.value})
            changed = call.saying(define) if Path(call.command[0]).stem == "cmake" else by_variables
    return _repeat(changed)


def _repeat(changed: Call) -> Fix:
    return Fix(shown=(f"run: {changed.line}",), call=changed)


def _prepare_install(action: causes.InstallPackages, call: Call, host: Host, earlier: int) -> Fix:
    python = python_of(call)
    words = [*action.packages, *(["--index-url", action.index] if action.index else [])]
    words += ["--force-reinstall", "--no-deps"] if action.again else []
    argvs = [[*pip_of(host, python), "uninstall", "--yes", *action.remove]] if action.remove else []
    argvs.append(Installer().command(host, python, words))
    shown = tuple(f"run: {paste_line(argv)}" for argv in argvs)
    try:
        places = package_places(host, python)
    except RekindleError as error:
        return Fix(shown=(*shown, f"not run: {error.message}; {error.remedy}"), call=call, by_person=True)

    def do() -> tuple[Undo, Undo]:
        # Each fix keeps the packages as it found them; what a run that was killed left there is put back, last first.
        names = [f"-{number}" if number else "" for number in range(MOST_FIXES, earlier - 1, -1)]
        *later, kept = [KeptPlaces(places, name) for name in names]
        for left in later:
            left.recover()
        with kept.changing():
            for argv in argvs:
                ended = run_installer(argv, cwd=Path.cwd(), env=call.env)
                if not ended.ok:
                    raise StageFailed(ended.reason)
        return kept.restore, kept.forget

    return Fix(shown=shown, call=call, do=do)


def _prepare_constraints(action: causes.ConstrainBuild, call: Call) -> Fix | None:
    if not _is_installing(call.command):
        return None
    # The file must live as long as the user repeats the command with the variable.
    name = "-".join(re.sub(r"[^\w.]+", "_", package) for package in action.packages)
    file = own_directories()[1] / "constraints" / f"{name}.txt"
    names = ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT")
    changed = call.setting(**dict.fromkeys(names, str(file)))
    lines = "\n".join(action.packages)

    def do() -> tuple[Undo, Undo]:
        write_atomically(file, f"{lines}\n")
        return lambda: file.unlink(missing_ok=True), _do_nothing

    return Fix(shown=(f"write {file}: {', '.join(action.packages)}", f"run: {changed.line}"), call=changed, do=do)


def fewer_jobs(call: Call) -> Fix | None:
    """Half as many compilers as the command, its variables or the processors say."""
    counts = [match[1] for word in call.command if (match := _JOBS.match(word))]
    counts += [value for name in _JOB_VARIABLES if (value := call.env.get(name, "")).isdecimal()]
    jobs = (min(map(int, counts)) if counts else os.cpu_count() or 2) // 2
    if jobs < 1:
        return None
    command = tuple(_JOBS.sub(lambda match: match[0].replace(match[1], str(jobs)), word) for word in call.command)
    return _repeat(Call(command=command, variables=call.variables | dict.fromkeys(_JOB_VARIABLES, str(jobs))))


def _prepare_removal(action: causes.RemoveCache, call: Call) -> Fix | None:
    places = [place for place in _cache_places(action.cache, call) if place.exists()]
    if not places:
        return None

    def do() -> tuple[Undo, Undo]:
        kept = KeptPlaces(places)
        with kept.changing():
            for place in places:
                remove(place)
        return kept.restore, kept.forget

    return Fix(shown=tuple(f"remove {place}" for place in places), call=call, do=do)


def _cache_places(cache: str, call: Call) -> list[Path]:
    if cache == "cmake":
        pairs = zip(call.command, call.command[1:], strict=False)
        folders = [word for before, word in pairs if before in ("-B", "--build")] or _BUILD_FOLDERS
        return [Path(folder) / name for folder in folders for name in ("CMakeCache.txt", "CMakeFiles")]
    row = read_beside(__file__, "caches.toml", dict[str, dict[str, str]])[cache]
    user = call.env.get("USER") or call.env.get("USERNAME") or "root"
    place = call.env.get(row["variable"]) or row["usual"].format(tmp=tempfile.gettempdir(), user=user)
    return [Path(place).expanduser()]


def _prepare_patch(action: causes.ApplyPatch, call: Call) -> Fix | None:
    root, patch = Path.cwd(), action.patch
    if not (root / "CMakeLists.txt").is_file():
        return None

    def do() -> tuple[Undo, Undo]:
        if source_patch(root, only=[patch]).conflicts:
            raise StageFailed(f"the patch {patch} does not fit {root}; nothing was changed")
        return undo, _do_nothing

    def undo() -> None:
        with contextlib.suppress(RekindleError):
            source_unpatch(root)

    return Fix(shown=(f"patch {root} with {patch} (rekindle source patch --only {patch})",), call=call, do=do)


def repair_build(failure: BuildFailure, options: BuildOptions, root: Path) -> tuple[BuildOptions, str] | None:
    """The build's options after the safe action its cause offers, and that in words; None where there is none. Safe is
    what only changes how it is built: fewer compilers, one of our patches, a variable of CMake."""
    for first, action in _safe_actions(failure.diagnosis):
        match action:
            case causes.FewerJobs():
                jobs = (options.jobs or os.cpu_count() or 2) // 2
                if jobs:
                    return replace(options, jobs=jobs), f"{first.title}: at most {jobs} compilers at once"
            case causes.SetCMake() if (action.name, action.value) not in options.settings:
                settings = (*options.settings, (action.name, action.value))
                return replace(options, settings=settings), f"{first.title}: {action.name}={action.value}"
            case causes.ApplyPatch():
                before = {patch.id for patch in source_status(root).patches if patch.state == "applied"}
                tree = source_patch(root, only=[action.patch])
                if action.patch not in before and not tree.conflicts:
                    return replace(options, source=tree), f"{first.title}: patched with {action.patch}"
    return None


def _is_installing(command: Sequence[str]) -> bool:
    names = {Path(word).stem.rstrip("0123456789.") for word in command[:4]}
    return bool(names & {"pip", "uv"}) and any(word in command for word in ("install", "sync", "add", "wheel"))


def python_of(call: Call) -> str:
    """The interpreter whose packages the command uses: itself, that of its script, of the environment, or of PATH."""
    program = shutil.which(call.command[0], path=call.env.get("PATH"))
    if program:
        if _PYTHON_NAME.match(Path(program).name):
            return program
        with contextlib.suppress(OSError, ValueError), Path(program).open("rb") as file:
            head = file.read(800).decode("utf-8", "replace")
            # pip and uv start a script by way of the shell where the interpreter's path has a space or is long.
            started = re.match(r"#!(?:/bin/sh\n'''exec')?(.*)", head)
            for word in shlex.split(started[1].replace("\\", "/")) if started else ():
                if Path(word).name.startswith(("python", "pypy")):  # python3.13t, python3-dbg
                    return shutil.which(word) or word
        for name in ("python.exe", "../python.exe"):
            if (beside := Path(program).parent / name).is_file():
                return str(beside)
    for folder in (call.env.get("VIRTUAL_ENV"), ".venv" if Path(call.command[0]).stem == "uv" else None):
        for name in ("bin/python", "Scripts/python.exe"):
            if folder and (inside := Path(folder) / name).is_file():
                return str(inside)
    return shutil.which("python3") or shutil.which("python") or "python3"
