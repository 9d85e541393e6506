"""Graphics cards on the PCI bus, with no driver at all: their numbers by sysfs or the registry, and by the facts tables
which chip a number or a product name stands for; Intel's are known by no more than that."""

import contextlib
import re
from collections.abc import Iterator, Sequence

import msgspec

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.gpus import VENDOR_NUMBERS, find_by_pci_id, find_gpu
from rekindle.host.asking import Asking
from rekindle.host.text import key_values, text_of
from rekindle.model.arch import GpuArch
from rekindle.model.machine import Gpu, Vendor
from rekindle.model.spoken import gib
from rekindle.readiness.case import Cards

# PCI class 0x03: display controllers (VGA, XGA, 3D). AMD Instinct cards also call themselves 0x12, accelerator.
_CLASSES = ("03", "12")
_ENUM = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
_NUMBERS = re.compile(r"ven_([0-9a-f]{4})&dev_([0-9a-f]{4})")
_DISPLAY = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"


class PciCard(msgspec.Struct, frozen=True, kw_only=True):
    vendor: Vendor
    pci_id: str
    slot: str | None = None
    driver: str | None = None
    driver_version: str | None = None
    name: str | None = None
    memory: int | None = None
    revision: str | None = None


def find_cards(host: Asking) -> tuple[PciCard, ...]:
    """Every card of a vendor that the tables know."""
    if host.system != "windows":
        return tuple(_list_sysfs(host))
    return tuple(_list_registry(host)) or tuple(_list_bus(host))


def _list_sysfs(host: Asking) -> Iterator[PciCard]:
    for path in host.glob("/sys/bus/pci/devices/*/uevent"):
        values = key_values(text_of(host.read(path)))
        vendor, _, device = values.get("PCI_ID", "").lower().partition(":")
        # Leading zeros are left out: 30200 is class 03, subclass 02.
        kind = values.get("PCI_CLASS", "").zfill(6)[:2]
        if kind not in _CLASSES or vendor not in VENDOR_NUMBERS:
            continue
        revision = text_of(host.read(path.removesuffix("uevent") + "revision")).strip().removeprefix("0x")
        memory = text_of(host.read(path.removesuffix("uevent") + "mem_info_vram_total")).strip()
        yield PciCard(
            vendor=VENDOR_NUMBERS[vendor],
            pci_id=f"{vendor}:{device}",
            slot=values.get("PCI_SLOT_NAME"),
            driver=values.get("DRIVER"),
            memory=int(memory) if memory.isdigit() else None,
            revision=revision or None,
        )


def _list_registry(host: Asking) -> Iterator[PciCard]:
    """The display class: one key per adapter that Windows has, with a driver or without."""
    top = host.registry(_DISPLAY)
    for number in top.keys if top else ():
        if not number.isdigit() or (key := host.registry(rf"{_DISPLAY}\{number}")) is None:
            continue
        match = _NUMBERS.search(str(key.values.get("MatchingDeviceId", "")).lower())
        if match is None or match[1] not in VENDOR_NUMBERS:
            continue
        memory = key.values.get("HardwareInformation.qwMemorySize")
        yield PciCard(
            vendor=VENDOR_NUMBERS[match[1]],
            pci_id=f"{match[1]}:{match[2]}",
            driver=str(key.values.get("ProviderName", "")) or None,
            driver_version=str(key.values.get("DriverVersion", "")) or None,
            name=str(key.values.get("DriverDesc", "")) or None,
            memory=memory if isinstance(memory, int) else None,
        )


def _list_bus(host: Asking) -> Iterator[PciCard]:
    """Without a vendor's driver Windows shows its basic adapter only; the bus's own list still has the numbers."""
    top = host.registry(_ENUM)
    for name in top.keys if top else ():
        match = _NUMBERS.match(name.lower())
        if match is None or match[1] not in VENDOR_NUMBERS:
            continue
        instances = host.registry(rf"{_ENUM}\{name}")
        for instance in instances.keys if instances else ():
            key = host.registry(rf"{_ENUM}\{name}\{instance}")
            if key is not None and re.search(r"cc_(03|12)", str(key.values.get("CompatibleIDs", "")).lower()):
                yield PciCard(vendor=VENDOR_NUMBERS[match[1]], pci_id=f"{match[1]}:{match[2]}")


def chip_of(
    pci_id: str | None, name: str | None = None, *, revision: str | None = None
) -> tuple[str | None, GpuArch | None]:
    """A product and its architecture: by the number, or failing that by the product's name; None where unknown."""
    if pci_id is not None:
        vendor, _, device = pci_id.partition(":")
        with contextlib.suppress(BadInput):
            row = find_by_pci_id(vendor, device, load_facts(), revision=revision)
            return row.name, row.archs[0]
    if name:
        with contextlib.suppress(BadInput):
            row = find_gpu(name, load_facts())
            # One name, several chips: only the number could tell, so the architecture stays unknown.
            return row.name, row.archs[0] if len(row.archs) == 1 else None
    return None, None


def gpu_by_number(card: PciCard) -> Gpu:
    """A card of which nothing but its PCI number is known: no driver answers for it."""
    name, arch = chip_of(card.pci_id, revision=card.revision)
    gpu = Gpu(vendor=card.vendor, name=name or card.name, arch=arch, memory_gib=gib(card.memory), how="pci")
    return msgspec.structs.replace(gpu, pci_id=card.pci_id, pci_slot=card.slot)


def find_intel(host: Asking, cards: Sequence[PciCard]) -> Cards:
    """Intel's GPUs by their PCI numbers, with the driver: Windows' own number, else the kernel's module."""
    ours = [card for card in cards if card.vendor == "intel"]
    drivers = [card.driver_version if host.system == "windows" else card.driver for card in ours]
    trouble = None
    if host.system == "linux" and any(drivers) and not host.glob("/usr/lib*/**/libze_intel_gpu.so*"):
        trouble = "Intel's compute driver (libze-intel-gpu1, Level Zero) is not installed: torch.xpu sees no device"
    return Cards(gpus=tuple(map(gpu_by_number, ours)), driver=next(filter(None, drivers), None), trouble=trouble)
