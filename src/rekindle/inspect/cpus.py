"""From instruction sets to CPUs: which levels and which oldest microarchitectures have them (archspec's tables)."""

from __future__ import annotations

from collections.abc import Iterable

# Our names of instruction sets -> the feature names of /proc/cpuinfo and archspec. Any one of several will do.
FEATURES: dict[str, tuple[str, ...]] = {
    "sse3": ("sse3", "pni"), "ssse3": ("ssse3",), "sse4.1": ("sse4_1",), "sse4.2": ("sse4_2",), "popcnt": ("popcnt",),
    "cx16": ("cx16",), "movbe": ("movbe",), "aes": ("aes",), "pclmul": ("pclmulqdq",), "sse4a": ("sse4a",),
    "avx": ("avx",), "f16c": ("f16c",), "avx2": ("avx2",), "fma": ("fma",), "bmi1": ("bmi1",), "bmi2": ("bmi2",),
    "lzcnt": ("abm", "lzcnt"), "tzcnt": ("bmi1",), "adx": ("adx",), "sha": ("sha_ni", "sha"), "gfni": ("gfni",),
    "vaes": ("vaes",), "vpclmulqdq": ("vpclmulqdq",), "fma4": ("fma4",), "xop": ("xop",), "tbm": ("tbm",),
    "avx_vnni": ("avx_vnni",), "avx_ne_convert": ("avx_ne_convert",), "avx512": ("avx512f",),
    "avx512_fp16": ("avx512_fp16",), "amx": ("amx_tile",),
    "lse": ("atomics",), "rdm": ("asimdrdm",), "crc32": ("crc32",), "fp16": ("asimdhp", "fphp"),
    "dotprod": ("asimddp",), "fcma": ("fcma",), "jscvt": ("jscvt",), "rcpc": ("lrcpc",), "fp16fml": ("asimdfhm",),
    "i8mm": ("i8mm",), "bf16": ("bf16",), "sve": ("sve",), "sme": ("sme",), "sha2": ("sha2",),
}  # fmt: skip
_LEVELS = {"x86_64": ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4"), "aarch64": ("aarch64",)}
_VENDORS = ("GenuineIntel", "AuthenticAMD", "ARM", "Cavium", "Fujitsu", "AMPERE")


def missing(isa: Iterable[str], features: Iterable[str]) -> list[str]:
    """Instruction sets that a CPU with these features lacks."""
    have = set(features)
    return [name for name in isa if name in FEATURES and not have.intersection(FEATURES[name])]


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
        if not intel or intel == first or level in ("x86_64", "x86_64_v2"):
            return level.replace("_v", "-v").replace("x86_64", "x86-64")
    return intel[0] if intel else None


def _isa_of(level: str) -> list[str]:
    import archspec.cpu

    have = _features(archspec.cpu.TARGETS[level])
    return [name for name, features in FEATURES.items() if have.intersection(features)]
