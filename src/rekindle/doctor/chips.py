"""Which chip a PCI number or a product name stands for, by the facts tables."""

from __future__ import annotations

import msgspec

from rekindle.doctor.pci import PciCard
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.gpus import by_pci_id, find_gpu
from rekindle.model.arch import GpuArch
from rekindle.model.machine import Gpu
from rekindle.model.spoken import gib


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None
    arch: GpuArch | None
    chip: str | None = None


def chip_of(pci_id: str | None, name: str | None = None, *, revision: str | None = None) -> Chip | None:
    """None where the tables know neither the number nor, failing that, the product name."""
    try:
        if pci_id is not None:
            vendor, _, device = pci_id.partition(":")
            found = by_pci_id(vendor, device, load_facts(), revision=revision)
            return Chip(name=found.name, arch=found.archs[0], chip=found.chips[0] if found.chips else None)
    except BadInput:
        pass
    try:
        if name:
            found = find_gpu(name, load_facts())
            # One name, several chips: only the number could tell, so the architecture stays unknown.
            return Chip(name=found.name, arch=found.archs[0] if len(found.archs) == 1 else None)
    except BadInput:
        pass
    return None


def gpu_by_number(card: PciCard) -> Gpu:
    """A card of which nothing but its PCI number is known: no driver answers for it."""
    chip = chip_of(card.pci_id, revision=card.revision)
    return Gpu(
        vendor=card.vendor,
        name=(chip.name if chip else None) or card.name,
        arch=chip.arch if chip else None,
        memory_gib=gib(card.memory),
        how="pci",
        pci_id=card.pci_id,
        pci_slot=card.slot,
    )
