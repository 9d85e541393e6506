"""What goes beside torch: which torchvision and torchaudio exist for a release, an index, a platform and a Python."""

from __future__ import annotations

from typing import NamedTuple

from rekindle.facts import Facts
from rekindle.model.facts import CompanionWheel, Platform
from rekindle.model.spoken import capital

PACKAGES = ("torchvision", "torchaudio")


class Companion(NamedTuple):
    """One package beside torch. ``exists`` is None where nobody knows; ``why`` says what is missing or unknown."""

    package: str
    version: str | None
    exists: bool | None
    why: str | None
    source: tuple[str, ...]


def companions(
    facts: Facts, torch: str, flavour: str, platform: Platform, python: str, *, pypi: bool = False
) -> tuple[Companion, ...]:
    """The companions of a torch wheel; ``pypi`` where the line to paste names no index."""
    return tuple(_answer(name, facts, torch, flavour, platform, python, pypi=pypi) for name in PACKAGES)


def _answer(
    package: str, facts: Facts, torch: str, flavour: str, platform: Platform, python: str, *, pypi: bool
) -> Companion:
    row = next((row for row in facts.companions.companion if row.package == package and torch in row.torch), None)
    if row is None:
        known = facts.release(torch) is not None
        why = f"No {package} was released for torch {torch}." if known else f"torch {torch} is not in the tables."
        return Companion(package, None, False if known else None, why, ())
    exists, missing = _exists(row, flavour, platform, python, pypi=pypi)
    return Companion(package, row.version, exists, missing, row.source)


def _exists(
    row: CompanionWheel, flavour: str, platform: Platform, python: str, *, pypi: bool
) -> tuple[bool | None, str | None]:
    name = f"{row.package} {row.version}"
    if flavour in row.absent:
        return False, f"{name} was never built for {flavour}."
    if not pypi and flavour not in row.indexes:
        return None, f"Whether the {flavour} index has {name} is not known."
    pythons = row.pypi.get(platform, ()) if pypi else row.pythons.get(platform) or row.pypi.get(platform, ())
    if not pythons or (not pypi and f"{flavour} {platform}" in row.lacks):
        where = "PyPI" if pypi else f"the {flavour} index"
        return False, f"{capital(where)} has no {name} for {platform.replace('_', ' ')}."
    if python not in pythons:
        return False, f"{name} has no wheel for Python {python} (it has {', '.join(pythons)})."
    return True, None
