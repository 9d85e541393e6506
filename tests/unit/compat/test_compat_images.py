"""Code on cards: just inside and just outside of every rule, for SASS, PTX, gfx, generic gfx and SPIR-V."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat import BACKENDS
from rekindle.compat.answer import Coverage
from rekindle.compat.images import GpuCode, covers, find_gap, find_override, flavour_code, split_targets
from rekindle.compat.toolkit import ptx_runs, sass_runs
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm, parse_gpu_arch, parse_sm
from rekindle.model.machine import Gpu


def targets_of(names: Iterable[str], **made: str | None) -> GpuCode:
    return GpuCode(tuple(names), **made)


FACTS = load_facts()


def judged(targets: str, card: str, system: str | None = "linux", **made: str) -> Coverage:
    return covers(GpuCode(tuple(targets.split()), **made), parse_gpu_arch(card), system, FACTS)


@pytest.mark.parametrize(
    ("targets", "card", "kind", "target"),
    [
        ("sm_80", "sm_80", "native", "sm_80"),
        ("sm_80", "sm_86", "native", "sm_80"),
        ("sm_86", "sm_80", "none", None),
        ("sm_80 sm_86", "sm_89", "native", "sm_86"),
        ("sm_89", "sm_90", "none", None),
        ("8.0", "sm_86", "native", "sm_80"),
        ("sm_90a", "sm_90", "native", "sm_90a"),
        ("sm_90a", "sm_100", "none", None),
        ("sm_120a", "sm_121", "none", None),
        ("sm_100f", "sm_103", "native", "sm_100f"),
        ("sm_103f", "sm_100", "none", None),
        ("sm_120f", "sm_121", "native", "sm_120f"),
        ("compute_80", "sm_80", "jit", "compute_80"),
        ("compute_80", "sm_75", "none", None),
        ("compute_70 compute_80", "sm_120", "jit", "compute_80"),
        ("compute_90a", "sm_100", "none", None),
        ("8.6+PTX", "sm_120", "jit", "compute_86"),
        ("8.6", "sm_120", "none", None),
        ("8.6+PTX", "sm_86", "native", "sm_86"),
        ("compute_50 sm_86", "sm_86", "native", "sm_86"),
        ("gfx1100", "sm_86", "none", None),
        ("", "sm_86", "unknown", None),
        ("sm_banana", "sm_86", "unknown", None),
        ("sm_banana sm_86", "sm_86", "native", "sm_86"),
        ("gfx1100", "gfx1100", "native", "gfx1100"),
        ("gfx1100", "gfx1101", "override", "gfx1100"),
        ("gfx900", "gfx906", "none", None),
        ("gfx11-generic", "gfx1151", "native", "gfx11-generic"),
        ("gfx11-generic", "gfx1201", "none", None),
        ("gfx90a:xnack+", "gfx90a:xnack+", "native", "gfx90a:xnack+"),
        ("gfx90a:xnack+", "gfx90a:xnack-", "none", None),
        ("gfx90a:xnack+", "gfx90a", "unknown", "gfx90a:xnack+"),
        ("gfx90a:xnack-", "gfx90a", "native", "gfx90a:xnack-"),
        ("amdgcnspirv", "gfx1100", "unknown", "amdgcnspirv"),
        ("amdgcnspirv gfx1100", "gfx1100", "native", "gfx1100"),
        ("sm_86", "gfx1100", "none", None),
    ],
)
def test_what_runs_where(targets: str, card: str, kind: str, target: str | None) -> None:
    found = judged(targets, card)
    assert (found.kind, found.target) == (kind, target)
    assert found.text and found.code


@pytest.mark.parametrize(
    ("kind", "runs"),
    [("native", "yes"), ("jit", "yes"), ("override", "yes"), ("none", "no"), ("unknown", "unknown")],
)
def test_what_a_kind_means(kind: str, runs: str) -> None:
    assert Coverage(kind).runs == runs  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "card", "cuda", "runs"),
    [
        ("sm_80", "sm_87", "13.1", False),
        ("sm_80", "sm_87", "13.2", True),
        ("sm_80", "sm_87", None, None),
        ("sm_86", "sm_87", "13.2", True),
        ("sm_89", "sm_87", "13.2", False),
        ("sm_89", "sm_87", None, False),
        ("sm_87", "sm_87", None, True),
        ("sm_87", "sm_89", "13.2", False),
        ("sm_70", "sm_72", "13.1.9", False),
        ("sm_70", "sm_72", "13.2.0", True),
        ("sm_72", "sm_75", "13.2", False),
        ("sm_50", "sm_53", "13.2", False),
        ("sm_53", "sm_53", "10.2", True),
        ("sm_61", "sm_62", "13.2", False),
        ("sm_62", "sm_62", "10.2", True),
        ("sm_101", "sm_110", "12.8", True),
        ("sm_110", "sm_101", "13.0", True),
        ("sm_100", "sm_101", "12.8", False),
        ("sm_101", "sm_103", "12.9", False),
        ("sm_110", "sm_120", "13.0", False),
        ("sm_100", "sm_103", "12.9", True),
    ],
)
def test_a_tegra_chip_needs_its_own_code(code: str, card: str, cuda: str | None, runs: bool | None) -> None:
    assert sass_runs(parse_sm(code), parse_sm(card), cuda, FACTS) is runs


@pytest.mark.parametrize(
    ("targets", "card", "kind", "code", "target"),
    [
        ("lto_80", "sm_80", "jit", "gpu-only-lto", "lto_80"),
        ("lto_70 lto_80", "sm_90", "jit", "gpu-only-lto", "lto_80"),
        ("lto_80 lto_90", "sm_80", "jit", "gpu-only-lto", "lto_80"),
        ("lto_90", "sm_80", "none", "gpu-no-code", None),
        ("lto_80 compute_70", "sm_80", "jit", "gpu-only-ptx", "compute_70"),
        ("lto_80 sm_80", "sm_80", "native", "gpu-native", "sm_80"),
        ("lto_80", "gfx1100", "none", "gpu-vendor", None),
        ("gfx1100", "sm_80", "none", "gpu-vendor", None),
        ("gfx1100", "xe_dg2", "none", "gpu-vendor", None),
    ],
)
def test_code_that_is_linked_at_run_time(targets: str, card: str, kind: str, code: str, target: str | None) -> None:
    found = judged(targets, card)
    assert (found.kind, found.code, found.target) == (kind, code, target)
    assert split_targets(("lto_90", "lto_lto_90")).lto == (Sm(9, 0),)
    assert split_targets(("lto_90", "lto_lto_90")).odd == ("lto_lto_90",)


def test_people_read_old_cards_before_new_ones_and_what_is_none_last() -> None:
    found = judged("gfx1100 sm_90 5.0+PTX sm_120 3.7", "sm_35")
    assert "has code for 3.7 5.0+PTX sm_90 sm_120 gfx1100, none of which" in found.text


def test_a_switch_as_the_card_says_it_stands_counts_before_how_it_usually_does() -> None:
    """gfx906 always stands at xnack-, unless the card itself says otherwise."""
    assert judged("gfx906:xnack+", "gfx906:xnack+").kind == "native"
    assert judged("gfx906:xnack-", "gfx906:xnack+").kind == "none"
    assert judged("gfx906:xnack-", "gfx906").kind == "native"
    assert judged("gfx906:xnack+", "gfx906").kind == "none"
    assert judged("gfx90a:xnack-", "gfx90a:xnack+").kind == "none"


def test_features_that_are_called_alike_are_told_apart() -> None:
    assert judged("gfx906:fa+:fb-", "gfx906:fa+:fb-").kind == "native"
    assert judged("gfx906:fa+:fb-", "gfx906:fa-:fb-").kind == "none"


def test_more_features_than_can_be_tried_are_unknown() -> None:
    """Every setting of eight is tried; a stranger's library may name as many as it likes."""

    def ways(count: int) -> str:
        return "gfx900 gfx900" + "".join(f":f{number}+" for number in range(count))

    assert judged(ways(8), "gfx900").kind == "native"
    assert judged(ways(9), "gfx900").kind == "unknown"
    assert judged(ways(9), "gfx906").kind == "none", "code of another chip is not asked for its features"


