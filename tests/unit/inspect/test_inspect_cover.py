"""On which cards each library's GPU code runs, container by container."""

from __future__ import annotations

import pytest

from rekindle.inspect.cover import Cover, _rank, cards_of, cover, families
from rekindle.model.arch import parse_gfx, parse_sm
from rekindle.model.wheel import ArchSet, LibraryGpu, WheelGpu, WheelReport


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


def test_architectures_have_the_names_people_know() -> None:
    assert families()["sm_75"][0] == "Turing"


@pytest.mark.parametrize(
    ("arch", "family", "product"),
    [
        ("sm_30", "Kepler", "GeForce GTX 660"),
        ("sm_37", "Kepler", "Tesla K80"),
        ("sm_50", "Maxwell", "GeForce GTX 745"),
        ("sm_60", "Pascal", "Tesla P100"),
        ("sm_70", "Volta", "TITAN V"),
        ("sm_75", "Turing", "GeForce RTX 2080 Ti"),
        ("sm_86", "Ampere", "GeForce RTX 30"),
        ("sm_90", "Hopper", "H100"),
        ("sm_110", "Blackwell", "Jetson AGX Thor"),
        ("gfx906", "GCN5.1", "Instinct MI"),
        ("gfx1030", "RDNA2", "Radeon RX 6800"),
        ("gfx900", "GCN5", "Radeon RX Vega"),
    ],
)
def test_a_card_is_named_by_a_product_people_know(arch: str, family: str, product: str) -> None:
    """Not by a sample for engineers, a card for miners or the number of a chip, where there is anything better."""
    assert families()[arch][0] == family
    assert families()[arch][1].startswith(product)
    assert len({name for _, name in families().values()}) > 60
    assert families()["sm_32"] == ("Kepler", ""), "a board of which no name is known"


def test_any_name_is_better_than_none() -> None:
    names = ["GeForce GTX 1080 Ti", "Tesla P100", "GeForce 840M", "CMP 100-100", ""]
    assert sorted(reversed(names), key=_rank) == names
    assert _rank("GeForce RTX 12GB Engineering Sample") == _rank("CMP 100-100")
