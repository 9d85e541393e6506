"""Families with ways of their own: AMD on Windows, Polaris, Strix Halo, Jetson, Windows on Arm, POWER, old systems."""

from __future__ import annotations

import msgspec
import pytest
from planning import plan

from rekindle import api
from rekindle.model.plan import Plan, Wish
from rekindle.plan.describe import machine_from_flags


def told(made: Plan) -> str:
    return " ".join(reason.text for reason in (*made.because, *made.warnings))


def codes(made: Plan) -> set[str]:
    return {warning.code for warning in made.warnings}


@pytest.mark.parametrize(
    ("card", "target"), [("RX 6600", "gfx1032"), ("RX 7900 XTX", "gfx1100"), ("RX 9070", "gfx1201")]
)
def test_amd_on_windows_is_one_line_with_vision_and_audio(card: str, target: str) -> None:
    made = plan(card, os="windows")
    (line,) = made.commands
    assert f"torch[device-{target}]==" in line and f"torchvision[device-{target}]==" in line and "torchaudio==" in line
    assert "HSA_OVERRIDE" not in " ".join(made.commands), "the device extra is the one truth"
    assert "amd-driver-windows" in codes(made)


def test_every_amd_plan_names_its_driver() -> None:
    assert "amd-driver-linux" in codes(plan("RX 7900 XTX"))
    assert "amd-under-wsl" in codes(plan("RX 7900 XTX", distro="wsl2-ubuntu-24.04"))
    assert "amd-driver-linux" not in codes(plan("RX 7900 XTX", distro="wsl2-ubuntu-24.04"))


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_graphics_inside_the_processor_are_not_planned_for_beside_a_card(system: str) -> None:
    made = plan("RX 7900 XTX", "gfx1036", os=system)
    assert "HIP_VISIBLE_DEVICES" in told(made) and "gfx1036]" not in " ".join(made.commands)
    alone = plan("gfx1036", os=system)
    assert alone.answer == "install" and "graphics-beside-card" not in codes(alone)


def test_a_card_beside_graphics_is_shown_alone_where_their_order_is_known() -> None:
    machine = machine_from_flags(gpu=["gfx1036", "RX 7900 XTX"], os="linux")
    by_hand = api.plan(machine, Wish(python="3.12"), wheelhouses=())
    assert "HIP_VISIBLE_DEVICES" not in by_hand.env
    seen = msgspec.structs.replace(machine, gpus=tuple(msgspec.structs.replace(gpu, how="kfd") for gpu in machine.gpus))
    assert api.plan(seen, Wish(python="3.12"), wheelhouses=()).env["HIP_VISIBLE_DEVICES"] == "1"


def test_what_known_problems_ask_for_while_torch_runs_is_set() -> None:
    fast = {"MIOPEN_FIND_MODE": "FAST"}
    assert plan("gfx1151").env == {**fast, "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    assert plan("gfx1151", os="windows").env == fast
    assert plan("RX 7900 XTX", distro="wsl2-ubuntu-24.04").env == {"HSA_ENABLE_DXG_DETECTION": "1"}
    assert plan("RX 7900 XTX").env == {}


def test_strix_halo_gets_its_advice() -> None:
    linux, windows = told(plan("gfx1151")), told(plan("gfx1151", os="windows"))
    assert "6.17" in linux and "ttm" in linux and "MIOPEN_FIND_MODE" in linux and "MIOPEN_FIND_MODE" in windows


def test_polaris_has_other_ways_named_with_their_limits() -> None:
    linux, windows = plan("RX 580"), plan("RX 580", os="windows")
    assert linux.answer == "build" and "gfx803_rocm" in told(linux) and "PyTorch-GFX803" in told(linux)
    assert (windows.answer, windows.variant, windows.as_asked) == ("install", "cpu", False)
    assert all(word in told(windows) for word in ("Vulkan", "torch-directml", "ZLUDA"))


@pytest.mark.parametrize(
    ("board", "flags", "variant", "torch"),
    [
        ("Jetson Orin", {"python": "3.10"}, "jp6", "2.8.0"),
        ("Jetson AGX Orin", {"cuda": "12.6", "python": "3.10"}, "jp6", "2.8.0"),
        ("Jetson Orin", {"python": "3.12"}, "cu132", "2.15.0"),
        ("Jetson Xavier NX", {"cuda": "11.4", "python": "3.8"}, "jp51", "2.1.0"),
    ],
)
def test_a_board_gets_the_wheel_of_its_jetpack_before_a_build(
    board: str, flags: dict[str, str], variant: str, torch: str
) -> None:
    made = plan(board, **flags)
    assert (made.answer, made.variant, made.torch, made.as_asked) == ("install", variant, torch, True)


def test_who_asks_a_board_for_another_torch_gets_its_build() -> None:
    made = plan("Jetson Orin", cuda="12.6", python="3.10", torch="2.11.0")
    assert (made.answer, made.torch) == ("build", "2.11.0")


def test_no_other_arm_machine_is_offered_a_boards_wheel() -> None:
    for card in ("GH200", "GB10", "sm_90"):
        made = plan(card, arch="aarch64", torch="2.8.0")
        assert made.variant not in ("jp6", "jp51", "jp61")


def test_windows_on_arm_has_wheels_of_its_own() -> None:
    made = plan("none", os="windows", arch="aarch64", python="3.12")
    assert (made.answer, made.variant, made.as_asked) == ("install", "cpu", True)
    card = plan("RTX 3060", os="windows", arch="aarch64")
    assert card.variant == "cpu" and not card.as_asked and "Windows on Arm" in told(card)
    assert plan("none", os="windows", arch="aarch64", torch="2.6.0").changes, "the first is 2.7"


@pytest.mark.parametrize(("arch", "word"), [("ppc64le", "POWER"), ("s390x", "IBM Z"), ("riscv64", "riscv64")])
def test_other_machines_are_refused_in_their_own_words(arch: str, word: str) -> None:
    made = plan("none", arch=arch)
    assert made.answer == "none" and word in told(made)


def test_old_systems_are_planned_as_what_they_are() -> None:
    seven = plan("none", os="windows-7", python="3.11")
    assert seven.python == "3.8" and "last that runs on windows-7" in seven.changes[0].why
    card = plan("GTX 1080", os="windows-7")
    assert card.cuda is not None and card.cuda.startswith("11."), "no driver of R525 or newer exists there"
    assert plan("none", os="windows-8.1").python == "3.12" and plan("none", os="windows-10").python == "3.12"
    centos = plan("none", distro="centos-6")
    assert centos.answer == "none" and "container" in told(centos)


def test_a_wheel_whose_cuda_knows_the_card_comes_before_one_that_does_not() -> None:
    assert plan("GB10", torch="2.10.0").variant == "cu130"
    assert plan("RTX 5090", torch="2.10.0").variant == "cu128", "both know it: PyPI's own"


def test_the_last_torch_of_a_card_is_said_to_be_the_last() -> None:
    pascal = next(warning.text for warning in plan("GTX 1080").warnings if warning.code == "last-torch")
    assert "2.14.1 is the last" in pascal and "R580" in pascal
    assert pascal.endswith("last driver branch too, with fixes until June 2028 (GeForce cards: October 2028).")
    for card, flags in (("RTX 3060", {}), ("GTX 1080", {"torch": "2.10.0"}), ("Arc A770", {})):
        assert "last-torch" not in codes(plan(card, **flags))
