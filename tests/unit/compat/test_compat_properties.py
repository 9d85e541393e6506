"""What must hold whatever the tables say: more cards never lift a refusal, newer drivers never take a solution."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.compat.driver import card_drivers, common_driver
from rekindle.facts import load_facts
from rekindle.index.pages.grid import architectures
from rekindle.model.arch import Sm, parse_gpu_arch
from rekindle.model.machine import Drivers, Gpu, Machine, Os
from rekindle.model.plan import Wish
from rekindle.plan import assess  # the rules register themselves  # noqa: F401
from rekindle.plan.candidates import official_wheels
from rekindle.plan.question import Question
from rekindle.plan.rules import RULES
from rekindle.plan.solve import make_plan

FACTS = load_facts()
CARDS = [card for name in architectures(FACTS) if name != "none" and isinstance(card := parse_gpu_arch(name), Sm)]
# Cards that the planner does not set aside, and no boards: their driver is not chosen.
SMS = [sm for sm in CARDS if sm >= Sm(3, 0) and not FACTS.is_tegra(sm)]
ABOUT_CARDS = ("R101", "R102", "R103", "R111", "R112", "R113")
slow = settings(max_examples=25, deadline=None)
sms = st.sampled_from(SMS)
systems = st.sampled_from(["linux", "windows"])


def machine(cards: list[Sm], system: str, driver: str | None = None) -> Machine:
    gpus = tuple(Gpu(vendor="nvidia", name=str(sm), arch=sm) for sm in cards)
    return Machine(os=Os(system=system, arch="x86_64"), gpus=gpus, drivers=Drivers(nvidia=driver))  # type: ignore[arg-type]


def refused(where: Machine) -> set[tuple[str, str | None, str]]:
    """The wheels that no change would make run on all the cards, each with the rule that says so: one rule's refusal
    must not hide that another's is gone."""
    question = Question(where, Wish(), FACTS)
    found = set()
    for candidate in official_wheels(question):
        for name in ABOUT_CARDS:
            if candidate.answer in RULES[name].applies:
                certain = [r for r in RULES[name].check(candidate, question) if r.certain and r.change is None]
                if certain:
                    found.add((candidate.torch, candidate.flavour.name if candidate.flavour else None, name))
    return found


@given(sms, sms, systems, st.sampled_from([None, "470.256.02", "535.54.03", "580.65.06"]))
@slow
def test_adding_a_card_never_removes_a_refusal(one: Sm, other: Sm, system: str, driver: str | None) -> None:
    assert refused(machine([one], system, driver)) <= refused(machine([one, other], system, driver))


@given(sms, systems, st.integers(390, 615), st.integers(390, 615))
@slow
def test_a_newer_driver_below_the_ceiling_never_takes_a_solution_away(sm: Sm, system: str, a: int, b: int) -> None:
    older, newer = sorted((a, b))
    below = card_drivers(sm, "linux", FACTS).below
    if below is not None and newer >= below:
        return
    before = make_plan(machine([sm], system, str(older)), Wish(), FACTS)
    after = make_plan(machine([sm], system, str(newer)), Wish(), FACTS)
    if before.answer == "install" and not before.changes:
        assert after.answer != "none" and not after.changes, "something better may come first, but never less"
        question = Question(machine([sm], system, str(newer)), Wish(), FACTS)
        same = [one for one in official_wheels(question) if one.torch == before.torch and one.cuda == before.cuda]
        assert same and not [refusal for one in same for refusal in RULES["R102"].check(one, question)]


@given(sms, sms, systems)
@slow
def test_cards_without_a_common_driver_are_never_planned_together(one: Sm, other: Sm, system: str) -> None:
    if common_driver([one, other], system, FACTS).exists:  # type: ignore[arg-type]
        return
    plan = make_plan(machine([one, other], system), Wish(), FACTS)
    assert not plan.as_asked
    wanted = {sm.dotted for sm in (one, other)}
    assert not wanted <= set(plan.arch_list), "one build for both would need a driver that does not exist"
