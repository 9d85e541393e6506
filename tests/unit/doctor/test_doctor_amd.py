"""AMD's cards as the kernel and rocminfo describe them, and which ROCm or CUDA an installed torch is for."""

from __future__ import annotations

import re

import pytest

from rekindle.doctor import amd
from rekindle.doctor.pci import PciCard
from rekindle.doctor.pythons import code_of
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.model.machine import InstalledTorch, Machine, Os


def test_only_a_card_s_own_memory_counts_as_its_memory() -> None:
    banks = "/sys/class/kfd/kfd/topology/nodes/1/mem_banks"
    files = {
        f"{banks}/0/properties": b"heap_type 1\nsize_in_bytes 4294967296\n",
        f"{banks}/1/properties": b"heap_type 2\nsize_in_bytes 4294967296\n",
        f"{banks}/2/properties": b"heap_type 0\nsize_in_bytes 8589934592\n",
        f"{banks}/3/properties": b"heap_type 1\nsize_in_bytes none\n",
    }
    record = Record(files=dict(files), paths=dict.fromkeys(files), system="linux", machine="x86_64")
    properties = "/sys/class/kfd/kfd/topology/nodes/1/properties"
    assert amd._bank_memory(Asking(RecordedHost(record)), properties) == 8.0
    assert amd._bank_memory(Asking(RecordedHost(Record(system="linux", machine="x86_64"))), properties) is None


NODE = "/sys/class/kfd/kfd/topology/nodes/1/properties"
RX580 = PciCard(vendor="amd", pci_id="1002:67df", slot="0001:c3:1f.7", driver="amdgpu", revision="e7")


def node(**values: object) -> bytes:
    told = {"gfx_target_version": 80003, "vendor_id": 4098, "device_id": 26591, **values}
    return "".join(f"{name} {value}\n" for name, value in told.items()).encode()


def asking(system: str = "linux", files: dict[str, bytes] | None = None, **answers: object) -> Asking:
    record = Record(system=system, machine="x86_64", files=dict(files or {}), **answers)  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test")


def test_a_card_of_the_kernel_s_topology_is_the_one_in_its_slot() -> None:
    # Bus c3, device 1f, function 7, as the kernel packs them.
    properties = node(location_id=0xC3FF, domain=1)
    other = PciCard(vendor="amd", pci_id="1002:67df", slot="0000:04:00.0", revision="c5")
    found = amd.find_amd(asking(files={NODE: properties}, access={"/dev/kfd": True}), [other, RX580])
    gpu = found.gpus[0]
    assert (gpu.pci_slot, gpu.pci_id, str(gpu.arch), gpu.how) == ("0001:c3:1f.7", "1002:67df", "gfx803", "kfd")
    # Several products have this number; the revision of the card in the slot tells which it is.
    assert gpu.name == "Radeon RX 580 Series"
    assert found.trouble is None


def test_only_the_lower_half_of_a_location_is_a_slot() -> None:
    # What stands above the number of the bus is none of it.
    [gpu] = amd.find_amd(asking(files={NODE: node(location_id=0x100300)}), ()).gpus
    assert gpu.pci_slot == "0000:03:00.0"


@pytest.mark.parametrize("told", [{}, {"location_id": "none"}, {"location_id": 768, "domain": "none"}])
def test_a_card_whose_slot_is_not_told_is_not_listed_twice(told: dict[str, object]) -> None:
    found = amd.find_amd(asking(files={NODE: node(**told)}), [RX580])
    assert [(gpu.how, gpu.pci_slot) for gpu in found.gpus] == [("kfd", None)]


def test_cards_that_the_kernel_offers_and_those_it_does_not() -> None:
    other = PciCard(vendor="amd", pci_id="1002:73df", slot="0000:04:00.0", driver="vfio-pci")
    nvidia = PciCard(vendor="nvidia", pci_id="10de:2204", slot="0000:05:00.0", driver="nvidia")
    found = amd.find_amd(asking(files={NODE: node(location_id=0xC3FF, domain=1)}), [RX580, other, nvidia])
    assert [(gpu.how, gpu.pci_slot) for gpu in found.gpus] == [("kfd", "0001:c3:1f.7"), ("pci", "0000:04:00.0")]


