"""Judges candidates: every rule's refusals, what a departure costs, and all that was judged for a question.

The numbers of :func:`cost` are an order of preference, nothing more: an official wheel as asked < one small change
(another flavour, Python, a step up in torch) < a graft that keeps everything asked < such a build < a wheel with larger
changes < a graft or a build with changes. A doubt weighs less than a change; a graft that nobody ran on such a card
comes after a build of which more is known.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rekindle.compat.driver import toolkit_driver
from rekindle.compat.toolkit import emits_for
from rekindle.facts import Facts
from rekindle.model.facts import Platform
from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.model.version import compare, key, minor, reaches, same_prefix
from rekindle.plan import rules_gpu, rules_toolchain, rules_wish
from rekindle.plan.candidates import Assessed, Candidate, choose_python, hazards_met, hazards_of, source_builds
from rekindle.plan.evidence import evidence, weakest_build
from rekindle.plan.grafts import decide_graft, graft_evidence
from rekindle.plan.question import Question
from rekindle.plan.rules import passes_all, refusals

BUILD_AS_ASKED = 2.6
BUILD_CHANGED = 5.0
UNASKED_GRAFT = 3.0  # nobody ran it, and nobody asked for this release: a build that is known comes first
GRAFT_BEFORE_BUILD = 0.05  # of equal evidence: minutes instead of hours, and everything else stays the official build
WHEELHOUSE = 2.4  # after an official wheel with a small change, before a build
DRIVER = 2.0
SMALL = 1.0
COMPILER = 0.9  # a distribution has several, and they stand beside each other; another toolkit is a larger thing
TORCH_UP = 1.5
TORCH_DOWN = 3.0
TORCH_FAR = 3.0
DOUBT = 0.8
ONLY_PTX = 2.5  # the driver may compile the kernels, but the math libraries of that age do not know the card
PYTHON_STEP = 0.6  # each further minor release of Python: 3.12 → 3.11 is little, 3.12 → 3.7 another world
UNTRIED = 0.9  # nobody is known to have compiled it
OUR_CHOICE = 1.8  # where the release is ours to choose, one that somebody compiled comes first
NEAR = 0.3  # only for a sibling of the card
PATCH = 0.5  # a patch of ours, applied and reversible
OVERRIDE = 0.4
BOARD_WHEEL = 6.0  # a wheel made for one JetPack, for who asked for something else: then a build keeps more
ANCIENT = 3.0
ANCIENT_RELEASES = 15  # minor releases behind the newest: everything before 2.0, in 2026


def cost(assessed: Assessed, question: Question) -> float:
    candidate = assessed.candidate
    total = 0.0
    overridden = [coverage for _, coverage in assessed.covered if coverage.kind == "override"]
    if not assessed.refusals and candidate.is_published and not overridden:
        return ANCIENT if question.torch is None and _is_ancient(candidate.torch, question) else total
    changes = {change.what for change in assessed.changes}
    if changes & {"variant", "cuda", "rocm"}:
        total += SMALL
        if question.board_cuda and candidate.cuda and "cuda" in changes:
            # Within a JetPack it is another toolkit; across major versions the board is flashed anew.
            total += SMALL if key(candidate.cuda)[0] == key(question.board_cuda)[0] else 6 * SMALL
    for what in changes - {"variant", "cuda", "rocm", "torch"}:
        total += {"driver": DRIVER, "sources": PATCH, "compiler": COMPILER}.get(what, SMALL)
    if "python" in changes:
        total += PYTHON_STEP * max(0, _python_steps(candidate, question) - 1)
    if "torch" in changes:
        total += _torch_distance(candidate.torch, question)
    total += DOUBT * min(len(assessed.doubts), 2) + (ONLY_PTX if is_guess(assessed) else 0)
    if assessed.evidence is not None and assessed.is_untried:
        total += NEAR if assessed.evidence.near else UNTRIED + (OUR_CHOICE if question.torch is None else 0)
        if candidate.answer == "graft" and question.torch is None and not assessed.evidence.near:
            total += SMALL  # as much as another Python costs a build that is known
    if overridden:
        total += OVERRIDE + (DOUBT if any(coverage.risky for coverage in overridden) else 0)
    if changes and candidate.flavour is not None and candidate.flavour.publisher == "jetson":
        total += BOARD_WHEEL
    if candidate.wheel and candidate.answer == "install":
        total += WHEELHOUSE
    if candidate.answer != "install":
        total += BUILD_CHANGED if changes else BUILD_AS_ASKED
        if candidate.answer == "graft":
            grade = assessed.evidence.grade if assessed.evidence else "untried"
            total -= GRAFT_BEFORE_BUILD if grade == "proven" else GRAFT_BEFORE_BUILD / 2
            if grade != "proven" and question.torch is None:
                total += UNASKED_GRAFT
        elif question.wish.build:
            total -= 100.0
    elif question.torch is None and _is_ancient(candidate.torch, question):
        total += ANCIENT
    return total


def _is_ancient(torch: str, question: Question) -> bool:
    return releases_behind(torch, question) > ANCIENT_RELEASES


def releases_behind(torch: str, question: Question) -> int:
    """In minor releases, behind the newest that anyone could have here; 0 where it is newer than that."""
    order = question.facts.minors
    return max(0, order[minor(newest_wanted(question))] - order[minor(torch)])


def _python_steps(candidate: Candidate, question: Question) -> int:
    """How many minor releases of Python lie between the asked one and the proposed one; 0 across major ones."""
    asked, chosen = key(question.wish.python or "3.0")[:2], key(candidate.python or "3.0")[:2]
    return abs(asked[-1] - chosen[-1]) if len(asked) == len(chosen) and asked[0] == chosen[0] else 0


def newest_wanted(question: Question) -> str:
    """The newest torch for the asked Python: who asks for an old one is not served an old torch by mistake."""
    return _newest_for(question.wish.python, question.platform, question.facts)


@functools.lru_cache(maxsize=256)
def _newest_for(asked: str | None, platform: Platform, facts: Facts) -> str:
    for version in facts.releases if asked else ():
        release = facts.release(version)
        if release is not None and any(same_prefix(asked or "", each) for each in release.pythons.get(platform, ())):
            return version
    return facts.releases[0]


def _torch_distance(version: str, question: Question) -> float:
    releases = question.wanted_releases
    nearest = releases[0] if compare(version, releases[0]) > 0 else releases[-1]
    steps = steps_between(version, nearest, question)
    if compare(version, nearest) > 0:
        return TORCH_UP + 0.01 * steps if steps <= 1 else TORCH_FAR + 0.1 * steps
    return TORCH_DOWN + 0.1 * steps


def steps_between(left: str, right: str, question: Question) -> int:
    order = question.facts.minors
    return abs(order[minor(left)] - order[minor(right)])


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
    return (
        *(assessed.cost, *rank, other, flawed, foreign, _driver_is_late(candidate, question)),
        *(predates_card, trial, rare),
        *toolkit_order(kit),
    )


def toolkit_order(version: str | None) -> tuple[int, int]:
    """Newest toolkit first."""
    parts = key(version) if version else (0,)
    return -parts[0], -(parts[1] if len(parts) > 1 else 0)


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
    if brief:
        known = question.shared["cards"]
        if wheel not in known:
            hopeless = Assessed(candidate, list(rules_gpu.wheel_has_code(candidate, question)))
            known[wheel] = hopeless if len(hopeless.doubts) < len(hopeless.refusals) else None
        if known[wheel] is not None:
            return known[wheel]  # type: ignore[no-any-return]
    refused = any(True for _ in rules_gpu.driver_serves(candidate, question))
    # A driver that is refused is named, and an asked toolkit may stay where the driver runs it.
    driver = question.driver if refused or question.wish.cuda else None
    numbered = (row for row in hazards_of(candidate, question) if row[0] in question.possible_hazards)
    hazards = tuple(number for number, hazard in numbered if hazard.effect != "warns" or hazard.flavour)
    judged = question.shared["both"]
    if (key := (*wheel, refused, driver, hazards)) not in judged:
        judged[key] = _judge(candidate, question)
    return judged[key]  # type: ignore[no-any-return]


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
    """Builds, assessed. The compiler is looked for only where the toolkit passes, unless ``every`` is wanted;
    ``kits`` limits how many toolkits are tried per release (the asked one is the first).
    """
    for version in versions:
        builds = source_builds(question, (version,), kits=kits) if every else _passing_builds(question, version, kits)
        for candidate in builds:
            candidate = replace(candidate, python=choose_python(candidate, question))
            yield assess(replace(candidate, compiler=rules_toolchain.choose_compiler(candidate, question)), question)


def _passing_builds(question: Question, version: str, kits: int | None) -> list[Candidate]:
    """Those whose sources take the cards and whose toolkit serves them: asked once, whatever driver, CPU and Python."""
    wish, memory = question.wish, question.shared["cards"]
    kit = wish.cuda, wish.rocm, question.board_cuda, question.machine.toolkits
    if (key := ("builds", version, kits, question.backend, *kit)) not in memory:
        bare = Candidate(answer="build", torch=version, backend=question.backend)
        builds = source_builds(question, (version,) if passes_all(_VERSION_CHECKS, bare, question) else (), kits=kits)
        memory[key] = [build for build in builds if passes_all(_KIT_CHECKS, build, question)]
    return memory[key]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class GroupPlan:
    """The best way for some of the cards, where the others are left out; ``driver`` is what they ask for."""

    gpus: tuple[Gpu, ...]
    best: Assessed
    driver: str | None = None


def is_guess(assessed: Assessed) -> bool:
    """The wheel has no machine code for a card: whether the driver can make some is anyone's guess."""
    return any(refusal.code == "gpu-only-ptx" for refusal in assessed.doubts)


def _is_vain_guess(assessed: Assessed, question: Question) -> bool:
    """A torch of years ago, unasked, by PTX that nobody saw compiled: its math libraries are older than the card."""
    torch = assessed.candidate.torch
    asked = question.torch is not None and question.wants_torch(torch)
    return is_guess(assessed) and not asked and _is_ancient(torch, question)


@dataclass
class PlanOutcome:
    """``best`` is None where nothing is feasible; then ``obstacle`` may say what stands in front of everything.

    ``unserved`` are cards the plan leaves out, ``whole`` what would serve them all, ``alone`` what each group of cards
    could have by itself, and ``driver_clash`` says why no one driver serves all cards.
    """

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
        every = (*self.wheels, *self.grafts, *self.builds)
        ways = [way for way in every if way.feasible and not _is_vain_guess(way, self.question)]
        return sorted(ways, key=lambda assessed: preference(assessed, self.question))

    @property
    def best(self) -> Assessed | None:
        return next(iter(self.feasible), None)
