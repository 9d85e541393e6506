"""One name for each family of CPUs."""

from __future__ import annotations

import pytest

from rekindle.model.machine import cpu_arch


@pytest.mark.parametrize(
    ("said", "meant"),
    [("AMD64", "x86_64"), ("x86-64", "x86_64"), ("x64", "x86_64"), ("arm64", "aarch64"), ("aarch64", "aarch64"),
     ("RISCV64", "riscv64"), ("", "")],
)  # fmt: skip
def test_a_family_has_one_name(said: str, meant: str) -> None:
    assert cpu_arch(said) == meant
