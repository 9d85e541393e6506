"""What a departure costs, number by number: the order of preference hangs on each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planning import FACTS, ask, build, changed, plan, wheel

from rekindle.plan.assess import _torch_distance, assess, cost, newest_for, preference, toolkit_order
from rekindle.plan.candidates import Candidate
from rekindle.plan.evidence import evidence, tried_kits
from rekindle.plan.question import Question

CU126 = wheel("2.7.1", "cu126")


def price(candidate: Candidate, question: Question) -> float:
    return round(cost(assess(candidate, question), question), 2)


def tidy(torch: str, **flags: Any) -> Candidate:
    return build(torch, **{"compiler": "gcc-11", **flags})


@pytest.mark.parametrize(
    ("candidate", "question", "wanted"),
    [
        (CU126, ask("sm_86"), 0.0),
        (CU126, ask("sm_86", torch="2.7.1"), 0.0),
        (CU126, ask("sm_86", variant="cu118"), 1.0),
        (CU126, ask("sm_86", cuda="11.8"), 1.0),
        # variant and cuda are one departure
        (CU126, ask("sm_86", variant="cu118", cuda="11.8"), 1.0),
        (CU126, ask("sm_86", python="3.8"), 1.0 + 0.6),  # a candidate of the tests is for Python 3.10
        (replace(CU126, python="3.9"), ask("sm_86", python="3.8"), 1.0),
        (replace(CU126, python="3.13"), ask("sm_86", python="3.15"), 1.0 + 0.6),
        (replace(CU126, python="3.13"), ask("sm_86", python="2.7"), 1.0),  # another major: no steps to count
        (CU126, ask("sm_86", driver="520.61.05"), 2.0),
        # torch: one minor release up, two up, one down
        (CU126, ask("sm_86", torch="2.6.0"), 1.51),
        (CU126, ask("sm_86", torch="2.5.1"), 3.2),
        (CU126, ask("sm_86", torch="2.8.0"), 3.1),
        (CU126, ask("sm_86", torch=">=2.8,<2.10"), 3.1),
        (CU126, ask("sm_86", torch=">=2.5,<2.7"), 1.51),
        # years behind where nobody asked for it: 15 minor releases are not, 16 are
        (wheel("2.0.1", "cu118"), ask("sm_86"), 0.0),
        (wheel("1.13.1", "cu117"), ask("sm_86"), 3.0),
        (wheel("1.13.1", "cu117"), ask("sm_86", torch="1.13.1"), 0.0),
        # who asks for an old Python gets its newest torch without a fine
        (replace(wheel("1.10.2", "cu113"), python="3.6"), ask("sm_86", python="3.6"), 0.0),
        (wheel("1.13.1", "cu117"), ask("sm_86", python="3.10"), 0.0),
        (wheel("1.12.1", "cu113"), ask("sm_86", python="3.10"), 3.0),
        # builds
        (tidy("2.6.0", cuda="12.4"), ask("sm_86"), 2.6),
        (tidy("2.6.0", cuda="12.4"), ask("sm_86", cuda="12.6"), 6.0),
        (tidy("2.6.0", cuda="12.4"), ask("sm_86", build=True), -97.4),
        (tidy("2.0.1", cuda="11.4"), ask("sm_35"), 2.6),
        (tidy("2.3.1", cuda="11.8"), ask("sm_35"), 2.6 + 0.9 + 1.8),
        (tidy("2.3.1", cuda="11.8"), ask("sm_35", torch="2.3.1"), 2.6 + 0.9),
        (tidy("2.3.1", cuda="11.8"), ask("sm_61", torch="2.3.1"), 2.6),
        (
            tidy("2.6.0", cuda="12.4"),
            ask("sm_62", torch="2.6.0", arch="x86_64"),
            2.6 + 0.3,
        ),  # official builds have sm_61
    ],
)
def test_the_price_of_a_departure(candidate: Candidate, question: Question, wanted: float) -> None:
    assert price(candidate, question) == round(wanted, 2)


def test_a_doubt_weighs_less_than_a_change_and_two_are_enough() -> None:
    amd = changed(wheel("2.8.0", "rocm6.4"))
    assert amd.flavour is not None
    gfx = amd.flavour.gfx["linux_x86_64"]
    untested = changed(amd, untested={"linux_x86_64": gfx})
    assert price(untested, ask("gfx1100")) == 0.8
    assert price(untested, ask("gfx1100", disk=1.0)) == 1.6
    three = changed(amd, untested={"linux_x86_64": gfx})
    assert price(three, ask("gfx1100", "gfx1030", disk=1.0)) == 1.6


def test_code_that_only_the_driver_can_make_costs_more_than_a_doubt() -> None:
    ptx = changed(CU126, sm={"linux_x86_64": ("8.0", "9.0+PTX")})
    assert price(ptx, ask("sm_120")) == 0.8 + 2.5
    assert price(ptx, ask("sm_86")) == 0.0


def test_an_override_costs_a_little_and_a_risky_one_a_doubt_more() -> None:
    rocm = wheel("2.9.1", "rocm6.4")
    assert price(rocm, ask("gfx1030")) == 0.0
    assert price(rocm, ask("gfx1031")) == 0.4
    question = ask("gfx1031")
    judged = assess(rocm, question)
    judged.covered = [(gpu, coverage._replace(risky=True)) for gpu, coverage in judged.covered]
    assert round(cost(judged, question), 2) == 1.2


def test_a_wheel_of_the_wheelhouse_comes_before_a_build() -> None:
    assert price(replace(CU126, wheel="/house/torch.whl"), ask("sm_86")) == 2.4


def test_a_patch_is_half_a_change() -> None:
    question = ask("sm_86", torch="1.13.1", glibc="2.36")
    patched = assess(build("1.13.1", cuda="11.7", compiler="gcc-12"), question)
    assert [change.what for change in patched.changes] == ["sources"]
    assert round(patched.cost, 2) == 5.0 + 0.5


def test_a_board_is_not_flashed_for_a_toolkit() -> None:
    made = build("2.8.0", cuda="12.6", compiler="gcc-11")
    asked, within, across = (price(made, ask("Jetson Orin NX", cuda=cuda)) for cuda in ("12.6", "12.2", "11.8"))
    assert (round(within - asked, 2), round(across - asked, 2)) == (5.0 - 2.6 + 2.0, 5.0 - 2.6 + 7.0)


def test_steps_are_counted_over_minor_releases() -> None:
    distances = {"2.7.1": "2.7.0", "2.0.1": "1.13.1", "1.12.1": "2.1.0", "2.6.0": "2.8.0", "2.8.0": "2.6.0"}
    found = [round(_torch_distance(version, ask("sm_86", torch=torch)), 2) for version, torch in distances.items()]
    assert found == [1.5, 1.51, 3.0 + 0.3, 3.0 + 0.2, 3.0 + 0.2], "up within a step, three down, two down, two up"


def test_the_newest_torch_of_an_old_python() -> None:
    wanted = {"3.6": "1.10.2", "3.7": "1.13.1", None: FACTS.releases[0], "3.99": FACTS.releases[0]}
    assert {python: newest_for(python, "linux_x86_64", FACTS) for python in wanted} == wanted


@pytest.mark.parametrize(("version", "order"), [("12.8", (-12, -8)), ("12", (-12, 0)), (None, (0, 0))])
def test_newer_toolkits_come_first(version: str | None, order: tuple[int, int]) -> None:
    assert toolkit_order(version) == order


def ranked(question: Question, *candidates: Candidate) -> list[str]:
    judged = sorted((assess(one, question) for one in candidates), key=lambda one: preference(one, question))
    return [one.candidate.name.removeprefix("torch ") for one in judged]


def test_among_equals_the_nearest_to_the_wish_then_the_newest() -> None:
    old, new = wheel("2.6.0", "cu126"), wheel("2.7.1", "cu126")
    assert ranked(ask("sm_86"), old, new) == ["2.7.1+cu126", "2.6.0+cu126"]
    assert ranked(ask("sm_86", torch=">=2.6"), old, new)[0] == "2.7.1+cu126"
    up, far = wheel("2.6.0", "cu126"), wheel("2.8.0", "cu126")
    assert ranked(ask("sm_86", torch="2.5.1"), far, up)[0] == "2.6.0+cu126"


def test_the_asked_toolkit_then_the_driver_then_what_pypi_has() -> None:
    cu118, cu126, cu128 = (wheel("2.7.1", name) for name in ("cu118", "cu126", "cu128"))
    assert ranked(ask("sm_86", cuda="12.8"), cu126, cu128)[0] == "2.7.1+cu128"
    # PyPI's own wheel of 2.7.1 is cu126; a driver that came before 12.6 runs it by compatibility only
    assert ranked(ask("sm_86"), cu118, cu128, cu126)[0] == "2.7.1+cu126"
    assert ranked(ask("sm_86", driver="535.54.03"), cu126, cu118)[0] == "2.7.1+cu118"
    assert ranked(ask("sm_86", driver="560.28.03"), cu118, cu126)[0] == "2.7.1+cu126"


def test_what_pypi_has_comes_before_a_newer_toolkit() -> None:
    assert ranked(ask("sm_86"), wheel("2.6.0", "cu126"), wheel("2.6.0", "cu124"))[0] == "2.6.0+cu124"
    assert ranked(ask("sm_86"), wheel("2.5.1", "cu118"), wheel("2.5.1", "cu121"))[0] == "2.5.1+cu121"


def test_official_rocm_comes_before_another() -> None:
    other, official = tidy("2.8.0", rocm="6.3"), tidy("2.8.0", rocm="6.4")
    assert ranked(ask("gfx1030"), tidy("2.7.1", rocm="6.4"), tidy("2.7.1", rocm="6.3"))[0].endswith("ROCm 6.3")
    assert ranked(ask("gfx1030"), other, official)[0].endswith("ROCm 6.4")
    assert ranked(ask("gfx1030", rocm="6.3"), official, other)[0].endswith("ROCm 6.3")


def test_a_published_wheel_of_pytorch_comes_before_others() -> None:
    ours = wheel("2.7.1", "cu126")
    theirs = changed(ours, publisher="amd")
    trial = changed(ours, status="experimental")
    assert ranked(ask("sm_86"), theirs, ours) == ["2.7.1+cu126", "2.7.1+cu126"]
    question = ask("sm_86")
    first = min((theirs, trial, ours), key=lambda one: preference(assess(one, question), question))
    assert first is ours


def test_a_toolkit_somebody_compiled_with_comes_before_an_official_one() -> None:
    question = ask("sm_35")
    tried, official = tidy("2.0.1", cuda="11.4"), tidy("2.0.1", cuda="11.8")
    assert ranked(question, official, tried)[0] == "2.0.1 from source with CUDA 11.4"
    other = tidy("2.0.1", cuda="11.6")
    assert ranked(ask("sm_61"), other, official)[0] == "2.0.1 from source with CUDA 11.8"
    assert ranked(ask("sm_61", cuda="11.6"), official, other)[0] == "2.0.1 from source with CUDA 11.6"


def test_toolkits_are_only_tried_for_all_cards_together() -> None:
    k40, h200 = ask("sm_35").sms[0], ask("sm_90").sms[0]
    assert tried_kits("2.0.1", (k40,), "linux", FACTS) == ("11.4",)
    assert tried_kits("1.13.1", (k40, h200), "linux", FACTS) == ("11.8",)
    assert tried_kits("2.0.1", (k40, h200), "linux", FACTS) == ()
    assert tried_kits("2.0.1", (), "linux", FACTS) == ()
    assert evidence("2.0.1", "11.4", k40, "linux", FACTS).exact
    assert not evidence("2.0.1", "11.8", k40, "linux", FACTS).exact


def test_what_people_get_by_these_prices() -> None:
    assert plan("Tesla K40c", python="3.12").torch == "2.6.0", "all its kernels were compiled, and Python stays"
    assert plan("Tesla K40c", python="3.13").torch == "2.6.0", "before 2.8.0, which nobody tried"
    assert plan("Tesla K40c", python="3.12", os="windows").torch == "2.0.1", "reported, for the Python next to it"
    assert plan("Tesla K40c", python="3.7").answer == "install"
    assert any(other.torch == "1.13.1" for other in plan("Tesla K40c", python="3.7").alternatives)
    assert plan("GTX 1080", python="3.6").torch == "1.10.2"
    assert plan("GTX 1080", python="3.6").as_asked
