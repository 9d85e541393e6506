"""From what people call a CPU, and from what it says of itself, to its microarchitecture: the one answer of every verb.
A product name is taken apart into words and one model number (``E5-2690 v2`` is line e5, model 2690, version v2); which
numbers mean which microarchitecture stands in ``cpu.toml``. A number no row knows is unknown, never its line."""

import itertools
import re
from collections.abc import Collection
from typing import NamedTuple

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.machine import CpuName, Microarchitecture

# What says nothing about the model: marks, clock, cores, the graphics part.
_NOISE = re.compile(
    r"\((?:r|tm|c)\)|[®™]|@.*|\b\d+(?:\.\d+)?\s*[gm]hz\b|\b(?:with|w/)\s*(?:amd\s+)?radeon.*"
    r"|\b(?:\d+|two|dual|triple|quad|six|eight|ten|twelve|sixteen)-cores?\b|\b(?:processor|cpu|apu)s?\b"
)
# "E5 2690", "i7 920", "Xeon W 2145": the line and its number, written apart.
_APART = re.compile(r"\b(i[3579]|m[357]|e[357]|w[3579]|a(?:4|6|8|10|12)|fx|(?<=xeon )[wde])\s+(?=\d{3})")
_MODEL = re.compile(r"(?:([a-z]{1,3}\d{0,2})-)?([a-z]{0,3})(\d[\da-z]*\+?)")
_VERSION = re.compile(r"(.*\d)?(v[2-6])")
_FAMILIES = dict.fromkeys(("arm64", "armv8", "armv8-a"), "aarch64")
_FAMILIES |= dict.fromkeys(("amd64", "x64", "x86-64", "x86-64-v1"), "x86_64")


class CpuText(NamedTuple):
    """A CPU's name taken apart."""

    words: frozenset[str]
    line: str = ""
    model: str = ""
    version: str = ""


def take_apart(text: str) -> CpuText:
    """The words of a name, and its model number with what stands before and after it."""
    marked = re.sub(r"\((?:r|tm)\)(?=-)", "", text.lower())  # "FX(tm)-8350"
    marked = re.sub(r"(?<=\be7-) +(?=\d)", "", marked)  # "E7- 4870", as the processor itself spells it
    lowered = _APART.sub(r"\1-", " ".join(_NOISE.sub(" ", marked).split()))
    words: set[str] = set()
    line = model = version = ""
    for token in re.split(r"[\s/,()\[\]:]+", lowered):
        if match := _VERSION.fullmatch(token):
            token, version = match[1] or "", match[2]
        match = _MODEL.fullmatch(token)
        # ``x6``, ``i7``, ``14th``, a bare ``64`` or ``2`` are words; ``n95``, ``c-60`` and ``920`` are models.
        if match and sum(map(str.isdigit, match[3])) >= (2 if match[1] or match[2] else 3):
            line, model = match[2] or match[1] or "", match[3]
        elif token:
            words.add(token)
    return CpuText(frozenset(words), line, model, version)


def fits(row: CpuName, name: CpuText) -> bool:
    """Does a row of the table speak of this name?"""
    if not name.words.issuperset(row.words) or not name.words.isdisjoint(row.without):
        return False
    if (row.any and name.words.isdisjoint(row.any)) or row.version not in (None, name.version):
        return False
    if row.model == ("*",):
        return True
    if not row.model:
        return not name.model
    return name.line in (row.line or ("",)) and any(_number_fits(mask, row.suffix, name.model) for mask in row.model)


def _number_fits(mask: str, suffix: tuple[str, ...] | None, model: str) -> bool:
    low, dash, high = mask.partition("-")
    if dash:
        digits = "".join(itertools.takewhile(str.isdigit, model))
        alike = len(digits) == len(low) and low <= digits <= high
    else:
        alike = len(model) >= len(mask) and all(map(_char_fits, mask, model))
    tail = model[len(low) :]
    return alike and (tail in suffix if suffix is not None else not tail[:1].isdigit())


def _char_fits(mask: str, char: str) -> bool:
    return char.isdigit() if mask == "#" else char.isalpha() if mask == "?" else mask == char


def find_cpu(text: str, facts: Facts) -> str:
    """``ivybridge`` of "Xeon E5-2690 v2"; :class:`BadInput` with a suggestion if nothing fits."""
    lowered = " ".join(text.lower().replace("(r)", " ").replace("(tm)", " ").split())
    table = facts.cpu.microarchitecture
    for spelling in (lowered, re.sub(r"[\s-]+", "_", lowered), re.sub(r"[\s_-]+", "", lowered)):
        if spelling in table:
            return spelling
    if family := _FAMILIES.get(lowered):
        return family
    name = take_apart(text)
    if row := next((row for row in facts.cpu.name if fits(row, name)), None):
        return row.microarchitecture
    import difflib

    near = " or ".join(difflib.get_close_matches(lowered, table, n=2))
    hint = f"did you mean {near}?" if near else "name its microarchitecture (ivybridge, zen2, aarch64)"
    raise BadInput(f"no CPU called {text!r} is known", remedy=hint)


def microarchitecture(name: str | None, facts: Facts) -> Microarchitecture | None:
    """The row of a microarchitecture by its own name; None where there is none."""
    return facts.cpu.microarchitecture.get(name) if name else None  # without a name, spare the start-up the table


def match_microarchitecture(
    facts: Facts, machine: str, vendor: str | None, features: Collection[str], part: str = ""
) -> str | None:
    """The most specific microarchitecture of which every feature is here; ``part`` is an Arm core's number."""
    if machine not in ("x86_64", "aarch64") or not features:
        return None
    # The kernel calls SSE3 by Intel's code name for it.
    have = {*features, *(("sse3",) if "pni" in features else ())}
    table = facts.cpu.microarchitecture
    fitting = {
        name
        for name, row in table.items()
        if row.family == machine
        and row.vendor in (vendor, "generic")
        and have.issuperset(row.features)
        # Another core of the same maker may execute the same code, but it is not this one.
        and (not part or not row.part or row.part == part)
        # The generic ARM levels list no features, so everything would be the newest of them.
        and (machine != "aarch64" or row.vendor != "generic" or name == "aarch64")
    }
    if not fitting:
        return None
    lines = {name: _ancestry(name, facts) for name in fitting}
    levels = [name for name in fitting if table[name].vendor == "generic"]
    generic = max(levels, key=lambda name: len(lines[name]), default=None)
    if exact := {name for name in fitting if table[name].part == part}:
        fitting = exact
    # A niche feature switched off by firmware must not push a machine below its generic level.
    elif generic is not None:
        fitting = {name for name in fitting if generic in lines[name] and name != generic} or {generic}
    return max(sorted(fitting), key=lambda name: (len(lines[name]), len(table[name].features)))


def _ancestry(name: str, facts: Facts) -> set[str]:
    """A microarchitecture and all that it descends from."""
    row = facts.cpu.microarchitecture.get(name)
    return {name}.union(*(_ancestry(parent, facts) for parent in (row.parents if row else ())))
