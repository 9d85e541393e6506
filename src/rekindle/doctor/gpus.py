"""All graphics cards of the machine, of every vendor, with their drivers.

On NVIDIA's Tegra boards the GPU is no PCI device, so the device tree names the chip.
"""

import re
from collections.abc import Sequence

from rekindle.doctor.amd import find_amd
from rekindle.doctor.nvidia import find_nvidia
from rekindle.doctor.pci import PciCard, find_cards, gpu_by_number
from rekindle.facts import load_facts
from rekindle.host.asking import Asking
from rekindle.host.text import text_of
from rekindle.model.machine import Gpu
from rekindle.readiness.case import Cards, Graphics

_COMPATIBLE = "/proc/device-tree/compatible"


def probe_gpus(host: Asking) -> Graphics:
    """The cards, and what is wrong with their drivers."""
    cards = find_cards(host)
    nvidia = find_jetson(host)
    if not nvidia.gpus:
        nvidia = find_nvidia(host, cards)
    return Graphics(nvidia=nvidia, amd=find_amd(host, cards), intel=find_intel(host, cards))


def find_intel(host: Asking, cards: Sequence[PciCard]) -> Cards:
    """Intel's GPUs by their PCI numbers, with the driver: Windows' own number, else the kernel's module."""
    ours = [card for card in cards if card.vendor == "intel"]
    drivers = [card.driver_version if host.system == "windows" else card.driver for card in ours]
    trouble = None
    if host.system == "linux" and any(drivers) and not host.glob("/usr/lib*/**/libze_intel_gpu.so*"):
        trouble = "Intel's compute driver (libze-intel-gpu1, Level Zero) is not installed: torch.xpu sees no device"
    return Cards(
        gpus=tuple(gpu_by_number(card) for card in ours), driver=next(filter(None, drivers), None), trouble=trouble
    )


def find_jetson(host: Asking) -> Cards:
    """The board's GPU and its L4T release; nothing on any other machine."""
    if host.system != "linux" or host.machine != "aarch64":
        return Cards()
    names = text_of(host.read(_COMPATIBLE)).split("\0")
    if not any(name.startswith("nvidia,tegra") for name in names):
        return Cards()
    rows = [row for row in load_facts().nvidia.jetson if row.device_tree in names]
    model = text_of(host.read("/proc/device-tree/model")).strip("\0 \n")
    # Boards of one chip differ in memory and clocks, not in architecture; the firmware knows the board's name.
    row = next((row for row in rows if row.name.lower() in model.lower()), rows[0] if rows else None)
    if row is None:
        host.gap("Tegra GPU", f"no table knows {', '.join(filter(None, names))}")
    gpu = Gpu(
        vendor="nvidia",
        name=model.removeprefix("NVIDIA ").strip() or (row.name if row else None),
        arch=row.arch if row else None,
        how="device-tree",
        note="shares the memory of the system",
    )
    return Cards(gpus=(gpu,), l4t=_l4t(host))


def _l4t(host: Asking) -> str | None:
    """``# R36 (release), REVISION: 4.3, GCID: …`` → ``36.4.3``: Tegra's driver comes with the board's system."""
    match = re.search(r"R(\d+) \(release\), REVISION: (\d+(?:\.\d+)*)", text_of(host.read("/etc/nv_tegra_release")))
    if match is None:
        host.gap("L4T release", "there is no /etc/nv_tegra_release (not NVIDIA's system, or a bare container)")
        return None
    return f"{match[1]}.{match[2]}"
