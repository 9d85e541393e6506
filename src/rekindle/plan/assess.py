"""Judges candidates: every rule's refusals, what a departure costs, and all that was judged for a question.

The prices are an order of preference, nothing more: an official wheel as asked < one small change (another flavour,
Python, a step up in torch) < a graft that keeps everything asked < such a build < a wheel with larger changes < a graft
or a build with changes. A doubt weighs less than a change; a graft nobody ran comes after a build better known."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rekindle.compat.driver import toolkit_driver
from rekindle.compat.toolkit import emits_for
from rekindle.facts import Facts
from rekindle.facts.tables import read_own
from rekindle.model.facts import Platform
from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.model.version import compare, key, minor, reaches, same_prefix
from rekindle.plan import rules_gpu, rules_toolchain, rules_wish
from rekindle.plan.candidates import Assessed, Candidate, choose_python, hazards_met, hazards_of, source_builds
from rekindle.plan.evidence import evidence, weakest_build
from rekindle.plan.grafts import decide_graft, graft_evidence
from rekindle.plan.question import Question, recall
from rekindle.plan.rules import passes_all, refusals

PRICES = read_own(__file__, "prices.toml", dict[str, float])
ANCIENT_RELEASES = 15  # minor releases behind the newest: everything before 2.0, in 2026


def cost(assessed: Assessed, question: Question) -> float:
    """The prices of all departures and doubts together; a wheel as asked costs nothing."""
    candidate, free, total = assessed.candidate, question.torch is None, 0.0
    ancient = free and releases_behind(candidate.torch, question) > ANCIENT_RELEASES
    overridden = [coverage for _, coverage in assessed.covered if coverage.kind == "override"]
    if not assessed.refusals and candidate.is_published and not overridden:
        return PRICES["ancient"] if ancient else total
    changes = {change.what for change in assessed.changes}
    if changes & {"variant", "cuda", "rocm"}:
        total += PRICES["small"]
        if question.board_cuda and candidate.cuda and "cuda" in changes:
            # Within a JetPack it is another toolkit; across major versions the board is flashed anew.
            total += PRICES["small"] if key(candidate.cuda)[0] == key(question.board_cuda)[0] else 6 * PRICES["small"]
    for what in changes - {"variant", "cuda", "rocm", "torch"}:
        total += PRICES.get(what, PRICES["small"])
    if "python" in changes:
        total += PRICES["python_step"] * max(0, _python_steps(candidate, question) - 1)
    if "torch" in changes:
        total += _torch_distance(candidate.torch, question)
    total += PRICES["doubt"] * min(len(assessed.doubts), 2) + (PRICES["only_ptx"] if is_guess(assessed) else 0)
    if assessed.evidence is not None and assessed.is_untried:
        total += PRICES["near"] if assessed.evidence.near else PRICES["untried"] + (PRICES["our_choice"] if free else 0)
        if candidate.answer == "graft" and free and not assessed.evidence.near:
            total += PRICES["small"]  # as much as another Python costs a build that is known
    if overridden:
        total += PRICES["override"] + (PRICES["doubt"] if any(coverage.risky for coverage in overridden) else 0)
    if changes and candidate.flavour is not None and candidate.flavour.publisher == "jetson":
        total += PRICES["board_wheel"]
    if candidate.wheel and candidate.answer == "install":
        total += PRICES["wheelhouse"]
    if candidate.answer != "install":
        total += PRICES["build_changed"] if changes else PRICES["build_as_asked"]
        if candidate.answer == "graft":
            grade = assessed.evidence.grade if assessed.evidence else "untried"
            total -= PRICES["graft_before_build"] if grade == "proven" else PRICES["graft_before_build"] / 2
            total += PRICES["unasked_graft"] if grade != "proven" and free else 0
        elif question.wish.build:
            total -= 100.0
    elif ancient:
        total += PRICES["ancient"]
    return total


def releases_behind(torch: str, question: Question) -> int:
    """In minor releases, behind the newest that anyone could have here; 0 where it is newer than that."""
    order, newest = question.facts.minors, newest_for(question.wish.python, question.platform, question.facts)
    return max(0, order[minor(newest)] - order[minor(torch)])


def _python_steps(candidate: Candidate, question: Question) -> int:
    """How many minor releases of Python lie between the asked one and the proposed one; 0 across major ones."""
    asked, chosen = key(question.wish.python or "3.0")[:2], key(candidate.python or "3.0")[:2]
    return abs(asked[-1] - chosen[-1]) if len(asked) == len(chosen) and asked[0] == chosen[0] else 0


@functools.lru_cache(maxsize=256)
def newest_for(asked: str | None, platform: Platform, facts: Facts) -> str:
    """The newest torch for the asked Python: who asks for an old one is not served an old torch by mistake."""
    for version in facts.releases if asked else ():
        release = facts.release(version)
        if release is not None and any(same_prefix(asked or "", each) for each in release.pythons.get(platform, ())):
            return version
    return facts.releases[0]


def _torch_distance(version: str, question: Question) -> float:
    releases, order = question.wanted_releases, question.facts.minors
    nearest = releases[0] if compare(version, releases[0]) > 0 else releases[-1]
    steps = abs(order[minor(version)] - order[minor(nearest)])
    up = compare(version, nearest) > 0
    if up and steps <= 1:
        return PRICES["torch_up"] + 0.01 * steps
    return (PRICES["torch_far"] if up else PRICES["torch_down"]) + 0.1 * steps


def preference(assessed: Assessed, question: Question) -> tuple[float | int, ...]:
    """Sort key among candidates of equal cost: newest, as asked, most stable, best known driver."""
    candidate = assessed.candidate
    rank = tuple(-part for part in key(candidate.torch))
    flavour = candidate.flavour
    asked = question.wish.cuda or question.wish.rocm
    kit = candidate.cuda or candidate.rocm
    other = not (asked and kit and same_prefix(kit, asked))
    if flavour is None:
        unofficial = kit not in {row.cuda or row.rocm for row in question.facts.flavours(candidate.torch)}
        untried = assessed.evidence is None or not assessed.evidence.exact
        return (assessed.cost, *rank, other, untried, unofficial, *toolkit_order(kit))
    rare = not question.facts.is_pypi_default(candidate.torch, flavour.name, question.platform)
    flawed = any(hazard.flavour for hazard in hazards_met(candidate, question))
    foreign, trial = flavour.publisher != "pytorch", flavour.status != "stable"
    # Is its CUDA older than a card, so that only a sibling's code runs there?
    row = question.facts.toolkit(candidate.cuda) if candidate.cuda else None
    predates_card = row is not None and any(sm > row.sass[-1] for sm in question.sms)
    first = (assessed.cost, *rank, other, flawed, foreign, _driver_is_late(candidate, question))
    return (*first, predates_card, trial, rare, *toolkit_order(kit))


def toolkit_order(version: str | None) -> tuple[int, int]:
    """Newest toolkit first."""
    first, second = (*key(version or "0"), 0)[:2]
    return -first, -second


def _driver_is_late(candidate: Candidate, question: Question) -> bool:
    """Does the driver run this CUDA by compatibility only?"""
    if candidate.cuda is None or question.driver is None:
        return False
    native = toolkit_driver(candidate.cuda, question.side, question.facts).own
    return native is not None and not reaches(question.driver, native)


# They register themselves; those that nothing here names must be imported too.
RULE_MODULES = (rules_gpu, rules_toolchain, rules_wish)
# Looked at before a compiler is searched for: most candidates end here.
_VERSION_CHECKS = (rules_gpu.sources_take_arch, rules_gpu.sources_still_compile)
_KIT_CHECKS = (
    rules_gpu.toolkit_targets_cards,
    rules_gpu.rocm_knows_target,
    rules_gpu.jetpack_offers_cuda,
    rules_toolchain.toolkit_is_new_enough,
    rules_toolchain.toolkit_runs_here,
)


def assess(candidate: Candidate, question: Question, *, brief: bool = False) -> Assessed:
    """Everything against a candidate. ``brief``: a wheel without code for a card needs no second reason; most wheels
    end there. A published wheel is judged once for questions that differ in the driver and the CPU alone, where these
    say the same of it (the page of all cards asks thousands)."""
    if not candidate.is_published:
        return _judge(candidate, question)
    wheel = candidate.torch, id(candidate.flavour), candidate.python
    look = functools.partial(_without_code, candidate, question)
    if brief and (hopeless := recall(question.shared["cards"], wheel, look)) is not None:
        return hopeless
    refused = any(True for _ in rules_gpu.driver_serves(candidate, question))
    # A driver that is refused is named, and an asked toolkit may stay where the driver runs it.
    driver = question.driver if refused or question.wish.cuda else None
    numbered = (row for row in hazards_of(candidate, question) if row[0] in question.possible_hazards)
    hazards = tuple(number for number, hazard in numbered if hazard.effect != "warns" or hazard.flavour)
    return recall(question.shared["both"], (*wheel, refused, driver, hazards), lambda: _judge(candidate, question))


def _without_code(candidate: Candidate, question: Question) -> Assessed | None:
    seen = Assessed(candidate, list(rules_gpu.wheel_has_code(candidate, question)))
    return seen if len(seen.doubts) < len(seen.refusals) else None


def _judge(candidate: Candidate, question: Question) -> Assessed:
    assessed = Assessed(candidate, refusals(candidate, question))
    if candidate.answer == "install" and candidate.backend != "cpu":
        assessed.covered += rules_gpu.coverages(candidate, question)
    if candidate.answer == "build" and candidate.cuda:
        system = question.machine.os.system
        targets = [emits_for(candidate.cuda, sm, question.facts) or sm for sm in question.sms]
        builds = [evidence(candidate.torch, candidate.cuda, sm, system, question.facts) for sm in targets]
        assessed.evidence = weakest_build(builds)
    if candidate.answer == "graft":
        assessed.evidence = graft_evidence(candidate, question)
        assessed.graft = decide_graft(candidate, question)
    assessed.cost = cost(assessed, question)
    return assessed


def with_hazards(assessed: Assessed, question: Question) -> Assessed:
    """Look up the warnings too; only the few candidates that are shown need them."""
    assessed.hazards = [hazard for hazard in hazards_met(assessed.candidate, question) if hazard.effect == "warns"]
    return assessed


def assessed_builds(
    question: Question, versions: tuple[str, ...], *, every: bool = False, kits: int | None = None
) -> Iterator[Assessed]:
    """Builds, assessed. A compiler is looked for only where the toolkit passes, unless ``every`` is wanted."""
    for version in versions:
        builds = source_builds(question, (version,), kits=kits) if every else _passing_builds(question, version, kits)
        for candidate in builds:
            candidate = replace(candidate, python=choose_python(candidate, question))
            yield assess(replace(candidate, compiler=rules_toolchain.choose_compiler(candidate, question)), question)


def _passing_builds(question: Question, version: str, kits: int | None) -> list[Candidate]:
    """Those whose sources take the cards and whose toolkit serves them: asked once, whatever driver, CPU and Python."""
    wish, bare = question.wish, Candidate("build", version, question.backend)

    def find() -> list[Candidate]:
        builds = source_builds(question, (version,) if passes_all(_VERSION_CHECKS, bare, question) else (), kits=kits)
        return [build for build in builds if passes_all(_KIT_CHECKS, build, question)]

    kit = wish.cuda, wish.rocm, question.board_cuda, question.machine.toolkits
    return recall(question.shared["cards"], ("builds", version, kits, question.backend, *kit), find)


class GroupPlan(NamedTuple):
    """The best way for some of the cards, where the others are left out; ``driver`` is what they ask for."""

    gpus: tuple[Gpu, ...]
    best: Assessed
    driver: str | None = None


def is_guess(assessed: Assessed) -> bool:
    """The wheel has no machine code for a card: whether the driver can make some is anyone's guess."""
    return any(refusal.code == "gpu-only-ptx" for refusal in assessed.doubts)