def test_the_kernel_s_nodes_of_others_are_no_cards() -> None:
    files = {NODE: node(vendor_id=0x1001), NODE.replace("1", "2"): node(vendor_id=0), NODE.replace("1", "3"): b""}
    assert amd.find_amd(asking(files=files), ()).gpus == ()


def test_a_node_with_numbers_that_are_none_is_still_a_card() -> None:
    found = amd.find_amd(asking(files={NODE: node(device_id="", gfx_target_version="?", location_id=768)}), ())
    assert [(gpu.vendor, gpu.arch, gpu.pci_slot) for gpu in found.gpus] == [("amd", None, "0000:03:00.0")]


def test_memory_is_the_card_s_own_word_before_the_kernel_s_banks() -> None:
    bank = NODE.replace("properties", "mem_banks/0/properties")
    files = {NODE: node(location_id=0xC3FF, domain=1), bank: b"heap_type 1\nsize_in_bytes 4294967296\n"}
    assert amd.find_amd(asking(files=files), [RX580]).gpus[0].memory_gib == 4.0
    told = PciCard(vendor="amd", pci_id="1002:67df", slot="0001:c3:1f.7", memory=8 << 30)
    assert amd.find_amd(asking(files=files), [told]).gpus[0].memory_gib == 8.0


@pytest.mark.parametrize(
    ("driver", "trouble"),
    [
        ("amdgpu", "the amdgpu driver is loaded but offers no compute (no /sys/class/kfd)"),
        ("radeon", "the card runs on radeon, not on amdgpu"),
        (None, "the card runs on no driver, not on amdgpu"),
    ],
)
def test_why_the_kernel_offers_no_card(driver: str | None, trouble: str) -> None:
    card = PciCard(vendor="amd", pci_id="1002:67df", slot="0000:03:00.0", driver=driver)
    found = amd.find_amd(asking(), [card])
    assert [gpu.how for gpu in found.gpus] == ["pci"]
    assert found.trouble == trouble


def test_windows_has_no_kernel_topology_to_miss() -> None:
    card = PciCard(vendor="amd", pci_id="1002:67df", driver="Advanced Micro Devices, Inc.", driver_version="31.0.1")
    found = amd.find_amd(asking("windows", {NODE: node()}), [PciCard(vendor="amd", pci_id="1002:67df"), card])
    assert ([gpu.how for gpu in found.gpus], found.driver, found.trouble) == (["pci", "pci"], "31.0.1", None)


@pytest.mark.parametrize(
    ("driver", "files", "told"),
    [
        ("amdgpu", {"/sys/module/amdgpu/version": b"6.2.4\n"}, "6.2.4"),
        ("amdgpu", {"/proc/sys/kernel/osrelease": b"6.1.0-21-amd64\n"}, "kernel 6.1.0-21-amd64"),
        ("amdgpu", {}, "kernel"),
        ("radeon", {"/proc/sys/kernel/osrelease": b"6.1.0-21-amd64\n"}, None),
    ],
)
def test_the_driver_is_dkms_or_the_kernel_s_own(driver: str, files: dict[str, bytes], told: str | None) -> None:
    card = PciCard(vendor="amd", pci_id="1002:67df", driver=driver)
    assert amd.find_amd(asking(files=files), [card]).driver == told


def test_no_card_is_no_trouble() -> None:
    host = asking()
    found = amd.find_amd(host, ())
    assert (found.gpus, found.driver, found.trouble) == ((), None, None)
    assert host.gaps == []


def test_rocminfo_is_asked_only_where_the_kernel_lists_no_card() -> None:
    rocminfo = "/opt/rocm/bin/rocminfo"
    done = Completed(argv=(rocminfo,), code=0, out=ROCMINFO)
    found = amd.find_amd(asking(files={NODE: node()}, paths={rocminfo: None}, runs=[done]), ())
    assert [gpu.how for gpu in found.gpus] == ["kfd"]


@pytest.mark.parametrize(("target", "arch"), [(80001, "gfx801"), (0, "gfx803")])
def test_the_kernel_s_word_on_the_chip_comes_before_the_number(target: int, arch: str) -> None:
    [gpu] = amd.find_amd(asking(files={NODE: node(gfx_target_version=target)}), ()).gpus
    assert str(gpu.arch) == arch


