"""Third parties of a source tree: which rows speak of a release, what they ask of a machine, what is missing there.

Used by the planner (settings, packages), the source stage (filling a tree), the doctor and the build (what is
missing, before anything long starts).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from rekindle.facts import Facts, load_facts
from rekindle.host.protocol import Host
from rekindle.model.supply import Manager, Need, ThirdParty
from rekindle.model.version import matches

_INCLUDES = ("/usr/local/include", "/usr/include", "/usr/include/*-linux-gnu*")
_LIBRARIES = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu*")


@dataclass(frozen=True, kw_only=True)
class Lack:
    """Something a build takes from the system that is not there; ``what`` names the very files."""

    need: Need
    what: tuple[str, ...]


def parts_for(release: str, facts: Facts | None = None) -> tuple[ThirdParty, ...]:
    """One row per third party of this release; the first that fits counts."""
    found: dict[str, ThirdParty] = {}
    for row in (facts or load_facts()).supply.part:
        if row.name not in found and matches(release, row.torch):
            found[row.name] = row
    return tuple(found.values())


def needs_for(release: str, facts: Facts | None = None) -> tuple[Need, ...]:
    """What a release asks of the system."""
    return tuple(row for row in (facts or load_facts()).supply.need if matches(release, row.torch))


def settings_of(rows: Iterable[Need], *, gpu: bool) -> dict[str, str]:
    """What the tree is told about these rows."""
    told: dict[str, str] = {}
    for row in rows:
        told |= row.settings | (row.gpu if gpu else {})
    return told


def losses_of(rows: Iterable[ThirdParty]) -> tuple[str, ...]:
    """What is lost where these parts are left out."""
    return tuple(row.loss for row in rows if row.loss)


def manager_of(distro: str | None, facts: Facts | None = None) -> Manager | None:
    """The package manager of "debian 12" or "fedora 41"; None where no row names the distribution."""
    name = (distro or "").split()[0].lower() if distro else ""
    return next((row for row in (facts or load_facts()).supply.manager if name in row.distros), None)


def manager_here(host: Host, facts: Facts | None = None) -> Manager | None:
    """The package manager of this machine, by what is on it."""
    return next((row for row in (facts or load_facts()).supply.manager if host.which(row.install.split()[0])), None)


def packages_of(rows: Iterable[Need], manager: Manager | None) -> tuple[str, ...]:
    """The names of the packages that bring what these rows need."""
    if manager is None:
        return ()
    return tuple(dict.fromkeys(name for row in rows for name in row.packages.get(manager.name, ())))


def install_line(packages: Sequence[str], manager: Manager, *, root: bool) -> str:
    """One line to paste; ``root``: whoever pastes it needs no sudo."""
    return f"{'' if root else 'sudo '}{manager.install} {' '.join(packages)}"


def is_root(host: Host) -> bool:
    """Does whoever runs us need no sudo?"""
    return host.env.get("HOME") == "/root" or host.env.get("USER") == "root"


def lacking(host: Host, rows: Iterable[Need], env: Mapping[str, str] | None = None) -> tuple[Lack, ...]:
    """What these rows ask of the system and it does not have. ``env``: the plan's, which may name other places."""
    told = {**host.env, **(env or {})}
    includes = [*_listed(told, "CPATH"), *_below(told, "include"), *_INCLUDES]
    libraries = [*_listed(told, "LIBRARY_PATH"), *_below(told, "lib"), *_LIBRARIES]
    found = []
    for row in rows:
        what = [f"<{name}>" for name in row.headers if not _there(host, includes, name)]
        what += [f"lib{name}" for name in row.libraries if not _library(host, libraries, name)]
        what += [name for name in row.programs if host.which(name) is None]
        if row.any_library and not any(_library(host, libraries, name) for name in row.any_library):
            what.append(" or ".join(f"lib{name}" for name in row.any_library))
        if what:
            found.append(Lack(need=row, what=tuple(what)))
    return tuple(found)


def how_to_install(host: Host, lacks: Sequence[Lack]) -> str | None:
    """One line for everything that is missing; None where this machine's packages are not known."""
    manager = manager_here(host)
    packages = packages_of((lack.need for lack in lacks), manager)
    return install_line(packages, manager, root=is_root(host)) if manager and packages else None


def system_version(host: Host, row: ThirdParty, env: Mapping[str, str] | None = None) -> str | None:
    """The version a system header says of itself, as 9.1.0."""
    if row.version is None:
        return None
    told = {**host.env, **(env or {})}
    for place in [*_listed(told, "CPATH"), *_below(told, "include"), *_INCLUDES]:
        # fmt 11 keeps the macro in base.h, which core.h includes.
        for path in host.glob(str(PurePosixPath(place, row.version.header).with_name("*.h"))):
            text = (host.read(path) or b"").decode("utf-8", "replace")
            if match := re.search(rf"#\s*define\s+{row.version.macro}\s+(\d+)", text):
                number = int(match[1])
                return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return None


def _listed(env: Mapping[str, str], name: str) -> list[str]:
    return [place for place in env.get(name, "").split(os.pathsep) if place]


def _below(env: Mapping[str, str], folder: str) -> list[str]:
    """Where CMake looks beside the usual places."""
    prefixes = [*re.split(r"[:;]", env.get("CMAKE_PREFIX_PATH", "")), env.get("OpenBLAS_HOME", "")]
    prefixes.append(env.get("CONDA_PREFIX", ""))
    return [str(PurePosixPath(prefix, folder)) for prefix in prefixes if prefix]


def _there(host: Host, places: Iterable[str], name: str) -> bool:
    return any(host.glob(str(PurePosixPath(place, name))) for place in places)


def _library(host: Host, places: Sequence[str], name: str) -> bool:
    return any(_there(host, places, f"lib{name}{ending}") for ending in (".so", ".a", ".dylib"))
