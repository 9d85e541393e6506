"""From what people call a GPU to its architecture: product name, chip, PCI id, ``sm_86`` or ``gfx1030``.

A marketing name may have been used for several chips; then all their architectures are returned, because only
the PCI id can tell which one is in the box.
"""

from __future__ import annotations

import functools
import re
from typing import Literal, NamedTuple

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, GpuArch, Sm, parse_gpu_arch
from rekindle.model.facts import Chip
from rekindle.model.machine import Vendor

_PCI = re.compile(r"(?:0x)?(10de|1002)[:\s](?:0x)?([0-9a-f]{4})(?::([0-9a-f]{2}))?")
_DOTTED = re.compile(r"\d{1,2}\.\d")
_NOISE = re.compile(
    r"\b(nvidia|amd|ati|advanced micro devices|corporation|inc|geforce|graphics|gpu|card|series|adapter|edition)\b"
    r"|\(r\)|\(tm\)|\b\d+ ?(gb|gib|mib|mb)\b|[®™\[\](),]"
)
_LINE = re.compile(r"^(tesla|radeon|quadro|instinct|firepro|jetson)+(pro)?")
_INTEL = re.compile(r"\bintel\b|\barc\b.*\b[ab]\d{2,3}|\b(iris|uhd graphics)\b")
_LAPTOP = re.compile(r"\b(laptop|notebook)\b")


class FoundGpu(NamedTuple):
    vendor: Vendor
    name: str
    archs: tuple[GpuArch, ...]
    chips: tuple[str, ...]
    tegra: bool = False


def plain(name: str) -> str:
    """A product name without vendor words, sizes, spaces and case: ``rtx3050mobile``."""
    text = _NOISE.sub(" ", _LAPTOP.sub("mobile", name.lower()))
    return re.sub(r"[^a-z0-9+]+", "", text)


@functools.lru_cache(maxsize=4)
def _loose_index(facts: Facts) -> dict[str, list[tuple[str, str, str, Chip]]]:
    """The same without the line's name, for people who say "K80", "RX 6800" or "Vega 64"."""
    table: dict[str, list[tuple[str, str, str, Chip]]] = {}
    for name, hits in _index(facts).items():
        for spelling in {_LINE.sub("", name), _LINE.sub("", name).removeprefix("rx")}:
            table.setdefault(spelling, []).extend(hits)
    return table


@functools.lru_cache(maxsize=4)
def _index(facts: Facts) -> dict[str, list[tuple[str, str, str, Chip]]]:
    """plain name → (vendor, product, chip name, chip), over both vendors."""
    table: dict[str, list[tuple[str, str, str, Chip]]] = {}
    for vendor, chips in (("nvidia", facts.nvidia.chip), ("amd", facts.amd.chip)):
        for chip_name, chip in chips.items():
            for product in chip.products:
                table.setdefault(plain(product), []).append((vendor, product, chip_name, chip))
            table.setdefault(plain(chip_name), []).append((vendor, chip_name, chip_name, chip))
    return table


def find_gpu(text: str, facts: Facts) -> FoundGpu:
    """The GPU a user names; :class:`BadInput` with the nearest names if there is none.

    Several architectures come newest first: a marketing name outlives its first chip, seldom the other way.
    """
    wanted = text.strip()
    lowered = wanted.lower()
    if found := _by_arch(lowered, facts):
        return found
    if match := _PCI.fullmatch(lowered):
        return by_pci_id(match[1], match[2], facts, revision=match[3])
    if found := _jetson(wanted, facts):
        return found
    if _INTEL.search(lowered):
        return FoundGpu("intel", wanted, (), ())
    index = _index(facts)
    key = plain(wanted)
    if not key:
        raise BadInput(f"{text!r} names no GPU", remedy='write a product name ("GeForce GTX 970"), sm_52 or gfx1030')
    if hits := index.get(key):
        return _joined(wanted, hits)
    if hits := _loose_index(facts).get(_LINE.sub("", key)):
        return _joined(wanted, hits)
    longer = [hit for name, hits in index.items() if name.startswith(key) for hit in hits]
    if not longer and len(key) >= 4:
        longer = [hit for name, hits in index.items() if key in name for hit in hits]
    if longer and len({hit[3].arch for hit in longer}) == 1:
        return _joined(wanted, longer)
    raise BadInput(f"no GPU called {text!r} is known", remedy=_suggest(key, index, longer))


