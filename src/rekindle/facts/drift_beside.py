"""Compares what the index and the wheels of companions say now with the tables; pure, as its neighbour drift."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rekindle.facts import Facts
from rekindle.model.beside import BesideWheel
from rekindle.model.facts import Compared
from rekindle.model.version import compare, key


def newest(facts: Facts, package: str, on_index: Iterable[str]) -> Compared:
    """The last version of a companion on the index against the row of the package."""
    row = facts.beside.package[package]
    found = sorted(set(on_index), key=key)
    if not found:
        return Compared(what=f"{package} newest", outcome="skipped", facts=row.last, note="no index has it")
    later = compare(found[-1], row.last) > 0
    if row.how != "measured" and not later:
        why = "the versions that count are upstream's own, not the index's"
        return Compared(what=f"{package} newest", outcome="skipped", facts=row.last, found=found[-1], note=why)
    note = "the tables do not know it yet" if later else None
    here = row.last in found
    return Compared(
        what=f"{package} newest",
        outcome="new" if later else "agrees" if here else "drift",
        facts=row.last,
        found=found[-1],
        note=note,
        source=row.source[0],
    )


def torch_pin(row: BesideWheel, requires: Iterable[str]) -> Compared:
    """What a wheel itself says about torch, against its row."""
    from packaging.requirements import InvalidRequirement, Requirement

    now = ""
    for text in requires:
        try:
            wish = Requirement(text)
        except InvalidRequirement:
            continue
        if wish.name == "torch" and "extra" not in str(wish.marker or ""):
            now = str(wish.specifier)
    name = f"{row.name or row.package} {row.version} torch"
    if not now:
        note = "its metadata names no versions of torch: the row is from its documentation"
        return Compared(what=name, outcome="skipped", facts=row.torch or None, note=note)
    return Compared(
        what=name, outcome="agrees" if _same(now, row.torch) else "drift", facts=row.torch, found=now,
        source=row.source[0],
    )  # fmt: skip


def _same(left: str, right: str) -> bool:
    try:
        return SpecifierSet(left) == SpecifierSet(right)
    except InvalidSpecifier:
        return left == right


def code(row: BesideWheel, platform: str, found: Iterable[str]) -> Compared:
    """The GPU code inside a wheel against its row."""
    now = sorted(set(found))
    then = sorted(set(row.targets.get(platform, row.targets.get("any", ()))))
    return Compared(
        what=f"{row.name or row.package} {row.version} {platform} code",
        outcome="agrees" if now == then else "drift" if then else "new",
        facts=" ".join(then) or None,
        found=" ".join(now),
        source=row.source[0],
    )


def abi(row: BesideWheel, found: str | None) -> Compared:
    """How the wheel's C++ spells strings, against its row."""
    return Compared(
        what=f"{row.name or row.package} {row.version} C++ ABI",
        outcome="agrees" if found == row.abi else "drift" if row.abi else "new",
        facts=row.abi,
        found=found,
        source=row.source[0],
    )
