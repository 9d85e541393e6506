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
