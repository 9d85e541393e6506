"""CPU names against a hand-written list of what each CPU executes, the parts names are taken into, and what a CPU is
taken for by what it says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat.cpu_names import CpuText, find_cpu, fits, match_microarchitecture, microarchitecture, take_apart
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.machine import CpuName

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
        ("AMD C-60 APU", CpuText(frozenset({"amd"}), "c", "60")),
        ("Intel N95", CpuText(frozenset({"intel"}), "n", "95")),
        ("AMD 64", CpuText(frozenset({"amd", "64"}))),
        ("E5 v3", CpuText(frozenset({"e5"}), "", "", "v3")),
        ("Xeon W 2145", CpuText(frozenset({"xeon"}), "w", "2145")),
        ("AMD FX(tm)-8350 Eight-Core Processor", CpuText(frozenset({"amd"}), "fx", "8350")),
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


def named(**fields: object) -> CpuName:
    known = {"source": ("a test",), "date": "2026-11-16", "how": "documented", "microarchitecture": "it"}
    return CpuName(**{**known, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "inside", "outside"),
    [
        (named(words=("core", "duo")), ["Core Duo", "Intel Core Duo"], ["Core", "Duo", "Core Duo 6600"]),
        (named(words=("core",), without=("duo",)), ["Core", "Core Quad"], ["Core Duo"]),
        (named(any=("duo", "quad")), ["Core Duo", "Quad"], ["Core"]),
        (named(words=("gold",), model=("*",)), ["Gold", "Gold 6148"], ["Silver 6148"]),
        (named(model=("61##",)), ["6148", "6100", "6148T"], ["6248", "614", "61x8", "61481", "61481K", "E6148", ""]),
        (named(model=("61##",), suffix=("", "t")), ["6148", "6148T"], ["6148K", "61480"]),
        (named(model=("6###?",)), ["6148K", "6148KF"], ["6148", "61485"]),
        (
            named(model=("6100-6199", "62##")),
            ["6100", "6150", "6199", "6199R", "6200"],
            ["6099", "6300", "615", "61500"],
        ),
        (named(model=("6100-6199",), suffix=("",)), ["6150"], ["6150R"]),
        (named(line=("i5", "i7"), model=("47##",)), ["i7-4770", "i5 4770"], ["4770", "i3-4770", "i7-4870", "i7"]),
        (named(line=("e5",), model=("26##",), version="v2"), ["E5-2690 v2"], ["E5-2690", "E5-2690 v3"]),
        (named(line=("e5",), model=("26##",), version=""), ["E5-2690"], ["E5-2690 v2"]),
        (named(line=("e5",), model=("26##",)), ["E5-2690", "E5-2690 v2"], ["E7-2690"]),
    ],
)
def test_a_row_speaks_of_the_names_it_describes_and_of_no_other(
    row: CpuName, inside: list[str], outside: list[str]
) -> None:
    assert {name: fits(row, take_apart(name)) for name in (*inside, *outside)} == {
        **dict.fromkeys(inside, True),
        **dict.fromkeys(outside, False),
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ivybridge", "ivybridge"),
        ("Ivy Bridge", "ivybridge"),
        ("Ivy-Bridge", "ivybridge"),
        ("cortex-a72", "cortex_a72"),
        ("Cortex A72", "cortex_a72"),
        ("x86-64-v3", "x86_64_v3"),
        ("armv8.2a", "armv8.2a"),
        ("amd64", "x86_64"),
        ("AMD64", "x86_64"),
        ("arm64", "aarch64"),
        ("ARMv8-A", "aarch64"),
        ("Intel(R) Xeon(TM) E5-2690", "sandybridge"),
    ],
)
def test_a_microarchitecture_goes_by_its_own_name_in_any_spelling(text: str, kind: str) -> None:
    assert find_cpu(text, FACTS) == kind


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ivybridg", "did you mean ivybridge or sandybridge?"),
        ("cortex-a7", "did you mean cortex_a78 or cortex_a76?"),
        ("qqqq", "name its microarchitecture (ivybridge, zen2, aarch64)"),
    ],
)
def test_a_cpu_nobody_knows_is_met_with_two_names_like_it_or_with_what_to_say(text: str, remedy: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_cpu(text, FACTS)
    assert caught.value.remedy == remedy


def test_the_row_of_a_microarchitecture_goes_by_its_own_name_alone() -> None:
    row = microarchitecture("haswell", FACTS)
    assert row is not None
    assert row is FACTS.cpu.microarchitecture["haswell"]
    assert microarchitecture("no-such", FACTS) is None
    assert microarchitecture("", FACTS) is None
    assert microarchitecture(None, FACTS) is None


def matched(kind: str, *more: str, without: tuple[str, ...] = (), **other: str) -> str | None:
    """What a CPU that can do what this one can, and ``more``, is taken for."""
    row = FACTS.cpu.microarchitecture[kind]
    asked = {"machine": row.family, "vendor": row.vendor, "part": row.part or "", **other}
    return match_microarchitecture(FACTS, features={*row.features, *more} - {*without}, **asked)


# Of these archspec's way of choosing names a neighbour: their line is short, and another has all that they have.
HIDDEN = {
    "bonnell": "core2",
    "silvermont": "nehalem",
    "goldmont": "westmere",
    "goldmont_plus": "westmere",
}


@pytest.mark.parametrize("kind", [name for name, row in FACTS.cpu.microarchitecture.items() if row.features])
def test_a_cpu_that_can_do_all_of_its_kind_is_taken_for_it(kind: str) -> None:
    assert matched(kind) == HIDDEN.get(kind, kind)
    assert matched(kind, "a-feature-nobody-knows") == HIDDEN.get(kind, kind), "the kernel names hundreds"


def test_the_kernel_calls_sse3_by_another_name() -> None:
    assert matched("haswell", "pni", without=("sse3",)) == "haswell"
    assert matched("haswell", without=("sse3",)) == "x86_64"


def test_another_makers_processor_is_at_most_its_level() -> None:
    assert matched("haswell", vendor="AuthenticAMD") == "x86_64_v3"
    assert matched("ivybridge", vendor="AuthenticAMD") == "x86_64_v2"
    assert matched("skylake_avx512", vendor="SomebodyElse") == "x86_64_v4"
    assert matched("zen2", vendor="GenuineIntel") == "x86_64_v3"


def test_a_feature_switched_off_does_not_push_it_below_its_level() -> None:
    assert matched("haswell", without=("rdrand",)) == "x86_64_v3"
    assert matched("haswell", without=("avx2",)) == "ivybridge"
    assert matched("nehalem", without=("mmx",)) == "x86_64"


def test_a_core_of_arm_is_told_by_its_number() -> None:
    features = FACTS.cpu.microarchitecture["cortex_a76"].features
    for kind in ("cortex_a76", "cortex_a55", "neoverse_n1"):  # all three can do the same
        part = FACTS.cpu.microarchitecture[kind].part
        assert part and match_microarchitecture(FACTS, "aarch64", "ARM", features, part) == kind
    assert match_microarchitecture(FACTS, "aarch64", "ARM", features, "0xfff") == "aarch64", "a core nobody knows"
    assert match_microarchitecture(FACTS, "aarch64", "ARM", {"asimd"}, "0xd0b") == "aarch64"
    assert match_microarchitecture(FACTS, "aarch64", "ARM", features) == "neoverse_n1", "the longest line"
    assert match_microarchitecture(FACTS, "aarch64", "Apple", features, "0xd0b") == "aarch64", "another maker's number"


def test_what_says_nothing_of_itself_is_no_microarchitecture() -> None:
    assert match_microarchitecture(FACTS, "x86_64", "GenuineIntel", set()) is None
    assert match_microarchitecture(FACTS, "aarch64", "ARM", (), "0xd08") is None
    assert match_microarchitecture(FACTS, "riscv64", None, {"a"}) is None
    assert match_microarchitecture(FACTS, "i686", "GenuineIntel", {"sse2"}) is None
    assert match_microarchitecture(FACTS, "x86_64", None, {"fpu"}) == "x86_64"


@given(st.sets(st.sampled_from(sorted({f for row in FACTS.cpu.microarchitecture.values() for f in row.features}))))
def test_nothing_is_promised_that_is_not_there(features: set[str]) -> None:
    for machine, vendor in (("x86_64", "GenuineIntel"), ("x86_64", "AuthenticAMD"), ("aarch64", "ARM")):
        kind = match_microarchitecture(FACTS, machine, vendor, features)
        assert (kind is None) == (not features)
        row = microarchitecture(kind, FACTS)
        assert row is None or (row.family == machine and features.issuperset(row.features))
