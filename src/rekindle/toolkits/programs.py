"""The programs a build uses, where they come from, and their versions.

Ninja: our own first (PyPI's 1.13 knows the jobserver, distributions' often do not). CMake: the given one, else the one
on PATH (old trees want the machine's old CMake rather than the newest), else our own; a plan that pins CMake gets that
one installed into the target environment instead.
"""

import contextlib
import importlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.compat.resources import how_to_install, install_line
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.host.asking import Asking, ask_each
from rekindle.host.protocol import Completed, Host
from rekindle.host.text import joined, version_in, version_key
from rekindle.model.machine import Toolkit
from rekindle.model.supply import Lack, Manager
from rekindle.model.toml import read_beside

PLACES = read_beside(__file__, "places.toml", dict[str, Any])
_PROGRAMS = PLACES["programs"]
_AT_ONCE = 6
# Of these we bring our own: a package whose attribute names its folder.
_OURS = {"ninja": "BIN_DIR", "cmake": "CMAKE_BIN_DIR"}


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program that was asked for its version; ``kind`` is gcc, clang or the like where it is a compiler."""

    name: str
    path: str
    version: str
    kind: str | None = None

    @property
    def release(self) -> tuple[int, ...]:
        """Its version as numbers; empty where it did not say."""
        return version_key(self.version)


def probe_program(host: Host, name: str, path: str) -> Tool | None:
    """Ask a program for its version; None where it is not there or does not answer."""
    done = host.run([path, "--version"], timeout=20.0)
    return Tool(name=name, path=path, version=version_in(done.out) or "unknown") if done.ok else None


def places_of(host: Host, name: str) -> tuple[str, ...]:
    """Where a program lies that a build would take, the first choice first."""
    own = _find_packaged(name) if name in _OURS else None
    on_path = map(host.which, _names_of(name))
    return tuple(filter(None, (own, *on_path) if name == "ninja" else (*on_path, own)))


def _names_of(name: str) -> tuple[str, ...]:
    return (name, *_PROGRAMS["other_names"].get(name, ()))


def _find_packaged(name: str) -> str | None:
    with contextlib.suppress(ImportError, AttributeError):
        return shutil.which(name, path=str(getattr(importlib.import_module(name), _OURS[name])))
    return None


def find_ninja(host: Host, given: str | None) -> Tool:
    """The given one, else ours, else the one on PATH."""
    return _find_tool(host, "ninja", "Ninja", given, "pip install 'ninja>=1.13'")


def find_cmake(host: Host, given: str | None) -> Tool:
    """The given one, else the one on PATH, else ours."""
    return _find_tool(host, "cmake", "CMake", given, "pip install cmake")


def _find_tool(host: Host, name: str, spoken: str, given: str | None, remedy: str) -> Tool:
    tools = (probe_program(host, name, path) for path in ([given] if given else places_of(host, name)))
    if tool := next((tool for tool in tools if tool and (given or tool.release)), None):
        return tool
    if given:
        raise BadInput(f"{given} is no {spoken} that runs here")
    raise MissingTool(f"there is no {spoken}", remedy=remedy)


def probe_programs(host: Asking) -> dict[str, str | None]:
    """The version of each program, "?" where it does not say, None where it is not here."""
    only = _PROGRAMS["only"]
    names = [name for name in _PROGRAMS["names"] if only.get(name, host.system) == host.system]
    versions: dict[str, str | None] = dict.fromkeys(names)
    present = [name for name in names if places_of(host, name)]
    answers = ask_each(host, present, lambda name: _ask_version(host, name), at_once=_AT_ONCE)
    for name in present:
        versions[name], done = answers.get(name, (None, None))
        # It is there, which is what most questions are about. Our own lies beside us, not on every replayed machine.
        if versions[name] is None and any(map(host.which, _names_of(name))):
            versions[name], why = "?", "it did not answer in time"
            if done is not None and not done.timed_out:
                said = done.err.strip()[:200]
                why = f"exit code {done.code}{f': {said}' if said else ', no version in what it said'}"
            host.gap(f"version of {name}", why)
    return versions


def _ask_version(host: Asking, name: str) -> tuple[str | None, Completed | None]:
    done = None
    for path in places_of(host, name):
        # Tools answer in milliseconds; one that does not is broken, and others wait behind it.
        done = host.run([path, _PROGRAMS["question"].get(name, "--version")], timeout=host.left(2.0))
        if version := version_in(done.out) or version_in(done.err):
            return version, done
    return None, done


def is_root(host: Host) -> bool:
    """Does whoever runs us need no sudo?"""
    return host.env.get("HOME") == "/root" or host.env.get("USER") == "root"


def manager_here(host: Host) -> Manager | None:
    """The package manager of this machine, by what is on it."""
    return next((row for row in load_facts().supply.manager if host.which(row.install.split()[0])), None)


def bring_packages(host: Host, packages: Sequence[str], manager: Manager) -> str:
    """The line that installs them here."""
    return install_line(packages, manager, root=is_root(host))


def bring_lacking(host: Host, lacks: Sequence[Lack]) -> str | None:
    """One line for everything that is missing here; None where this machine's packages are not known."""
    return how_to_install(lacks, manager_here(host), root=is_root(host))


def list_toolkits(
    host: Host, kind: str, roots: Sequence[str], version_of: Callable[[str], str | None], compiler: str
) -> tuple[Toolkit, ...]:
    """What lies at these roots, each once however many links lead there, newest first."""
    by_root: dict[str, Toolkit] = {}
    for root in roots:
        real = host.realpath(root)
        if real not in by_root and (version := version_of(root)):
            note = None if program_in(host, root, compiler) else f"no {compiler} in it: libraries only"
            by_root[real] = Toolkit(kind=kind, version=version, path=root, note=note)
    return tuple(sorted(by_root.values(), key=lambda kit: version_key(kit.version), reverse=True))


def program_in(host: Host, root: str, name: str) -> str | None:
    """The program in a toolkit's ``bin``."""
    files = (f"{name}.exe", f"{name}.bat", name) if host.system == "windows" else (name,)
    places = [joined(host.system, root.rstrip("/\\"), "bin", file) for file in files]
    return next((path for place in places for path in host.glob(place)), None)


def find_below(
    host: Host, name: str, settings: Mapping[str, str], variables: tuple[str, ...], usual: str
) -> str | None:
    """A toolkit's program below what the settings or the shell name, else below ``usual``, else on PATH."""
    for variable in variables:
        if (folder := settings.get(variable)) and not host.glob(str(Path(folder) / "bin" / name)):
            why = f"the plan says {variable}={folder}, but there is no {name} in {Path(folder) / 'bin'}"
            remedy = f"install the toolkit there, or correct {variable} in the plan's environment"
            raise MissingTool(why, remedy=remedy)
    for home in (*(settings.get(variable) or host.env.get(variable) for variable in variables), usual):
        if home and (hits := host.glob(str(Path(home) / "bin" / name))):
            return hits[0]
    return host.which(name)
