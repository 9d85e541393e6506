"""Each rule just inside and just outside of what it allows: a boundary that moves by one is noticed here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planning import FACTS, ask, build, changed, plan, said, wheel

from rekindle.plan.candidates import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import RULES

GLIBC_228 = wheel("2.7.1", "cu126")
KEPLER = wheel("2.3.1", "cu118")

# rule, what passes, what does not, the code and the change that the refusal names
ROWS: list[tuple[str, tuple[Candidate, Question], tuple[Candidate, Question], str, str | None]] = [
    (
        "R001",
        (wheel("2.7.1", "cu126"), ask(torch="2.7")),
        (wheel("2.7.1", "cu126"), ask(torch="2.7.0")),
        "torch-not-as-asked",
        "torch",
    ),
    (
        "R001",
        (wheel("2.7.1", "cu126"), ask(torch=">=2.7.1")),
        (wheel("2.7.1", "cu126"), ask(torch=">2.7.1")),
        "torch-not-as-asked",
        "torch",
    ),
    (
        "R002",
        (wheel("2.7.1", "cu126"), ask(variant="cu126")),
        (wheel("2.7.1", "cu118"), ask(variant="cu126")),
        "variant-not-as-asked",
        "variant",
    ),
    # Beside a toolkit of the same major version that could build it a wheel disturbs nothing.
    (
        "R003",
        (wheel("2.7.1", "cu126"), ask("sm_86", cuda="12.8")),
        (wheel("2.7.1", "cu126"), ask("sm_86", cuda="11.8")),
        "cuda-not-as-asked",
        "cuda",
    ),
    (
        "R003",
        (build("2.7.1", cuda="12.6"), ask("sm_86", cuda="12.6")),
        (build("2.7.1", cuda="12.6"), ask("sm_86", cuda="12.8")),
        "cuda-not-as-asked",
        "cuda",
    ),
    (
        "R003",
        (wheel("2.7.1", "cu128"), ask("sm_120", cuda="12.8")),
        (wheel("2.7.1", "cu128"), ask("sm_120", cuda="12.6")),
        "cuda-not-as-asked",
        "cuda",
    ),
    (
        "R004",
        (build("2.3.1", cuda="11.8"), ask("sm_37", cudnn="8.7.0")),
        (build("2.3.1", cuda="11.8"), ask("sm_37", cudnn="8.9.0")),
        "cudnn-lacks-arch",
        "cudnn",
    ),
    (
        "R004",
        (build("2.3.1", cuda="11.8"), ask("sm_86", cudnn="9.1.0")),
        (build("2.2.2", cuda="11.8"), ask("sm_86", cudnn="9.1.0")),
        "cudnn-not-for-source",
        "cudnn",
    ),
    (
        "R005",
        (wheel("2.8.0", "rocm6.4"), ask("gfx1100", rocm="6.3")),
        (wheel("2.8.0", "rocm6.4"), ask("gfx1100", rocm="7.0")),
        "rocm-not-as-asked",
        "rocm",
    ),
    (
        "R101",
        (wheel("2.7.1", "cu126"), ask("sm_50")),
        (wheel("2.7.1", "cu126"), ask("sm_37")),
        "gpu-not-in-wheel",
        None,
    ),
    (
        "R101",
        (wheel("2.7.1", "cu128"), ask("sm_120")),
        (wheel("2.7.1", "cu126"), ask("sm_120")),
        "gpu-not-in-wheel",
        None,
    ),
    (
        "R102",
        (KEPLER, ask("sm_37", driver="470.256.02")),
        (KEPLER, ask("sm_37", driver="495.29")),
        "driver-too-new",
        "driver",
    ),
    (
        "R102",
        (KEPLER, ask("sm_37", driver="450.80.02")),
        (KEPLER, ask("sm_37", driver="450.79")),
        "driver-too-old",
        "driver",
    ),
    (
        "R102",
        (wheel("2.7.1", "cu126"), ask("sm_61", driver="580.95.05")),
        (wheel("2.7.1", "cu126"), ask("sm_61", driver="590.10")),
        "driver-too-new",
        "driver",
    ),
    (
        "R102",
        (wheel("2.7.1", "cu126"), ask("sm_86", driver="528.33", os="windows")),
        (wheel("2.7.1", "cu126"), ask("sm_86", driver="528.32", os="windows")),
        "driver-too-old",
        "driver",
    ),
    ("R102", (KEPLER, ask("sm_37")), (wheel("2.7.1", "cu126"), ask("sm_37")), "driver-branch-ended", None),
    ("R102", (KEPLER, ask("sm_37", "sm_86")), (KEPLER, ask("sm_37", "sm_90")), "driver-none-for-all", None),
    ("R103", (KEPLER, ask("sm_37")), (wheel("2.4.1", "cu118"), ask("sm_37")), "cudnn-lacks-arch", None),
    (
        "R111",
        (build("2.7.1", cuda="12.8"), ask("sm_120")),
        (build("2.7.1", cuda="12.6"), ask("sm_120")),
        "cuda-cannot-target-arch",
        None,
    ),
    (
        "R111",
        (build("2.3.1", cuda="11.8"), ask("sm_35")),
        (build("2.3.1", cuda="12.0"), ask("sm_35")),
        "cuda-cannot-target-arch",
        None,
    ),
    (
        "R112",
        (build("2.6.0", cuda="12.8"), ask("sm_120")),
        (build("2.5.1", cuda="12.8"), ask("sm_120")),
        "source-does-not-know-arch",
        None,
    ),
    (
        "R112",
        (build("1.13.1", cuda="11.8"), ask("sm_90")),
        (build("2.5.1", cuda="12.8"), ask("sm_100")),
        "source-does-not-know-arch",
        None,
    ),
    (
        "R113",
        (build("2.8.0", cuda="11.8"), ask("sm_35")),
        (build("2.9.0", cuda="11.8"), ask("sm_35")),
        "source-ended-for-arch",
        None,
    ),
    (
        "R113",
        (build("1.10.2", cuda="10.2"), ask("sm_30")),
        (build("1.11.0", cuda="10.2"), ask("sm_30")),
        "source-ended-for-arch",
        None,
    ),
    (
        "R115",
        (build("1.10.2", cuda="10.2"), ask("sm_53", arch="aarch64")),
        (build("1.10.2", cuda="11.4"), ask("sm_53", arch="aarch64")),
        "jetpack-bound",
        None,
    ),
    (
        "R201",
        (build("2.12.0", cuda="12.1"), ask("sm_86")),
        (build("2.12.0", cuda="12.0"), ask("sm_86")),
        "cuda-too-old-for-source",
        None,
    ),
    (
        "R202",
        (build("2.5.0", cuda="12.4", compiler="gcc-13"), ask("sm_86", compiler="gcc-13")),
        (build("2.5.0", cuda="12.4", compiler="gcc-13"), ask("sm_86", compiler="gcc-14")),
        "host-compiler-rejected",
        "compiler",
    ),
    (
        "R203",
        (build("2.1.0", compiler="gcc-13"), ask(distro="ubuntu-20.04")),
        (build("2.1.0", compiler="gcc-13"), ask(distro="ubuntu-18.04")),
        "compiler-too-old",
        "compiler",
    ),
    (
        "R204",
        (build("2.0.1", cuda="11.3"), ask("sm_86")),
        (build("2.0.1", cuda="11.2"), ask("sm_86")),
        "nvml-cuda112",
        None,
    ),
    (
        "R204",
        (wheel("2.4.1", "cpu"), ask(os="windows")),
        (wheel("2.4.0", "cpu"), ask(os="windows")),
        "libomp140-2.4.0",
        None,
    ),
    (
        "R205",
        (build("2.8.0", rocm="6.3"), ask("gfx1100")),
        (build("2.8.0", rocm="5.7"), ask("gfx1100")),
        "rocm-pair-unproven",
        None,
    ),
    (
        "R206",
        (build("2.15.0", cuda="13.0"), ask("sm_86")),
        (build("2.15.0", cuda="12.9"), ask("sm_86")),
        "cuda-pair-unproven",
        None,
    ),
    (
        "R207",
        (build("1.13.1", compiler="gcc-11"), ask()),
        (build("1.13.1", compiler="gcc-12"), ask()),
        "gcc12-gloo-array",
        "sources",
    ),
    (
        "R207",
        (build("2.0.0", compiler="gcc-12"), ask()),
        (build("2.0.0", compiler="gcc-13"), ask()),
        "gcc13-missing-cstdint",
        "sources",
    ),
    (
        "R208",
        (build("2.7.1", cuda="12.8"), ask("sm_86", glibc="2.28")),
        (build("2.7.1", cuda="12.8"), ask("sm_86", glibc="2.27")),
        "glibc-too-old-for-toolkit",
        None,
    ),
    (
        "R208",
        (build("2.7.1", cuda="12.4"), ask("sm_86", glibc="2.17")),
        (build("2.7.1", cuda="12.4"), ask("sm_86", glibc="2.16")),
        "glibc-too-old-for-toolkit",
        None,
    ),
    (
        "R203",
        (build("2.11.0", compiler="gcc-13"), ask(distro="ubuntu-20.04")),
        (build("2.12.0", compiler="gcc-13"), ask(distro="ubuntu-20.04")),
        "compiler-too-old",
        "compiler",
    ),
    (
        "R301",
        (wheel("2.7.1", "cu126"), ask(python="3.13")),
        (wheel("2.7.1", "cu126"), ask(python="3.14")),
        "python-has-no-wheel",
        "python",
    ),
    (
        "R301",
        (build("2.7.1"), ask(python="3.9")),
        (build("2.7.1"), ask(python="3.8")),
        "python-not-in-source",
        "python",
    ),
    (
        "R302",
        (wheel("2.7.1", "cu126"), ask()),
        (Candidate("install", "2.7.1", "cuda", wheel("2.7.1", "cu126").flavour, "12.6"), ask()),
        "no-python",
        None,
    ),
    ("R401", (GLIBC_228, ask(glibc="2.28")), (GLIBC_228, ask(glibc="2.27")), "glibc-too-old", None),
    ("R403", (build("2.7.1"), ask(glibc="2.17")), (build("2.7.1"), ask(glibc="2.16")), "glibc-too-old-to-build", None),
    (
        "R402",
        (wheel("2.13.0", "xpu"), ask("xe_bmg")),
        (wheel("2.14.1", "xpu"), ask("xe_bmg")),
        "xpu-2.14-wrong-results",
        None,
    ),
    ("R401", (GLIBC_228, ask(distro="debian-12")), (GLIBC_228, ask(distro="alpine-3.19")), "libc-musl", None),
    (
        "R501",
        (build("2.7.1", cuda="12.6"), ask("sm_86", memory=6)),
        (build("2.7.1", cuda="12.6"), ask("sm_86", memory=5.9)),
        "memory-small",
        None,
    ),
    (
        "R501",
        (build("2.7.1", cuda="12.6"), ask("sm_86", memory=4, swap=2)),
        (build("2.7.1", cuda="12.6"), ask("sm_86", memory=4, swap=1.9)),
        "memory-small",
        None,
    ),
    (
        "R502",
        (build("2.7.1", cuda="12.6"), ask("sm_86", disk=30)),
        (build("2.7.1", cuda="12.6"), ask("sm_86", disk=29.9)),
        "disk-small",
        None,
    ),
    (
        "R502",
        (wheel("2.7.1", "cu126"), ask("sm_86", disk=9)),
        (wheel("2.7.1", "cu126"), ask("sm_86", disk=8.9)),
        "disk-small",
        None,
    ),
    (
        "R502",
        (replace(wheel("2.12.1", "cu126"), answer="graft"), ask("sm_120", disk=8)),
        (replace(wheel("2.12.1", "cu126"), answer="graft"), ask("sm_120", disk=7.9)),
        "disk-small",
        None,
    ),
    # CUDA 12.6 has sm_50 and not sm_37; 12.8 is the first with sm_120, whose libraries 12.6 does not have.
    (
        "R104",
        (replace(wheel("2.12.1", "cu126"), answer="graft"), ask("sm_120")),
        (replace(wheel("2.12.1", "cu126"), answer="graft"), ask("sm_37")),
        "graft-no-toolkit",
        None,
    ),
    (
        "R105",
        (replace(wheel("2.12.1", "cu130"), answer="graft"), ask("sm_110")),
        (replace(wheel("2.12.1", "cu126"), answer="graft"), ask("sm_120")),
        "graft-libraries-lack-card",
        None,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{row[3]}-{number}" for number, row in enumerate(ROWS)])
def test_a_rule_just_inside_and_just_outside(row: tuple[str, Any, Any, str, str | None]) -> None:
    number, inside, outside, code, change = row
    assert said(number, *inside) == [], "this one is allowed"
    refusals = said(number, *outside)
    assert code in [refusal.code for refusal in refusals], refusals
    first = next(refusal for refusal in refusals if refusal.code == code)
    assert first.rule in RULES and (first.source or first.change)
    assert (first.change.what if first.change else None) == change


def test_every_rule_has_a_boundary_of_its_own() -> None:
    elsewhere = {"R114", "R116", "R117", "R118", "R119", "R120"}  # below, in the profiles and probes
    assert {row[0] for row in ROWS} | elsewhere == set(RULES)


def test_rocm_spans_begin_and_end() -> None:
    for row in FACTS.rocm.span:
        inside = build("2.7.1", rocm=row.rocm)
        assert said("R114", inside, ask(row.gfx.name)) == []
        if row.last is not None:
            assert said("R114", build("2.7.1", rocm=row.last), ask(row.gfx.name)) == []
            assert said("R114", build("2.7.1", rocm="99.0"), ask(row.gfx.name))
    late = next(row for row in FACTS.rocm.span if row.rocm not in ("0", "3.0"))
    assert said("R114", build("2.7.1", rocm="1.0"), ask(late.gfx.name))


def test_rocm_on_windows_is_amds_own_only() -> None:
    row = next(row for row in FACTS.wheels.flavour if row.publisher == "amd" and "windows" in row.gfx)
    target = row.gfx["windows"][0].name
    assert said("R116", build("2.14.1", rocm=row.rocm), ask(target, os="windows")) == []
    assert said("R116", build("2.14.1", rocm="6.4"), ask(target, os="windows"))
    assert plan("gfx803", os="windows", build=True).answer == "none", "not even there"
    assert said("R116", build("2.14.1", rocm="6.4"), ask(target)) == []


def test_an_untested_target_is_a_doubt() -> None:
    tested = wheel("2.8.0", "rocm6.4")
    gfx = ask("gfx1100").gfxs
    assert said("R117", tested, ask("gfx1100")) == []
    untested = said("R117", changed(tested, untested={"linux_x86_64": gfx}), ask("gfx1100"))
    assert [refusal.certain for refusal in untested] == [False]
    assert said("R117", changed(tested, untested={"windows": gfx}), ask("gfx1100")) == []


def test_a_math_library_without_the_target_is_a_doubt() -> None:
    gap = next(row for row in FACTS.rocm.math_gap if row.publisher == "pytorch")
    target = gap.gfx[0].name
    assert [one.certain for one in said("R118", build("2.7.1", rocm=gap.rocm_from), ask(target))] == [False]
    assert said("R118", build("2.7.1", rocm="1.0"), ask(target)) == []


def test_a_board_keeps_its_jetpack() -> None:
    def orin(cuda: str) -> Question:
        question = ask("sm_87", arch="aarch64", cuda=cuda)
        return Question(question.machine, type(question.wish)(), FACTS)

    assert said("R119", build("2.5.1", cuda="12.6"), orin("12.2")) == []
    refusals = said("R119", build("2.5.1", cuda="12.6"), orin("11.4"))
    assert [one.change.from_ for one in refusals if one.change] == ["11.4"]
