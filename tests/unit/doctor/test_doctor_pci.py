"""Cards by their numbers alone: the PCI bus of Linux, the registry of Windows, and what the tables say of a number."""

from __future__ import annotations

import pytest

from rekindle.doctor.pci import PciCard, chip_of, find_cards, find_intel, gpu_by_number
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import RegistryKey
from rekindle.readiness.case import Cards

DISPLAY = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
ENUM = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
GIB = 1 << 30
Values = dict[str, str | int]


def asking(**answers: object) -> Asking:
    record = Record(**{"machine": "x86_64", **answers})  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test")


def on_the_bus(uevent: str, **more: bytes) -> tuple[PciCard, ...]:
    folder = "/sys/bus/pci/devices/0000:21:00.0"
    files = {f"{folder}/uevent": uevent.encode(), **{f"{folder}/{name}": raw for name, raw in more.items()}}
    return find_cards(asking(files=files))


@pytest.mark.parametrize(
    ("kind", "number", "found"),
    [
        ("30000", "10DE:2204", ["10de:2204"]),
        ("30200", "10DE:2335", ["10de:2335"]),
        ("120000", "1002:74A1", ["1002:74a1"]),
        # Its sound, the network, and a screen of a virtual machine.
        ("40300", "10DE:228B", []),
        ("20000", "8086:1533", []),
        ("30000", "15AD:0405", []),
        ("30000", "", []),
        ("", "10DE:2204", []),
    ],
)
def test_cards_on_the_bus_are_displays_and_accelerators(kind: str, number: str, found: list[str]) -> None:
    assert [card.pci_id for card in on_the_bus(f"PCI_CLASS={kind}\nPCI_ID={number}\n")] == found


def test_what_the_bus_knows_of_a_card() -> None:
    uevent = "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:67DF\nPCI_SLOT_NAME=0000:21:00.0\n"
    [card] = on_the_bus(uevent, revision=b"0xe7\n", mem_info_vram_total=b"8589934592\n")
    assert (card.vendor, card.driver, card.slot) == ("amd", "amdgpu", "0000:21:00.0")
    assert (card.revision, card.memory) == ("e7", 8 * GIB)
    [card] = on_the_bus("PCI_CLASS=30000\nPCI_ID=1002:67DF\n", mem_info_vram_total=b"unknown\n")
    assert (card.driver, card.revision, card.memory) == (None, None, None)


def adapters(*each: Values) -> tuple[PciCard, ...]:
    numbers = [f"{number:04}" for number in range(len(each))]
    registry = {DISPLAY: RegistryKey(keys=("Properties", *numbers))}
    registry |= {rf"{DISPLAY}\{number}": RegistryKey(values=told) for number, told in zip(numbers, each, strict=True)}
    return find_cards(asking(system="windows", registry=registry))


ARC: Values = {
    "MatchingDeviceId": r"PCI\VEN_8086&DEV_E20B",
    "ProviderName": "Intel Corporation",
    "DriverVersion": "32.0.101.6647",
    "DriverDesc": "Intel(R) Arc(TM) B580 Graphics",
    "HardwareInformation.qwMemorySize": 12 * GIB,
}


def test_an_adapter_of_windows_has_its_driver_and_memory() -> None:
    [card] = adapters(ARC)
    assert card == PciCard(
        vendor="intel",
        pci_id="8086:e20b",
        driver="Intel Corporation",
        driver_version="32.0.101.6647",
        name="Intel(R) Arc(TM) B580 Graphics",
        memory=12 * GIB,
    )


def test_an_adapter_of_windows_that_tells_nothing_but_its_number() -> None:
    told: Values = {"MatchingDeviceId": r"PCI\VEN_8086&DEV_E20B", "HardwareInformation.qwMemorySize": "much"}
    assert adapters(told) == (PciCard(vendor="intel", pci_id="8086:e20b"),)


def test_adapters_that_are_no_card_of_a_known_maker_are_left_out() -> None:
    virtual: Values = {"MatchingDeviceId": r"PCI\VEN_15AD&DEV_0405", "ProviderName": "VMware, Inc."}
    remote: Values = {"MatchingDeviceId": r"terminput_bus&rdpidd", "ProviderName": "Microsoft"}
    cards = adapters(virtual, remote, {}, ARC)
    assert [card.pci_id for card in cards] == ["8086:e20b"]


