"""The search: groups of cards, when builds are looked for, what would be easier."""

from __future__ import annotations

from planning import FACTS, ask, plan

from rekindle.model.machine import Drivers, Os
from rekindle.model.plan import Wish
from rekindle.plan.assess import PlanOutcome
from rekindle.plan.question import Question
from rekindle.plan.solve import _card_groups, _easier_questions, _judge_question, make_plan, solve


def easier(question: Question) -> list[str]:
    return [why for why, _, _ in _easier_questions(question)]


def test_too_old_a_c_library_is_told_the_nearest_that_works() -> None:
    made = plan("RTX 3060", glibc="2.12")
    assert made.answer == "none"
    assert made.alternatives[0].torch == FACTS.releases[0]
    assert made.alternatives[0].why.startswith("on a system with a newer glibc: an official wheel")
    assert all("newer glibc" not in other.why for other in plan("sm_20", glibc="2.35").alternatives)


def test_builds_are_looked_for_only_where_a_wheel_does_not_do() -> None:
    assert solve(ask("sm_86")).builds == []
    assert solve(ask("sm_86", torch="2.7.1")).builds == []
    assert solve(ask("sm_120", torch="2.6.0")).builds
    assert solve(ask("sm_86", build=True)).builds
    assert solve(ask("sm_35")).builds


def test_an_asked_toolkit_ends_the_search_where_it_just_works() -> None:
    made = solve(ask("sm_86", cuda="12.8", build=True))
    assert made.best is not None and made.best.candidate.cuda == "12.8" and not made.best.changes


def test_groups_of_cards_are_tried_large_and_new_first() -> None:
    question = ask("sm_52", "sm_86", "sm_120")
    nothing = [[str(gpu.arch) for gpu in group] for group in _card_groups(question, PlanOutcome(question))]
    assert nothing[:3] == [["sm_120", "sm_86"], ["sm_120", "sm_52"], ["sm_86", "sm_52"]]
    assert nothing[3:] == [["sm_120"], ["sm_86"], ["sm_52"]]
    served = [[str(gpu.arch) for gpu in group] for group in _card_groups(question, solve(question))]
    assert served == [*nothing[:3], ["sm_120"]], "where one torch serves all, only what the newest could have"


def test_one_card_never_talks_of_others() -> None:
    outcome = solve(ask("sm_86"))
    assert outcome.alone == [] and outcome.unserved == () and outcome.driver_clash is None


def test_one_torch_for_all_cards_comes_before_a_newer_one_for_some() -> None:
    outcome = solve(ask("sm_37", "sm_86"))
    assert outcome.best is not None and outcome.best.candidate.torch == "2.3.1"
    assert outcome.unserved == () and outcome.whole is None and outcome.driver_clash is None
    assert [str(gpu.arch) for gpu in outcome.alone[0].gpus] == ["sm_86"]
    newest = solve(ask("sm_37", "sm_86", serve="newest"))
    assert [str(gpu.arch) for gpu in newest.unserved] == ["sm_37"]
    assert newest.whole is not None and newest.whole.best.candidate.torch == "2.3.1"
    assert newest.whole.driver == "455.23 to 470.x"


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
    machines = {
        why: machine for why, machine, _ in _easier_questions(ask("sm_86", distro="alpine 3.20", driver="450.80"))
    }
    assert machines["on a system with glibc"].os == Os(system="linux")
    assert machines["with another driver"].drivers == Drivers()
    assert machines["on the CPU alone"].gpus == ()
    wishes = {why: wish for why, _, wish in _easier_questions(ask("sm_86", torch="2.0", build=True, python="3.9"))}
    assert wishes["without insisting on a build"] == Wish(torch="2.0", python="3.9")
    assert wishes["on the CPU alone"] == Wish(python="3.9", variant="cpu")


def test_no_more_than_two_ways_are_near() -> None:
    hard = _judge_question(ask("sm_120", torch="2.1.0", variant="cu118", driver="400.1", glibc="2.17"))
    assert hard.best is None and len(hard.nearest) == 2


def test_builds_only_looks_at_no_wheel() -> None:
    question = ask("sm_86", torch="2.6.0")
    made = make_plan(question.machine, question.wish, FACTS, builds_only=True)
    assert made.answer == "build" and all(
        other.answer == "build" or other.variant == "cpu" for other in made.alternatives
    )
    hopeless = ask("sm_20")
    assert make_plan(hopeless.machine, hopeless.wish, FACTS, builds_only=True).answer == "none"
