"""Outcomes made by hand, put into words: which refusal is told, which way is an alternative, what settles it."""

from __future__ import annotations

from typing import Any

import pytest
from planning import FACTS, ask, build, changed, plan, said, wheel

from rekindle.compat import Coverage
from rekindle.model.machine import Gpu
from rekindle.model.plan import Change, Reason, Refusal
from rekindle.plan.assess import GroupPlan, PlanOutcome, assess, is_guess
from rekindle.plan.candidates import Assessed, Candidate
from rekindle.plan.evidence import KnownBuild
from rekindle.plan.question import Question
from rekindle.plan.recipe import planned_cudnn
from rekindle.plan.solve import _driver_for
from rekindle.plan.wording.because import against_the_wish, choice_reasons, why_no_wheel
from rekindle.plan.wording.document import alternative, alternatives, compose_plan

K40 = ask("Tesla K40c", torch="2.0.1")
PYTHON = Change(what="python", from_="3.12", to="3.11", why="no wheel")


def refusal(code: str = "no-code", **more: Any) -> Refusal:
    return Refusal(code=code, what="it", reason=more.pop("reason", f"because of {code}."), **more)


def judged(candidate: Candidate, *refusals: Refusal, cost: float = 0.0, **more: Any) -> Assessed:
    made = Assessed(candidate, list(refusals), **more)
    made.cost = cost
    return made


def outcome(*wheels: Assessed, question: Question = K40, builds: tuple[Assessed, ...] = ()) -> PlanOutcome:
    return PlanOutcome(question, wheels=list(wheels), builds=list(builds))


CU118, CU117 = wheel("2.0.1", "cu118"), wheel("2.0.1", "cu117")
NO_CODE = refusal("gpu-not-in-wheel")


@pytest.mark.parametrize(
    ("refusals", "feasible", "changes"),
    [
        ([], True, []),
        ([refusal()], False, []),
        ([refusal(certain=False)], True, []),
        ([refusal(change=PYTHON)], True, ["python"]),
        ([refusal(change=PYTHON), refusal("b", change=PYTHON)], True, ["python"]),
        ([refusal(change=PYTHON), refusal()], False, ["python"]),
        ([refusal(change=PYTHON, certain=False)], True, ["python"]),
    ],
)
def test_what_follows_from_refusals(refusals: list[Refusal], feasible: bool, changes: list[str]) -> None:
    made = judged(CU118, *refusals)
    assert (made.feasible, [change.what for change in made.changes]) == (feasible, changes)


def told(*wheels: Assessed, question: Question = K40) -> Reason:
    (one,) = why_no_wheel(outcome(*wheels, question=question))
    return one


def test_why_no_wheel_tells_what_is_certain_and_no_change() -> None:
    doubt, moved = refusal("doubt", certain=False), refusal("moved", change=PYTHON)
    one = told(judged(CU118, doubt, moved, refusal("glibc-too-old", remedy="a newer system")))
    assert one.code == "glibc-too-old"
    assert one.text.endswith("because of glibc-too-old. Easier than a build: a newer system.")
    assert "The nearest is torch 2.0.1+cu118." in one.text
    plain = told(judged(CU118, refusal("glibc-too-old")))
    assert plain.text.endswith("because of glibc-too-old.")


def test_why_no_wheel_where_nothing_is_certain() -> None:
    for wheels in ([judged(CU118, refusal("doubt", certain=False))], [judged(CU118, refusal("moved", change=PYTHON))]):
        assert told(*wheels).text == "No official wheel keeps what was asked for, so it takes a source build."
    none = told()
    assert none.code == "no-wheel-serves"
    assert none.text == "No official wheel of this kind exists for Linux: it takes a source build."


def test_why_no_wheel_prefers_one_that_has_code_and_fewest_reasons() -> None:
    glibc, python = refusal("glibc-too-old"), refusal("python-ended")
    assert told(judged(CU118, NO_CODE), judged(CU117, glibc, python)).code == "glibc-too-old"
    assert told(judged(CU118, glibc, python), judged(CU117, python)).code == "python-ended"
    every = told(judged(CU118, NO_CODE), judged(CU117, glibc, NO_CODE))
    assert every.code == "no-wheel-serves"
    assert every.text.startswith("No official wheel of the asked torch has code for Tesla K40c (sm_35)")


def test_why_no_wheel_looks_at_the_asked_torch_and_toolkit_first() -> None:
    other = judged(wheel("2.1.0", "cu118"), refusal("other"))
    assert told(other, judged(CU118, refusal("mine"))).code == "mine"
    assert told(other).code == "other"
    kit = refusal("kit", change=Change(what="cuda", from_="11.7", to="11.8", why="w"))
    assert told(judged(CU118, kit, refusal("moved")), judged(CU117, refusal("kept"), refusal("too"))).code == "kept"
    assert told(judged(CU118, kit, refusal("moved"))).code == "moved"


