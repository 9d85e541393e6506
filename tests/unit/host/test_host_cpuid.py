"""The leaves that are asked of a processor: those it has, with their subleaves, and no other."""

from __future__ import annotations

import platform
import sys

import pytest

from rekindle.host import cpuid

EXTENDED = 0x80000000


def leaves(highest: int, extended: int, ecx: int = 0) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    def ask(leaf: int, sub: int) -> tuple[int, int, int, int]:
        return {0: (highest, 0, 0, 0), 1: (leaf, sub, ecx, 0), EXTENDED: (extended, 0, 0, 0)}.get(
            leaf, (leaf, sub, 7, 8)
        )

    return cpuid._read_leaves(ask)


def test_only_leaves_that_the_processor_has_are_asked() -> None:
    basic = [key for key in leaves(7, EXTENDED) if key[0] < EXTENDED]
    assert basic == [(0, 0), (1, 0), (7, 0), (7, 1), (7, 2)]
    assert [key for key in leaves(6, EXTENDED) if key[0] < EXTENDED] == [(0, 0), (1, 0)]
    newest = {leaf for leaf, _ in leaves(0x24, EXTENDED)}
    assert {0xD, 0x14, 0x19, 0x24} <= newest and 2 not in newest
    assert leaves(7, EXTENDED)[7, 2] == (7, 2, 7, 8), "what it says under leaf and subleaf"


@pytest.mark.parametrize(("last", "count"), [(0, 1), (4, 5), (8, 9), (0x21, 9)])
def test_the_extended_leaves_end_where_the_processor_s_do_or_with_the_names_we_know(last: int, count: int) -> None:
    assert len([leaf for leaf, _ in leaves(1, EXTENDED + last) if leaf >= EXTENDED]) == count


def test_a_hypervisor_is_asked_only_where_there_is_one() -> None:
    assert (0x40000000, 0) in leaves(1, EXTENDED, 1 << 31)
    assert (0x40000000, 0) not in leaves(1, EXTENDED, (1 << 31) - 1)


def test_other_processors_have_no_such_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cpuid.read_cpuid.__wrapped__() is None
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    monkeypatch.setattr(cpuid, "_executable", lambda code: None)
    assert cpuid.read_cpuid.__wrapped__() is None, "pages that may not be executed"


def test_a_process_of_32_bits_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    monkeypatch.setattr(cpuid, "_executable", lambda code: pytest.fail("machine code of another width"))
    assert cpuid.read_cpuid.__wrapped__() is None