@dataclass
class PlanOutcome:
    """``best`` is None where nothing is feasible; then ``obstacle`` may say what stands in front of everything.
    ``unserved`` are cards the plan leaves out, ``whole`` what would serve them all, ``alone`` what each group of cards
    could have by itself, and ``driver_clash`` says why no one driver serves all cards."""

    question: Question
    wheels: list[Assessed] = field(default_factory=list)
    grafts: list[Assessed] = field(default_factory=list)
    builds: list[Assessed] = field(default_factory=list)
    unserved: tuple[Gpu, ...] = ()
    whole: GroupPlan | None = None
    alone: list[GroupPlan] = field(default_factory=list)
    obstacle: Reason | None = None
    driver_clash: Reason | None = None
    # What would work if one thing were different, which the words name.
    nearest: list[tuple[str, Assessed]] = field(default_factory=list)

    @functools.cached_property
    def feasible(self) -> list[Assessed]:
        """Best first. Read only when all is judged."""
        question = self.question

        def is_vain(way: Assessed) -> bool:
            """A torch of years ago, unasked, by PTX that nobody saw compiled: its math libraries are too old."""
            asked = question.torch is not None and question.wants_torch(way.candidate.torch)
            return is_guess(way) and not asked and releases_behind(way.candidate.torch, question) > ANCIENT_RELEASES

        ways = [way for way in (*self.wheels, *self.grafts, *self.builds) if way.feasible and not is_vain(way)]
        return sorted(ways, key=lambda way: preference(way, question))

    @property
    def best(self) -> Assessed | None:
        return next(iter(self.feasible), None)
