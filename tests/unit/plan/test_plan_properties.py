"""What must hold for every machine and every wish, whatever the tables say."""

from __future__ import annotations

import os

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rekindle.compat import BACKENDS
from rekindle.compat.driver import card_drivers
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm, parse_gpu_arch
from rekindle.model.document import decode, encode
from rekindle.model.machine import Drivers, Gpu, Machine
from rekindle.model.plan import Plan, Wish
from rekindle.plan.assess import assess
from rekindle.plan.candidates import Candidate, official_wheels
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import Question
from rekindle.plan.rules import RULES, refusals
from rekindle.plan.solve import make_plan, solve

FACTS = load_facts()
SMS = sorted({str(sm) for row in FACTS.cuda.toolkit.values() for sm in row.sass if not sm.suffix and sm != Sm(10, 1)})
GFXS = sorted({chip.arch for chip in FACTS.amd.chip.values()})

gpus = st.lists(st.sampled_from([*SMS, *GFXS]), max_size=3, unique=True)
wishes = st.builds(
    Wish,
    torch=st.none() | st.sampled_from(FACTS.releases),
    python=st.none() | st.sampled_from(["3.6", "3.8", "3.10", "3.12", "3.14"]),
    cuda=st.none() | st.sampled_from(FACTS.toolkits),
    build=st.booleans(),
)
systems = st.sampled_from(["linux", "windows"])
drivers = st.none() | st.sampled_from(["390.157", "450.80.02", "470.256.02", "528.49", "580.95.05"])
# Always the same examples: a rare find must not stop somebody else's landing. REKINDLE_LONG=1 looks further.
LONG = bool(os.environ.get("REKINDLE_LONG"))
quick = settings(
    max_examples=400 if LONG else 25, derandomize=not LONG, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def machine_with(names: list[str], system: str, driver: str | None) -> Machine:
    # The CPU is named: else a Tegra chip alone would mean an ARM board, and beside another card a PC.
    return machine_from_flags(FACTS, gpu=names, os=system, driver=driver, arch="x86_64")


def served(plan: Plan, machine: Machine) -> list[Gpu]:
    unserved = [
        w.text
        for w in plan.warnings
        if w.code in ("gpu-not-served", "gpu-unsupported", "other-vendor-unused", "graphics-beside-card")
    ]
    return [gpu for gpu in machine.gpus if not any(str(gpu.arch) in text for text in unserved)]


@given(gpus, wishes, systems, drivers)
@quick
def test_a_plan_serves_what_it_says_it_serves(names: list[str], wish: Wish, system: str, driver: str | None) -> None:
    machine = machine_with(names, system, driver)
    plan = make_plan(machine, wish, FACTS)
    assert decode(encode(plan), Plan) == plan
    assert plan.because, "a plan always says why"
    if plan.answer == "none":
        return
    question = Question(machine, wish, FACTS)
    for gpu in served(plan, machine):
        if plan.answer == "install" and plan.variant != "cpu":
            flavour = next(row for row in FACTS.flavours(plan.torch or "") if row.name == plan.variant)
            backend = BACKENDS["cuda" if flavour.cuda else "rocm"]
            assert backend.covers(flavour, question.platform, gpu, FACTS).kind != "none"
        if plan.answer == "build" and isinstance(gpu.arch, Sm):
            assert gpu.arch.dotted in plan.arch_list
            toolkit = FACTS.toolkit(plan.cuda or "")
            assert toolkit is not None and gpu.arch in toolkit.sass
        if plan.answer == "build" and isinstance(gpu.arch, Gfx):
            assert str(gpu.arch) in plan.arch_list


@given(gpus, wishes, systems, drivers)
@example(["sm_100", "sm_20", "sm_30"], Wish(), "linux", "390.157")
@quick
def test_following_the_changes_leads_to_a_plan_as_asked(
    names: list[str], wish: Wish, system: str, driver: str | None
) -> None:
    machine = machine_with(names, system, driver)
    plan = make_plan(machine, wish, FACTS)
    guess = any(warning.code == "gpu-only-ptx" for warning in plan.warnings)
    if plan.answer == "none" or not plan.changes or guess:
        return
    asked = Wish(torch=plan.torch, cuda=plan.cuda, rocm=plan.rocm, python=plan.python, build=plan.answer == "build")
    fixed = msgspec.structs.replace(machine, drivers=Drivers(), gpus=tuple(served(plan, machine)))
    again = make_plan(fixed, asked, FACTS)
    assert again.as_asked, (plan.changes, again.changes)
    assert again.torch == plan.torch


@given(st.lists(st.sampled_from(SMS), min_size=2, max_size=3, unique=True), wishes, systems)
@example(["sm_100", "sm_20", "sm_30"], Wish(), "linux")
@quick
def test_taking_a_gpu_away_never_takes_a_solution_away(names: list[str], wish: Wish, system: str) -> None:
    whole = make_plan(machine_with(names, system, None), wish, FACTS)
    if whole.answer == "none":
        return
    served_names = [str(gpu.arch) for gpu in served(whole, machine_with(names, system, None))]
    for name in served_names[1:]:
        fewer = [other for other in served_names if other != name]
        assert make_plan(machine_with(fewer, system, None), wish, FACTS).answer != "none"


@given(gpus, wishes, systems, drivers)
@quick
def test_every_refusal_has_a_source_or_a_way_out(names: list[str], wish: Wish, system: str, driver: str | None) -> None:
    question = Question(machine_with(names, system, driver), wish, FACTS)
    for candidate in official_wheels(question):
        for refusal in assess(candidate, question).refusals:
            assert refusal.reason and refusal.rule in RULES
            assert refusal.source or refusal.change, refusal


@given(gpus, wishes, systems, drivers)
@quick
def test_a_plan_passes_every_rule_or_lists_what_changes(
    names: list[str], wish: Wish, system: str, driver: str | None
) -> None:
    machine = machine_with(names, system, driver)
    question = Question(machine, wish, FACTS)
    outcome = solve(question)
    if outcome.best is None:
        return
    plan = make_plan(machine, wish, FACTS)
    told = {change.what for change in plan.changes}
    for refusal in refusals(outcome.best.candidate, outcome.question):
        assert refusal.change is not None or not refusal.certain, refusal
        assert refusal.change is None or refusal.change.what in told, refusal


@given(st.sampled_from(SMS), st.sampled_from(FACTS.toolkits), systems, st.data())
@quick
def test_a_newer_driver_below_the_ceiling_takes_no_solution_away(
    name: str, cuda: str, system: str, data: st.DataObject
) -> None:
    def refused(driver: str) -> bool:
        question = Question(machine_with([name], system, driver), Wish(), FACTS)
        candidate = Candidate(answer="build", torch="2.0.1", backend="cuda", cuda=cuda)
        return any(True for _ in RULES["R102"].check(candidate, question))

    card = parse_gpu_arch(name)
    assert isinstance(card, Sm)
    if not Question(machine_with([name], system, None), Wish(), FACTS).sms:
        return  # older than any torch: set aside
    below = card_drivers(card, "windows" if system == "windows" else "linux", FACTS).below or 700
    older = data.draw(st.integers(300, below - 1))
    newer = data.draw(st.integers(older, below - 1))
    assert refused(f"{older}.99") or not refused(f"{newer}.99")
    assert card_drivers(card, "linux", FACTS).below is None or refused(f"{below}.10")


@given(st.sampled_from(SMS), st.sampled_from(SMS), systems)
@quick
def test_another_card_takes_no_refusal_away(one: str, other: str, system: str) -> None:
    alone = Question(machine_with([one], system, None), Wish(), FACTS)
    both = Question(machine_with([one, other], system, None), Wish(), FACTS)
    if alone.backend != both.backend or len(alone.gpus) != 1 or alone.gpus[0] not in both.gpus:
        return
    for candidate in official_wheels(alone):
        hard = [refusal for refusal in assess(candidate, alone).refusals if refusal.rule in ("R101", "R103")]
        kept = {refusal.reason for refusal in assess(candidate, both).refusals}
        assert all(refusal.reason in kept for refusal in hard)


def test_every_rule_documents_itself() -> None:
    for rule in RULES.values():
        assert rule.title.endswith("."), rule.number
        assert rule.number[0] == "R" and len(rule.number) == 4


def test_every_architecture_of_the_tables_can_be_asked_for() -> None:
    for name in [*SMS, *GFXS]:
        machine = machine_with([name], "linux", None)
        assert machine.gpus[0].arch == parse_gpu_arch(name)
        make_plan(machine, Wish(), FACTS)