def listed_on_windows_bus(name: str, kind: str) -> list[str]:
    registry = {
        ENUM: RegistryKey(keys=(name,)),
        rf"{ENUM}\{name}": RegistryKey(keys=("4&1",)),
        rf"{ENUM}\{name}\4&1": RegistryKey(values={"CompatibleIDs": kind}),
    }
    return [card.pci_id for card in find_cards(asking(system="windows", registry=registry))]


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("VEN_10DE&DEV_1024&SUBSYS_0&REV_A1", r"PCI\CC_0302", ["10de:1024"]),
        ("VEN_1002&DEV_74A1&SUBSYS_0&REV_00", r"PCI\CC_1200", ["1002:74a1"]),
        ("VEN_10DE&DEV_0E0F&SUBSYS_0&REV_A1", r"PCI\CC_0403", []),
        ("VEN_15AD&DEV_0405&SUBSYS_0&REV_00", r"PCI\CC_0300", []),
        ("no number at all", r"PCI\CC_0300", []),
    ],
)
def test_the_bus_of_windows_is_asked_where_no_adapter_has_a_driver(name: str, kind: str, found: list[str]) -> None:
    assert listed_on_windows_bus(name, kind) == found


def test_a_device_of_the_bus_that_cannot_be_read_is_none() -> None:
    name = "VEN_10DE&DEV_1024&SUBSYS_0&REV_A1"
    registry = {ENUM: RegistryKey(keys=(name,))}
    assert find_cards(asking(system="windows", registry=registry)) == ()
    registry[rf"{ENUM}\{name}"] = RegistryKey(keys=("4&1",))
    assert find_cards(asking(system="windows", registry=registry)) == ()


@pytest.mark.parametrize(
    ("number", "name", "product", "arch"),
    [
        ("10de:1024", None, "Tesla K40c", "sm_35"),
        # The number comes before the name, which only says something where nobody knows the number.
        ("10de:1024", "GeForce RTX 3090", "Tesla K40c", "sm_35"),
        ("10de:ffff", "GeForce RTX 3090", "GeForce RTX 3090", "sm_86"),
        (None, "GeForce RTX 3090", "GeForce RTX 3090", "sm_86"),
        # Sold with two chips.
        (None, "GeForce GTX 860M", "GeForce GTX 860M", "None"),
        ("10de:ffff", "a card of tomorrow", None, "None"),
        ("10de:ffff", None, None, "None"),
        (None, None, None, "None"),
    ],
)
def test_a_chip_by_number_or_name(number: str | None, name: str | None, product: str | None, arch: str) -> None:
    found, its = chip_of(number, name)
    assert (found, str(its)) == (product, arch)


def test_a_card_without_any_answer_is_what_the_bus_says() -> None:
    card = PciCard(vendor="nvidia", pci_id="10de:1024", slot="0000:02:00.0", name="Display", memory=12 * GIB)
    gpu = gpu_by_number(card)
    assert (gpu.name, str(gpu.arch), gpu.memory_gib, gpu.how) == ("Tesla K40c", "sm_35", 12.0, "pci")
    assert (gpu.pci_id, gpu.pci_slot) == ("10de:1024", "0000:02:00.0")
    unknown = PciCard(vendor="nvidia", pci_id="10de:ffff", name="NVIDIA of tomorrow")
    assert (gpu_by_number(unknown).name, gpu_by_number(unknown).arch) == ("NVIDIA of tomorrow", None)


IN_THE_SLOT = PciCard(vendor="intel", pci_id="8086:e20b", driver="xe")
LEVEL_ZERO = "/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1"


@pytest.mark.parametrize(
    ("system", "card", "paths", "driver", "trouble"),
    [
        ("linux", IN_THE_SLOT, [LEVEL_ZERO], "xe", False),
        ("linux", IN_THE_SLOT, [], "xe", True),
        # No driver at all: there is nothing yet that its compute driver could use.
        ("linux", PciCard(vendor="intel", pci_id="8086:e20b"), [], None, False),
        (
            "windows",
            PciCard(vendor="intel", pci_id="8086:e20b", driver="Intel", driver_version="32.0.101.6647"),
            [],
            "32.0.101.6647",
            False,
        ),
    ],
)
def test_intel_s_driver_and_what_it_lacks(
    system: str, card: PciCard, paths: list[str], driver: str | None, trouble: bool
) -> None:
    found = find_intel(asking(system=system, paths=dict.fromkeys(paths)), [card])
    assert [gpu.name for gpu in found.gpus] == ["Arc B580"]
    assert found.driver == driver
    assert ("Level Zero" in str(found.trouble)) is trouble


def test_the_first_driver_that_an_intel_card_has_is_told() -> None:
    bare = PciCard(vendor="intel", pci_id="8086:3e92")
    found = find_intel(asking(paths={LEVEL_ZERO: None}), [bare, IN_THE_SLOT])
    assert (len(found.gpus), found.driver) == (2, "xe")


def test_cards_of_others_are_not_intel_s() -> None:
    assert find_intel(asking(), [PciCard(vendor="amd", pci_id="1002:67df", driver="amdgpu")]) == Cards()
