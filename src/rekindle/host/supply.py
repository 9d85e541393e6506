"""What of a build's needs is on this machine: headers, libraries, programs, the package manager that brings them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from rekindle.host.protocol import Host
from rekindle.model.supply import Lack, SupplyNeed, ThirdParty

_INCLUDES = ("/usr/local/include", "/usr/include", "/usr/include/*-linux-gnu*")
_LIBRARIES = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu*")


def is_root(host: Host) -> bool:
    """Does whoever runs us need no sudo?"""
    return host.env.get("HOME") == "/root" or host.env.get("USER") == "root"


def lacking(host: Host, rows: Iterable[SupplyNeed], env: Mapping[str, str] | None = None) -> tuple[Lack, ...]:
    """What these rows ask of the system and it does not have. ``env``: the plan's, which may name other places."""
    told = {**host.env, **(env or {})}
    includes = _includes(told)
    libraries = [*_listed(told, "LIBRARY_PATH"), *_below(told, "lib"), *_LIBRARIES]
    found = []
    for row in rows:
        what = [f"<{name}>" for name in row.headers if not _there(host, includes, name)]
        if row.any_header and not any(_there(host, includes, name) for name in row.any_header):
            what.append(" or ".join(f"<{name}>" for name in row.any_header))
        what += [f"lib{name}" for name in row.libraries if not _library(host, libraries, name)]
        what += [name for name in row.programs if host.which(name) is None]
        if row.any_library and not any(_library(host, libraries, name) for name in row.any_library):
            what.append(" or ".join(f"lib{name}" for name in row.any_library))
        if what:
            found.append(Lack(need=row, what=tuple(what)))
    return tuple(found)


def system_version(host: Host, row: ThirdParty) -> str | None:
    """The version a system header says of itself, as 9.1.0."""
    if row.version is None:
        return None
    for place in _includes(host.env):
        # fmt 11 keeps the macro in base.h, which core.h includes.
        for path in host.glob(str(PurePosixPath(place, row.version.header).with_name("*.h"))):
            text = (host.read(path) or b"").decode("utf-8", "replace")
            if match := re.search(rf"#\s*define\s+{row.version.macro}\s+(\d+)", text):
                number = int(match[1])
                return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return None


def system_kind(host: Host, row: ThirdParty) -> str | None:
    """What the patches call a system header that says no version: its old name, or "usual"."""
    if row.old is None:
        return None
    for place in _includes(host.env):
        for path in host.glob(str(PurePosixPath(place, row.old.header))):
            return "usual" if row.old.lacks.encode() in (host.read(path) or b"") else row.old.name
    return None


def _includes(env: Mapping[str, str]) -> list[str]:
    """Where a compiler finds headers, in its order."""
    return [*_listed(env, "CPATH"), *_below(env, "include"), *_INCLUDES]


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
