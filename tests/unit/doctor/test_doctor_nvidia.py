"""NVIDIA's cards as its library, nvidia-smi, the PCI bus and a Tegra board's device tree name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rekindle.doctor.nvidia import find_jetson, find_nvidia
from rekindle.doctor.pci import PciCard
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.model.machine import Gpu
from rekindle.readiness.case import Cards

SMI = "/usr/bin/nvidia-smi"
ABOUT = "--query-gpu=name,pci.bus_id,pci.device_id,driver_version,memory.total"
H200 = "NVIDIA H200, 00000000:1A:00.0, 0x233510DE, 580.95.05, 143771\n"
K40C = "Tesla K40c, 00000000:02:00.0, 0x102410DE, 470.256.02, 11441\n"
LOADED = b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Tue Sep 23 2026\n"
IN_THE_SLOT = PciCard(vendor="nvidia", pci_id="10de:2204", slot="0000:21:00.0", driver="nvidia")


def asking(**answers: object) -> Asking:
    record = Record(**{"machine": "x86_64", **answers})  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test")


def about_cards(out: str = "", err: str = "", code: int | None = 0, timed_out: bool = False) -> Completed:
    argv = (SMI, ABOUT, "--format=csv,noheader,nounits")
    return Completed(argv=argv, out=out, err=err, code=code, timed_out=timed_out)


def about_capability(out: str, code: int = 0) -> Completed:
    return Completed(argv=(SMI, "--query-gpu=compute_cap", "--format=csv,noheader"), out=out, code=code)


def by_smi(*runs: Completed) -> Cards:
    """What is found where only nvidia-smi answers."""
    return find_nvidia(asking(programs={"nvidia-smi": (SMI,)}, runs=list(runs)), [IN_THE_SLOT])


def by_nvml(device: Mapping[str, Any]) -> Gpu:
    [gpu] = find_nvidia(asking(nvml={"driver": "580.95.05", "devices": [device]}), [IN_THE_SLOT]).gpus
    return gpu


@pytest.mark.parametrize(
    ("told", "arch"),
    [
        ("9.0", "sm_90"),
        ("12.0", "sm_120"),
        # What is no capability leaves what the number says.
        ("9", "sm_86"),
        ("N/A", "sm_86"),
        (None, "sm_86"),
    ],
)
def test_the_library_s_word_on_the_architecture_comes_before_the_number(told: str | None, arch: str) -> None:
    assert str(by_nvml({"name": "a card", "compute_capability": told, "pci_id": "10de:2204"}).arch) == arch


def test_a_card_of_the_library_has_all_it_told() -> None:
    device = {"name": "NVIDIA H200", "memory": 150754820096, "pci_id": "10de:2335", "pci_slot": "0000:1a:00.0"}
    gpu = by_nvml(device)
    assert (gpu.name, str(gpu.arch), gpu.memory_gib, gpu.how) == ("NVIDIA H200", "sm_90", 140.4, "nvml")
    assert (gpu.pci_id, gpu.pci_slot) == ("10de:2335", "0000:1a:00.0")


def test_a_card_without_a_name_is_named_by_its_number() -> None:
    assert by_nvml({"pci_id": "10de:2204"}).name == "GeForce RTX 3090"


def test_a_card_that_answers_with_an_error_is_a_gap_and_the_others_are_found() -> None:
    devices = [{"name": "NVIDIA H200", "pci_id": "10de:2335"}, {"error": "GPU is lost"}]
    host = asking(nvml={"devices": devices})
    assert [gpu.name for gpu in find_nvidia(host, [IN_THE_SLOT]).gpus] == ["NVIDIA H200"]
    assert [(gap.what, gap.why) for gap in host.gaps] == [("NVIDIA card 1", "GPU is lost")]


def test_nvidia_smi_tells_card_driver_and_memory() -> None:
    found = by_smi(about_cards(H200), about_capability("9.0\n"))
    [gpu] = found.gpus
    assert (gpu.name, str(gpu.arch), gpu.memory_gib, gpu.how) == ("NVIDIA H200", "sm_90", 140.4, "nvidia-smi")
    assert (gpu.pci_id, gpu.pci_slot) == ("10de:2335", "00000000:1a:00.0")
    assert (found.driver, found.trouble) == ("580.95.05", None)


def test_memory_that_nvidia_smi_does_not_tell_is_unknown() -> None:
    found = by_smi(about_cards(H200.replace("143771", "[N/A]") + K40C))
    assert [gpu.memory_gib for gpu in found.gpus] == [None, 11.2]


@pytest.mark.parametrize(
    "capability",
    [
        about_capability('Field "compute_cap" is not a valid field to query.\n', code=2),
        about_capability("5.0\n5.0\n", code=14),
        about_capability("5.0\n"),
        about_capability("5.0\n5.0\n5.0\n"),
        about_capability("5.0\n[N/A]\n"),
    ],
    ids=["an old driver", "an error", "one too few", "one too many", "one not told"],
)
def test_where_nvidia_smi_does_not_know_the_capability_the_number_names_the_chip(capability: Completed) -> None:
    found = by_smi(about_cards(H200 + K40C), capability)
    assert [str(gpu.arch) for gpu in found.gpus] == ["sm_90", "sm_35"]


def test_each_card_has_its_own_capability() -> None:
    found = by_smi(about_cards(H200 + K40C), about_capability("5.2\n10.0\n"))
    assert [str(gpu.arch) for gpu in found.gpus] == ["sm_52", "sm_100"]


def test_a_card_whose_number_nvidia_smi_does_not_tell_is_known_by_its_name() -> None:
    [gpu] = by_smi(about_cards(K40C.replace("0x102410DE", "[N/A]"))).gpus
    assert (gpu.pci_id, str(gpu.arch)) == (None, "sm_35")


def test_lines_of_nvidia_smi_that_are_no_cards_are_left_out() -> None:
    found = by_smi(about_cards(f"Warning: persistence mode is off\na, b, c, d, e\n{K40C}"), about_capability("3.5\n"))
    assert [gpu.name for gpu in found.gpus] == ["Tesla K40c"]
    assert found.driver == "470.256.02"


@pytest.mark.parametrize(
    ("done", "trouble"),
    [
        (about_cards("No devices were found\nmore\n", code=6), "nvidia-smi: No devices were found"),
        (about_cards(err="couldn't communicate\nmore\n", code=9), "nvidia-smi: couldn't communicate"),
        (about_cards("said\n", err="complained\n", code=9), "nvidia-smi: said"),
        (about_cards(code=9), "nvidia-smi: exit 9"),
        (about_cards("half a line", code=None, timed_out=True), "nvidia-smi did not answer in time"),
        # Where it says its own name, that is not said twice.
        (about_cards(err="nvidia-smi: cannot execute\n", code=126), "nvidia-smi: cannot execute"),
    ],
)
def test_what_is_wrong_with_nvidia_smi_is_said(done: Completed, trouble: str) -> None:
    found = by_smi(done)
    assert [gpu.how for gpu in found.gpus] == ["pci"]
    assert found.trouble == trouble


def test_nvidia_smi_is_found_where_it_is_not_on_path() -> None:
    wsl = "/usr/lib/wsl/lib/nvidia-smi"
    done = Completed(argv=(wsl, ABOUT, "--format=csv,noheader,nounits"), code=0, out=K40C)
    found = find_nvidia(asking(paths={wsl: None}, runs=[done]), ())
    assert [gpu.name for gpu in found.gpus] == ["Tesla K40c"]


def test_where_the_library_hangs_nvidia_smi_is_not_asked() -> None:
    hangs = {"error": "no answer within 5.0 s", "timed_out": True}
    host = asking(nvml=hangs, programs={"nvidia-smi": (SMI,)}, runs=[about_cards(K40C)])
    found = find_nvidia(host, [IN_THE_SLOT])
    assert [gpu.how for gpu in found.gpus] == ["pci"]
    assert found.trouble == "NVML: no answer within 5.0 s"


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        ({"error": "Insufficient Permissions"}, "NVML: Insufficient Permissions: this user may not use /dev/nvidiactl"),
        ({"error": "refused", "code": 4}, "NVML: refused: this user may not use /dev/nvidiactl"),
        ({"error": "refused", "code": 3}, "NVML: refused"),
        ({"error": "refused", "code": 5}, "NVML: refused"),
        (
            {"error": "Driver/library version mismatch"},
            "the driver's library and its kernel module differ (kernel module 580.95.05): "
            "the driver was updated and the machine not restarted since",
        ),
        (
            {"error": "they differ", "code": 18},
            "the driver's library and its kernel module differ (kernel module 580.95.05): "
            "the driver was updated and the machine not restarted since",
        ),
        ({"error": "they differ", "code": 17}, "NVML: they differ"),
        ({"error": "they differ", "code": 19}, "NVML: they differ"),
        # A code alone, with no error, is none: the bus then says what it knows.
        ({"code": 4}, "no NVIDIA driver is loaded"),
        ({"code": 18}, "no NVIDIA driver is loaded"),
    ],
)
def test_what_the_library_complains_of_is_explained(error: dict[str, Any], trouble: str) -> None:
    host = asking(nvml=error, files={"/proc/driver/nvidia/version": LOADED % b"580.95.05"})
    found = find_nvidia(host, [IN_THE_SLOT])
    assert (found.driver, found.trouble) == ("580.95.05", trouble)


def test_a_mismatch_is_told_where_the_kernel_module_does_not_say_its_version() -> None:
    found = find_nvidia(asking(nvml={"error": "version mismatch"}), [IN_THE_SLOT])
    assert "(kernel module unknown)" in str(found.trouble)


@pytest.mark.parametrize(
    ("driver", "nvml", "trouble"),
    [
        ("nvidia", {"missing": True}, "its library is not here"),
        ("nvidia", {}, "no NVIDIA driver is loaded"),
        (None, {"missing": True}, "no NVIDIA driver is loaded"),
        ("nouveau", {}, "runs on nouveau"),
    ],
)
def test_why_a_card_has_no_driver(driver: str | None, nvml: dict[str, Any], trouble: str) -> None:
    card = PciCard(vendor="nvidia", pci_id="10de:2204", driver=driver)
    assert trouble in str(find_nvidia(asking(nvml=nvml), [card]).trouble)


def test_a_loaded_driver_that_shows_no_card_is_a_gap() -> None:
    error = {"error": "Unknown Error"}
    host = asking(nvml=error, files={"/proc/driver/nvidia/version": LOADED % b"535.183.01"})
    found = find_nvidia(host, ())
    assert (found.gpus, found.driver, found.trouble) == ((), "535.183.01", "NVML: Unknown Error")
    assert [(gap.what, gap.why) for gap in host.gaps] == [("NVIDIA driver", "NVML: Unknown Error")]


def test_a_library_without_card_and_driver_is_no_trouble() -> None:
    """A container image brings the library wherever it runs."""
    host = asking(nvml={"error": "Driver Not Loaded"}, paths={"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": None})
    assert find_nvidia(host, ()) == Cards()
    assert host.gaps == []


@pytest.mark.parametrize(
    ("system", "env", "path"),
    [
        ("linux", {}, "/usr/lib64/libnvidia-ml.so.1"),
        ("linux", {}, "/usr/lib/wsl/lib/libnvidia-ml.so.1"),
        ("windows", {}, r"C:\Windows\System32\nvml.dll"),
        ("windows", {"SystemRoot": r"D:\Win"}, r"D:\Win\System32\nvml.dll"),
    ],
)
def test_the_library_is_asked_where_it_lies_even_if_no_card_is_listed(
    system: str, env: dict[str, str], path: str
) -> None:
    told = {"driver": "566.36", "devices": [{"name": "NVIDIA GeForce GTX 1080 Ti"}]}
    found = find_nvidia(asking(system=system, env=env, paths={path: None}, nvml=told), ())
    assert ([gpu.name for gpu in found.gpus], found.driver) == (["NVIDIA GeForce GTX 1080 Ti"], "566.36")
    assert find_nvidia(asking(system=system, env=env, nvml=told), ()) == Cards()


@pytest.mark.parametrize(
    ("maker", "version", "driver"),
    [
        ("NVIDIA", "27.21.14.7005", "470.05"),
        ("NVIDIA", "32.0.15.7652", "576.52"),
        ("NVIDIA", "unknown", None),
        ("NVIDIA", None, None),
        # Windows' own driver for the screen has a version of its own.
        ("Microsoft", "10.0.26100.1", None),
    ],
)
def test_windows_driver_number_is_nvidia_s_own(maker: str, version: str | None, driver: str | None) -> None:
    card = PciCard(vendor="nvidia", pci_id="10de:1024", driver=maker, driver_version=version)
    assert find_nvidia(asking(system="windows"), [card]).driver == driver


def test_cards_of_others_are_not_nvidia_s() -> None:
    assert find_nvidia(asking(), [PciCard(vendor="amd", pci_id="1002:67df")]) == Cards()


def board(model: bytes | None, *chips: str, **more: object) -> Asking:
    files = {"/proc/device-tree/compatible": "\0".join((*chips, "")).encode()}
    files |= {"/proc/device-tree/model": model} if model else {}
    release = {"/etc/nv_tegra_release": b"# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n"}
    return asking(**{"machine": "aarch64", "files": files | release, **more})


def test_the_firmware_names_the_board_and_the_table_its_chip() -> None:
    model = b"NVIDIA Jetson Orin NX Engineering Reference Developer Kit\0"
    found = find_jetson(board(model, "nvidia,p3768-0000+p3767-0000", "nvidia,tegra234"))
    [gpu] = found.gpus
    assert (gpu.name, str(gpu.arch)) == ("Jetson Orin NX Engineering Reference Developer Kit", "sm_87")
    assert gpu.note == "shares the memory of the system"
    assert found.l4t == "36.4.3"


def test_a_board_without_a_name_is_called_by_its_chip_s_first_board() -> None:
    [gpu] = find_jetson(board(None, "nvidia,tegra194")).gpus
    assert (gpu.name, str(gpu.arch)) == ("Jetson AGX Xavier", "sm_72")


def test_a_chip_that_no_table_knows_is_a_gap() -> None:
    host = board(b"NVIDIA Jetson of tomorrow\0", "nvidia,tegra999")
    [gpu] = find_jetson(host).gpus
    assert (gpu.name, gpu.arch) == ("Jetson of tomorrow", None)
    assert [(gap.what, gap.why) for gap in host.gaps] == [("Tegra GPU", "no table knows nvidia,tegra999")]


def test_neither_a_name_nor_a_chip_that_is_known() -> None:
    [gpu] = find_jetson(board(None, "nvidia,tegra999")).gpus
    assert (gpu.name, gpu.arch) == (None, None)


def test_a_board_with_another_system_has_no_release() -> None:
    files = {"/proc/device-tree/compatible": b"nvidia,tegra210\0"}
    host = board(None, files=files)
    assert find_jetson(host).l4t is None
    assert [gap.what for gap in host.gaps] == ["L4T release"]


@pytest.mark.parametrize(
    ("machine", "chip"), [("x86_64", "nvidia,tegra234"), ("aarch64", "raspberrypi,5-model-b"), ("aarch64", "")]
)
def test_other_machines_are_no_jetson(machine: str, chip: str) -> None:
    host = board(b"a board\0", chip, machine=machine)
    assert find_jetson(host) == Cards() and host.gaps == []


def test_only_linux_has_a_device_tree() -> None:
    assert find_jetson(board(b"a board\0", "nvidia,tegra234", system="windows")) == Cards()
