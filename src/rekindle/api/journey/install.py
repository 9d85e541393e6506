"""Installs what a plan requests into an environment, and tells what then is in it.

The requests become argument lists for the pip of the environment's own interpreter: nothing goes through a shell,
and no line written for people is read back.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rekindle.errors import BadInput, CommandFailed, MissingTool
from rekindle.host.process import run_long, stop_signals_as_interrupt
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.model.journey import Installation
from rekindle.model.machine import Machine
from rekindle.model.plan import Request, pip_arguments
from rekindle.model.progress import Progress

COMPANIONS = ("torchvision", "torchaudio")
_KEEP_LAST = 40


def to_install(
    requests: Sequence[Request], *, index: str | None = None, torch_only: bool = False
) -> tuple[tuple[str, ...], ...]:
    """What follows ``pip install``, command by command.

    ``index`` is asked instead of the plan's own (``default``: pip's own); ``torch_only`` leaves torchvision and
    torchaudio out.
    """
    wanted = [request for request in requests if not (torch_only and request.name in COMPANIONS)]
    if index is not None:
        place = None if index == "default" else index
        wanted = [msgspec.structs.replace(request, index=place, links=None) for request in wanted]
    for request in wanted:
        if request.requirement.startswith("-"):
            raise BadInput(f"the plan requests {request.requirement!r}, which is no package")
    if not wanted:
        raise BadInput("the plan has nothing to install")
    return pip_arguments(wanted)


def find_python(machine: Machine, wanted: str | None) -> str:
    """An interpreter of the wanted release: ours if it fits, else one the doctor found."""
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if wanted is None or wanted == ours or ours.startswith(f"{wanted}."):
        return sys.executable
    for python in machine.pythons:
        if python.path and (python.version == wanted or python.version.startswith(f"{wanted}.")):
            return str(Path(python.path).expanduser())
    raise MissingTool(
        f"the plan wants Python {wanted}, and none is on this machine",
        remedy=f"install it (for example: uv python install {wanted}), or plan for another with --python",
    )


def environment_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(python: str, folder: Path, log: Path) -> Path:
    """A virtual environment, made once."""
    exe = environment_python(folder)
    if not exe.exists():
        _run([python, "-m", "venv", str(folder)], log, None)
    return exe


def install(
    host: Host, python: str, requests: Sequence[Sequence[str]], workspace: Workspace, progress: Progress
) -> Installation:
    """Carry out the requests (what follows ``pip install``) with ``python``'s own pip."""
    log = workspace.new_log("install")
    for arguments in requests:
        argv = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *arguments]
        _run(argv, log, progress)
    return Installation(python=python, packages=packages_of(host, python), log=str(log))


def packages_of(host: Host, python: str) -> dict[str, str]:
    said = host.run([python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"], timeout=60.0)
    rows = json.loads(said.out) if said.ok else []
    return {row["name"]: row["version"] for row in rows}


def _run(argv: list[str], log: Path, progress: Progress | None) -> None:
    last: list[str] = []
    count = 0
    with log.open("a", encoding="utf-8") as file, stop_signals_as_interrupt():
        file.write(f"$ {shlex.join(argv)}\n")

        def keep(line: str) -> None:
            nonlocal count
            count += 1
            file.write(line + "\n")
            last.append(line)
            del last[:-_KEEP_LAST]
            if progress and line.startswith(("Collecting", "  Downloading", "Downloading", "Installing")):
                progress.step(count, None, line.strip())

        ended = run_long(argv, cwd=log.parent, env=dict(os.environ), on_line=keep)
    if not ended.ok:
        errors = [line for line in last if "error" in line.lower()] or last
        raise CommandFailed(argv, ended.code, errors[:1] or last, remedy=f"the whole log: {log}")