def test_an_answer_is_a_risk_only_where_that_is_said() -> None:
    assert Coverage("native").risky is False and judged("sm_80", "sm_80").risky is False


def test_what_depends_on_the_toolkit_says_so() -> None:
    assert judged("sm_80", "sm_87").code == "gpu-toolkit-not-told"
    assert judged("sm_80 sm_86", "sm_87").target == "sm_86"
    assert judged("sm_80", "sm_87", cuda="13.2").kind == "native"
    assert judged("sm_80", "sm_87", cuda="12.6").kind == "none"
    assert judged("sm_80 compute_80", "sm_87").kind == "jit", "PTX runs anyway"


def test_ptx_is_not_newer_than_the_card() -> None:
    newer, older = (Sm(8, 7), Sm(8, 6))
    assert ptx_runs(older, older) and ptx_runs(older, newer) and not ptx_runs(newer, older)


def test_an_override_is_a_linux_thing() -> None:
    found = judged("gfx1030", "gfx1031", "linux", rocm="6.0")
    assert found.env == (("HSA_OVERRIDE_GFX_VERSION", "10.3.0"),) and not found.risky
    assert judged("gfx1030", "gfx1031", None).kind == "override"
    assert judged("gfx1030", "gfx1031", "windows").kind == "none"
    assert judged("gfx1030", "gfx1031", "macos").kind == "none"
    risky = judged("gfx1100", "gfx1103")
    assert risky.risky and "hangs" in risky.text
    assert judged("gfx1030 gfx1031", "gfx1031").kind == "native", "its own code comes first"
    assert judged("gfx1100", "gfx1031").kind == "none", "the neighbour's code must be there"


