"""Which interpreter gets torch: a given one, an environment at a given place, or one of our own in the workspace."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput, MissingTool, NotReady
from rekindle.host.files import write_atomically
from rekindle.host.protocol import Host
from rekindle.interpreters.environment import bin_of, python_of
from rekindle.interpreters.packages import Contents
from rekindle.interpreters.search import ask_interpreter, search_version
from rekindle.model.build import BuildFailure
from rekindle.model.guard import constraints_text, pinned, pyproject_text, requirements_text
from rekindle.model.interpreter import is_version
from rekindle.model.journey import Installation, UpOptions
from rekindle.model.plan import Request
from rekindle.scripts.quoting import pasted


@dataclass(frozen=True, kw_only=True)
class InstallTarget:
    """``folder`` is an environment that is there or will be made; None for an interpreter that was named itself."""

    python: str
    folder: Path | None
    exists: bool


def wanted_python(host: Host, options: UpOptions) -> str | None:
    """The release that the plan must serve: asked for, or that of the interpreter or environment named."""
    venv, python = options.venv, options.python
    if venv is not None and python_of(venv).exists():
        there = ask_interpreter(host, str(python_of(venv)))
        if is_version(python) and not there.is_of(_release(python or "")):
            raise BadInput(
                f"{venv} is an environment of Python {there.short}, and --python {python} was asked for",
                remedy="name another folder with --venv, or leave --python out",
            )
        return there.short
    if venv is not None and venv.exists() and (not venv.is_dir() or any(venv.iterdir())):
        raise BadInput(f"{venv} is there and is no virtual environment", remedy="name a new folder with --venv")
    if python is None or is_version(python):
        return _release(python) if python else None
    named = ask_interpreter(host, python)
    if named.externally_managed and venv is None:
        remedy = f"rekindle up --python {named.short} --venv .venv makes an environment with it"
        raise NotReady(f"{python} belongs to the system, which lets no pip install into it (PEP 668)", remedy=remedy)
    return named.short


def target_of(options: UpOptions, own: Path) -> InstallTarget:
    """Where torch goes; ``own`` is the environment of ours that stands for this plan."""
    if options.venv is None and options.python is not None and not is_version(options.python):
        return InstallTarget(python=options.python, folder=None, exists=True)
    folder = options.venv.absolute() if options.venv is not None else own
    python = python_of(folder)
    return InstallTarget(python=str(python), folder=folder, exists=python.exists())


def base_python(host: Host, options: UpOptions, planned: str | None) -> str:
    """The interpreter that a new environment is made with, or how to get one."""
    if options.python is not None and not is_version(options.python):
        return options.python
    version = options.python or planned
    if version is None:
        return sys.executable
    if (base := next(search_version(host, version, ours_first=True), None)) is not None:
        return base.path
    ways = (
        (shutil.which("uv"), f"uv python install {version}"),
        (shutil.which("pyenv"), f"pyenv install {version}"),
        (host.system == "windows", f"winget install Python.Python.{version}"),
        (shutil.which("conda"), f"conda create -n py{version} python={version}"),
        (True, f"pip install uv, then uv python install {version}"),
    )
    remedy = f"{next(line for there, line in ways if there)}; or choose another with --python"
    raise MissingTool(f"the plan wants Python {version}, and none is on this machine", remedy=remedy)


def _release(version: str) -> str:
    """``3.12`` of 3.12.1: environments are told apart by no more."""
    return ".".join(version.split(".")[:2])


def write_keeps(folder: Path, requests: Sequence[Request], installed: Installation, held: Contents) -> tuple[str, ...]:
    """Constraints, requirements and the lines for a pyproject.toml; where each lies."""
    pins = pinned(requests, installed.packages)
    if not pins:
        return ()
    contents = {package.name.lower(): package.contents for package in held.packages}
    files = {
        "constraints.txt": constraints_text(pins, contents),
        "requirements.txt": requirements_text(pins, requests),
        "pyproject.toml": pyproject_text(pins, requests),
    }
    for name, text in files.items():
        write_atomically(folder / name, text)
    return tuple(str(folder / name) for name in files)


def next_steps(target: InstallTarget, keeps: Sequence[str]) -> tuple[str, ...]:
    """Activate, try, and install more without losing this torch."""
    python = pasted(target.python) if target.folder is None else "python"
    limits = [place for place in keeps if place.endswith("constraints.txt")]
    return (
        *([activate_line(target.folder)] if target.folder is not None else ()),
        f'{python} -c "import torch; print(torch.__version__)"',
        *(f"{python} -m pip install -c {pasted(place)} PACKAGE" for place in limits[:1]),
    )


def steps_after_no(failure: BuildFailure | None, unproven: str | None = None) -> tuple[str, ...]:
    """What to look at when there is no torch: the log of a build that failed, more checks where it is not proven, or
    the plan."""
    if failure is not None and failure.log:
        return (f"rekindle explain {pasted(failure.log)}",)
    if unproven:
        return (f"rekindle verify --python {pasted(unproven)} --level full",)
    return ("rekindle plan -v",)


def activate_line(folder: Path, *, shell: str | None = None, windows: bool | None = None) -> str:
    """The line that enters an environment, for the user's shell."""
    if os.name == "nt" if windows is None else windows:
        return pasted(f"{bin_of(folder, windows=True)}\\activate".replace("/", "\\"), windows=True)
    name = Path(shell if shell is not None else os.environ.get("SHELL", "")).name
    ending = {"fish": ".fish", "csh": ".csh", "tcsh": ".csh"}.get(name, "")
    place = (bin_of(folder, windows=False) / f"activate{ending}").as_posix()
    return f"source {pasted(place, windows=False)}"
