"""CPU names against a hand-written list of what each CPU executes, and the parts names are taken into."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.compat.cpu_names import CpuText, find_cpu, take_apart
from rekindle.errors import BadInput
from rekindle.facts import load_facts

FACTS = load_facts()
TRUTH = Path(__file__).parents[2] / "truth" / "cpus.txt"
LADDER = ("none", "sse4.1", "sse4.2", "avx", "avx2", "avx512")
FLAGS = {"sse4.1": "sse4_1", "sse4.2": "sse4_2", "avx": "avx", "avx2": "avx2", "avx512": "avx512f"}


def _truth() -> list[tuple[str, str]]:
    lines = [line for line in TRUTH.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    pairs = [line.rsplit("|", 1) for line in lines]
    return [(name.strip(), level.strip()) for name, level in pairs]


def _widest(name: str) -> str:
    try:
        kind = find_cpu(name, FACTS)
    except BadInput:
        return "unknown"
    features = FACTS.cpu.microarchitecture[kind].features
    return next((level for level in reversed(LADDER[1:]) if FLAGS[level] in features), "none")


@pytest.mark.parametrize(("name", "level"), _truth(), ids=lambda value: str(value))
def test_a_name_means_what_its_maker_says(name: str, level: str) -> None:
    assert _widest(name) == level


def test_the_list_is_long_enough_to_mean_something() -> None:
    assert len(_truth()) >= 200


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Intel(R) Xeon(R) CPU E5-2690 v2 @ 3.00GHz", CpuText(frozenset({"intel", "xeon"}), "e5", "2690", "v2")),
        ("E5-2690v2", CpuText(frozenset(), "e5", "2690", "v2")),
        ("Core i7 920", CpuText(frozenset({"core"}), "i7", "920")),
        ("Core i3-N305", CpuText(frozenset({"core"}), "n", "305")),
        ("AMD Ryzen 5 5600G with Radeon Graphics", CpuText(frozenset({"amd", "ryzen", "5"}), "", "5600g")),
        ("Phenom II X6 1090T", CpuText(frozenset({"phenom", "ii", "x6"}), "", "1090t")),
        ("Athlon 64 X2", CpuText(frozenset({"athlon", "64", "x2"}))),
        ("AMD EPYC 7763 64-Core Processor", CpuText(frozenset({"amd", "epyc"}), "", "7763")),
        ("14th Gen", CpuText(frozenset({"14th", "gen"}))),
    ],
)
def test_a_name_is_taken_apart(text: str, parts: CpuText) -> None:
    assert take_apart(text) == parts


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ("Xeon Gold 6148", "Xeon Gold 6948"),
        ("Xeon X5650", "Xeon X5950"),
        ("Xeon 5650", "Xeon Gold 5650Z"),
        ("Xeon 5160", "Xeon Phi 5160"),
        ("Core i7-4770", "Core i7-47700"),
        ("EPYC 7763", "EPYC 7769"),
        ("Celeron G6900", "Celeron G6901"),
        ("Intel N100", "Intel N101"),
        ("Ryzen 5 7520U", "Ryzen 5 7525U"),
        ("FX-8350", "FX-8550"),
        ("Opteron 6272", "Opteron 6972"),
    ],
)
def test_a_number_no_row_knows_is_unknown(inside: str, outside: str) -> None:
    assert _widest(inside) != "unknown"
    assert _widest(outside) == "unknown"


def test_every_row_is_reached_before_no_other_row() -> None:
    """A row that an identical earlier one hides is a mistake."""
    seen = set()
    for row in FACTS.cpu.name:
        key = (row.words, row.any, row.without, row.line, row.model, row.suffix, row.version)
        assert key not in seen, row
        seen.add(key)


@pytest.mark.parametrize("kind", sorted(FACTS.cpu.microarchitecture))
def test_features_contain_those_of_archspec_and_of_the_parents(kind: str) -> None:
    from archspec.cpu import TARGETS

    row = FACTS.cpu.microarchitecture[kind]
    if kind in TARGETS:
        assert set(row.features) >= {str(feature) for feature in TARGETS[kind].features}
    for parent in row.parents:
        above = FACTS.cpu.microarchitecture.get(parent)
        if above is not None and above.vendor != "generic" and kind not in ("cascadelake", "zen"):
            missing = set(above.features) - set(row.features)
            assert not missing & set(FLAGS.values()), (kind, parent, missing)


def test_the_table_of_cpus_is_read_without_importing_archspec() -> None:
    """Its package takes forty times as long as its file, and every plan for a CPU reads the table."""
    import subprocess
    import sys

    told = "from rekindle.facts import load_facts; load_facts().cpu; import sys; print('archspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_row_of_ours_lies_over_archspecs_field_by_field() -> None:
    from rekindle.facts.cpus import archspec_rows

    theirs, ours = archspec_rows()["k10"], FACTS.cpu.microarchitecture["k10"]
    assert "popcnt" in ours.features and "popcnt" not in theirs["features"]
    assert (ours.vendor, ours.flags) == (theirs["vendor"], theirs["flags"])
    assert "penryn" not in archspec_rows() and FACTS.cpu.microarchitecture["penryn"].parents == ("core2",)


@pytest.mark.parametrize(
    ("names", "core"),
    [
        ("BCM2837, Raspberry Pi 3B+, Raspberry Pi Zero 2 W, Amlogic S905X, Allwinner H618, i.MX8M Plus", "cortex_a53"),
        ("Rockchip RK3568, Amlogic S905X3, RTD1619B", "cortex_a55"),
        ("AL324, Jetson Nano", "cortex_a57"),
        ("RK3399, BCM2711, LX2160A, Raspberry Pi 400, Graviton, Graviton 1", "cortex_a72"),
        ("Amlogic S922X, Amlogic A311D", "cortex_a73"),
        ("RK3588S, Orange Pi 5 Plus, Radxa Rock 5B, BCM2712, Raspberry Pi 500", "cortex_a76"),
        ("Graviton 2, Ampere Altra Max M128-30", "neoverse_n1"),
        ("Graviton 3, Graviton3E", "neoverse_v1"),
        ("Cobalt 100, Yitian 710", "neoverse_n2"),
        ("Graviton 4, Google Axion", "neoverse_v2"),
        ("Ampere One, AmpereOne A192-32X", "ampere1"),
    ],
)
def test_boards_and_chips_of_arm(names: str, core: str) -> None:
    for name in names.split(", "):
        assert find_cpu(name, load_facts()) == core, name


def test_a_chip_of_which_nobody_wrote_down_the_core_is_not_guessed() -> None:
    for name in ("Graviton 5", "RK3999", "Kunpeng 950"):
        with pytest.raises(BadInput):
            find_cpu(name, load_facts())
