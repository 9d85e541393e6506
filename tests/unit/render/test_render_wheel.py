"""The tables of libraries and architectures: columns from old to new, and which cards the code runs on."""

from __future__ import annotations

from rekindle.model.arch import parse_gfx, parse_sm
from rekindle.model.wheel import ArchSet, ArchUse, LibraryGpu, WheelGpu, WheelReport
from rekindle.render.wheel import arch_table
from rekindle.render.wheel_cover import Cover, cards_of, cover, families
from rekindle.render.wheel_html import wheel_page


def library(name: str, **archs: tuple[str, ...]) -> LibraryGpu:
    every = tuple(arch for kind in archs.values() for arch in kind)
    uses = tuple(ArchUse(arch=arch, entries=number, bytes=1) for number, arch in enumerate(every, start=1))
    return LibraryGpu(file=f"torch/lib/{name}", uses=uses, **archs)  # type: ignore[arg-type]


def test_amd_chips_stand_from_old_to_new() -> None:
    rocm = library(
        "a.so", gfx=("gfx1030", "gfx90a:xnack-", "gfx906", "amdgcnspirv", "gfx11-generic", "gfx803", "gfx942")
    )
    assert arch_table((rocm,))[0][1:] == [
        *("gfx803", "gfx906", "gfx90a:xnack-", "gfx942", "gfx1030", "gfx11-generic", "amdgcnspirv")
    ]


def test_nvidia_machine_code_before_ptx() -> None:
    table = arch_table((library("a.so", sass=("sm_120", "sm_90a", "sm_90"), ptx=("compute_90",)), library("b.so")))
    assert table == [["", "90", "90a", "120", "ptx90"], ["a.so", "3", "2", "1", "4"], ["b.so", "·", "·", "·", "·"]]


def covered(*sets: tuple[str, str, int]) -> LibraryGpu:
    rows = tuple(ArchSet(archs=tuple(archs.split()), count=count, origin=origin) for archs, origin, count in sets)  # type: ignore[arg-type]
    archs = [arch for row in rows for arch in row.archs]
    return LibraryGpu(
        file="torch/lib/l.so",
        sets=rows,
        sass=tuple(dict.fromkeys(arch for arch in archs if arch.startswith("sm_"))),
        gfx=tuple(dict.fromkeys(arch for arch in archs if arch.startswith("gfx"))),
    )


LINALG = covered(("sm_75 sm_80", "own", 1), ("sm_80 sm_90a", "static", 32), ("sm_90", "specialised", 5))


def test_cover_is_counted_by_the_real_rule() -> None:
    assert cover(LINALG, parse_sm("sm_75")) == Cover(1, 33)
    assert cover(LINALG, parse_sm("sm_80")) == Cover(33, 33)
    assert cover(LINALG, parse_sm("sm_86")) == Cover(33, 33)  # sm_80 code runs there
    assert cover(LINALG, parse_sm("sm_70")) == Cover(0, 33)
    assert cover(LINALG, parse_gfx("gfx906")) is None
    rocm = covered(("gfx906 gfx11-generic", "own", 4), ("gfx906", "static", 1))
    assert cover(rocm, parse_gfx("gfx1100")) == Cover(4, 5)
    assert [str(card) for card in cards_of(WheelReport(gpu=WheelGpu(libraries=(rocm, LINALG))))] == [
        *("sm_75", "sm_80", "sm_90", "gfx906")
    ]


def test_the_page_says_where_a_card_is_left_alone() -> None:
    page = wheel_page(WheelReport(name="torch", version="1", gpu=WheelGpu(libraries=(LINALG,))))
    assert '<td class="partly">1 of 33</td>' in page
    assert "Turing" in page
    assert families()["sm_75"][0] == "Turing"


def test_a_name_from_a_stranger_is_no_markup() -> None:
    odd = LibraryGpu(file="torch/<script>.so", sets=LINALG.sets, sass=LINALG.sass)
    assert "<script>" not in wheel_page(WheelReport(name="<b>", gpu=WheelGpu(libraries=(odd,))))
