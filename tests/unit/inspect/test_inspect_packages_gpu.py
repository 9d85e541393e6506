"""GPU code of packages that are not torch: bare images, LTO code, SYCL, builds to choose from, libraries that pick."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from binaries import FAMILY, SPECIFIC, make_elf, make_entry, make_fatbin, make_wheel
from rekindle import api
from rekindle.formats.cubin import cubin_arch
from rekindle.formats.offload import SPIRV_MAGIC, SYCL
from rekindle.model.wheel import AxisVerdict, WheelReport
from rekindle.render.wheel import headline


def cubin(flags: int, abi: int = 8, machine: int = 190) -> bytes:
    head = (
        b"\x7fELF\x02\x01\x01\x41" + bytes([abi]) + b"\0" * 7 + struct.pack("<HHIQQQI", 2, machine, 1, 0, 0, 0, flags)
    )
    return head.ljust(200, b"\0")


@pytest.mark.parametrize(
    ("flags", "abi", "name"),
    [(0x0600640A, 8, "sm_100a"), (0x06006402, 8, "sm_100"), (0x06004B04, 8, "sm_75"), (0x00500550, 7, "sm_80"),
     (0x005A0D5A, 7, "sm_90a")],
)  # fmt: skip
def test_a_cubin_names_its_card(flags: int, abi: int, name: str) -> None:
    assert str(cubin_arch(cubin(flags, abi))) == name


def test_what_is_no_cubin() -> None:
    good = cubin(0x06004B04)
    assert cubin_arch(good[:64]) is not None
    assert cubin_arch(good[:63]) is None
    assert cubin_arch(cubin(0x06004B04, machine=62)) is None
    assert cubin_arch(cubin(0x06004B04, abi=9)) is None
    assert cubin_arch(cubin(0x06000004)) is None


def read(folder: Path, files: dict[str, bytes], name: str = "kernels") -> WheelReport:
    path = folder / f"{name}-1.0-py3-none-manylinux_2_17_x86_64.whl"
    path.write_bytes(make_wheel({f"{name}/{file}": data for file, data in files.items()}, name=name, version="1.0"))
    return api.inspect(str(path), cpu=False)


def judged(report: WheelReport, card: str) -> AxisVerdict:
    from rekindle.inspect.verdict import verdict_for

    return next(one for one in verdict_for(report, api.inspect_machine(card), card).axes if one.axis == "gpu")


def library(*containers: list[bytes]) -> bytes:
    return make_elf({".nv_fatbin": make_fatbin(*containers)})


def test_files_of_kernels_are_counted_by_their_card(tmp_path: Path) -> None:
    files = {f"a{n}.cubin": cubin(0x06006402) for n in range(5)} | {f"b{n}.cubin": cubin(0x0600670A) for n in range(3)}
    ptx = b"//\n.version 8.0\n.target sm_80\n.address_size 64\n"
    report = read(tmp_path, files | {"x.ptx": ptx, "broken.cubin": b"hello"})
    cubins, text = report.gpu.libraries
    assert [(use.arch, use.entries) for use in cubins.uses] == [("sm_100", 5), ("sm_103a", 3)]
    assert cubins.unknown == {"not understood": 1}
    assert text.ptx == ("compute_80",)
    assert headline(report) == "GPU code for sm_100 sm_103a"
    assert judged(report, "sm_100").runs == "yes"


def test_files_of_kernels_without_the_card(tmp_path: Path) -> None:
    report = read(tmp_path, {"a.cubin": cubin(0x06006402), "b.cubin": cubin(0x0600670A)})
    assert judged(report, "sm_90").runs == "no"


def test_lto_code_is_compiled_late(tmp_path: Path) -> None:
    report = read(tmp_path, {"a.so": library([make_entry(8, 75)])})
    assert report.gpu.libraries[0].lto == ("lto_75",)
    assert judged(report, "sm_120").code == "gpu-jit"
    assert judged(report, "sm_70").runs == "no"


def test_sycl_code_is_no_nvidia_code(tmp_path: Path) -> None:
    report = read(tmp_path, {"a.so": make_elf({SYCL + "spir64": (SPIRV_MAGIC + b"\0" * 28) * 3})})
    assert report.gpu.libraries[0].sycl == {"spir64": 3}
    assert headline(report) == "GPU code for SYCL (spir64)"
    assert judged(report, "sm_89").code == "gpu-sycl"


def test_one_build_that_runs_is_enough(tmp_path: Path) -> None:
    old, new = library([make_entry(2, 60), make_entry(2, 90)]), library([make_entry(2, 90), make_entry(2, 120)])
    report = read(tmp_path, {"libk_cuda118.so": old, "libk_cuda130.so": new})
    found = judged(report, "sm_120")
    assert found.runs == "yes"
    assert "libk_cuda130.so" in found.text
    assert "libk_cuda118.so" not in found.text
    assert judged(report, "sm_61").runs == "yes"
    assert judged(report, "sm_52").runs == "no"
    assert headline(report) == "GPU code for sm_60 sm_90 sm_120"


def test_libraries_for_some_cards_are_named(tmp_path: Path) -> None:
    plain = [make_entry(2, 80), make_entry(2, 120, SPECIFIC), make_entry(2, 100, FAMILY)]
    report = read(tmp_path, {"common.so": library(plain), "hopper.so": library([make_entry(2, 90, SPECIFIC)])})
    for card, runs in (("sm_120", "partly"), ("sm_103", "partly"), ("sm_86", "partly"), ("sm_75", "no")):
        found = judged(report, card)
        assert found.runs == runs, card
        assert "hopper.so" in found.text
    assert "nothing for it in common.so" in judged(report, "sm_90").text


def test_no_advice_about_torch_for_others(tmp_path: Path) -> None:
    found = judged(read(tmp_path, {"a.so": make_elf({})}), "sm_89")
    assert (found.runs, found.remedy) == ("yes", None)
    torch = judged(read(tmp_path, {"a.so": make_elf({})}, "torch"), "sm_89")
    assert torch.runs == "partly"
