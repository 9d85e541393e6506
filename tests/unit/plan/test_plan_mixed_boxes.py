"""Boxes with different cards: one torch for all of them where there is one, with its true age, or the newest's own."""

from __future__ import annotations

from typing import Any

import pytest
from planning import plan

from rekindle.model.plan import Plan


def warned(made: Plan, code: str) -> str:
    return " ".join(reason.text for reason in made.warnings if reason.code == code)


@pytest.mark.parametrize(
    ("cards", "flags", "answer", "torch", "kit"),
    [
        # The Windows list of 2.7 cu128 goes from 5.0 to 12.0: https://github.com/nikopueringer/CorridorKey/pull/141
        (("RTX 5070", "GTX 1080"), {"os": "windows"}, "install", "2.7.1", "cu128"),
        # cu128 of 2.8 to 2.10 holds 7.0 and 12.0: RELEASE.md of PyTorch
        (("Tesla V100", "RTX 5090"), {"driver": "580"}, "install", "2.10.0", "cu128"),
        # R470 is the last driver of Kepler and drives Turing; CUDA 11 compiles for both
        (("Tesla K40c", "RTX 2080 Ti"), {"driver": "470"}, "build", "2.6.0", "11.8"),
        # No Linux wheel has both; official builds compile 12.0 with CUDA 12.9 up to 2.13 and 6.x with CUDA 12.6
        (("RTX 5090", "Tesla P40"), {"build": True}, "build", "2.13.0", "12.9"),
        (("RTX 5090", "Tesla P40"), {}, "build", "2.13.0", "12.9"),  # a graft that nobody ran stands beside it
    ],
)
def test_one_torch_serves_all_cards(
    cards: tuple[str, ...], flags: dict[str, Any], answer: str, torch: str, kit: str
) -> None:
    made = plan(*cards, **flags)
    assert (made.answer, made.torch) == (answer, torch)
    assert (made.cuda if answer == "build" else made.variant) == kit
    assert not warned(made, "gpu-not-served") and made.as_asked


def test_beside_a_build_that_somebody_compiled_stands_the_newest_that_nobody_did() -> None:
    """CUDA 12.9 compiles 2.14.1 for both as far as is known, but PyTorch's own builds with it end at 2.13."""
    newer = next(other for other in plan("RTX 5090", "Tesla P40").alternatives if other.answer == "build")
    assert (newer.torch, newer.cuda) == ("2.14.1", "12.9") and "evidence: untried" in newer.why
    untried = plan("Tesla K40c", torch=">=2.7")
    assert untried.evidence == "untried" and all(other.answer != "build" for other in untried.alternatives)


def test_its_age_is_told_from_the_days_of_the_releases() -> None:
    made = plan("RTX 5070", "GTX 1080", os="windows")
    price = warned(made, "older-for-all")
    assert "17 months older" in price and "RTX 5070" in price and "2.15.0" in price and "--serve newest" in price
    assert any(other.torch == "2.15.0" and "RTX 5070" in other.why for other in made.alternatives)


def test_who_serves_the_newest_card_gets_its_torch_and_is_told_of_the_other() -> None:
    made = plan("RTX 5070", "GTX 1080", os="windows", serve="newest")
    assert made.torch == "2.15.0" and made.as_asked, "a card was left out on purpose"
    assert "17 months older (torch 2.7.1+cu128)" in warned(made, "gpu-not-served")
    assert made.alternatives[0].torch == "2.7.1" and "all cards" in made.alternatives[0].why


def test_serving_the_newest_changes_nothing_where_all_have_the_same() -> None:
    for serve in (None, "all", "newest"):
        made = plan("RTX 3090", "RTX 4090", serve=serve)
        assert made.torch == "2.15.0" and not warned(made, "gpu-not-served") and not warned(made, "older-for-all")


def test_cards_that_share_no_driver_are_served_in_part() -> None:
    made = plan("Tesla K40c", "H200")
    assert warned(made, "gpu-not-served") and not made.as_asked


def test_a_build_keeps_what_one_of_its_cards_can_use() -> None:
    both = plan("A100", "Tesla V100", build=True)
    assert both.build is not None and "USE_FLASH_ATTENTION" not in both.build.env
    assert any("flash attention" in loss and "sm_70" in loss for loss in both.build.losses)
    alone = plan("Tesla V100", build=True)
    assert alone.build is not None and alone.build.env["USE_FLASH_ATTENTION"] == "0"


@pytest.mark.parametrize(
    ("distro", "words"),
    [("arch", ""), ("opensuse-15.6", "zypper"), ("fedora-41", "fedora 41 itself has gcc 14"), ("ubuntu-22.04", "apt")],
)
def test_packages_are_named_for_the_system_that_was_named(distro: str, words: str) -> None:
    made = plan("sm_35", distro=distro, build=True)
    assert made.build is not None
    told = made.build.toolchain["compiler"]
    assert words in told and (words == "apt" or "apt " not in told)


def test_a_build_that_may_lack_one_card_does_not_take_the_wheel_from_the_other() -> None:
    made = plan("RX 7900 XTX", "RX 580")
    assert made.answer == "install" and "gfx803" in warned(made, "gpu-not-served")
    assert plan("RX 7900 XTX", "RX 580", serve="all").answer == "build", "who asks for all gets the build"
    sure = plan("RX 7900 XTX", "RX 6800")
    assert sure.answer == "install" and not warned(sure, "gpu-not-served")


def test_the_last_torch_is_the_last_for_all_cards_together() -> None:
    both = plan("RTX 5070", "GTX 1080", os="windows")
    assert "GeForce GTX 1080 (sm_61) together" in warned(both, "last-torch")
    assert "together" not in warned(plan("GTX 1080"), "last-torch") != ""
