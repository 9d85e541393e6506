"""AMD cards: by the kernel's compute topology (kfd), by rocminfo, else by their PCI numbers."""

import re
from collections.abc import Iterator, Mapping, Sequence

from rekindle.doctor.pci import PciCard, chip_of, gpu_by_number
from rekindle.host.asking import Asking
from rekindle.host.text import key_values, text_of
from rekindle.model.arch import Gfx, parse_gfx
from rekindle.model.machine import Gpu
from rekindle.model.spoken import gib
from rekindle.readiness.case import Cards


def find_amd(host: Asking, cards: Sequence[PciCard]) -> Cards:
    """The cards of these that are AMD's, with driver and trouble."""
    ours = [card for card in cards if card.vendor == "amd"]
    by_kfd = tuple(_read_kfd(host, ours)) if host.system == "linux" else ()
    if not by_kfd and (host.which("rocminfo") or host.glob("/opt/rocm/bin/rocminfo")):
        by_kfd = _ask_rocminfo(host)
    slots = {gpu.pci_slot for gpu in by_kfd}
    others = tuple(gpu_by_number(card) for card in ours if card.slot not in slots or card.slot is None)
    gpus = by_kfd + (others if not by_kfd or slots - {None} else ())
    trouble = None
    if ours and not by_kfd and host.system == "linux":
        trouble = f"the card runs on {ours[0].driver or 'no driver'}, not on amdgpu"
        if ours[0].driver == "amdgpu":
            trouble = "the amdgpu driver is loaded but offers no compute (no /sys/class/kfd)"
    elif by_kfd and by_kfd[0].how == "kfd":
        # The cards are listed; may this user compute on them?
        may = host.access("/dev/kfd")
        trouble = None if may else "this user may not use /dev/kfd (it belongs to the group render)"
        if may is None:
            trouble = "there is no /dev/kfd (a container started without --device=/dev/kfd --device=/dev/dri?)"
    return Cards(gpus=gpus, driver=_find_driver(host, ours), trouble=trouble)


def _find_driver(host: Asking, cards: Sequence[PciCard]) -> str | None:
    if host.system == "windows":
        return next((card.driver_version for card in cards if card.driver_version), None)
    if version := text_of(host.read("/sys/module/amdgpu/version")).strip():
        return version
    # The driver that comes with the kernel has no version of its own.
    if any(card.driver == "amdgpu" for card in cards):
        return f"kernel {text_of(host.read('/proc/sys/kernel/osrelease')).strip()}".strip()
    return None


def gfx_of(target: int) -> Gfx | None:
    """kfd's ``gfx_target_version``: 90006 is gfx906, 90010 gfx90a, 100301 gfx1031, 110000 gfx1100."""
    return Gfx(f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}") if target else None


def _read_kfd(host: Asking, cards: Sequence[PciCard]) -> Iterator[Gpu]:
    for path in host.glob("/sys/class/kfd/kfd/topology/nodes/*/properties"):
        values = key_values(text_of(host.read(path)), " ")
        if _number(values, "vendor_id") != 0x1002:
            continue
        # location_id packs bus, device and function, as the kernel's pci_dev_id does.
        location, domain, slot = values.get("location_id", ""), values.get("domain", "0"), None
        if location.isdigit() and domain.isdigit():
            number = int(location)
            slot = f"{int(domain):04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
        card = next((card for card in cards if card.slot == slot), None)
        pci_id = f"1002:{_number(values, 'device_id'):04x}"
        gfx = gfx_of(_number(values, "gfx_target_version"))
        name, arch = chip_of(pci_id, revision=card.revision if card else None)
        memory = gib(card.memory if card else None) or _bank_memory(host, path)
        yield Gpu(vendor="amd", name=name, arch=gfx or arch, memory_gib=memory, how="kfd", pci_id=pci_id, pci_slot=slot)


def _number(values: Mapping[str, str], name: str) -> int:
    """Zero where the kernel does not say, or what it says is no number."""
    text = values.get(name, "")
    return int(text) if text.isdecimal() else 0


def _bank_memory(host: Asking, properties: str) -> float | None:
    paths = host.glob(properties.removesuffix("properties") + "mem_banks/*/properties")
    banks = [key_values(text_of(host.read(path)), " ") for path in paths]
    # heap types 1 and 2 are the card's own memory (public and private frame buffer).
    sizes = [bank.get("size_in_bytes", "") for bank in banks if bank.get("heap_type") in ("1", "2")]
    known = [int(size) for size in sizes if size.isdigit()]
    return gib(sum(known)) if known else None


def _ask_rocminfo(host: Asking) -> tuple[Gpu, ...]:
    done = host.run([host.which("rocminfo") or "/opt/rocm/bin/rocminfo"], timeout=host.left(4))
    gpus = []
    for block in re.split(r"^\*+\s*\nAgent \d+\s*\n\*+\s*$", done.out, flags=re.MULTILINE):
        values = key_values(block, ":")
        if values.get("Device Type") != "GPU" or not values.get("Name", "").startswith("gfx"):
            continue
        chip = re.match(r"\d+", values.get("Chip ID", ""))
        pool = re.search(r"Segment:\s+GLOBAL.*?\n\s*Size:\s+(\d+)\(", block)
        name, arch = values.get("Marketing Name") or None, parse_gfx(values["Name"])
        memory = gib(int(pool[1]) * 1024) if pool else None
        pci_id = f"1002:{int(chip[0]):04x}" if chip else None
        gpus.append(Gpu(vendor="amd", name=name, arch=arch, memory_gib=memory, how="rocminfo", pci_id=pci_id))
    if not gpus:
        first = next(iter((done.err.strip() or done.out.strip()).splitlines()), f"exit {done.code}")
        host.gap("rocminfo", "it did not answer in time" if done.timed_out else first)
    return tuple(gpus)
