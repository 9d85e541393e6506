"""Names people use, to architectures: GPUs, CPUs, distributions."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.compat.cpu_names import find_cpu
from rekindle.compat.libc import find_distro
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.browse import facts_sources
from rekindle.facts.gpus import (
    device_classes,
    find_by_pci_id,
    find_gpu,
    find_products,
    jetson_cuda,
    known_archs,
    sort_key,
)
from rekindle.facts.names import NameOwner, load_names, owner_of
from rekindle.facts.tables import _merge_tables
from rekindle.model.arch import Sm, parse_gpu_arch

FACTS = load_facts()


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("Tesla K40c", "sm_35"),
        ("K80", "sm_37"),
        ("NVIDIA GeForce RTX 5070 Ti", "sm_120"),
        ("gtx970", "sm_52"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "sm_86"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("H100", "sm_90"),
        ("GTX 750 Ti", "sm_50"),
        ("GeForce GT 710", "sm_35"),
        ("Jetson Orin Nano", "sm_87"),
        ("NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super", "sm_87"),
        ("NVIDIA Jetson AGX Orin Developer Kit", "sm_87"),
        ("Jetson Orin NX 16GB", "sm_87"),
        ("Orin NX", "sm_87"),
        ("Jetson Xavier NX Developer Kit (Jetpack 5.1)", "sm_72"),
        ("NVIDIA Jetson Nano 2GB Developer Kit", "sm_53"),
        ("NVIDIA Jetson AGX Thor Developer Kit", "sm_110"),
        ("TX2", "sm_62"),
        ("GK110B", "sm_35"),
        ("10de:1024", "sm_35"),
        ("8.6", "sm_86"),
        ("Radeon RX 6700 XT", "gfx1031"),
        ("RX 7900 XTX", "gfx1100"),
        ("RX Vega 64", "gfx900"),
        ("MI300X", "gfx942"),
        ("AMD Radeon 8060S Graphics", "gfx1151"),
    ],
)
def test_a_gpu_is_found(name: str, arch: str) -> None:
    assert str(find_gpu(name, FACTS).archs[0]) == arch


def test_a_name_of_several_chips_gives_them_all_newest_first() -> None:
    assert [str(arch) for arch in find_gpu("GeForce GT 730", FACTS).archs] == ["sm_35", "sm_30", "sm_21"]


def test_a_typo_is_met_with_the_nearest_name() -> None:
    with pytest.raises(BadInput) as caught:
        find_gpu("Tesla K4Oc", FACTS)
    assert "Tesla K40c" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sm_36", "did you mean sm_35 or sm_37?"),
        ("8.5", "did you mean sm_80 or sm_86?"),
        ("sm_01", "did you mean sm_10?"),
        ("gfx1029", "did you mean gfx1102 or gfx1032 or gfx1012?"),
    ],
)
def test_an_architecture_that_no_chip_has_is_met_with_its_neighbours(typed: str, meant: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_gpu(typed, FACTS)
    assert caught.value.remedy == meant


def test_every_product_is_found_by_its_own_name() -> None:
    for vendor in (FACTS.nvidia, FACTS.amd):
        for chip in vendor.chip.values():
            for product in chip.products:
                assert chip.arch in {str(arch) for arch in find_gpu(product, FACTS).archs}, product


def test_every_pci_id_is_found() -> None:
    for chip in FACTS.nvidia.chip.values():
        for device in " ".join([*chip.products.values(), chip.ids]).split():
            assert str(find_gpu(f"10de:{device}", FACTS).archs[0]) == chip.arch


@pytest.mark.parametrize(
    ("revision", "name"),
    [
        (None, "Radeon 860M Graphics"),
        ("c2", "Radeon 860M Graphics"),
        ("c3", "Radeon 840M Graphics"),
        ("fd", "Radeon 840M Graphics"),
        ("00", "Radeon 860M Graphics"),
    ],
)
def test_the_revision_tells_products_of_one_pci_id_apart(revision: str | None, name: str) -> None:
    found = find_by_pci_id("1002", "1114", FACTS, revision=revision)
    assert (found.vendor, found.name, [str(arch) for arch in found.archs]) == ("amd", name, ["gfx1152"])


def test_every_device_of_the_tables_has_its_architecture() -> None:
    classes = device_classes(FACTS)
    for vendor, chips in (("10de", FACTS.nvidia.chip), ("1002", FACTS.amd.chip), ("8086", FACTS.intel.chip)):
        assert len(classes[vendor]) > 100
        for device, arch in classes[vendor].items():
            assert str(find_by_pci_id(vendor, device, FACTS).archs[0]) == arch
            assert any(chip.arch == arch for chip in chips.values()) and ":" not in device
    assert classes["10de"]["1024"] == "sm_35" and classes["1002"]["1114"] == "gfx1152"


@pytest.mark.parametrize("name", ["orin", "thor", "tx2", "agx xavier", "NVIDIA Jetson Xavier NX"])
def test_a_jetson_goes_by_its_name_alone(name: str) -> None:
    assert find_gpu(name, FACTS).name.startswith("Jetson")


def test_a_renamed_chip_goes_by_its_last_name() -> None:
    assert [str(arch) for arch in find_gpu("sm_101", FACTS).archs] == ["sm_110"]


@pytest.mark.parametrize("name", ["Intel Something New", "Arc B999", "UHD Graphics 1"])
def test_an_intel_gpu_that_no_table_has_is_still_intels(name: str) -> None:
    assert find_gpu(name, FACTS) == ("intel", name, (), ())


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [("8800", "GeForce 8800 GTS"), ("GeFors RTX 3050 6GB Laptop GPU9", "GeForce RTX 3050 6GB Laptop GPU")],
)
def test_of_many_near_names_four_are_told(typed: str, nearest: str) -> None:
    with pytest.raises(BadInput) as refused:
        find_gpu(typed, FACTS)
    assert refused.value.remedy is not None and refused.value.remedy.startswith(f"did you mean {nearest!r} or ")
    assert refused.value.remedy.count(" or ") == 3


@pytest.mark.parametrize("name", ["nano", "jetson", "agx"])
def test_a_word_that_many_things_are_called_is_no_jetson(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        find_gpu(name, FACTS)


@pytest.mark.parametrize("newer", ["sm_130", "sm_900", "gfx1260", "gfx9900"])
def test_an_architecture_newer_than_every_known_one_is_believed(newer: str) -> None:
    assert str(find_gpu(newer, FACTS).archs[0]) == newer
    for arch in known_archs(FACTS):
        assert find_gpu(str(arch), FACTS).archs


def test_a_name_has_its_own_owner() -> None:
    for kind in ("modules", "messages"):
        rows = load_names(kind).row
        plain = [row for row in rows if row.match.isidentifier()]
        assert all(owner_of(kind, row.match) is next(r for r in rows if r.match == row.match) for row in plain)
    assert owner_of("modules", "no_module_of_anybody") is None
    cv2 = owner_of("modules", "cv2")
    assert cv2 is not None and cv2.owner == "OpenCV"


def test_a_name_longer_than_any_real_one_is_nobodys() -> None:
    longest = owner_of("modules", "flash_attn".ljust(400, "x"))
    assert longest is not None and longest.match == "flash_attn.*"
    assert owner_of("modules", "flash_attn".ljust(401, "x")) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Intel(R) Xeon(R) CPU E5-2690 v2 @ 3.00GHz", "ivybridge"),
        ("Xeon E5-2690 v3", "haswell"),
        ("Core i7-4820K", "ivybridge"),
        ("Core i7-4770", "haswell"),
        ("AMD Ryzen 5 3600X", "zen2"),
        ("Core i9, 14th generation", "alderlake"),
        ("AMD FX-8350", "piledriver"),
        ("Phenom II X6", "k10"),
        ("Ivy Bridge", "ivybridge"),
        ("arm64", "aarch64"),
        ("x86-64 CPU without AVX", "x86_64_v2"),
        ("an old server without AVX2", "sandybridge"),
        ("Intel(R) Xeon(R) CPU E7- 4870  @ 2.40GHz", "westmere"),
        ("AMD 3020e with Radeon Graphics", "zen"),
        ("AMD EPYC-Milan Processor", "zen3"),
        ("AMD EPYC-Rome Processor", "zen2"),
        ("QEMU Virtual CPU version 2.5+", "x86_64"),
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "sandybridge"),
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "icelake"),
        ("Intel(R) Core(TM) i9-10980XE", "cascadelake"),
        ("AMD Ryzen 7 5700U with Radeon Graphics", "zen2"),
        ("AMD Ryzen 5 7430U with Radeon Graphics", "zen3"),
        ("AMD Ryzen 3 7320U with Radeon Graphics", "zen2"),
        ("AMD Athlon(tm) II X4 640 Processor", "k10"),
        ("AMD Opteron(tm) Processor 6276", "bulldozer"),
        ("AMD A12-9800 RADEON R7, 12 COMPUTE CORES 4C+8G", "excavator"),
        ("Intel(R) Xeon(R) CPU D-2183IT @ 2.20GHz", "skylake_avx512"),
    ],
)
def test_a_cpu_is_found(name: str, kind: str) -> None:
    assert find_cpu(name, FACTS) == kind


@pytest.mark.parametrize(
    ("name", "glibc"),
    [
        ("ubuntu-22.04", "2.35"),
        ("Ubuntu 18.04.6 LTS", "2.27"),
        ("centos-7", "2.17"),
        ("arch", None),
        ("amzn-2", "2.26"),
        ("amazonlinux-2", "2.26"),
        ("Amazon Linux 2023", "2.34"),
        ("Red Hat Enterprise Linux 8.10 (Ootpa)", "2.28"),
        ("Linux Mint 21.3", "2.35"),
        ("wsl2-ubuntu-24.04", "2.39"),
        ("openSUSE Leap 15.5", "2.31"),
        ("openSUSE Leap 15.6", "2.38"),
    ],
)
def test_a_distribution_tells_its_glibc(name: str, glibc: str | None) -> None:
    row = find_distro(name, FACTS)
    assert (row.glibc if row else None) == glibc


@pytest.mark.parametrize(
    ("typed", "meant"), [("GeForse RTX 3060", "GeForce RTX 3060"), ("Telsa K40c", "Tesla K40c"), ("RTX 30600", "3060")]
)
def test_a_misspelt_name_brings_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(BadInput) as refused:
        find_gpu(typed, load_facts())
    assert meant in (refused.value.remedy or "")


def test_what_a_plain_install_gives() -> None:
    assert FACTS.is_pypi_default("2.6.0", "cu124", "linux_x86_64")
    assert not FACTS.is_pypi_default("2.6.0", "cu118", "linux_x86_64")
    assert not FACTS.is_pypi_default("9.9", "cu124", "linux_x86_64"), "a release that nobody published"
    assert not FACTS.is_pypi_default("2.6.0", "cu124", "linux_x86_64", "2.7")


def test_words_without_a_number_are_a_card_only_as_a_whole() -> None:
    assert [product.name for product in find_products(" radeon SERIES", FACTS)] == ["Radeon Series"]
    assert find_products("Radeon", FACTS) == find_products("GeForce Foo", FACTS) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("V100 SXM2 16GB", "Tesla V100 SXM2 16GB"),
        ("quadro H100", "H100"),
        ("GTX 660 OEM", "GeForce GTX 660 OEM"),
        ("quadro RTX A4500", "RTX A4500"),
    ],
)
def test_a_name_without_its_line_is_still_the_one_with_that_memory_and_form(text: str, name: str) -> None:
    assert {product.name for product in find_products(text, FACTS)} == {name}


def test_a_number_alone_is_a_geforce() -> None:
    found = find_gpu("1080 ti", FACTS)
    assert found is not None and found.name == "GeForce GTX 1080 Ti"
    assert find_gpu("4070 ti super", FACTS).name == "GeForce RTX 4070 Ti SUPER"
    with pytest.raises(BadInput):
        find_gpu("1080 ti super", FACTS)


def test_the_toolkits_of_a_board() -> None:
    assert "12.6" in jetson_cuda(Sm(8, 7), FACTS)
    assert jetson_cuda(Sm(8, 0), FACTS) == ()


def test_what_brings_a_name_is_said_for_the_system() -> None:
    owner = NameOwner(match="x", owner="y", apt="libx-dev", conda="x", windows="its installer")
    assert owner.install("linux") == "apt install libx-dev (Debian, Ubuntu), or conda install -c conda-forge x"
    assert owner.install("windows") == "conda install -c conda-forge x, or its installer"
    assert owner.install("macos") == "conda install -c conda-forge x"
    assert owner.install() == f"{owner.install('linux')}, or on Windows: its installer"


@pytest.mark.parametrize(("name", "tegra"), [("sm_53", True), ("sm_72", True), ("sm_87", True), ("sm_86", False)])
def test_architectures_that_only_jetsons_have(name: str, tegra: bool) -> None:
    arch = parse_gpu_arch(name)
    assert isinstance(arch, Sm) and load_facts().is_tegra(arch) is tegra


def test_older_cards_sort_before_newer_and_unknown_ones_first() -> None:
    names = ("sm_121", "sm_90a", "sm_35", "sm_100", "sm_90", "sm_86")
    archs = sorted([*(parse_gpu_arch(name) for name in names), None], key=sort_key)
    assert [str(arch) for arch in archs] == ["None", "sm_35", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_121"]
    amd = sorted([None, parse_gpu_arch("gfx1100"), parse_gpu_arch("gfx803")], key=sort_key)
    assert [str(arch) for arch in amd] == ["None", "gfx803", "gfx1100"]
    assert sort_key(None) == (-1, 0, "")


def test_sources_that_stand_most_often_come_first() -> None:
    found = facts_sources()
    counts = [use.rows for use in found.sources]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    alike = [use.source for use in found.sources if use.rows == counts[-1]]
    assert alike == sorted(alike) and found.oldest < found.newest


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2, 1]}),
        ({"a": [1]}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": {"x": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
    ],
)
def test_what_is_laid_over_a_table_counts_first(ours: Any, theirs: Any, merged: Any) -> None:
    assert _merge_tables(ours, theirs) == merged
