"""One name for each family of CPUs."""

from __future__ import annotations

import pytest

from rekindle.model.machine import cpu_arch, platform_of


@pytest.mark.parametrize(
    ("said", "meant"),
    [("AMD64", "x86_64"), ("x86-64", "x86_64"), ("x64", "x86_64"), ("arm64", "aarch64"), ("aarch64", "aarch64"),
     ("RISCV64", "riscv64"), ("", "")],
)  # fmt: skip
def test_a_family_has_one_name(said: str, meant: str) -> None:
    assert cpu_arch(said) == meant


@pytest.mark.parametrize(
    ("tag", "platform"),
    [
        ("manylinux_2_28_x86_64", ("linux", "x86_64")),
        ("manylinux2014_aarch64", ("linux", "aarch64")),
        ("linux_x86_64", ("linux", "x86_64")),
        ("win_amd64", ("windows", "x86_64")),
        ("win_arm64", ("windows", "aarch64")),
        ("macosx_11_0_arm64", ("macos", "aarch64")),
        ("any", (None, None)),
        ("linux_sparc", ("linux", None)),
    ],
)
def test_the_platform_of_a_wheel(tag: str, platform: tuple[str | None, str | None]) -> None:
    assert platform_of(tag) == platform
