"""CPU microarchitectures as archspec knows them; ``cpu.toml`` lies over these rows, field by field. archspec is read as
the JSON files it ships: importing its package takes forty times as long as reading them."""

import functools
import importlib.util
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.model.machine import Microarchitecture
from rekindle.model.version import Key, key

_FAMILIES = ("x86_64", "aarch64")
# The day on which the rows of archspec 0.2.7 were read and held against our own.
_DATE = "2026-11-15"


@functools.cache
def read_archspec(name: str) -> dict[str, Any]:
    """One of archspec's files: ``microarchitectures`` or ``cpuid``."""
    if (spec := importlib.util.find_spec("archspec")) is None or not spec.submodule_search_locations:
        raise BadInput("the package archspec, which knows the CPUs, is missing", remedy="pip install archspec")
    path = Path(next(iter(spec.submodule_search_locations))) / "json" / "cpu" / f"{name}.json"
    content: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return content


def arm_vendor(code: str) -> str | None:
    """The maker behind an implementer's number such as ``0x41``; the number itself where nobody knows it."""
    return str(read_archspec("microarchitectures")["conversions"]["arm_vendors"].get(code, code)) or None


@functools.cache
def archspec_rows() -> dict[str, dict[str, Any]]:
    """Each microarchitecture of x86-64 and AArch64 as a row of the table, with the features of its ancestors."""
    table = read_archspec("microarchitectures")["microarchitectures"]
    return {name: _make_row(name, table) for name in table if (name, *_ancestors(name))[-1] in _FAMILIES}


@functools.cache
def archspec_microarchitectures() -> dict[str, Microarchitecture]:
    """The same rows, typed, without ours: the generations that archspec's levels order."""
    return {name: msgspec.convert(row, Microarchitecture) for name, row in archspec_rows().items()}


@functools.cache
def _ancestors(name: str) -> tuple[str, ...]:
    """All that a microarchitecture descends from; the most specific first, the family last."""
    parents = read_archspec("microarchitectures")["microarchitectures"][name]["from"]
    met = dict.fromkeys([*parents, *(older for parent in parents for older in _ancestors(parent))])
    return tuple(sorted(met, key=lambda other: -len(_ancestors(other))))


def _make_row(name: str, table: dict[str, Any]) -> dict[str, Any]:
    line = (name, *_ancestors(name))
    features = {feature for other in line for feature in table[other]["features"]}
    if "ssse3" in features:
        features.add("sse3")  # archspec leaves it out where SSSE3 is there, and says so in its aliases
    compilers = table[name].get("compilers", {})
    return {
        "vendor": table[name]["vendor"],
        "family": line[-1],
        "level": next(other for other in line if table[other]["vendor"] == "generic"),
        "features": sorted(features),
        "parents": table[name]["from"],
        "part": table[name].get("cpupart"),
        "flags": {kind: _newest_flags(name, compilers[kind]) for kind in ("gcc", "clang") if kind in compilers},
        "source": [f"archspec, target {name}"],
        "date": _DATE,
        "how": "documented",
    }


def _newest_flags(name: str, rows: list[dict[str, str]]) -> str:
    """What the newest compiler takes: each row is for a span of versions such as ``4.9:`` or ``4.6:4.8.5``."""

    def span(row: dict[str, str]) -> tuple[bool, Key]:
        first, _, last = row["versions"].partition(":")
        return not last, key(first or "0")

    newest = max(rows, key=span)
    return newest["flags"].format(name=newest.get("name", name))
