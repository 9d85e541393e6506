"""Intel's GPUs for the doctor: found by their numbers, and what an installed torch can do with them."""

from __future__ import annotations

from rekindle.doctor.pythons import torch_with_verdict
from rekindle.model.machine import Gpu, InstalledTorch, Machine, Os
from rekindle.plan.describe import machine_from_flags


def verdict(version: str, *cards: str) -> str | None:
    machine = machine_from_flags(gpu=cards, os="linux", arch="x86_64")
    return torch_with_verdict(machine, InstalledTorch(version=version, python="python", works=True)).why


def test_an_xpu_torch_is_judged_by_the_card() -> None:
    assert verdict("2.13.0+xpu", "Arc B580") is None
    assert "no such card" in str(verdict("2.13.0+xpu", "RTX 3060"))
    assert "no code" in str(verdict("2.5.1+xpu", "Arc B580")) or "older than" in str(verdict("2.5.1+xpu", "Arc B580"))
    assert "CPU build" in str(verdict("2.13.0+cpu", "Arc B580"))


def test_graphics_that_no_torch_drives_are_no_reason_to_warn_of_a_cpu_build() -> None:
    assert verdict("2.13.0+cpu", "UHD Graphics 630") is None
    assert "CPU build" in str(verdict("2.13.0+cpu", "RTX 3060", "UHD Graphics 630"))


def test_a_card_whose_generation_is_not_known_is_not_taken_for_one_that_works() -> None:
    machine = Machine(os=Os(system="linux", arch="x86_64"), gpus=(Gpu(vendor="intel", name="Intel Graphics"),))
    torch = InstalledTorch(version="2.13.0+cpu", python="python", works=True)
    assert torch_with_verdict(machine, torch).why is None