NEWEST = ask("sm_86")
BEST = judged(wheel("2.6.0", "cu124"))


def beside(*others: Assessed, best: Assessed = BEST, question: Question = NEWEST, **more: Any) -> list[str]:
    made = outcome(best, *others, question=question)
    for name, value in more.items():
        setattr(made, name, value)
    return [f"{one.torch} {one.variant}: {one.why}" for one in alternatives(made, best)]


CPU = "2.6.0 cpu: without the GPU: the CPU wheel"


def test_each_kind_of_alternative_once() -> None:
    same_kind = judged(wheel("2.6.0", "cu126"), cost=1)
    older_kit = judged(wheel("2.6.0", "cu118"), cost=2)
    assert beside(same_kind, older_kit) == ["2.6.0 cu118: an official wheel", CPU]
    changed = judged(wheel("2.6.0", "cu126"), refusal(change=PYTHON), cost=1)
    assert beside(changed)[0] == "2.6.0 cu126: python 3.12 → 3.11"


def test_no_alternative_is_the_best_itself_or_infeasible() -> None:
    assert beside(judged(wheel("2.6.0", "cu124"), cost=1), judged(wheel("2.6.0", "cu118"), refusal())) == [CPU]
    assert beside(question=ask(), best=judged(wheel("2.6.0", "cpu"))) == []


def test_five_at_most_and_the_cpu() -> None:
    whats = ("python", "driver", "compiler", "cudnn", "sources", "memory", "disk")
    others = [
        judged(wheel("2.6.0", "cu118"), refusal(change=Change(what=what, from_="a", to="b", why="w")), cost=1 + number)
        for number, what in enumerate(whats)
    ]
    # A signature counts once, so each has a release of its own.
    others = [
        judged(wheel(torch, "cu118"), *one.refusals, cost=one.cost)
        for torch, one in zip(("2.6.0", "2.5.1", "2.5.0", "2.4.1", "2.4.0", "2.3.1", "2.3.0"), others, strict=True)
    ]
    assert len(beside(*others)) == 6


def test_guesses_and_relics_are_no_alternatives_to_a_wheel() -> None:
    guess = judged(wheel("2.6.0", "cu118"), refusal("gpu-only-ptx", certain=False), cost=1)
    assert is_guess(guess) and not is_guess(judged(CU118, refusal("gpu-only-ptx")))
    assert beside(guess) == [CPU]
    relic = judged(wheel("1.4.0", "cu101"), cost=1)
    assert beside(relic, best=judged(wheel("2.6.0", "cu124"))) == [CPU]
    asked = ask("sm_86", torch="2.6.0")
    assert beside(relic, question=asked)[0].startswith("1.4.0 cu101")
    built = judged(build("2.6.0", cuda="12.4"))
    assert beside(relic, best=built)[0].startswith("1.4.0 cu101"), "beside a build even an old wheel is something"


def test_a_plan_for_a_part_of_the_cards_says_for_which() -> None:
    question = ask("sm_86", "sm_35")
    lost = tuple(gpu for gpu in question.gpus if str(gpu.arch) == "sm_35")
    other = judged(wheel("2.6.0", "cu118"), cost=1)
    assert beside(other, question=question, unserved=lost)[0] == "2.6.0 cu118: for sm_86: an official wheel"
    assert beside(other, question=question)[0] == "2.6.0 cu118: an official wheel"
    whole = GroupPlan(question.gpus, judged(wheel("2.0.1", "cu118")), "470.x")
    alone = GroupPlan(lost, judged(build("2.0.1", cuda="11.8")))
    got = beside(other, question=question, unserved=lost, whole=whole, alone=[alone])
    assert got[0] == "2.0.1 cu118: for all cards, with NVIDIA driver 470.x: an official wheel"
    assert got[2] == "2.0.1 None: for sm_35 alone: a source build"


def test_the_best_way_that_keeps_the_driver() -> None:
    driver = refusal(change=Change(what="driver", from_="450", to="525", why="w"))
    best = judged(wheel("2.6.0", "cu124"), driver)
    guess = judged(wheel("2.5.0", "cu118"), refusal("gpu-only-ptx", certain=False), cost=1)
    kept = judged(wheel("1.4.0", "cu101"), cost=2)
    assert "1.4.0 cu101: with the driver as it is: an official wheel" in beside(guess, kept, best=best)
    assert beside(guess, best=best) == [CPU]
    assert "with the driver" not in " ".join(beside(kept))