def test_an_override_that_ended_with_a_version() -> None:
    assert find_override(Gfx("gfx1010"), "5.2", FACTS) is not None
    assert find_override(Gfx("gfx1010"), "5.3", FACTS) is None
    assert find_override(Gfx("gfx1010"), None, FACTS) is None, "unknown is not yes"
    assert find_override(Gfx("gfx1031"), None, FACTS) is not None
    assert find_override(Gfx("gfx1030"), "6.0", FACTS) is None


def test_a_math_library_without_the_card_takes_it_away() -> None:
    gap = next(row for row in FACTS.rocm.math_gap if row.publisher == "pytorch" and row.rocm_below is None)
    gfx = gap.gfx[0]
    assert find_gap(gfx, gap.rocm_from, "pytorch", FACTS) is not None
    assert find_gap(gfx, gap.rocm_from, "amd", FACTS) is None or gap.publisher == "amd"
    assert find_gap(gfx, None, "pytorch", FACTS) is None
    assert find_gap(gfx, gap.rocm_from, None, FACTS) is None
    assert find_gap(gfx, "1.0", "pytorch", FACTS) is None
    assert find_gap(Gfx("gfx1199"), gap.rocm_from, "pytorch", FACTS) is None
    lost = judged(str(gfx), str(gfx), rocm=gap.rocm_from, publisher="pytorch")
    assert (lost.kind, lost.code) == ("none", "gpu-math-library")
    assert gap.library in lost.text
    assert judged(str(gfx), str(gfx), rocm=gap.rocm_from).kind == "native", "its files were read, or nobody knows"


def test_a_gap_ends_where_the_facts_say() -> None:
    for gap in (row for row in FACTS.rocm.math_gap if row.rocm_below):
        assert find_gap(gap.gfx[0], gap.rocm_from, gap.publisher, FACTS) is not None
        after = find_gap(gap.gfx[0], gap.rocm_below, gap.publisher, FACTS)
        assert after is None or after is not gap


def test_why_an_amd_card_cannot_be_told() -> None:
    assert judged("gfx90a:xnack+", "gfx90a").code == "gpu-switch"
    assert "how xnack stands" in judged("gfx90a:xnack+", "gfx90a").text
    assert judged("amdgcnspirv", "gfx1100").code == "gpu-spirv"
    newer = judged("gfx11-9-generic", "gfx1100")
    assert (newer.kind, newer.code) == ("unknown", "gpu-generic") and newer.target == "gfx11-9-generic"


