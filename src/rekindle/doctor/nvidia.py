"""NVIDIA cards: by the management library, else by nvidia-smi, else by their PCI numbers. Drivers up to 470 do not know
the compute-capability query, so it is asked alone and last; the PCI number then names the chip. On Tegra boards the GPU
is no PCI device, so the device tree names the chip."""

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from rekindle.doctor.pci import PciCard, chip_of, gpu_by_number
from rekindle.facts import load_facts
from rekindle.host.asking import Asking
from rekindle.host.text import read_answer, text_of
from rekindle.model.arch import parse_sm
from rekindle.model.machine import Gpu
from rekindle.model.spoken import gib
from rekindle.readiness.case import Cards

_QUERY = "name,pci.bus_id,pci.device_id,driver_version,memory.total"
_SMI_PLACES = {
    "linux": ("/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi", "/opt/bin/nvidia-smi"),
    "windows": (r"C:\Program Files\NVIDIA Corporation\NVSMI\nvidia-smi.exe", r"C:\Windows\System32\nvidia-smi.exe"),
}


class _NvmlDevice(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    compute_capability: str | None = None
    memory: int | None = None
    pci_id: str | None = None
    pci_slot: str | None = None
    error: str | None = None


class _Nvml(msgspec.Struct, frozen=True, kw_only=True):
    driver: str | None = None
    devices: tuple[_NvmlDevice, ...] = ()
    error: str | None = None
    code: int | None = None
    missing: bool = False
    timed_out: bool = False


def find_nvidia(host: Asking, cards: Sequence[PciCard]) -> Cards:
    """The cards of these that are NVIDIA's, with driver and trouble."""
    ours = [card for card in cards if card.vendor == "nvidia"]
    # The version of the kernel module that is loaded (Linux), which an update may have left behind.
    text = text_of(host.read("/proc/driver/nvidia/version")) if host.system == "linux" else ""
    match = re.search(r"(?:Kernel Module(?: for \S+)?)\s+(\d+(?:\.\d+)+)", text)
    loaded = match[1] if match else None
    answer = _Nvml()
    if ours or loaded or _has_library(host):
        # A big server without persistence mode takes seconds here.
        answer = read_answer(host.nvml(timeout=host.left(5)), _Nvml)
    gpus, driver, trouble = tuple(_read_nvml(answer)), answer.driver, None
    for number, device in enumerate(answer.devices):
        if device.error:
            host.gap(f"NVIDIA card {number}", device.error)
    if not gpus:
        # nvidia-smi asks the same library: where that hangs, it hangs too.
        by_tool = Cards() if answer.timed_out else _ask_smi(host)
        gpus, driver = by_tool.gpus, by_tool.driver or driver
        trouble = None if gpus else _nvml_trouble(answer, loaded) or by_tool.trouble
    if not gpus and ours:
        gpus = tuple(map(gpu_by_number, ours))
        trouble = trouble or _why_no_driver(ours, answer)
    elif not gpus:
        trouble = trouble if loaded else None
        if trouble:
            host.gap("NVIDIA driver", trouble)
    # Windows writes driver 470.05 as 27.21.14.7005: the last five digits, with the dot two from the end.
    versions = [card.driver_version for card in ours if card.driver_version and card.driver == "NVIDIA"]
    endings = [version.replace(".", "")[-5:] for version in versions]
    listed = next((f"{int(digits[:3])}.{digits[3:]}" for digits in endings if digits.isdigit()), None)
    return Cards(gpus=gpus, driver=driver or loaded or listed, trouble=trouble)


def _has_library(host: Asking) -> bool:
    if host.system == "windows":
        root = host.env.get("SystemRoot") or r"C:\Windows"
        return bool(host.glob(rf"{root}\System32\nvml.dll"))
    places = ("/usr/lib*/libnvidia-ml.so.1", "/usr/lib/*/libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
    return any(map(host.glob, places))


def _read_nvml(answer: _Nvml) -> Iterator[Gpu]:
    for device in answer.devices:
        if device.name or device.pci_id:
            name, arch = chip_of(device.pci_id)
            if re.fullmatch(r"\d{1,2}\.\d", told := device.compute_capability or ""):
                arch = parse_sm(told)
            card = Gpu(vendor="nvidia", name=device.name or name, arch=arch, memory_gib=gib(device.memory))
            yield replace(card, how="nvml", pci_id=device.pci_id, pci_slot=device.pci_slot)


def _ask_smi(host: Asking) -> Cards:
    tool = host.which("nvidia-smi") or next(filter(host.glob, _SMI_PLACES.get(host.system, ())), None)
    if tool is None:
        return Cards()
    done = host.run([tool, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"], timeout=host.left(4))
    rows = [[cell.strip() for cell in line.split(",")] for line in done.out.splitlines()]
    if not (rows := [row for row in rows if len(row) == 5 and re.fullmatch(r"\d+(\.\d+)+", row[3])]):
        lines = (done.out.strip() or done.err.strip()).splitlines()
        why = "nvidia-smi did not answer in time" if done.timed_out else (lines[0] if lines else f"exit {done.code}")
        return Cards(trouble=f"nvidia-smi: {why}" if not why.startswith("nvidia-smi") else why)
    done = host.run([tool, "--query-gpu=compute_cap", "--format=csv,noheader"], timeout=host.left(4))
    lines = [line.strip() for line in done.out.splitlines()]
    told = done.ok and len(lines) == len(rows) and all(re.fullmatch(r"\d+\.\d", line) for line in lines)
    gpus = []
    for number, (name, slot, device, _, memory) in enumerate(rows):
        # "0x233510DE" is 10de:2335.
        match = re.fullmatch(r"0x([0-9A-Fa-f]{4})([0-9A-Fa-f]{4})", device)
        pci_id = f"{match[2]}:{match[1]}".lower() if match else None
        arch = parse_sm(lines[number]) if told else chip_of(pci_id, name)[1]
        size = round(float(memory) / 1024, 1) if re.fullmatch(r"\d+", memory) else None
        card = Gpu(vendor="nvidia", name=name, arch=arch, memory_gib=size, how="nvidia-smi", pci_id=pci_id)
        gpus.append(replace(card, pci_slot=slot.lower()))
    return Cards(gpus=tuple(gpus), driver=rows[0][3])


def _nvml_trouble(answer: _Nvml, loaded: str | None) -> str | None:
    error = answer.error or ""
    if error and ("permission" in error.lower() or answer.code == 4):
        return f"NVML: {error}: this user may not use /dev/nvidiactl"
    if error and ("version mismatch" in error.lower() or answer.code == 18):
        differ = f"the driver's library and its kernel module differ (kernel module {loaded or 'unknown'})"
        return f"{differ}: the driver was updated and the machine not restarted since"
    return f"NVML: {error}" if error else None


def _why_no_driver(cards: Sequence[PciCard], answer: _Nvml) -> str:
    match cards[0].driver:
        case "nvidia" if answer.missing:
            return "the kernel has NVIDIA's driver, but its library is not here (a container started without its GPUs?)"
        case "nouveau":
            return "the card runs on nouveau, which has no CUDA; NVIDIA's driver is not loaded"
        case "vfio-pci":
            return "the card is reserved for a virtual machine (vfio-pci)"
    return "no NVIDIA driver is loaded"


def find_jetson(host: Asking) -> Cards:
    """The board's GPU and its L4T release; nothing on any other machine."""
    if host.system != "linux" or host.machine != "aarch64":
        return Cards()
    names = text_of(host.read("/proc/device-tree/compatible")).split("\0")
    if not any(name.startswith("nvidia,tegra") for name in names):
        return Cards()
    # Boards of one chip differ in memory and clocks, not in architecture; the firmware knows the board's name.
    row = next((row for row in load_facts().nvidia.jetson if row.device_tree in names), None)
    model = text_of(host.read("/proc/device-tree/model")).strip("\0 \n")
    if row is None:
        host.gap("Tegra GPU", f"no table knows {', '.join(filter(None, names))}")
    gpu = Gpu(
        vendor="nvidia",
        name=model.removeprefix("NVIDIA ").strip() or (row.name if row else None),
        arch=row.arch if row else None,
        how="device-tree",
        note="shares the memory of the system",
    )
    # "# R36 (release), REVISION: 4.3, GCID: …" is 36.4.3: Tegra's driver comes with the board's system.
    match = re.search(r"R(\d+) \(release\), REVISION: (\d+(?:\.\d+)*)", text_of(host.read("/etc/nv_tegra_release")))
    if match is None:
        host.gap("L4T release", "there is no /etc/nv_tegra_release (not NVIDIA's system, or a bare container)")
    return Cards(gpus=(gpu,), l4t=f"{match[1]}.{match[2]}" if match else None)
