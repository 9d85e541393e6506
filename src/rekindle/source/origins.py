"""Where sources come from: our table of upstream addresses and Debian packages, and torch's pins for the others."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.model.document import Part

_COMMIT = re.compile(r"[0-9a-f]{40}\b")


class Upstream(Part, frozen=True, kw_only=True):
    """A project's own address. ``pins`` are files of a torch tree that name the matching commit of this project."""

    git: str
    tag: str
    source: str
    date: str
    tarball: str | None = None
    pins: tuple[str, ...] = ()


class DebianPackage(Part, frozen=True, kw_only=True):
    project: str
    version: str
    package: str
    release: str
    suite: str
    source: str
    date: str
    stripped: bool = False


class Origins(Part, frozen=True, kw_only=True):
    schema: int
    project: dict[str, Upstream]
    debian: tuple[DebianPackage, ...] = ()


@functools.cache
def load_origins() -> Origins:
    raw = (Path(__file__).parent / "origins.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(raw), Origins)


def upstream(project: str) -> Upstream:
    known = load_origins().project
    if project not in known:
        raise BadInput(f"there is no source address for {project!r}", remedy=f"known: {', '.join(known)}")
    return known[project]


def debian_package(project: str, version: str) -> DebianPackage:
    rows = [row for row in load_origins().debian if row.project == project]
    for row in rows:
        if row.version == version:
            return row
    have = ", ".join(row.version for row in rows) or "none"
    raise BadInput(
        f"Debian has no {project} {version} that we know of (known: {have})", remedy="leave out --from debian"
    )


def pinned_commit(torch_tree: Path, project: str) -> str | None:
    """The commit of ``project`` a torch tree was tested with, where the tree says so."""
    for name in upstream(project).pins:
        file = torch_tree / name
        if file.is_file() and (found := _COMMIT.search(file.read_text(encoding="utf-8", errors="replace")[:4096])):
            return found[0]
    return None
