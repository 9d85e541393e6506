"""What is left behind for the days after: files that keep this torch, and the lines to begin with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rekindle.host.files import write_atomically
from rekindle.interpreters.environment import bin_of
from rekindle.journey.target import Target
from rekindle.model.build import BuildFailure
from rekindle.model.journey import Installation
from rekindle.model.keep import constraints_text, pinned, pyproject_text, requirements_text
from rekindle.model.plan import Request
from rekindle.scripts.quoting import pasted


def write_keeps(folder: Path, requests: Sequence[Request], installed: Installation) -> tuple[str, ...]:
    """Constraints, requirements and the lines for a pyproject.toml; where each lies."""
    pins = pinned(requests, installed.packages)
    if not pins:
        return ()
    files = {
        "constraints.txt": constraints_text(pins),
        "requirements.txt": requirements_text(pins, requests),
        "pyproject.toml": pyproject_text(pins, requests),
    }
    for name, text in files.items():
        write_atomically(folder / name, text)
    return tuple(str(folder / name) for name in files)


def next_steps(target: Target, keeps: Sequence[str]) -> tuple[str, ...]:
    """Activate, try, and install more without losing this torch."""
    steps = []
    if target.folder is not None:
        steps.append(activate_line(target.folder))
        python = "python"
    else:
        python = pasted(target.python)
    steps.append(f'{python} -c "import torch; print(torch.__version__)"')
    limits = next((place for place in keeps if place.endswith("constraints.txt")), None)
    if limits:
        steps.append(f"{python} -m pip install -c {pasted(limits)} PACKAGE")
    return tuple(steps)


def steps_after_no(failure: BuildFailure | None, unproven: str | None = None) -> tuple[str, ...]:
    """What to look at when there is no torch: the log of the build that failed, the checks again in the Python where it
    is not proven, or why nothing was planned."""
    if failure is not None and failure.log:
        return (f"rekindle explain {pasted(failure.log)}",)
    if unproven:
        return (f"rekindle verify --python {pasted(unproven)} --level full",)
    return ("rekindle plan -v",)


def activate_line(folder: Path, *, shell: str | None = None, windows: bool | None = None) -> str:
    """The line that enters an environment, for the user's shell."""
    windows = os.name == "nt" if windows is None else windows
    if windows:
        place = f"{bin_of(folder, windows=True)}\\activate".replace("/", "\\")
        return pasted(place, windows=True)
    name = Path(shell if shell is not None else os.environ.get("SHELL", "")).name
    ending = {"fish": ".fish", "csh": ".csh", "tcsh": ".csh"}.get(name, "")
    place = (bin_of(folder, windows=False) / f"activate{ending}").as_posix()
    return f"source {pasted(place, windows=False)}"