def test_an_alternative_in_words() -> None:
    moved = Change(what="machine", from_="a", to="b", why="w")
    drive = Change(what="driver", from_="450", to="525", why="w")
    one = alternative(judged(CU118, refusal(change=moved), refusal("b", change=drive)))
    assert (one.why, one.driver) == ("driver 450 → 525", "525")
    built = judged(build("2.0.1", cuda="11.8", compiler="gcc-11"), evidence=KnownBuild("proven", "t"))
    got = alternative(built, "there: ")
    assert (got.why, got.compiler) == ("there: a source build, evidence: proven", "gcc-11")
    assert alternative(judged(CU118), "", "3.12").why == "an official wheel, for Python 3.10"
    assert alternative(judged(CU118), "", "3.10").why == "an official wheel"
    assert "for Python" not in alternative(judged(CU118, refusal(change=PYTHON)), "", "3.12").why


def test_a_note_before_a_doubt_and_neither_twice() -> None:
    gpu = Gpu(vendor="nvidia", name="x")
    jit, native = Coverage("jit", "only PTX"), Coverage("native", "holds it")
    doubt = refusal("d", reason="who knows", certain=False)
    assert alternative(judged(CU118, doubt)).why == "an official wheel (who knows)"
    assert alternative(judged(CU118, doubt, covered=[(gpu, jit)])).why == "an official wheel (only PTX)"
    assert alternative(judged(CU118, covered=[(gpu, native)])).why == "an official wheel"


def test_nothing_fits_tells_the_commonest_reasons_once_each() -> None:
    question = ask("sm_86")
    wheels = [judged(CU118, refusal("a"), refusal("b", certain=False)), judged(CU117, refusal("a", reason="again."))]
    made = compose_plan(outcome(*wheels, question=question))
    assert made.answer == "none" and not made.as_asked
    assert [(one.code, one.text) for one in made.because] == [("a", "Because of a.")]
    many = [judged(CU118, *(refusal(f"code-{number}") for number in range(9)))]
    assert len(compose_plan(outcome(*many, question=question)).because) == 6


def test_nothing_fits_and_nothing_is_known_of_why() -> None:
    made = compose_plan(outcome(question=ask("sm_86")))
    assert made.because[0].text == "No torch that we know of runs on sm_86 as asked."
    assert "this machine" in compose_plan(outcome(question=ask())).because[0].text


def test_nothing_fits_names_the_nearest_and_why_cards_are_apart() -> None:
    made = outcome(judged(CU118, refusal("a", remedy="try it.")), question=ask("sm_86"))
    made.nearest = [("with another driver", judged(CU117))]
    made.driver_clash = Reason(code="apart", text="They share no driver.")
    whole = compose_plan(made)
    assert [one.code for one in whole.because] == ["apart", "a"]
    assert whole.because[1].text == "Because of a. Try it."
    assert [one.why for one in whole.alternatives] == ["with another driver: an official wheel"]


@pytest.mark.parametrize(("text", "spoken"), [("torch 2.6 is.", "torch 2.6 is."), ("the wheel.", "The wheel.")])
def test_names_without_a_capital_keep_it(text: str, spoken: str) -> None:
    made = compose_plan(outcome(judged(CU118, refusal("a", reason=text)), question=ask("sm_86")))
    assert made.because[0].text == spoken


@pytest.mark.parametrize(
    ("torch", "cuda", "gpu", "cudnn"),
    [
        ("2.7.1", "11.8", "sm_35", "8.7.0"),  # the official one has no Kepler: the newest that has
        ("2.7.1", "11.8", "sm_50", "9.1.0"),
        ("2.7.1", "12.6", "sm_35", None),
        ("2.0.1", "10.2", "sm_30", "8.7.0"),  # no official build: the newest of the majors it takes
        ("1.4.0", "9.2", "sm_30", "7.6.5"),
    ],
)
def test_the_cudnn_of_a_build(torch: str, cuda: str, gpu: str, cudnn: str | None) -> None:
    assert planned_cudnn(build(torch, cuda=cuda), ask(gpu)) == cudnn


def test_a_way_without_cuda_asks_for_no_driver() -> None:
    question = ask("sm_35")
    assert _driver_for(outcome(judged(wheel("2.6.0", "cpu")), question=question)) is None
    assert _driver_for(outcome(question=question)) is None
    assert _driver_for(outcome(judged(CU118), question=question)) == "450.80.02 to 470.x"


