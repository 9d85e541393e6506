"""From instruction sets to CPUs: which levels and which oldest microarchitectures have them (archspec's tables)."""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.compat.processor import FEATURES, missing

_LEVELS = {"x86_64": ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4"), "aarch64": ("aarch64",)}
_VENDORS = ("GenuineIntel", "AuthenticAMD", "ARM", "Cavium", "Fujitsu", "AMPERE")


def oldest(isa: Iterable[str], machine: str) -> tuple[str, ...]:
    """Per vendor, the plainest microarchitecture that has all of these instruction sets."""
    import archspec.cpu

    wanted = list(isa)
    targets = archspec.cpu.TARGETS
    family = [target for target in targets.values() if target.family.name == machine and target.vendor in _VENDORS]
    fit = {target.name for target in family if not missing(wanted, _features(target))}
    out = []
    for vendor in _VENDORS:
        mine = [target for target in family if target.name in fit and target.vendor == vendor]
        if mine:
            out.append(min(mine, key=lambda target: (len(_features(target)), target.name)).name)
    return tuple(out)


def _features(target: object) -> set[str]:
    found: set[str] = set(target.features)  # type: ignore[attr-defined]
    for ancestor in target.ancestors:  # type: ignore[attr-defined]
        found |= set(ancestor.features)
    return found


def runs_from(isa: Iterable[str], machine: str) -> str | None:
    """The lowest x86-64 level with all of it; a microarchitecture's name where a level would ask too much."""
    import archspec.cpu

    wanted = list(isa)
    if machine not in _LEVELS:
        return None
    if machine == "aarch64":
        return "armv8-a" + "".join(f"+{name}" for name in sorted(wanted))
    level = next(
        (name for name in _LEVELS[machine] if not missing(wanted, _features(archspec.cpu.TARGETS[name]))), None
    )
    intel = [name for name in oldest(wanted, machine) if archspec.cpu.TARGETS[name].vendor == "GenuineIntel"]
    if level is not None:
        first = [
            name for name in oldest(_isa_of(level), machine) if archspec.cpu.TARGETS[name].vendor == "GenuineIntel"
        ]
        if not intel or intel == first or level == "x86_64":
            return level.replace("_v", "-v").replace("x86_64", "x86-64")
    return intel[0] if intel else None


def beyond(isa: Iterable[str], level: str | None, machine: str) -> frozenset[str]:
    """What a CPU of this level need not have."""
    import archspec.cpu

    wanted = set(isa)
    if machine == "aarch64" or level is None:
        return frozenset(wanted - set((level or "").split("+")))
    target = archspec.cpu.TARGETS[level.replace("x86-64", "x86_64").replace("-v", "_v")]
    return frozenset(missing(wanted, _features(target)))


def _isa_of(level: str) -> list[str]:
    import archspec.cpu

    have = _features(archspec.cpu.TARGETS[level])
    return [name for name, features in FEATURES.items() if have.intersection(features)]
