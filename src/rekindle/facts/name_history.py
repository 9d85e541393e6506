"""Since which release a Python package has a name, and since which not, by its own wheels (``names/history/*.toml``).

``tools/measure_names.py`` reads them; what all releases have alike is not in the tables. A table holds per release
what came and what is gone: a line per module (or per function, ending in ``()``), behind it the names; the modules
themselves stand in the line that begins with a colon.
"""

import functools
import re
from importlib.resources import files
from typing import NamedTuple

from rekindle.facts.tables import read_own
from rekindle.model.document import Part


class HistoryFile(Part, frozen=True, kw_only=True):
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
    package = module.partition(".")[0]
    return _span(package, _in_module(module, name), _as_module(f"{module}.{name}"))


def find_module(module: str) -> Span | None:
    return _span(module.partition(".")[0], _as_module(module))


def find_parameter(function: str, name: str) -> Span | None:
    """``function`` as Python's TypeError writes it: ``Class.method`` or a function's bare name. Where several packages
    changed that parameter of one of that name, torch's counts, or none."""
    pattern = _in_module(f"{function}()", name)
    owners = [package for package in _packages() if f"\n{function}() " in _text_of(package)]
    spans = {package: span for package in owners if (span := _span(package, pattern))}
    return spans.get("torch") if len(spans) > 1 else next(iter(spans.values()), None)


def _in_module(module: str, name: str) -> re.Pattern[str]:
    return re.compile(rf"^{re.escape(module)} (?:.* )?{re.escape(name)}(?: |$)", re.MULTILINE)


def _as_module(module: str) -> re.Pattern[str]:
    """The module itself, or one it lies in."""
    parts = module.split(".")
    above = "|".join(re.escape(".".join(parts[: at + 1])) for at in range(1, len(parts)))
    return re.compile(rf"^: (?:.* )?(?:{above})(?: |$)", re.MULTILINE)


def _span(package: str, *patterns: re.Pattern[str]) -> Span | None:
    history = _load(package)
    if history is None:
        return None
    # A name may have come after its module, and have gone before it.
    came, gone = (
        [release for release, names in table.items() if any(pattern.search(names) for pattern in patterns)]
        for table in (history.came, history.gone)
    )
    return Span(history.project, came[-1] if came else None, gone[0] if gone else None) if came or gone else None


@functools.cache
def _packages() -> tuple[str, ...]:
    folder = files("rekindle.facts") / "names" / "history"
    return tuple(sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml")))


@functools.cache
def _text_of(package: str) -> str:
    return (files("rekindle.facts") / "names" / "history" / f"{package}.toml").read_text("utf-8")


@functools.cache
def _load(package: str) -> HistoryFile | None:
    return read_own(__file__, f"names/history/{package}.toml", HistoryFile) if package in _packages() else None
