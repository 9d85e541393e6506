"""What else there is beside the best way, and how it is told."""

from __future__ import annotations

import msgspec
from planning import ask, build, plan, wheel

from rekindle.plan.assess import assess, is_guess
from rekindle.plan.candidates import (
    Candidate,
)
from rekindle.plan.question import Question
from rekindle.plan.wording.document import _is_poor, alternative


def told(candidate: Candidate, question: Question) -> str:
    return alternative(assess(candidate, question)).why


def test_where_cards_share_no_driver_each_way_beside_speaks_of_the_rest() -> None:
    made = plan("K40c", "H200", torch="1.13.1", build=True, cuda="11.8")
    assert [change.what for change in made.changes] == ["machine"]
    assert made.alternatives and all("machine" not in other.why for other in made.alternatives)


def test_one_wheel_for_all_cards_is_named_where_the_plan_leaves_one_out() -> None:
    made = plan("Tesla T4", "Tesla K80", serve="newest")
    first = made.alternatives[0]
    assert (first.torch, first.variant) == ("2.3.1", "cu118")
    assert first.why == "for all cards, with NVIDIA driver 450.80.02 to 470.x: an official wheel"
    told = next(warning.text for warning in made.warnings if warning.code == "gpu-not-served")
    assert told == (
        "Tesla K80 (sm_37) is not served by this plan:"
        " the official wheel that serves all cards is 2.4 years older (torch 2.3.1+cu118)."
    )
    assert made.alternatives[1].why == "for Tesla T4 (sm_75): an official wheel"
    built = plan("Tesla K40c", "RTX 3060", serve="newest")
    assert built.alternatives[0].answer == "build" and "for all cards" in built.alternatives[0].why
    assert any("the build that serves all cards is 21 months older" in warning.text for warning in built.warnings)
    whole = plan("GT 1030", "RTX 4090")
    assert all("for all cards" not in other.why for other in whole.alternatives), "the plan itself is that"


def test_fifteen_releases_behind_are_worth_a_word_and_sixteen_are_not() -> None:
    question = ask("sm_86")
    best = assess(wheel("2.15.0", "cu130"), question)
    assert not _is_poor(assess(wheel("2.0.1", "cu118"), question), best, question)
    assert _is_poor(assess(wheel("1.13.1", "cu117"), question), best, question)
    assert not _is_poor(assess(wheel("1.13.1", "cu117"), question), best, ask("sm_86", torch="1.13.1"))


def test_an_alternative_says_what_it_costs() -> None:
    assert told(wheel("2.7.1", "cu126"), ask("sm_86")) == "an official wheel"
    assert told(build("2.6.0", cuda="12.4", compiler="gcc-11"), ask("sm_86")) == "a source build, evidence: compiled"
    near = assess(wheel("2.7.1", "cu126"), ask("sm_86"))
    assert alternative(near, beside="3.10").why == "an official wheel", "the Python of the best way"
    assert alternative(near, beside="3.12").why == "an official wheel, for Python 3.10"
    moved = assess(wheel("2.7.1", "cu126"), ask("sm_86", python="3.14"))
    assert alternative(moved, beside="3.14").why.count("3.10") == 1, "a change of Python is not said twice"
    other = told(wheel("2.7.1", "cu126"), ask("sm_86", variant="cu118", torch="2.6.0"))
    assert other == "torch 2.6.0 → 2.7.1; variant cu118 → cu126"
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in told(wheel("2.9.1", "rocm6.4"), ask("gfx1031"))
    wanted = alternative(assess(wheel("2.7.1", "cu126"), ask("sm_86", driver="450.80.02")), "lead: ")
    assert wanted.driver == "525.60.13 or newer" and wanted.why.startswith("lead: driver 450.80.02")
    assert (wanted.torch, wanted.variant, wanted.cuda, wanted.python) == ("2.7.1", "cu126", "12.6", "3.10")


def test_ptx_alone_is_a_guess() -> None:
    ptx = wheel("2.7.1", "cu126")
    assert ptx.flavour is not None
    only = msgspec.structs.replace(ptx.flavour, sm={"linux_x86_64": ("8.0", "9.0+PTX")})
    guess = Candidate("install", "2.7.1", "cuda", only, "12.6", None, "3.10")
    assert is_guess(assess(guess, ask("sm_120"))) and not is_guess(assess(guess, ask("sm_80")))


def test_beside_a_good_wheel_nothing_of_another_age_is_named() -> None:
    made = plan("sm_86")
    assert made.answer == "install"
    assert all(not (other.torch or "").startswith("1.") for other in made.alternatives)
    assert made.alternatives[-1].variant == "cpu" and made.alternatives[-1].torch == made.torch
    assert len(made.alternatives) <= 6
    assert all(other.variant != "cpu" for other in plan("none").alternatives)


def test_the_driver_may_stay_for_an_older_torch() -> None:
    made = plan("sm_70", driver="396.26")
    assert [change.what for change in made.changes] == ["driver"]
    assert any(other.why.startswith("with the driver as it is: ") for other in made.alternatives)
    assert not any("driver as it is" in other.why for other in plan("sm_86", driver="580.65").alternatives)
