"""Published wheels: what was found wrong once stays right, and rows agree with their releases."""

from __future__ import annotations

import pytest

from rekindle.facts import load_facts
from rekindle.model.facts import Flavour, Platform

FACTS = load_facts()


def _row(torch: str, name: str) -> Flavour:
    return next(row for row in FACTS.flavours(torch) if row.name == name)


@pytest.mark.parametrize(
    ("torch", "windows"), [("1.10.2", True), ("1.11.0", False), ("1.12.0", False), ("1.12.1", False)]
)
def test_cuda_10_2_left_windows_after_1_10(torch: str, windows: bool) -> None:
    assert ("windows" in _row(torch, "cu102").sm) is windows
    assert "linux_x86_64" in _row(torch, "cu102").sm


def test_a_wheel_may_want_a_newer_glibc_than_its_release() -> None:
    assert FACTS.torch.release["2.6.0"].glibc["linux_x86_64"] == "2.17"
    assert _row("2.6.0", "rocm6.2.4").glibc == "2.28"
    assert _row("2.6.0", "cu126").glibc == "2.28"
    assert _row("2.6.0", "cu124").glibc is None


@pytest.mark.parametrize(("name", "there"), [("rocm7.2", True), ("rocm7.14", True), ("rocm7.1", False)])
def test_the_rocm_flavours_of_2_14(name: str, there: bool) -> None:
    assert (name in {row.name for row in FACTS.flavours("2.14.0")}) is there
    assert (name in {row.name for row in FACTS.flavours("2.14.1")}) is there


def test_python_3_15_came_with_2_14_on_the_index_and_with_2_15_on_pypi() -> None:
    platform: Platform = "linux_x86_64"
    assert "3.15" not in FACTS.torch.release["2.14.0"].pythons[platform]
    assert "3.15" in _row("2.14.0", "cu130").pythons[platform]
    assert not _row("2.13.0", "cu130").pythons
    assert "3.15" in FACTS.torch.release["2.15.0"].pythons[platform]


def test_an_index_has_at_least_the_pythons_of_pypi() -> None:
    for version, release in FACTS.torch.release.items():
        for row in FACTS.flavours(version):
            if row.publisher == "pytorch":
                for platform, pythons in row.pythons.items():
                    assert set(pythons) >= set(release.pythons.get(platform, ())), (version, row.name, platform)


@pytest.mark.parametrize(
    ("torch", "triton"),
    [("1.13.1", None), ("2.0.0", "2.0.0"), ("2.13.0", "3.7.1"), ("2.14.0", "3.8.0"), ("2.15.0", "3.9.0")],
)
def test_triton(torch: str, triton: str | None) -> None:
    assert FACTS.torch.release[torch].triton == triton
