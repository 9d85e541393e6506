"""Which interpreter gets torch: a given one, an environment at a given place, or one of our own in the workspace."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput, MissingTool, NotReady
from rekindle.host.protocol import Host
from rekindle.host.venv import python_of
from rekindle.journey.install import find_python
from rekindle.journey.options import UpOptions
from rekindle.model.machine import Machine

_ASK = (
    "import os, sys, sysconfig; "
    "own = sys.prefix != getattr(sys, 'base_prefix', sys.prefix); "
    "own = own or os.path.exists(os.path.join(sys.prefix, 'conda-meta')); "
    "fixed = os.path.exists(os.path.join(sysconfig.get_path('stdlib'), 'EXTERNALLY-MANAGED')); "
    "print('%d.%d' % sys.version_info[:2], 'fixed' if fixed and not own else 'free')"
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Target:
    """``folder`` is an environment that is there or will be made; None for an interpreter that was named itself."""

    python: str
    folder: Path | None
    exists: bool


def is_version(text: str | None) -> bool:
    """``3.12`` asks for a Python of that release; anything else names an interpreter."""
    return text is not None and re.fullmatch(r"\d+(\.\d+){0,2}t?", text) is not None


def wanted_python(host: Host, options: UpOptions) -> str | None:
    """The release that the plan must serve: asked for, or that of the interpreter or environment named."""
    if options.venv is not None and python_of(options.venv).exists():
        there = _ask(host, str(python_of(options.venv)))[0]
        if is_version(options.python) and not _same(there, options.python or ""):
            raise BadInput(
                f"{options.venv} is an environment of Python {there}, and --python {options.python} was asked for",
                remedy="name another folder with --venv, or leave --python out",
            )
        return there
    if options.venv is not None and options.venv.exists() and not _is_empty(options.venv):
        raise BadInput(f"{options.venv} is there and is no virtual environment", remedy="name a new folder with --venv")
    if options.python is None:
        return None
    if is_version(options.python):
        return ".".join(options.python.split(".")[:2])
    version, fixed = _ask(host, options.python)
    if fixed and options.venv is None:
        raise NotReady(
            f"{options.python} belongs to the system, which lets no pip install into it (PEP 668)",
            remedy=f"rekindle up --python {version} --venv .venv makes an environment with it",
        )
    return version


def target_of(options: UpOptions, own: Path) -> Target:
    """Where torch goes; ``own`` is the environment of ours that stands for this plan."""
    if options.venv is None and options.python is not None and not is_version(options.python):
        return Target(python=options.python, folder=None, exists=True)
    folder = options.venv.absolute() if options.venv is not None else own
    python = python_of(folder)
    return Target(python=str(python), folder=folder, exists=python.exists())


def base_python(host: Host, machine: Machine, options: UpOptions, planned: str | None) -> str:
    """The interpreter that a new environment is made with, or how to get one."""
    if options.python is not None and not is_version(options.python):
        return options.python
    try:
        return find_python(machine, options.python if is_version(options.python) else planned)
    except MissingTool as error:
        version = options.python or planned
        raise MissingTool(
            error.message, remedy=f"{_get_python(host, version)}; or choose another with --python"
        ) from None


def _get_python(host: Host, version: str | None) -> str:
    if shutil.which("uv"):
        return f"uv python install {version}"
    if shutil.which("pyenv"):
        return f"pyenv install {version}"
    if host.system == "windows":
        return f"winget install Python.Python.{version}"
    if shutil.which("conda"):
        return f"conda create -n py{version} python={version}"
    return f"pip install uv, then uv python install {version}"


def _ask(host: Host, python: str) -> tuple[str, bool]:
    done = host.run([python, "-c", _ASK], timeout=30.0)
    words = done.out.split()
    if not done.ok or len(words) != 2:
        raise BadInput(
            f"{python} is no Python that runs here",
            remedy="give a path or a version: --python /usr/bin/python3, --python 3.12",
        )
    return words[0], words[1] == "fixed"


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _same(there: str, asked: str) -> bool:
    return there == ".".join(asked.rstrip("t").split(".")[:2]) or asked == there.split(".")[0]
