"""The tables of libraries and architectures: columns from old to new, and what the page says at a glance."""

from __future__ import annotations

import io

from rekindle.model.wheel import (
    ArchSet,
    ArchUse,
    AxisVerdict,
    IsaUse,
    LibraryGpu,
    Verdict,
    WheelCpu,
    WheelGpu,
    WheelReport,
)
from rekindle.render.pages import wheel_page
from rekindle.render.screen import Screen
from rekindle.render.wheel import arch_table, render_wheel


def library(name: str, **archs: tuple[str, ...]) -> LibraryGpu:
    every = tuple(arch for kind in archs.values() for arch in kind)
    sets = tuple(ArchSet(archs=(arch,), count=number) for number, arch in enumerate(every, start=1))
    # More images than containers: parts for the linker, and what holds no kernel.
    uses = tuple(ArchUse(arch=arch, entries=99, bytes=1) for arch in every)
    return LibraryGpu(file=f"torch/lib/{name}", sets=sets, uses=uses, **archs)  # type: ignore[arg-type]


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


LINALG = LibraryGpu(
    file="torch/lib/l.so",
    sass=("sm_75", "sm_80", "sm_90"),
    sets=(
        ArchSet(archs=("sm_75", "sm_80"), count=1, origin="own"),
        ArchSet(archs=("sm_80", "sm_90a"), count=32, origin="static"),
        ArchSet(archs=("sm_90",), count=5, origin="specialised"),
    ),
)


def test_the_page_says_where_a_card_is_left_alone() -> None:
    page = wheel_page(WheelReport(name="torch", version="1", gpu=WheelGpu(libraries=(LINALG,))))
    assert '<td class="partly">1 of 33</td>' in page
    assert "Turing" in page


def test_a_name_from_a_stranger_is_no_markup() -> None:
    odd = LibraryGpu(file="torch/<script>.so", sets=LINALG.sets, sass=LINALG.sass)
    assert "<script>" not in wheel_page(WheelReport(name="<b>", gpu=WheelGpu(libraries=(odd,))))


def test_the_page_counts_all_functions_and_not_only_the_examples() -> None:
    use = IsaUse(isa="avx2", functions=12, examples=("a", "b", "c", "d", "e"))
    page = wheel_page(WheelReport(name="torch", cpu=WheelCpu(functions=99, unconditional=(use,))))
    assert "<b>would crash</b>: 12 with avx2" in page


def test_a_wheel_that_leaves_the_card_unused_gets_no_plain_tick() -> None:
    out = io.StringIO()
    unused = AxisVerdict(axis="gpu", runs="partly", code="gpu-none", text="it runs on the CPU")
    render_wheel(WheelReport(name="torch", verdict=Verdict(machine="RTX 5070", runs=True, axes=(unused,))), Screen(out))
    assert out.getvalue().startswith("! torch: runs on RTX 5070, with exceptions")
