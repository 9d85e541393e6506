"""Trimming device code: what a wanted card could run before, it can run after; nothing else moves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binaries import make_elf, make_entry, make_fatbin, make_pe
from rekindle.bundle.trim import trim
from rekindle.compat.toolkit import ptx_runs, sass_runs_on
from rekindle.formats.elf import Elf
from rekindle.formats.fatbin import Container, read_containers
from rekindle.formats.pe import Pe
from rekindle.model.arch import Sm, parse_sm

SASS, PTX = 2, 1
ARCHS = (35, 37, 50, 61, 70, 75, 80, 86, 90, 120)
entry = st.builds(
    lambda kind, arch, size: make_entry(kind, arch, payload=bytes([arch]) * size),
    st.sampled_from([SASS, PTX]), st.sampled_from(ARCHS), st.integers(1, 40).map(lambda n: n * 8),
)  # fmt: skip
containers = st.lists(st.lists(entry, min_size=1, max_size=6), min_size=1, max_size=4)


def _read(data: bytes) -> list[Container]:
    elf = Elf(data)
    section = elf.section(".nv_fatbin")
    assert section is not None
    return list(read_containers(data, *elf.content(section)))


def _runs(container: Container, card: Sm) -> bool:
    return any(
        (e.kind == "sass" and sass_runs_on(e.arch, card)) or (e.kind == "ptx" and ptx_runs(e.arch, card))
        for e in container.entries
    )


@settings(max_examples=60)
@given(containers, st.sets(st.sampled_from(["sm_35", "sm_61", "sm_86", "sm_120"]), min_size=1))
def test_a_wanted_card_loses_nothing_and_gains_nothing(
    tmp_path_factory: pytest.TempPathFactory, made: list[list[bytes]], wanted: set[str]
) -> None:
    path = tmp_path_factory.mktemp("trim") / "lib.so"
    before = make_elf({".nv_fatbin": make_fatbin(*made), ".other": b"kept" * 8})
    path.write_bytes(before)
    cards = [parse_sm(name) for name in wanted]
    outcome = trim(path, cards, "lib.so")
    after = path.read_bytes()
    assert len(after) == len(before) and outcome.kept_whole is None
    old, new = _read(before), _read(after)
    assert [c.offset for c in new] == [c.offset for c in old], "containers are found by their address"
    for was, now in zip(old, new, strict=True):
        assert now.entries, "never empty"
        for card in cards:
            assert _runs(was, card) == _runs(now, card)
        payloads = {before[e.offset : e.offset + e.header + e.size] for e in was.entries}
        assert {after[e.offset : e.offset + e.header + e.size] for e in now.entries} <= payloads
        if any(_runs(was, card) for card in cards):
            assert all(any(_runs(Container(0, 0, (e,)), card) for card in cards) for e in now.entries)


def test_machine_code_makes_ptx_superfluous_only_for_the_cards_that_have_it(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(
        make_elf({".nv_fatbin": make_fatbin([make_entry(SASS, 50), make_entry(PTX, 50), make_entry(SASS, 90)])})
    )
    assert trim(path, [Sm(5, 0)], "lib.so").archs == ("compute_50", "sm_90")
    path.write_bytes(
        make_elf({".nv_fatbin": make_fatbin([make_entry(SASS, 50), make_entry(PTX, 50), make_entry(SASS, 90)])})
    )
    assert trim(path, [Sm(8, 6)], "lib.so").archs == ("sm_50", "sm_90")


def test_trimming_twice_is_trimming_once(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(
        make_elf({".nv_fatbin": make_fatbin([make_entry(SASS, a) for a in ARCHS], [make_entry(SASS, 80)])})
    )
    first = trim(path, [Sm(8, 6)], "lib.so")
    once = path.read_bytes()
    assert first.bytes > 0 and trim(path, [Sm(8, 6)], "lib.so").bytes == 0 and path.read_bytes() == once


def test_windows_sections_have_short_names(tmp_path: Path) -> None:
    path = tmp_path / "lib.dll"
    path.write_bytes(make_pe({".nv_fatb": make_fatbin([make_entry(SASS, 50), make_entry(SASS, 86)])}))
    assert trim(path, [Sm(8, 6)], "lib.so").archs == ("sm_50",)
    pe = Pe(path.read_bytes())
    section = next(s for s in pe.sections if s.name == ".nv_fatb")
    (container,) = read_containers(path.read_bytes(), *pe.content(section))
    assert [str(e.arch) for e in container.entries] == ["sm_86"]


@pytest.mark.parametrize("section", ["__nv_relfatbin", ".text"])
def test_other_sections_are_left_alone(tmp_path: Path, section: str) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(make_elf({section: make_fatbin([make_entry(SASS, 50), make_entry(SASS, 86)])}))
    before = path.read_bytes()
    assert trim(path, [Sm(8, 6)], "lib.so").bytes == 0 and path.read_bytes() == before


def test_what_is_not_understood_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    damaged = bytearray(make_fatbin([make_entry(SASS, 50), make_entry(SASS, 86)]))
    damaged[16 + 8 : 16 + 16] = (1 << 40).to_bytes(8, "little")  # an entry that claims a terabyte
    path.write_bytes(make_elf({".nv_fatbin": bytes(damaged)}))
    before = path.read_bytes()
    outcome = trim(path, [Sm(8, 6)], "lib.so")
    assert outcome.kept_whole and path.read_bytes() == before
    path.write_bytes(make_elf({".nv_fatbin": make_fatbin([make_entry(9, 50), make_entry(SASS, 86)])}))
    assert trim(path, [Sm(8, 6)], "lib.so").bytes == 0, "an entry of an unknown kind keeps its container whole"


MIB = 1 << 20


def _zeroed(tmp_path: Path, dropped: int, kept: int = 16) -> tuple[bytes, bytes, Container]:
    """A library before and after, when so many bytes of another card's code lie in front of what is kept."""
    path = tmp_path / "lib.so"
    other, mine = make_entry(SASS, 50, payload=b"\x32" * dropped), make_entry(SASS, 86, payload=b"\x56" * kept)
    # A second container right behind the first: what lies there is not touched.
    before = make_elf({".nv_fatbin": make_fatbin([other, mine], [make_entry(SASS, 86, payload=b"\x57" * 24)])})
    path.write_bytes(before)
    outcome = trim(path, [Sm(8, 6)], "lib.so")
    assert (outcome.archs, outcome.bytes) == (("sm_50",), 64 + dropped)
    after = path.read_bytes()
    return before, after, _read(before)[0]


