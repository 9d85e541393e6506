"""``guard``: is the torch in an environment still the one that was meant, who replaced it, and what keeps it there?"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rekindle.model.document import Document, Line, Part
from rekindle.model.plan import Request
from rekindle.model.toml import toml_text

# Before the digest that constraints keep beside a version.
CONTENTS = "files sha256:"


class PackageRecord(Part, frozen=True, kw_only=True):
    """A package as its installer left it: ``asked`` for by name (REQUESTED), by which ``installer``, ``when``, whence.
    ``record`` is the digest of its list of files, ``contents`` of what its wheel brought, whoever installed it. Where
    files were read, ``contents`` is theirs as they lie there, and ``edited`` those the list contradicts."""

    name: str
    version: str
    folder: str = ""
    record: str = ""
    contents: str = ""
    edited: tuple[str, ...] = ()
    asked: bool = False
    installer: str = ""
    when: float = 0.0
    url: str | None = None
    requires: tuple[str, ...] = ()


class Culprit(Part, frozen=True, kw_only=True):
    """Who brought the other version. ``certain`` where its own metadata forbids the one that was there."""

    name: Line
    version: Line
    wants: Line
    asked: bool
    certain: bool


class Replaced(Part, frozen=True, kw_only=True):
    """One package that is not what it should be; ``now`` is None where it is gone."""

    name: Line
    was: Line
    now: Line | None = None
    culprits: tuple[Culprit, ...] = ()
    why: Line = ""
    restore: tuple[Line, ...] = ()


class GuardReport(Document, frozen=True, kw_only=True):
    """``kept`` says which file holds what was meant; without one nothing can be replaced, only recorded."""

    python: Line
    kept: Line | None = None
    expected: dict[str, Line] = {}
    found: dict[str, Line] = {}
    replaced: tuple[Replaced, ...] = ()
    written: bool = False

    @property
    def good(self) -> bool:
        """Is every torch that was looked at still the one that was put there?"""
        return not self.replaced


def pinned(requests: Sequence[Request], installed: Mapping[str, str]) -> dict[str, str]:
    """The packages that must stay, with the versions that are really there."""
    return {request.name: installed[request.name] for request in requests if request.name in installed}


def constraints_text(pins: Mapping[str, str], contents: Mapping[str, str] | None = None) -> str:
    """For ``pip install -c FILE`` or ``PIP_CONSTRAINT``: a package that wants another torch is refused, aloud.
    ``contents`` are digests of what lies there, kept as remarks for ``guard``: one version may have several builds."""
    remarks = {name: f"  # {CONTENTS}{digest}" for name, digest in (contents or {}).items() if digest}
    head = "# Keeps these versions: pip install -c THIS-FILE PACKAGE (or set PIP_CONSTRAINT / UV_CONSTRAINT to it).\n"
    return head + "".join(f"{name}=={version}{remarks.get(name, '')}\n" for name, version in pins.items())


def requirements_text(pins: Mapping[str, str], requests: Sequence[Request]) -> str:
    """For ``pip install -r FILE``: the same again elsewhere."""
    by_name = {request.name: request for request in requests}
    places = [f"--extra-index-url {request.index}" for request in requests if request.index]
    places += [f"--find-links {request.links}" for request in requests if request.links]
    rows = []
    for name, version in pins.items():
        url = by_name[name].url if name in by_name else None
        if url and "://" not in url:
            url = Path(url).absolute().as_uri()
        rows.append(f"{name} @ {url}" if url else f"{name}=={version}")
    return "".join(f"{line}\n" for line in (*dict.fromkeys(places), *rows))


def pyproject_text(pins: Mapping[str, str], requests: Sequence[Request]) -> str:
    """Lines for a ``pyproject.toml`` that uv reads: the version, and the only index it may come from."""
    rows = ["[tool.uv]", "# What any dependency may say about these, these versions are taken."]
    rows += ["override-dependencies = [", *(f"    {toml_text(f'{name}=={pins[name]}')}," for name in pins), "]"]
    sources = []
    indexes: dict[str, str] = {}
    for request in requests:
        if request.name not in pins:
            continue
        if request.url:
            key = "url" if "://" in request.url else "path"
            sources.append(f"{request.name} = {{ {key} = {toml_text(request.url)} }}")
        elif request.index:
            name = indexes.setdefault(request.index, f"torch-{request.index.rstrip('/').rpartition('/')[2]}")
            sources.append(f"{request.name} = {{ index = {toml_text(name)} }}")
    if sources:
        rows += ["", "[tool.uv.sources]", *sources]
    for url, name in indexes.items():
        rows += ["", "[[tool.uv.index]]", f"name = {toml_text(name)}", f"url = {toml_text(url)}", "explicit = true"]
    return "\n".join(rows) + "\n"
