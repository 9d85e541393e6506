"""The planner's parts one by one: hazards, alternatives, what is judged of several cards, what is easier."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from planning import FACTS, ask, build, plan, wheel

from rekindle.compat.hazards import machine_meets, torch_meets
from rekindle.errors import BadInput
from rekindle.model.facts import Hazard
from rekindle.model.machine import Drivers, Os
from rekindle.model.plan import Change, Refusal, Wish
from rekindle.plan.assess import assess
from rekindle.plan.candidates import Assessed, Candidate, _combination, _surroundings, is_cured
from rekindle.plan.describe import machine_from_flags, machine_name, machine_profile
from rekindle.plan.question import Question, check_wish
from rekindle.plan.solve import _easier, _much_newer, _subsets, find_nearest, make_plan, solve
from rekindle.plan.wording.document import alternative, is_guess
from small_hazards import hazard


def applies(given: Hazard, candidate: Candidate, question: Question) -> bool:
    return torch_meets(given, _combination(candidate, question))


BUILD = build("2.3.1", cuda="12.1", compiler="gcc-12.2")


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({}, True),
        ({"torch": ">=2.3"}, True),
        ({"torch": ">2.3.1"}, False),
        ({"backend": ("cuda",)}, True),
        ({"backend": ("rocm", "cpu")}, False),
        ({"flavour": ("cu121",)}, False),
        ({"cuda": "12.1"}, True),
        ({"cuda": ">=12.2"}, False),
        ({"rocm": ">=5"}, False),
        ({"python": "3.10"}, True),
        ({"python": ">=3.11"}, False),
        ({"compiler": "gcc"}, True),
        ({"compiler": "clang"}, False),
        ({"compiler": "gcc", "compiler_version": ">=12"}, True),
        ({"compiler": "gcc", "compiler_version": ">=13"}, False),
    ],
)
def test_what_of_a_candidate_a_hazard_asks_for(condition: dict[str, Any], holds: bool) -> None:
    assert applies(hazard(**condition), BUILD, ask("sm_86")) is holds


def test_a_hazard_of_a_compiler_needs_one_and_of_a_flavour_a_wheel() -> None:
    assert not applies(hazard(compiler="gcc"), build("2.3.1", cuda="12.1"), ask("sm_86"))
    bare = build("2.3.1", cuda="12.1", compiler="gcc")
    assert applies(hazard(compiler="gcc"), bare, ask("sm_86"))
    assert not applies(hazard(compiler="gcc", compiler_version=">=12"), bare, ask("sm_86"))
    assert applies(hazard(flavour=("cu126",)), wheel("2.7.1", "cu126"), ask("sm_86"))
    assert not applies(hazard(flavour=("cu118",)), wheel("2.7.1", "cu126"), ask("sm_86"))


@pytest.mark.parametrize(
    ("condition", "flags", "holds"),
    [
        ({"os": ("linux",)}, {}, True),
        ({"os": ("windows",)}, {}, False),
        ({"arch": ("x86_64",)}, {}, True),
        ({"arch": ("aarch64",)}, {}, False),
        ({"glibc": ">=2.41"}, {"glibc": "2.41"}, True),
        ({"glibc": ">=2.41"}, {"glibc": "2.40"}, False),
        ({"glibc": ">=2.41"}, {}, False),
        ({"cpu_lacks": ("avx2",)}, {"cpu": "ivybridge"}, True),
        ({"cpu_lacks": ("avx2",)}, {"cpu": "haswell"}, False),
        ({"cpu_lacks": ("avx2",)}, {}, False),
        ({"sm": "sm_86"}, {}, True),
        ({"sm": "sm_90"}, {}, False),
        ({"tegra": False}, {}, True),
        ({"tegra": True}, {}, False),
    ],
)
def test_what_of_a_machine_a_hazard_asks_for(condition: dict[str, Any], flags: dict[str, Any], holds: bool) -> None:
    assert machine_meets(hazard(**condition), _surroundings(ask("sm_86", **flags))) is holds


def test_only_what_breaks_is_cured_and_only_by_a_patch() -> None:
    assert is_cured(hazard(patch="p")) and not is_cured(hazard()) and not is_cured(hazard(patch="p", effect="warns"))


def test_a_problem_that_the_settings_avoid_is_said_to_be_handled() -> None:
    made = plan(torch="1.13.1", variant="cpu", build=True, compiler="gcc-12", python="3.10")
    told = {warning.code: warning.handled for warning in made.warnings}
    assert told["cmake4-policy"] and made.build and made.build.env["CMAKE_POLICY_VERSION_MINIMUM"] == "3.5"
    assert not told["setuptools-82"], "nothing in this plan's settings takes it away"


def test_a_candidate_is_feasible_if_every_certain_no_can_be_changed() -> None:
    def judged(*refusals: Refusal) -> Assessed:
        assessed = Assessed(BUILD, list(refusals))
        assessed.settle()
        return assessed

    hard = Refusal(rule="R1", code="a", what="x", reason="No.")
    doubt = Refusal(rule="R1", code="b", what="x", reason="Perhaps.", certain=False)
    change = Change(what="cuda", from_="1", to="2", why="so")
    soft = Refusal(rule="R1", code="c", what="x", reason="Else.", change=change)
    again = Refusal(rule="R2", code="d", what="x", reason="Else.", change=msgspec.structs.replace(change, to="3"))
    assert judged().feasible and judged(doubt).feasible and judged(soft).feasible
    assert not judged(hard).feasible and not judged(soft, hard).feasible
    assert judged(soft, again).changes == [change], "the first reason for a change counts"
    assert judged(hard, doubt).doubts == [doubt]


def test_names_of_candidates() -> None:
    assert wheel("2.7.1", "cu126").name == "torch 2.7.1+cu126"
    assert build("2.7.1", cuda="12.6").name == "torch 2.7.1 from source with CUDA 12.6"
    assert build("2.7.1", rocm="6.3").name == "torch 2.7.1 from source with ROCm 6.3"
    assert build("2.7.1").name == "torch 2.7.1 from source"


def told(candidate: Candidate, question: Question) -> str:
    return alternative(assess(candidate, question)).why


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


def test_groups_of_cards_are_tried_large_and_new_first() -> None:
    cards = ask("sm_52", "sm_86", "sm_120").gpus
    groups = [[str(gpu.arch) for gpu in group] for group in _subsets(cards)]
    assert groups[:3] == [["sm_120", "sm_86"], ["sm_120", "sm_52"], ["sm_86", "sm_52"]]
    assert groups[3:] == [["sm_120"], ["sm_86"], ["sm_52"]]


def test_one_card_never_talks_of_others() -> None:
    outcome = solve(ask("sm_86"))
    assert outcome.alone == [] and outcome.unserved == () and outcome.apart is None


def test_a_card_that_holds_the_others_years_back_is_left_out() -> None:
    question = ask("sm_37", "sm_86")
    outcome = solve(question)
    assert outcome.apart is None and [str(gpu.arch) for gpu in outcome.unserved] == ["sm_37"]
    assert [str(gpu.arch) for alone in outcome.alone for gpu in alone.gpus] == ["sm_37"]
    assert outcome.alone[0].driver == "450.80.02 to 470.x"
    four, three = wheel("2.7.1", "cu126"), wheel("2.6.0", "cu126")
    old = assess(wheel("2.3.1", "cu118"), question)
    assert _much_newer(assess(four, question), old, question), "four minor releases"
    assert not _much_newer(assess(three, question), old, question)
    assert not _much_newer(assess(four, question), old, ask("sm_37", "sm_86", torch="2.3.1")), "as asked"


def easier(question: Question) -> list[str]:
    return [why for why, _, _ in _easier(question)]


def test_what_would_make_it_easier() -> None:
    assert easier(ask("sm_86", build=True, driver="450.80"))[:3] == [
        "without insisting on a build",
        "with nothing asked for but the machine",
        "with another driver",
    ]
    assert easier(ask("sm_86")) == ["on the CPU alone"]
    assert easier(ask("none")) == []
    musl = easier(ask("sm_86", distro="alpine 3.20"))
    assert musl[0] == "on a system with glibc"
    machines = {why: machine for why, machine, _ in _easier(ask("sm_86", distro="alpine 3.20", driver="450.80"))}
    assert machines["on a system with glibc"].os == Os(system="linux")
    assert machines["with another driver"].drivers == Drivers()
    assert machines["on the CPU alone"].gpus == ()
    wishes = {why: wish for why, _, wish in _easier(ask("sm_86", torch="2.0", build=True, python="3.9"))}
    assert wishes["without insisting on a build"] == Wish(torch="2.0", python="3.9")
    assert wishes["on the CPU alone"] == Wish(python="3.9", variant="cpu")


def test_no_more_than_two_ways_are_near() -> None:
    assert len(find_nearest(ask("sm_120", torch="1.0", cuda="10.0", build=True, driver="400.1"))) == 2


def test_builds_only_looks_at_no_wheel() -> None:
    question = ask("sm_86", torch="2.6.0")
    made = make_plan(question.machine, question.wish, FACTS, builds_only=True)
    assert made.answer == "build" and all(
        other.answer == "build" or other.variant == "cpu" for other in made.alternatives
    )
    hopeless = ask("sm_20")
    assert make_plan(hopeless.machine, hopeless.wish, FACTS, builds_only=True).answer == "none"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"cuda": "99.0"}, "newer than the facts know"),
        ({"cuda": "12.7"}, "there is no CUDA 12.7"),
        ({"cuda": "twelve"}, "--cuda wants a version number"),
        ({"rocm": "x"}, "--rocm wants a version number"),
        ({"cudnn": "x"}, "--cudnn wants a version number"),
        ({"cuda": "12.6", "rocm": "6.3"}, "contradict"),
        ({"variant": "cpux"}, "no wheel flavour is called 'cpux'"),
        ({"torch": "2.x"}, "--torch"),
        ({"torch": "9.9"}, "no torch 9.9 is known"),
        ({"compiler": "tcc-1"}, "is not understood"),
        ({"compiler": "gcc-x"}, "is not understood"),
    ],
)
def test_wishes_for_what_never_was(flags: dict[str, Any], says: str) -> None:
    wish = Wish(**flags)
    with pytest.raises(BadInput) as caught:
        check_wish(Question(ask("sm_86").machine, wish, FACTS))
    assert says in caught.value.message


def test_the_nearest_toolkit_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        check_wish(Question(ask("sm_86").machine, Wish(cuda="12.7"), FACTS))
    assert caught.value.remedy in ("the nearest is 12.6", "the nearest is 12.8")
    check_wish(Question(ask("sm_86").machine, Wish(cuda="12.6", compiler="gcc-13", variant="cu999"), FACTS))
    arm = machine_from_flags(FACTS, gpu=["sm_86"], os="windows", arch="aarch64")
    with pytest.raises(BadInput):
        check_wish(Question(arm, Wish(), FACTS))


def test_machines_by_hand() -> None:
    named = machine_from_flags(FACTS, gpu=["RTX 3090"], cpu="Xeon E5-2690 v2", distro="debian 12", memory="16G")
    assert machine_name(named) == "GeForce RTX 3090, Xeon E5-2690 v2, debian 12" and named.memory_gib == 16.0
    bare = machine_from_flags(FACTS)
    assert machine_name(bare) == "no GPU, linux" and bare.no_gpu is None and bare.memory_gib is None
    assert machine_from_flags(FACTS, gpu=["none"]).no_gpu is True
    assert machine_from_flags(FACTS, memory=8.0).memory_gib == 8.0
    assert machine_from_flags(FACTS, cpu="ivybridge").cpu.name is None
    assert machine_from_flags(FACTS, cpu="armv7l").os.arch == "armv7l"
    assert machine_from_flags(FACTS, cuda="12.6", cudnn="9.1").toolkits[1].kind == "cudnn"
    for bad in ({"os": "beos"}, {"os": "windows", "glibc": "2.31"}, {"os": "windows", "distro": "debian 12"},
                {"driver": "new"}, {"glibc": "x"}, {"python": "py"}, {"cpu": "zen2", "arch": "aarch64"},
                {"arch": "vax"}, {"compiler": "gcc13"}, {"gpu": ["none", "sm_86"]}, {"gpu": ["sm_59"]}):  # fmt: skip
        with pytest.raises(BadInput):
            machine_from_flags(FACTS, **bad)
    assert machine_from_flags(FACTS, os="windows", distro="Windows 11").os.distro == "Windows 11"
    machine, wish = machine_profile("k40c-windows", FACTS)
    assert machine.gpus[0].name == "Tesla K40c" and wish.torch == "2.0.1"
