"""Who owns a name: a header, a library, a Python module, a program, a CMake package, a symbol, a message.

Each table ``names/<kind>.toml`` is a list of rows tried from the top; ``match`` is a regular expression over the whole
name. A row says whose it is, which package brings it per package manager, and what is special about it. The file's
``source``, ``date`` and ``how`` hold for all its rows unless a row has its own.
"""

import functools
import re

from rekindle.facts.tables import read_own
from rekindle.model.document import Part


class NameOwner(Part, frozen=True, kw_only=True):
    """``gone`` and ``came`` say since which version of the owner the name is away or there; ``instead`` what to use;
    ``remedy`` what to do where the answer is no package."""

    match: str
    owner: str
    apt: str | None = None
    dnf: str | None = None
    conda: str | None = None
    pip: str | None = None
    windows: str | None = None
    submodule: bool = False
    came: str | None = None
    gone: str | None = None
    instead: str | None = None
    note: str | None = None
    remedy: str | None = None
    source: str | None = None

    def install(self, system: str | None = None) -> str | None:
        """The commands that bring it, those of ``system`` alone where it is known; None where no package does."""
        linux = (("apt install", self.apt, " (Debian, Ubuntu)"), ("dnf install", self.dnf, " (Fedora, RHEL)"))
        both = (("conda install -c conda-forge", self.conda, ""), ("pip install", self.pip, ""))
        managers = both if system in ("windows", "macos") else (*linux, *both)
        ways = [f"{command} {package}{place}" for command, package, place in managers if package]
        if self.windows and system in (None, "windows"):
            ways.append(self.windows if system == "windows" else f"on Windows: {self.windows}")
        return ", or ".join(ways) if ways else None


class NamesFile(Part, frozen=True, kw_only=True):
    source: str
    date: str
    how: str
    row: tuple[NameOwner, ...]


@functools.cache
def load_names(kind: str) -> NamesFile:
    return read_own(__file__, f"names/{kind}.toml", NamesFile)


# Python's own cache of patterns is smaller than these tables: asked row by row, each would be compiled again.
_compiled = functools.cache(re.compile)


@functools.lru_cache(maxsize=256)
def owner_of(kind: str, name: str) -> NameOwner | None:
    """The first row that matches the whole name; names longer than any real one are nobody's."""
    if len(name) > 400:
        return None
    return next((row for row in load_names(kind).row if _compiled(row.match).fullmatch(name)), None)
