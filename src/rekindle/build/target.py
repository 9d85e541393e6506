"""The Python that gets the wheel: an environment of its own with the plan's pins, never Rekindle's.

The environment is made once per interpreter and kept in the workspace; a list of what was installed says
whether it is complete, so a run that was cut short simply goes on.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.protocol import Host
from rekindle.interpreters.environment import bin_of, make_environment, python_of
from rekindle.interpreters.installer import InstallerRun, pip_of, run_installer
from rekindle.interpreters.packages import ask_contents
from rekindle.model.interpreter import Interpreter
from rekindle.model.version import pin_requirement

_ALWAYS = ("setuptools", "wheel")
# With --upgrade: the setuptools that venv brings along would satisfy any upper bound and is too old for new trees.
_QUIETLY = ("--disable-pip-version-check", "--no-input", "--prefer-binary")


@dataclass(frozen=True, kw_only=True)
class TargetPython:
    """The environment that builds: ``interpreter`` is what it was made of, ``bin`` holds its programs."""

    interpreter: Interpreter
    python: str
    bin: Path


def requirements(pins: Mapping[str, str], tree_requires: Sequence[str], *, pep517: bool) -> tuple[str, ...]:
    """What the build environment needs, the plan's pins winning over the tree's own wishes."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    wanted: dict[str, str] = {name: name for name in (*_ALWAYS, *(("build",) if pep517 else ()))}
    for requirement in tree_requires:
        try:
            wanted[canonicalize_name(Requirement(requirement).name)] = requirement
        except InvalidRequirement as error:
            raise BadInput(f"the tree requires {requirement!r}, which is no requirement") from error
    for name, pin in pins.items():
        wanted[canonicalize_name(name)] = pin_requirement(name, pin)
    return tuple(wanted[name] for name in sorted(wanted) if name not in ("python", "ninja"))


def take_as_is(host: Host, interpreter: Interpreter, wanted: Sequence[str]) -> TargetPython:
    """The interpreter with the packages it already has: nothing is installed, so no index is needed."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    named = [Requirement(text) for text in wanted]
    found = ask_contents(host, interpreter.path).versions
    has = {wish: found.get(canonicalize_name(wish.name)) for wish in named}
    lacking = [str(wish) for wish, version in has.items() if not version or not wish.specifier.contains(version, True)]
    if lacking:
        raise BadInput(
            f"Python {interpreter.version} at {interpreter.path} lacks {', '.join(lacking)}",
            remedy=f"{interpreter.path} -m pip install {' '.join(lacking)}",
        )
    return TargetPython(interpreter=interpreter, python=interpreter.path, bin=Path(interpreter.path).parent)


def prepare_target(
    host: Host,
    interpreter: Interpreter,
    folder: Path,
    wanted: Sequence[str],
    env: Mapping[str, str],
    say: Callable[[str], None],
) -> TargetPython:
    """Make or complete the environment in ``folder``."""
    bin_folder, python = bin_of(folder), python_of(folder)
    stamp = folder / "rekindle-ready"
    digest = hashlib.sha256("\n".join([interpreter.path, interpreter.version, *wanted]).encode()).hexdigest()
    ready = TargetPython(interpreter=interpreter, python=str(python), bin=bin_folder)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest and python.exists():
        return ready
    # pip leaves a wheel of the same version as it is, whatever is in the file that it is given.
    if folder.exists() and (not stamp.is_file() or any(" @ " in one for one in wanted)):
        shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)

    def run(argv: Sequence[str]) -> InstallerRun:
        return run_installer(argv, cwd=folder.parent, env=env, on_line=say)

    if not python.exists() and not (made := make_environment(interpreter.path, folder, run)).ok:
        raise StageFailed(
            f"cannot make an environment for Python {interpreter.version}: {made.reason}",
            remedy=made.remedy or "install its venv module (python3-venv)",
        )
    done = run([*pip_of(host, str(python)), "install", "--upgrade", *_QUIETLY, *wanted])
    if not done.ok:
        raise StageFailed(
            f"cannot install {' '.join(wanted)} for Python {interpreter.version}: {done.reason}",
            remedy=done.remedy or "see the log; behind a proxy or mirror set PIP_INDEX_URL",
        )
    write_atomically(stamp, digest)
    return ready
