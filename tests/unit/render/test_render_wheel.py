"""The table of libraries and architectures: columns from old to new, a count or a dot in each cell."""

from __future__ import annotations

from rekindle.model.wheel import ArchUse, LibraryGpu
from rekindle.render.wheel import arch_table


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