def test_what_a_wheel_without_machine_code_for_a_card_is_told() -> None:
    (none,) = said("R101", CU118, ask("sm_20", "sm_35", torch="2.0.1"))
    assert none.certain and none.reason.endswith(", so sm_35 is not served.")
    ptx = changed(CU118, sm={"linux_x86_64": ("8.6+PTX",)})
    (maybe,) = said("R101", ptx, ask("sm_120"))
    assert not maybe.certain and maybe.code == "gpu-only-ptx"
    assert maybe.reason.endswith(", and nobody saw that work.")


def test_a_jetpack_is_named_for_a_wheel_and_not_for_a_build() -> None:
    assert "jetpack" in {warning.code for warning in plan("Jetson AGX Orin").warnings}
    assert "jetpack" not in {warning.code for warning in plan("Jetson Nano").warnings}


def against(question: Question, *wheels: Assessed) -> list[str]:
    return [one.code for one in against_the_wish(outcome(*wheels, question=question))]


def test_of_an_asked_flavour_only_its_own_refusals_are_told() -> None:
    both = (judged(CU118, refusal("other")), judged(CU117, refusal("mine")))
    kept = against(ask("sm_86", torch="2.0.1", variant="cu117"), *both)
    assert "mine" in kept and "other" not in kept and "flavour-never-published" not in kept
    never = against(ask("sm_86", torch="2.0.1", variant="cu116"), *both)
    assert {"flavour-never-published", "mine", "other"} <= set(never)


def test_builds_speak_only_where_one_is_wished_for_or_a_torch_is() -> None:
    assert against(ask("sm_35", python="3.11")) == []
    assert against(ask("sm_35", variant="cu118")) == ["flavour-never-published"]
    assert "source-ended-for-arch" in against(ask("sm_35", build=True))
    assert "source-ended-for-arch" in against(ask("sm_35", torch=FACTS.releases[0]))


def test_only_the_first_toolkit_speaks() -> None:
    found = against_the_wish(outcome(question=ask("sm_35", torch=FACTS.releases[0])))
    assert len({one.what for one in found if one.what.startswith("CUDA ")}) == 1


def test_flavours_of_another_system_are_not_offered() -> None:
    made = plan("sm_86", torch="2.8.0", variant="cu118", os="windows")
    assert "there are cpu, cu126, cu128, cu129, xpu." in made.changes[0].why


def test_intel_cards_are_told_of_the_newest_wheel_of_their_own() -> None:
    made = plan("Intel Arc A770")
    assert (made.answer, made.torch, made.variant, made.backend) == ("install", "2.13.0", "xpu", "xpu")
    assert all(other.variant != "xpu" for other in plan("sm_20").alternatives)


def codes_of(candidate: Candidate, question: Question) -> dict[str, str]:
    return {one.code: one.text for one in choice_reasons(assess(candidate, question), question)}


def test_what_nvcc_compiles_for_is_the_card_or_its_sibling() -> None:
    own = codes_of(build("2.0.1", cuda="11.8"), ask("sm_89"))
    assert "cuda-targets-sibling" not in own and "CUDA 11.8 compiles for sm_89 (8.9)" in own["cuda-targets-arch"]
    near = codes_of(build("2.0.1", cuda="11.7"), ask("sm_89"))
    assert "cuda-targets-arch" not in near and "it is built for 8.6" in near["cuda-targets-sibling"]
    bare = codes_of(build("2.0.1", cuda="11.8"), ask(cuda="11.8"))
    assert bare["cuda-targets-arch"].startswith("No card is named")


def test_a_kepler_wheel_is_on_no_record_and_a_build_makes_no_such_remark() -> None:
    text = {warning.code: warning.text for warning in plan("Tesla K40c").warnings}["kepler"]
    assert "no run of this wheel" not in text
    k80 = plan("Tesla K80", torch="2.3.1")
    assert k80.answer == "install"
    assert "no run of this wheel" in {warning.code: warning.text for warning in k80.warnings}["kepler"]


def test_each_request_says_which_wheel_it_is() -> None:
    assert plan("sm_86", torch="2.6.0").requests[0].why == "PyPI's own wheel"
    assert plan("sm_86", torch="2.6.0", variant="cu118").requests[0].why == "the cu118 wheel"


def test_of_an_asked_toolkit_only_wheels_that_keep_it_speak() -> None:
    kit = refusal("kit", change=Change(what="cuda", from_="11.7", to="11.8", why="w"))
    moved, kept = judged(CU118, kit, refusal("moved")), judged(CU117, refusal("kept"))
    both = against(ask("sm_86", torch="2.0.1", cuda="11.7"), moved, kept)
    assert "kept" in both and "moved" not in both
    assert "moved" in against(ask("sm_86", torch="2.0.1", cuda="11.7"), moved)
