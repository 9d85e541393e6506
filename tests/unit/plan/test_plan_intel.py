"""Intel's GPUs: which wheel, which driver, which of two, and those that no torch drives."""

from __future__ import annotations

import pytest
from planning import FACTS, plan

from rekindle.compat import BACKENDS
from rekindle.facts.gpus import find_gpu
from rekindle.model.arch import Xe, parse_gpu_arch
from rekindle.model.machine import Gpu


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("Arc A770", "xe_dg2"),
        ("Intel(R) Arc(TM) A750 Graphics", "xe_dg2"),
        ("Arc B580", "xe_bmg"),
        ("Arc Pro B60", "xe_bmg"),
        ("Arc 140V", "xe_lnl"),
        ("Arc 130T", "xe_arl"),
        ("Intel Data Center GPU Max 1550", "xe_pvc"),
        ("Data Center GPU Flex 170", "xe_dg2"),
        ("Iris Xe Graphics", "xe_lp"),
        ("Intel UHD Graphics 770", "xe_lp"),
        ("Intel UHD Graphics 630", "xe_gen9"),
        ("8086:56a0", "xe_dg2"),
        ("8086:e20b", "xe_bmg"),
        ("xe_ptl", "xe_ptl"),
    ],
)
def test_names_and_numbers(name: str, arch: str) -> None:
    found = find_gpu(name, FACTS)
    assert found.vendor == "intel" and [str(one) for one in found.archs] == [arch]


def test_a_name_of_both_makers_stays_with_the_older_one() -> None:
    assert find_gpu("A40", FACTS).vendor == "nvidia"


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize("card", ["Arc A770", "Arc B580", "Arc 140V", "Arc 140T", "Arc Graphics", "Arc B390"])
def test_cards_that_work_get_the_xpu_wheel_with_vision_and_audio(card: str, system: str) -> None:
    made = plan(card, os=system)
    assert (made.answer, made.variant, made.as_asked) == ("install", "xpu", True)
    assert [request.name for request in made.requests][:3] == ["torch", "torchvision", "torchaudio"]
    assert all(request.index == "https://download.pytorch.org/whl/xpu" for request in made.requests[:3])
    codes = {warning.code for warning in made.warnings}
    assert {"driver-needed", "xpu"} <= codes


def test_a_python_that_the_newest_dropped_is_kept() -> None:
    made = plan("Arc 140V", python="3.10")
    assert (made.python, made.as_asked) == ("3.10", True)
    old = plan("Arc A770", python="3.8")
    assert old.answer == "install" and not old.as_asked and old.changes[0].what == "python"


def test_the_data_center_card_is_linux_alone() -> None:
    assert plan("Data Center GPU Max 1550").variant == "xpu"
    assert plan("Data Center GPU Max 1550", os="windows").answer == "none"


@pytest.mark.parametrize("card", ["UHD Graphics 630", "Iris Xe Graphics", "HD Graphics 4600"])
def test_graphics_that_no_torch_drives_mean_the_cpu(card: str) -> None:
    made = plan(card)
    assert (made.answer, made.variant) == ("install", "cpu")
    assert any(warning.code == "gpu-unsupported" and "CPU" in warning.text for warning in made.warnings)


def test_graphics_beside_a_card_change_nothing() -> None:
    made = plan("RTX 3060", "UHD Graphics 770")
    assert made.as_asked and made.variant == plan("RTX 3060").variant
    assert all("UHD" not in warning.text for warning in made.warnings)


def test_of_two_intel_gpus_one_can_be_chosen() -> None:
    made = plan("Arc B580", "UHD Graphics 770")
    assert made.variant == "xpu" and any("ONEAPI_DEVICE_SELECTOR" in warning.text for warning in made.warnings)


def test_a_release_older_than_the_card_has_no_code_for_it() -> None:
    backend = BACKENDS["xpu"]
    card = Gpu(vendor="intel", arch=Xe("bmg"))
    rows = {row.torch: row for row in FACTS.wheels.flavour if row.name == "xpu"}
    assert backend.covers(rows["2.5"], "linux_x86_64", card, FACTS).kind == "none"
    assert backend.covers(rows["2.6"], "linux_x86_64", card, FACTS).kind == "native"
    assert backend.covers(rows["2.13"], "linux_x86_64", Gpu(vendor="intel"), FACTS).kind == "unknown"
    spirv = backend.covers(rows["2.13"], "windows", Gpu(vendor="intel", arch=Xe("arls")), FACTS)
    assert spirv.kind == "native" and spirv.target == "spirv"
    assert backend.arch_list((card,)) == ("bmg",) and backend.build_environment(("bmg",))["USE_XPU"] == "1"
    assert backend.asserts == {"USE_XPU": "ON"}


def test_a_build_for_intel_is_not_promised() -> None:
    assert plan("Arc A770", build=True).changes, "a wheel instead, and it is said"


def test_a_generation_is_spelt_in_one_way() -> None:
    assert str(parse_gpu_arch("xe_bmg")) == "xe_bmg" and parse_gpu_arch("xe_bmg") == Xe("bmg")
    with pytest.raises(ValueError, match="xe_bmg"):
        parse_gpu_arch("xe_")