@pytest.mark.parametrize(
    "dropped", [8, MIB - 64 - 8, MIB - 64, MIB - 64 + 8, 2 * MIB - 64, 2 * MIB - 56, 3 * MIB - 64, 5 * MIB // 2]
)
def test_what_is_taken_out_becomes_zeros_to_its_last_byte(tmp_path: Path, dropped: int) -> None:
    before, after, was = _zeroed(tmp_path, dropped)
    now = _read(after)[0]
    end, used = was.offset + was.size, now.offset + now.size
    assert end - used == 64 + dropped and after[used:end] == bytes(end - used)
    assert b"\x32" not in after[was.offset + 16 : end], "nothing of the other card's code is left"
    assert after[used - 16 : used] == b"\x56" * 16, "what is kept ends where the zeros begin"
    assert after[end:] == before[end:] and after[: was.offset] == before[: was.offset], "nothing else is written"


def test_what_is_kept_may_be_larger_than_what_goes(tmp_path: Path) -> None:
    _, after, was = _zeroed(tmp_path, 8, kept=2 * MIB)
    (entry,) = _read(after)[0].entries
    assert after[entry.offset + 64 : entry.offset + 64 + entry.size] == b"\x56" * (2 * MIB)
    assert after[was.offset + was.size - 72 : was.offset + was.size] == bytes(72)


@pytest.mark.parametrize(("data", "why"), [(b"", "it is empty"), (b"M", None), (b"#!/bin/sh\n", None)])
def test_what_holds_no_device_code_at_all_stays_as_it_is(tmp_path: Path, data: bytes, why: str | None) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(data)
    outcome = trim(path, [Sm(8, 6)], "torch/lib/lib.so")
    assert (outcome.file, outcome.kept_whole, outcome.bytes) == ("torch/lib/lib.so", why, 0)
    assert path.read_bytes() == data


def test_where_no_card_is_served_the_smallest_entry_stays(tmp_path: Path) -> None:
    """A longer header counts as well as a longer image."""
    path = tmp_path / "lib.so"
    entries = [make_entry(SASS, 50, payload=b"\1" * 40), make_entry(SASS, 70, payload=b"\2" * 24, header=96),
               make_entry(SASS, 90, payload=b"\3" * 48)]  # fmt: skip
    path.write_bytes(make_elf({".nv_fatbin": make_fatbin(entries)}))
    assert trim(path, [Sm(8, 6)], "lib.so").archs == ("sm_70", "sm_90")
    (kept,) = _read(path.read_bytes())[0].entries
    assert str(kept.arch) == "sm_50" and kept.size == 40


def test_architectures_are_told_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    entries = [make_entry(SASS, arch) for arch in (120, 90, 50)] + [make_entry(PTX, 120), make_entry(SASS, 86)]
    path.write_bytes(make_elf({".nv_fatbin": make_fatbin(entries)}))
    assert trim(path, [Sm(8, 6)], "lib.so").archs == ("sm_50", "sm_90", "compute_120", "sm_120")
