"""What the world allows, as sourced tables, each read when it is first asked for. Lookups by GPU name and PCI id are in
:mod:`rekindle.facts.gpus`, by CPU name in :mod:`rekindle.compat.cpu_names`."""

import functools
import os
from pathlib import Path
from typing import NamedTuple

from rekindle.errors import BadInput
from rekindle.facts.tables import FILES, Facts
from rekindle.model.facts import CompanionWheel, Platform
from rekindle.model.spoken import capital

__all__ = ["FILES", "PAIRED_PACKAGES", "Facts", "PairedCompanion", "load_facts", "paired_companions"]
PAIRED_PACKAGES = ("torchvision", "torchaudio")


@functools.lru_cache(maxsize=4)
def _facts_over(setting: str | None) -> Facts:
    if setting and not Path(setting).is_dir():
        raise BadInput(f"REKINDLE_FACTS names {setting!r}, which is no directory")
    return Facts(Path(setting) if setting else None)


def load_facts() -> Facts:
    """The facts, with the overlay directory of ``REKINDLE_FACTS``."""
    return _facts_over(os.environ.get("REKINDLE_FACTS"))


class PairedCompanion(NamedTuple):
    """One package beside torch. ``exists`` is None where nobody knows; ``why`` says what is missing or unknown."""

    package: str
    version: str | None
    exists: bool | None
    why: str | None
    source: tuple[str, ...]


def paired_companions(
    facts: Facts, torch: str, flavour: str, platform: Platform, python: str, *, pypi: bool = False
) -> tuple[PairedCompanion, ...]:
    """The companions of a torch wheel; ``pypi`` where the line to paste names no index."""
    pairs = []
    for package in PAIRED_PACKAGES:
        row = next((row for row in facts.companions.companion if row.package == package and torch in row.torch), None)
        if row is not None:
            exists, missing = _wheel_exists(row, flavour, platform, python, pypi=pypi)
            pairs.append(PairedCompanion(package, row.version, exists, missing, row.source))
        elif facts.release(torch) is not None:
            pairs.append(PairedCompanion(package, None, False, f"No {package} was released for torch {torch}.", ()))
        else:
            pairs.append(PairedCompanion(package, None, None, f"torch {torch} is not in the tables.", ()))
    return tuple(pairs)


def _wheel_exists(
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