def _suggest(
    key: str, index: dict[str, list[tuple[str, str, str, Chip]]], longer: list[tuple[str, str, str, Chip]]
) -> str:
    import difflib

    names = list(dict.fromkeys(hit[1] for hit in longer))[:4]
    if not names:
        # With the line's name too ("geforcertx3060"): a misspelt "GeForse" must not hide the number behind it.
        spelt = {re.sub(r"[^a-z0-9+]+", "", hits[0][1].lower()): hits[0][1] for hits in index.values()}
        spelt |= {name: hits[0][1] for name, hits in index.items()}
        near = difflib.get_close_matches(key, spelt, n=3, cutoff=0.7)
        names = list(dict.fromkeys(spelt[name] for name in near))
    if names:
        return "did you mean " + " or ".join(repr(name) for name in names) + "?"
    return "give its architecture instead (sm_86 or gfx1030), or its PCI id (10de:1024)"


def _by_arch(text: str, facts: Facts) -> FoundGpu | None:
    if not (text.startswith(("sm_", "gfx", "compute_")) or _DOTTED.fullmatch(text)):
        return None
    try:
        arch = parse_gpu_arch(text)
    except ValueError as error:
        raise BadInput(f"{error}") from None
    if arch == Sm(10, 1):
        arch = Sm(11, 0)  # Thor: CUDA 12.8 and 12.9 called it sm_101
    vendor: Literal["nvidia", "amd"] = "nvidia" if isinstance(arch, Sm) else "amd"
    return FoundGpu(vendor, text, (arch,), (), tegra=isinstance(arch, Sm) and facts.is_tegra(arch))


def by_pci_id(vendor_id: str, device_id: str, facts: Facts, *, revision: str | None = None) -> FoundGpu:
    """Exact: the PCI id names one chip."""
    vendor: Literal["nvidia", "amd"] = "nvidia" if vendor_id == "10de" else "amd"
    chips = facts.nvidia.chip if vendor == "nvidia" else facts.amd.chip
    full = f"{device_id}:{revision}" if revision else None
    for chip_name, chip in chips.items():
        known = [name for name, ids in chip.products.items() if device_id in _devices(ids)]
        if known or device_id in _devices(chip.ids):
            exact = [name for name in known if full and full in chip.products[name].split()]
            name = (exact or known or [chip_name])[0]
            return FoundGpu(vendor, name, (parse_gpu_arch(chip.arch),), (chip_name,))
    raise BadInput(
        f"no {vendor} device {vendor_id}:{device_id} is known",
        remedy="give its architecture instead (sm_86 or gfx1030)",
    )


def _devices(ids: str) -> set[str]:
    return {part.split(":")[0] for part in ids.split()}


def _jetson(text: str, facts: Facts) -> FoundGpu | None:
    key = plain(text)
    for row in facts.nvidia.jetson:
        if key in {plain(name) for name in (row.name, *row.aliases)}:
            return FoundGpu("nvidia", row.name, (row.arch,), (row.chip,), tegra=row.name.startswith("Jetson"))
    return None


def jetson_cuda(arch: Sm, facts: Facts) -> tuple[str, ...]:
    """The CUDA versions JetPack offers for a Tegra architecture; empty if it is none."""
    for row in facts.nvidia.jetson:
        if row.arch == arch and row.cuda:
            return row.cuda
    return ()


def sort_key(arch: GpuArch | None) -> tuple[int, int, str]:
    """Older before newer, within a vendor; unknown first."""
    if isinstance(arch, Sm):
        return arch.major, arch.minor, arch.suffix
    if isinstance(arch, Gfx):
        number, rest = arch.order
        return number, 0, rest
    return -1, 0, ""


def _joined(wanted: str, hits: list[tuple[str, str, str, Chip]]) -> FoundGpu:
    vendors = {hit[0] for hit in hits}
    vendor: Literal["nvidia", "amd"] = "nvidia" if "nvidia" in vendors else "amd"
    mine = [hit for hit in hits if hit[0] == vendor]
    archs = tuple(sorted({parse_gpu_arch(hit[3].arch) for hit in mine}, reverse=True, key=sort_key))
    names = {hit[1] for hit in mine}
    name = next(iter(names)) if len(names) == 1 else wanted
    return FoundGpu(vendor, name, archs, tuple(dict.fromkeys(hit[2] for hit in mine)))
