"""A fresh throw-away environment with one wheel and its dependencies in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rekindle.errors import BadInput, MissingTool, Unprepared
from rekindle.host.pip_errors import WAIT_LONGER, gave_up_waiting, with_patience
from rekindle.host.protocol import Host
from rekindle.interpreters.environment import python_of
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Progress
from rekindle.verify.embedded import copy_embedded, is_embedded, own_pip_fits, unpack_wheel
from rekindle.verify.subject import Subject

INSTALL_SECONDS = 3600.0
# Our own pip can serve these interpreters through --python; older ones bring their own.
OLDEST_FOR_OUR_PIP = (3, 9)


def check_fits(subject: Subject, interpreter: Interpreter) -> None:
    """Say in one line why a wheel cannot be installed here, before pip says it in ten."""
    name = subject.path.name
    system = {"win32": "windows", "darwin": "macos"}.get(interpreter.system, "linux")
    if subject.system and subject.system != system:
        raise BadInput(f"{name} is for {subject.system}, this machine runs {system}", remedy="verify it there")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(interpreter.machine.lower(), interpreter.machine.lower())
    if subject.machine and subject.machine != machine:
        raise BadInput(
            f"{name} is for {subject.machine}, this Python runs on {machine}",
            remedy="verify it there, or here on an emulated CPU: --cpu haswell"
            if subject.machine == "x86_64"
            else "verify it on such a machine",
        )
    if subject.pythons and interpreter.release not in subject.pythons and not _stable_abi(subject, interpreter):
        wanted = " or ".join(f"{a}.{b}" for a, b in sorted(subject.pythons))
        raise BadInput(
            f"{name} is for Python {wanted}, {interpreter.path} is {interpreter.short}",
            remedy="give a fitting one with --python EXE",
        )


def _stable_abi(subject: Subject, interpreter: Interpreter) -> bool:
    return any(tag.abi == "abi3" for tag in subject.tags) and interpreter.release >= min(subject.pythons)


def make_environment(
    host: Host,
    folder: Path,
    interpreter: Interpreter,
    subject: Subject,
    *,
    extra: Sequence[str] = (),
    dependencies: bool = True,
    find_links: Sequence[str] = (),
    strange: bool = False,
    progress: Progress,
) -> Path:
    """A virtual environment in ``folder`` with the wheel installed; its interpreter.

    For a ``strange`` wheel nothing is built from source: that would run what it asks for before any sandbox stands.
    """
    check_fits(subject, interpreter)
    installer = _installer(host, interpreter)
    if is_embedded(interpreter):
        return _embedded(installer, folder, interpreter, subject, extra if dependencies else None, find_links, progress)
    _run([interpreter.path, "-I", "-m", "venv", *([] if installer == "own" else ["--without-pip"]), str(folder)])
    python = python_of(folder)
    progress.stage("installing", subject.path.name)
    more = extra if dependencies else ()
    places = [str(Path(place).absolute()) if Path(place).exists() else place for place in find_links]
    options = [option for place in places for option in ("--find-links", place)]
    if not dependencies:
        options.append("--no-deps")
    if strange:
        options += ["--only-binary", ":all:"]
    if installer == "uv":
        # From the wheel's own folder: uv 0.13 decodes an address before it splits it, so "%23" ends the path.
        where = f"./{subject.path.name}"
        _run(
            ["uv", "pip", "install", "--quiet", "--python", str(python.absolute()), *options, where, *more],
            cwd=subject.path.parent,
        )
    else:
        pip = [str(python)] if installer == "own" else [sys.executable]
        at = [] if installer == "own" else ["--python", str(python)]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "-m", "pip", *at, "install", *quiet, *options, subject.path.as_uri(), *more])
    return python


def _embedded(
    installer: str,
    folder: Path,
    interpreter: Interpreter,
    subject: Subject,
    extra: Sequence[str] | None,
    find_links: Sequence[str],
    progress: Progress,
) -> Path:
    """``extra`` is None where dependencies are left out."""
    python, site = copy_embedded(interpreter, folder)
    progress.stage("installing", subject.path.name)
    if extra is None:
        unpack_wheel(subject.path, site)
        return python
    options = [word for place in find_links for word in ("--find-links", place)]
    what = [*options, "--only-binary", ":all:", "--target", str(site), str(subject.path), *extra]
    if installer == "uv":
        _run(["uv", "pip", "install", "--quiet", "--python", str(python), *what])
    elif installer == "ours" and own_pip_fits(interpreter):
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", *what])
    else:
        raise MissingTool(
            f"{interpreter.path} is the embeddable Python, and there is no pip or uv to bring the wheel's dependencies",
            remedy="install uv or a full Python (--python EXE), or try the wheel alone with --no-deps",
        )
    return python


def _installer(host: Host, interpreter: Interpreter) -> str:
    """uv where there is one (fast), else our own pip, else the target's."""
    if host.which("uv"):
        return "uv"
    if interpreter.release >= OLDEST_FOR_OUR_PIP and _have_pip():
        return "ours"
    return "own"


def _have_pip() -> bool:
    import importlib.util

    return importlib.util.find_spec("pip") is not None


def _run(argv: Sequence[str], cwd: Path | None = None) -> None:
    env = dict(os.environ)
    code, lines = _once(argv, cwd, env)
    if code and gave_up_waiting(lines) and with_patience(env):
        code, lines = _once(argv, cwd, env)
    if code:
        remedy = WAIT_LONGER if gave_up_waiting(lines) else _remedy(" ".join(lines))
        raise Unprepared(argv, code, [*lines[-20:], _gist(lines)], remedy=remedy)


def _once(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str]) -> tuple[int, list[str]]:
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_SECONDS, check=False, cwd=cwd,
            env=env,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise MissingTool(f"{argv[0]} is not there", remedy="install it, or give another with --python EXE") from error
    except subprocess.TimeoutExpired as error:
        raise Unprepared(argv, None, [f"no end within {INSTALL_SECONDS:.0f} s"]) from error
    lines = (done.stderr + done.stdout).decode("utf-8", "replace").splitlines()
    return done.returncode, [line for line in lines if line.strip()]


def _gist(lines: Sequence[str]) -> str:
    """One line that says why: pip's last ERROR, or uv's whole sentence, which it draws over several lines."""
    if errors := [line for line in lines if line.startswith("ERROR:")]:
        return errors[-1]
    first = next((number for number, line in enumerate(lines) if line.lstrip().lower().startswith(("error", "×"))), 0)
    words = " ".join(line.strip(" ×╰╭│─▶├└→") for line in lines[first:])
    return words[:400] or "it said nothing"


def _remedy(text: str) -> str:
    if "ensurepip" in text or "No module named venv" in text:
        how = "install uv or the Python of python.org" if os.name == "nt" else "apt install python3-venv, or install uv"
        return f"this Python cannot make environments: {how}"
    if "No space left" in text:
        return "free some disk space, or set TMPDIR to a larger disk"
    if any(words in text for words in ("Failed to read from zip file", "invalid package format")):
        return "the file is no whole wheel: download or build it again"
    if any(words in text for words in ("No matching distribution", "Could not find a version", "No solution found")):
        return (
            "is a package index reachable? --find-links DIR takes dependencies from a folder, --no-deps leaves them out"
        )
    return "the same command by hand shows more"
