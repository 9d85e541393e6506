"""GPU names as tools print them; and no name ever means a product with another number."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.gpus import alternatives, find_gpu, find_products, known_archs, product_names, spell
from rekindle.model.arch import Sm

FACTS = load_facts()


@pytest.mark.parametrize(
    ("name", "archs"),
    [
        ("NVIDIA H100 80GB HBM3", "sm_90"),
        ("H100 NVL", "sm_90"),
        ("NVIDIA GH200 480GB", "sm_90"),
        ("NVIDIA GB200", "sm_100"),
        ("NVIDIA GB300", "sm_103"),
        ("NVIDIA A100-SXM4-40GB", "sm_80"),
        ("A100 40GB", "sm_80"),
        ("Tesla P100-PCIE-16GB", "sm_60"),
        ("Tesla V100-SXM2-32GB-LS", "sm_70"),
        ("NVIDIA GeForce GTX 1070 with Max-Q Design", "sm_61"),
        ("GeForce RTX 2080 Super with Max-Q Design", "sm_75"),
        ("GeForce GTX 1650 Ti with Max-Q Design", "sm_75"),
        ("NVIDIA GeForce RTX 3050 Laptop GPU", "sm_86"),
        ("Orin", "sm_87"),
        ("Orin (nvgpu)", "sm_87"),
        ("NVIDIA Tegra X1", "sm_53"),
        ("Tesla M2050", "sm_20"),
        ("P100", "sm_60"),
        ("K40", "sm_35"),
        ("sm61", "sm_61"),
        ("GeForce 720A", "sm_21"),
        ("GT 630", "sm_35 sm_21"),
        ("GT 640", "sm_35 sm_30"),
        ("GTX 1060", "sm_61"),
        ("RTX 4000", "sm_75"),
        ("RTX 4000 Ada Generation", "sm_89"),
        ("Instinct MI50", "gfx906"),
        ("MI50", "gfx906"),
        ("MI60", "gfx906"),
        ("MI350X", "gfx950"),
        ("R9 290", "gfx701"),
        ("AMD Radeon R9 390X", "gfx701"),
        ("RX 6850M XT", "gfx1031"),
        ("Steam Deck", "gfx1033"),
        ("5600G", "gfx90c"),
        ("Ryzen 7 5700G", "gfx90c"),
        ("AMD Ryzen 5 5600G with Radeon Graphics", "gfx90c"),
        ("Radeon Pro Vega 20", "gfx904"),
        ("HD 7970", "gfx600"),
        ("Vega 8", "gfx90c gfx902"),
        ("RX 580", "gfx803"),
    ],
)
def test_a_name_as_a_tool_prints_it(name: str, archs: str) -> None:
    assert " ".join(map(str, find_gpu(name, FACTS).archs)) == archs


@pytest.mark.parametrize(
    ("name", "meant"),
    [("Quadro K40", "Tesla K40m"), ("RTX 40", "RTX"), ("GTX 9700", "GTX 970"), ("MI5", ""), ("sm_99", "sm_90")],
)
def test_what_is_no_product_is_unknown_with_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(BadInput) as refused:
        find_gpu(name, FACTS)
    assert meant in (refused.value.remedy or "")


@pytest.mark.parametrize("arch", ["sm_99", "sm99", "9.9", "gfx999", "compute_13", "gfx1"])
def test_an_architecture_nobody_makes_is_unknown(arch: str) -> None:
    if arch == "compute_13":  # GT200: long gone, but real
        assert find_gpu(arch, FACTS).archs == (Sm(1, 3),)
        return
    with pytest.raises(BadInput):
        find_gpu(arch, FACTS)


def test_an_architecture_newer_than_all_of_them_may_exist() -> None:
    newest = max(arch for arch in known_archs(FACTS) if isinstance(arch, Sm))
    later = Sm(newest.major, newest.minor + 1)
    assert find_gpu(str(later), FACTS).archs == (later,)


def test_every_architecture_of_the_tables_is_accepted() -> None:
    for arch in known_archs(FACTS):
        assert find_gpu(str(arch), FACTS).archs


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+", text))


NAMES = sorted({product.name for _, product in product_names(FACTS)})


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(NAMES), at=st.integers(0, 60), digit=st.sampled_from("0123456789"))
def test_a_changed_number_never_means_a_product_without_that_number(name: str, at: int, digit: str) -> None:
    """Put a digit anywhere into a real name: what is found has every number that was asked for, or nothing is."""
    place = at % (len(name) + 1)
    changed = name[:place] + digit + name[place:]
    asked = {token for token in spell(changed).core if token.isdigit()}
    for product in find_products(changed, FACTS):
        assert asked <= _numbers(product.name), (changed, product.name)


def test_the_makers_word_decides_and_without_it_both_are_offered() -> None:
    assert str(find_gpu("Radeon 840M", FACTS).archs[0]).startswith("gfx")
    assert str(find_gpu("GeForce 840M", FACTS).archs[0]).startswith("sm_")
    with pytest.raises(BadInput) as refused:
        find_gpu("840M", FACTS)
    assert "Radeon 840M" in (refused.value.remedy or "") and "GeForce 840M" in (refused.value.remedy or "")


def test_a_shortened_name_counts_only_where_letters_are_missing_and_all_agree() -> None:
    assert {product.chip.arch for product in find_products("K40", FACTS)} == {"sm_35"}
    assert find_products("PG160", FACTS) == []  # there is a "PG160 SKU18": a number is missing
    assert find_products("GTX 860", FACTS) == []  # a GTX 860M is sm_30 or sm_50


def test_shared_names_are_told_apart() -> None:
    assert alternatives("Instinct MI60 / MI50") == ("Instinct MI60", "MI50")
    assert alternatives("Radeon HD 8600 / 8700M") == ("Radeon HD 8600", "Radeon HD 8700M")
    assert alternatives("Tesla K80") == ("Tesla K80",)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "gfx1103"),
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "gfx1151"),
        ("AMD Ryzen 7 5700G with Radeon Graphics", "gfx90c"),
        ("AMD Ryzen 5 3400G with Radeon Vega Graphics", "gfx902"),
        ("Ryzen AI 9 HX 370", "gfx1150"),
        ("GeForce RTX 2060 with Max-Q Design", "sm_75"),
    ],
)
def test_a_gpu_named_by_the_cpu_around_it(name: str, arch: str) -> None:
    assert str(find_gpu(name, FACTS).archs[0]) == arch


@pytest.mark.parametrize(
    ("name", "product", "arch"),
    [
        ("GRID M10-8Q", "Tesla M10", "sm_50"),
        ("NVIDIA A10-4Q", "A10", "sm_86"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None, "sm_80"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", None, "sm_90"),
        ("NVIDIA L40S-48Q", "L40S", "sm_89"),
        ("GRID V100D-8Q", None, "sm_70"),
        ("NVIDIA A100D-1-10C", None, "sm_80"),
        ("Geforce 1080ti", "GeForce GTX 1080 Ti", "sm_61"),
        ("GeForce 3090", "GeForce RTX 3090", "sm_86"),
        ("BC-250", "BC-250", "gfx1013"),
        ("1002:13fe", "BC-250", "gfx1013"),
    ],
)
def test_shares_of_a_card_and_names_without_their_line(name: str, product: str | None, arch: str) -> None:
    found = find_gpu(name, FACTS)
    assert [str(each) for each in found.archs] == [arch]
    assert product in (None, found.name)


def test_the_line_of_a_name_is_not_exchanged() -> None:
    for name in ("Radeon 1080", "Tesla 1080", "GRID 9999-8Q"):
        with pytest.raises(BadInput):
            find_gpu(name, FACTS)


@pytest.mark.parametrize("name", ["Arc 140V", "Arc 130T", "Arc B580"])
def test_arc_is_intels(name: str) -> None:
    assert find_gpu(name, FACTS).vendor == "intel"
