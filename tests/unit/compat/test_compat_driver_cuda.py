"""Drivers in CUDA's numbers, on both systems, just inside and just outside."""

from collections.abc import Iterable

import pytest

from rekindle.compat.driver import Side, last_cuda, least_cuda, newest_cuda
from rekindle.compat.images import GpuCode, covers
from rekindle.compat.processor import wheel_starts
from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch, parse_sm


def targets_of(names: Iterable[str], **made: str | None) -> GpuCode:
    return GpuCode(tuple(names), **made)


FACTS = load_facts()


@pytest.mark.parametrize(
    ("driver", "side", "cuda"),
    [
        ("525.60.13", "linux", "12.0"),
        ("525.60.12", "linux", "11.8"),
        ("525.60.13", "windows", "11.8"),
        ("550.54.14", "linux", "12.4"),
        ("550.54.13", "linux", "12.3"),
        ("9.0", "linux", None),
    ],
)
def test_the_newest_cuda_a_driver_says(driver: str, side: Side, cuda: str | None) -> None:
    assert newest_cuda(driver, side, FACTS) == cuda


@pytest.mark.parametrize(("cuda", "least"), [("12.4", "12.0"), ("11.8", "11.0"), ("10.2", "10.2"), ("13.0", "13.0")])
@pytest.mark.parametrize("side", ["linux", "windows"])
def test_what_a_driver_must_say_for_a_toolkit(cuda: str, least: str, side: Side) -> None:
    assert least_cuda(cuda, side, FACTS) == least


@pytest.mark.parametrize(
    ("card", "cuda"), [("sm_35", "11.4"), ("sm_50", "13.0"), ("sm_70", "13.0"), ("sm_75", None), ("sm_120", None)]
)
@pytest.mark.parametrize("side", ["linux", "windows"])
def test_what_the_last_driver_of_a_card_says(card: str, cuda: str | None, side: Side) -> None:
    assert last_cuda(parse_sm(card), side, FACTS) == cuda


def test_code_linked_late_runs_on_newer_cards_only() -> None:
    got = covers(
        GpuCode(
            (
                "lto_80",
                "lto_90",
                "lto_120",
            )
        ),
        parse_gpu_arch("sm_100"),
        "linux",
        FACTS,
    )
    assert (got.kind, got.target) == ("jit", "lto_90")
    assert "LTO code (lto_90)" in got.text
    assert covers(GpuCode(("lto_120",)), parse_gpu_arch("sm_100"), "linux", FACTS).kind == "none"


def test_a_cpu_that_can_do_less_than_one_seen_crashing_is_not_known() -> None:
    got = wheel_starts("2.6.0", FACTS.cpu.microarchitecture["k10"].features, FACTS)
    assert (got.kind, got.code) == ("unknown", "cpu-not-seen")
    assert got.text.startswith("whether it starts is not known, and where it does, dynamic quantised Linear")
    assert got.source


def test_what_was_seen_on_a_core_2_is_said_of_it() -> None:
    got = wheel_starts("2.6.0", FACTS.cpu.microarchitecture["core2"].features, FACTS)
    assert got.kind == "partly"
    assert got.text.startswith("starts, but dynamic quantised Linear") and "core2" in got.text