def test_the_texts_say_what_is_meant() -> None:
    assert judged("sm_86", "sm_86").text == "holds sm_86"
    assert judged("sm_80", "sm_86").text == "holds sm_80 code, which runs on sm_86"
    assert judged("gfx1100", "gfx1100").text == "lists gfx1100"
    assert judged("gfx90a:xnack-", "gfx90a").text == "lists gfx90a"
    assert judged("gfx11-generic", "gfx1151").text == "lists gfx11-generic, which covers gfx1151"
    assert "only as gfx90a:xnack+;" in judged("gfx90a:xnack+ gfx906:xnack+ amdgcnspirv", "gfx90a").text
    gap = next(row for row in FACTS.rocm.math_gap if row.publisher == "pytorch")
    lost = judged(str(gap.gfx[0]), str(gap.gfx[0]), rocm=gap.rocm_from, publisher="pytorch")
    assert lost.source == gap.source[0]


def test_a_backend_knows_the_system_of_a_platform() -> None:
    linux = next(row for row in FACTS.flavours("2.8.0") if row.rocm and row.publisher == "pytorch")
    neighbour = Gpu(vendor="amd", arch=Gfx("gfx1031"))
    assert BACKENDS["rocm"].covers(linux, "linux_x86_64", neighbour, FACTS).kind == "override"
    both = msgspec.structs.replace(linux, gfx={**linux.gfx, "windows": linux.gfx["linux_x86_64"]})
    assert BACKENDS["rocm"].covers(both, "windows", neighbour, FACTS).kind == "none"
    cuda = next(row for row in FACTS.flavours("2.8.0") if row.cuda)
    assert BACKENDS["cuda"].covers(cuda, "linux_x86_64", Gpu(vendor="nvidia", arch=Sm(8, 6)), FACTS).kind == "native"


def test_a_card_that_is_not_known() -> None:
    assert covers(GpuCode(("sm_86",)), None, "linux", FACTS).code == "gpu-arch-not-told"


def test_targets_are_told_apart() -> None:
    split = split_targets(("sm_86", "compute_90", "8.0+PTX", "7.5", "gfx90a", "amdgcnspirv", "gfx12345678", "x"))
    assert split.sass == (Sm(8, 6), Sm(8, 0), Sm(7, 5))
    assert split.ptx == (Sm(9, 0), Sm(8, 0))
    assert split.gfx == ("gfx90a", "amdgcnspirv")
    assert split.odd == ("gfx12345678", "x")


def test_a_published_wheel_says_who_made_it() -> None:
    flavour = next(row for row in FACTS.flavours("2.8.0") if row.rocm)
    code = flavour_code(flavour, "linux_x86_64")
    assert code.rocm == flavour.rocm and code.publisher == flavour.publisher and code.targets[0].startswith("gfx")
    cuda = next(row for row in FACTS.flavours("2.8.0") if row.cuda)
    made = flavour_code(cuda, "linux_x86_64")
    assert (made.cuda, made.cudnn, made.source) == (cuda.cuda, cuda.cudnn, cuda.source[0])
    assert flavour_code(cuda, "macos_arm64").targets == ()


names = st.sampled_from(["sm_50", "sm_60", "sm_75", "sm_80", "sm_87", "sm_90a", "sm_100f", "sm_120", "compute_70",
                         "gfx906", "gfx90a:xnack-", "gfx1030", "gfx11-generic", "amdgcnspirv"])  # fmt: skip
cards = st.sampled_from([chip.arch for chips in (FACTS.nvidia.chip, FACTS.amd.chip) for chip in chips.values()])
ORDER = {"none": 0, "unknown": 1, "override": 2, "jit": 3, "native": 4}


@given(st.lists(names, min_size=1, max_size=5), names, cards)
def test_more_code_never_takes_a_card_away(targets: list[str], more: str, card: str) -> None:
    before, after = judged(" ".join(targets), card), judged(" ".join([*targets, more]), card)
    assert ORDER[after.kind] >= ORDER[before.kind]


@given(st.permutations(["sm_50", "sm_80", "sm_86", "compute_80", "gfx1030", "gfx90a"]), cards)
def test_the_order_of_targets_does_not_matter(targets: list[str], card: str) -> None:
    assert judged(" ".join(targets), card).kind == judged(" ".join(sorted(targets)), card).kind