def test_a_card_of_rocminfo_needs_no_kernel_topology() -> None:
    """WSL: the card is on no bus that Linux sees."""
    rocminfo = "/opt/rocm/bin/rocminfo"
    done = Completed(argv=(rocminfo,), code=0, out=ROCMINFO)
    found = amd.find_amd(asking(paths={rocminfo: None}, runs=[done]), ())
    assert [(gpu.how, str(gpu.arch)) for gpu in found.gpus] == [("rocminfo", "gfx1031")]
    assert found.trouble is None


ROCMINFO = """ROCk module is loaded
*******
Agent 1
*******
  Name:                    AMD Ryzen
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx1031
  Marketing Name:          AMD Radeon RX 6700 XT
  Device Type:             GPU
  Chip ID:                 29663(0x73df)
  Pool Info:
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    12566528(0xbfc000) KB
"""


@pytest.mark.parametrize(
    ("done", "cards", "gaps"),
    [
        (Completed(argv=("/opt/rocm/bin/rocminfo",), code=0, out=ROCMINFO), 1, []),
        (Completed(argv=("/opt/rocm/bin/rocminfo",), code=1, err="no /dev/kfd\n"), 0, ["no /dev/kfd"]),
        (Completed(argv=("/opt/rocm/bin/rocminfo",), code=3), 0, ["exit 3"]),
        (Completed(argv=("/opt/rocm/bin/rocminfo",), timed_out=True), 0, ["it did not answer in time"]),
    ],
)
def test_rocminfo_about_its_cards(done: Completed, cards: int, gaps: list[str]) -> None:
    host = Asking(RecordedHost(Record(runs=[done], system="linux", machine="x86_64")))
    found = amd._ask_rocminfo(host)
    assert len(found) == cards and [gap.why for gap in host.gaps] == gaps
    for card in found:
        assert (card.name, str(card.arch), card.pci_id) == ("AMD Radeon RX 6700 XT", "gfx1031", "1002:73df")
        assert card.memory_gib == pytest.approx(12.0, abs=0.1)


def by_rocminfo(text: str) -> list[tuple[str | None, str, float | None, str | None]]:
    done = Completed(argv=("/opt/rocm/bin/rocminfo",), code=0, out=text)
    found = amd._ask_rocminfo(asking(runs=[done]))
    return [(gpu.name, str(gpu.arch), gpu.memory_gib, gpu.pci_id) for gpu in found]


def test_rocminfo_counts_memory_in_kibibytes() -> None:
    large = ROCMINFO.replace("12566528(0xbfc000)", "201310208(0xbffc000)").replace("gfx1031", "gfx942")
    assert by_rocminfo(large) == [("AMD Radeon RX 6700 XT", "gfx942", 192.0, "1002:73df")]


def test_what_rocminfo_does_not_say_is_unknown() -> None:
    lines = [line for line in ROCMINFO.splitlines() if not re.search(r"Marketing|Chip ID|Size", line)]
    assert by_rocminfo("\n".join(lines)) == [(None, "gfx1031", None, None)]


def test_processors_of_rocminfo_are_no_cards() -> None:
    """A processor may be called gfx…, and a card that is none of ROCm's has another name."""
    assert by_rocminfo(ROCMINFO.replace("Device Type:             GPU", "Device Type:             CPU")) == []
    assert by_rocminfo(ROCMINFO.replace("Name:                    gfx1031", "Name:  unknown")) == []


@pytest.mark.parametrize(
    ("torch", "cuda", "rocm"),
    [
        (InstalledTorch(version="2.6.0+rocm6.2.4", python="p", rocm="6.2"), None, "6.2"),
        (InstalledTorch(version="2.6.0+rocm6.2.4", python="p"), None, "6.2.4"),
        (InstalledTorch(version="2.6.0+cu124", python="p"), "12.4", None),
    ],
)
def test_what_a_torch_says_of_itself_comes_before_the_table(
    torch: InstalledTorch, cuda: str | None, rocm: str | None
) -> None:
    machine = Machine(os=Os(system="linux", arch="x86_64"))
    code = code_of(machine, torch)
    assert (code.cuda, code.rocm) == (cuda, rocm)
