"""Who owns a name (a header, a library, a Python module, a program, a symbol, a message …), and since which release a
Python package has one.

Each table ``names/<kind>.toml`` is a list of rows tried from the top; ``match`` is a regular expression over the whole
name. A row says whose it is, which package brings it per package manager, and what is special about it. The file's
``source``, ``date`` and ``how`` hold for all its rows unless a row has its own.

``names/history/*.toml`` are read from the packages' own wheels by ``tools/measure_names.py``; what all releases have
alike is not in them. They hold per release what came and what is gone: a line per module (or per function, ending in
``()``), behind it the names; the modules themselves stand in the line that begins with a colon."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

from rekindle.facts.tables import read_own
from rekindle.model.document import Part
from rekindle.model.version import key

_HISTORY = Path(__file__).with_name("names") / "history"
# Python's own cache of patterns is smaller than these tables: asked row by row, each would be compiled again.
_compiled = functools.cache(re.compile)
# From here on nobody else is likely to have chosen the name: ReduceLROnPlateau, scaled_dot_product_attention.
_LONG_NAME = 16


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


class _NamesFile(Part, frozen=True, kw_only=True):
    source: str
    date: str
    how: str
    row: tuple[NameOwner, ...]


@functools.cache
def load_names(kind: str) -> _NamesFile:
    """The table of one kind of names, such as ``modules`` or ``messages``."""
    return read_own(__file__, f"names/{kind}.toml", _NamesFile)


@functools.lru_cache(maxsize=256)
def owner_of(kind: str, name: str) -> NameOwner | None:
    """The first row that matches the whole name; names longer than any real one are nobody's."""
    if len(name) > 400:
        return None
    return next((row for row in load_names(kind).row if _compiled(row.match).fullmatch(name)), None)


class _HistoryFile(Part, frozen=True, kw_only=True):
    source: str
    date: str
    how: str
    project: str
    first: str
    last: str
    came: dict[str, str]
    gone: dict[str, str]


class Span(NamedTuple):
    """The releases of a project that have a name: from ``came`` (None: since the first) until before ``gone``."""

    project: str
    came: str | None
    gone: str | None


def find_name(module: str, name: str) -> Span | None:
    """Of a name in a module, or of a submodule; None where no table tells a difference."""
    return _span(module, _in_module(module, name), _as_module([f"{module}.{name}"]))


def find_module(module: str) -> Span | None:
    """Of a module of a package; None where no table tells a difference."""
    return _span(module.rpartition(".")[0], _as_module([module]))


def find_parameter(function: str, name: str, log: str) -> Span | None:
    """``function`` as Python's TypeError writes it: ``Class.method`` or a function's bare name. Many a program has a
    ``Model`` of its own, so a short name counts only of packages that the log names. Where several changed that
    parameter of one of that name, torch's counts, or none."""
    pattern = _in_module(f"{function}()", name)
    is_own = len(function.partition(".")[0]) >= _LONG_NAME
    owners = [package for package in _packages() if f"\n{function}() " in _text_of(package)]
    words = {package: rf"(?<![^\W_]){package.replace('_', '[-_]')}(?![^\W_])" for package in owners}
    owners = [package for package in owners if is_own or _compiled(words[package]).search(log)]
    spans = {package: span for package in owners if (span := _span(package, pattern))}
    return spans.get("torch") if len(spans) > 1 else next(iter(spans.values()), None)


def _in_module(module: str, name: str) -> re.Pattern[str]:
    return re.compile(rf"^{re.escape(module)} (?:.* )?{re.escape(name)}(?: |$)", re.MULTILINE)


def _as_module(names: list[str]) -> re.Pattern[str]:
    return re.compile(rf"^: (?:.* )?(?:{'|'.join(map(re.escape, names))})(?: |$)", re.MULTILINE)


def _span(module: str, *patterns: re.Pattern[str]) -> Span | None:
    """Of what any of the patterns is, as long as the modules around it are there."""
    parts = module.split(".")
    if (history := _load(parts[0])) is None:
        return None
    modules = [".".join(parts[: at + 1]) for at in range(1, len(parts))]
    around = _releases(history, _as_module(modules)) if modules else (None, None)
    told = [span for pattern in patterns if any(span := _releases(history, pattern))]
    came = min(_without_open([span[0] for span in told]), key=key, default=None)
    gone = max(_without_open([span[1] for span in told]), key=key, default=None)
    came = max(filter(None, (came, around[0])), key=key, default=None)
    gone = min(filter(None, (gone, around[1])), key=key, default=None)
    return Span(history.project, came, gone) if came or gone else None


def _without_open(releases: list[str | None]) -> list[str]:
    """All of them, or none where one of them is open."""
    named = [release for release in releases if release]
    return named if named == releases else []


def _releases(history: _HistoryFile, pattern: re.Pattern[str]) -> tuple[str | None, str | None]:
    """The last release that something came with, and the first that it is gone from."""
    came = [release for release, names in history.came.items() if pattern.search(names)]
    gone = [release for release, names in history.gone.items() if pattern.search(names)]
    return came[-1] if came else None, gone[0] if gone else None


@functools.cache
def _packages() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _HISTORY.glob("*.toml")))


@functools.cache
def _text_of(package: str) -> str:
    return (_HISTORY / f"{package}.toml").read_text("utf-8")


@functools.cache
def _load(package: str) -> _HistoryFile | None:
    return read_own(__file__, f"names/history/{package}.toml", _HistoryFile) if package in _packages() else None
