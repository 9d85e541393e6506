"""Why a value is not what the plan proposes."""

from __future__ import annotations

import pytest
from planning import FACTS, ask, plan

from rekindle.errors import BadInput
from rekindle.plan.solve import why_not


@pytest.mark.parametrize(
    ("gpu", "text", "proposed", "way"),
    [
        ("RTX 3060", f"torch={FACTS.releases[0]}", True, "install"),
        ("RTX 3060", "torch=2.14.1", False, "install"),
        ("Tesla K40c", "torch=2.6.0", True, "graft"),
        ("GTX 1080", "torch=2.15", False, "build"),
        ("RTX 5090", "variant=cu118", False, "none"),
    ],
)
def test_why_not_knows_what_the_plan_has(gpu: str, text: str, proposed: bool, way: str) -> None:
    question = ask(gpu)
    answer = why_not(question.machine, question.wish, text, FACTS)
    assert (answer.proposed, answer.way) == (proposed, way)


def test_why_not_tells_each_way_once_and_what_stands_instead() -> None:
    question = ask("RTX 3060")
    answer = why_not(question.machine, question.wish, "torch=2.14.1", FACTS)
    names = [each.name for each in answer.considered]
    assert len(names) == len(set(names)) and answer.instead == f"install torch {FACTS.releases[0]}+cu132"
    only = why_not(question.machine, question.wish, "variant=cu126", FACTS)
    assert {each.answer for each in only.considered} == {"install"}, "a flavour is a wheel's"
    for hopeless in (ask("sm_20"), ask("RTX 3060", distro="alpine 3.20")):
        assert why_not(hopeless.machine, hopeless.wish, "torch=2.6.0", FACTS).way == "none"


def test_why_not_reads_the_tables_by_itself() -> None:
    question = ask("RTX 3060")
    assert why_not(question.machine, question.wish, "torch=2.14.1") == why_not(
        question.machine, question.wish, "torch=2.14.1", FACTS
    )


@pytest.mark.parametrize("text", ["torch", "torch=", "=2.15", "colour=red"])
def test_why_not_of_nothing(text: str) -> None:
    question = ask("RTX 3060")
    with pytest.raises(BadInput, match="is not understood"):
        why_not(question.machine, question.wish, text, FACTS)


def test_why_not_tells_eight_at_most() -> None:
    question = ask("RTX 3060")
    assert len(why_not(question.machine, question.wish, "python=3.11", FACTS).considered) == 8


def test_why_not_names_what_stands_instead_as_it_is() -> None:
    kepler, fermi = ask("Tesla K40c"), ask("sm_20")
    proposed = plan("Tesla K40c")
    answer = why_not(kepler.machine, kepler.wish, "torch=2.14.1", FACTS)
    assert (proposed.answer, answer.instead) == ("build", f"build torch {proposed.torch}")
    assert why_not(fermi.machine, fermi.wish, "torch=2.14.1", FACTS).instead is None
