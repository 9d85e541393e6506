"""Where sources come from: our table of upstream addresses and Debian packages, and torch's pins for the others."""

import re
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.model.document import Part
from rekindle.model.toml import read_beside
from rekindle.model.version import matches

_COMMIT = re.compile(r"[0-9a-f]{40}\b")


class Upstream(Part, frozen=True, kw_only=True):
    """A project's own address. ``pins`` are files of a torch tree that name the matching commit of this project."""

    git: str
    tag: str
    source: str
    date: str
    tarball: str | None = None
    pins: tuple[str, ...] = ()


class DebianSource(Part, frozen=True, kw_only=True):
    """A source package. Where no suite lists it any more, ``pool`` and ``sha256`` (by file name) still find it."""

    project: str
    package: str
    release: str
    source: str
    date: str
    suite: str | None = None
    pool: str | None = None
    sha256: dict[str, str] = {}


class DebianPackage(DebianSource, frozen=True, kw_only=True):
    """The original tarball of one release of a project; ``stripped`` of its submodules or not."""

    version: str
    stripped: bool = False


class Supplement(DebianSource, frozen=True, kw_only=True):
    """Packaging that keeps third parties beside the tree: ``folders`` by the name of the third party."""

    torch: str
    folders: dict[str, str]


class Origins(Part, frozen=True, kw_only=True):
    """``origins.toml``."""

    schema: int
    project: dict[str, Upstream]
    debian: tuple[DebianPackage, ...] = ()
    supplement: tuple[Supplement, ...] = ()


def load_origins() -> Origins:
    """Our table."""
    return read_beside(__file__, "origins.toml", Origins)


def upstream(project: str) -> Upstream:
    """Where a project itself is to be had."""
    known = load_origins().project
    if project not in known:
        raise BadInput(f"there is no source address for {project!r}", remedy=f"known: {', '.join(known)}")
    return known[project]


def debian_package(project: str, version: str) -> DebianPackage:
    """Debian's package of that very release."""
    rows = {row.version: row for row in load_origins().debian if row.project == project}
    if version in rows:
        return rows[version]
    have = ", ".join(rows) or "none"
    remedy = "leave out --from debian"
    raise BadInput(f"Debian has no {project} {version} that we know of (known: {have})", remedy=remedy)


def supplement_for(project: str, version: str) -> Supplement | None:
    """The packaging that holds what has no package of its own, for this release."""
    rows = load_origins().supplement
    return next((row for row in rows if row.project == project and matches(version, row.torch)), None)


def pinned_commit(torch_tree: Path, project: str) -> str | None:
    """The commit of ``project`` a torch tree was tested with, where the tree says so."""
    for name in upstream(project).pins:
        file = torch_tree / name
        if file.is_file() and (match := _COMMIT.search(file.read_text(encoding="utf-8", errors="replace")[:4096])):
            return match[0]
    return None
