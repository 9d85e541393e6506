"""Grafts as a way to get torch: the official wheel, with the device code it lacks compiled for the cards. A graft is
worth judging where a wheel would do but for its code: an official wheel that runs natively always comes first, and a
build comes after it, since it takes hours and lacks what only the official build has."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rekindle.compat import graft as grafting
from rekindle.compat.resources import jobs_for
from rekindle.compat.toolkit import emits_for, toolkits_for
from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.document import shared_fields
from rekindle.model.facts import Platform
from rekindle.model.graft import GraftRow
from rekindle.model.plan import GraftOutline, Refusal, Request, Step
from rekindle.model.spoken import spoken_minutes
from rekindle.model.version import compare, key, matches, minor
from rekindle.plan.candidates import Candidate, official_wheels, published_wheels
from rekindle.plan.evidence import KnownBuild, evidence, weakest_build
from rekindle.plan.question import Question
from rekindle.plan.rules import refuse, rule
from rekindle.plan.rules_gpu import coverages

_PLATFORMS = ("linux_x86_64", "linux_aarch64")


def lacking_archs(candidate: Candidate, question: Question) -> tuple[Sm, ...]:
    """The architectures of the cards that the wheel has no machine code for."""
    lacking = [gpu.arch for gpu, coverage in coverages(candidate, question) if coverage.kind in ("none", "jit")]
    return tuple(sorted({arch for arch in lacking if isinstance(arch, Sm)}))


def graft_candidates(question: Question, grafts: Sequence[GraftRow] = ()) -> Iterator[Candidate]:
    """Official wheels of releases with a recipe that lack code for a card; with a graft file that exists, of any."""
    if question.backend != "cuda" or question.platform not in _PLATFORMS or question.wish.build or question.tegra:
        return
    for wheel in official_wheels(question):
        if question.torch is not None and not question.wants_torch(wheel.torch):
            continue  # who takes another torch than was asked for takes one that runs as it is
        lacking = lacking_archs(wheel, question)
        file = next((graft for graft in grafts if _serves(graft, wheel, lacking)), None)
        recipe = grafting.find_recipe(wheel.torch, question.facts, measured=True)
        if lacking and (file is not None or recipe is not None):
            yield replace(wheel, answer="graft", wheel=file.url if file else None)


def _serves(graft: GraftRow, candidate: Candidate, lacking: tuple[Sm, ...]) -> bool:
    """Is this graft file of the candidate's release, flavour and Python, with code for every card?"""
    release, _, local = graft.version.partition("+")
    flavour, *parts = local.split(".")
    python = f"-cp{(candidate.python or '').replace('.', '')}-"
    same = (release, flavour) == (candidate.torch, candidate.variant) and python in graft.wheel
    return same and all(str(arch).replace("_", "") in parts for arch in lacking)


@rule("R104", "graft")
def graft_is_possible(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """A toolkit of the wheel's CUDA major version compiles for the cards that the wheel has no code for."""
    lacking = lacking_archs(candidate, question)
    if candidate.wheel or candidate.cuda is None or graft_kit(candidate, question):
        return
    facts, major, names = question.facts, key(candidate.cuda)[0], ", ".join(map(str, lacking))
    others = toolkits_for(lacking[0], facts)
    span = f"CUDA {others[0]} to {others[-1]}" if others else "no known toolkit"
    fitting = _newest_graftable(question.platform, lacking, facts)
    remedy, source = fitting and f"{fitting} can be grafted for it", facts.cuda.toolkit[facts.toolkits[0]].source[0]
    yield refuse("graft-no-toolkit", candidate, major=major, names=names, span=span, remedy=remedy, source=source)


@rule("R105", "graft")
def libraries_know_cards(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The vendor's libraries that the wheel was made with are as new as the cards, or such a graft was run."""
    for arch in lacking_archs(candidate, question) if candidate.cuda else ():
        proven = grafting.is_proven(candidate.torch, arch, question.facts)
        if not proven and emits_for(candidate.cuda or "", arch, question.facts) is None:
            yield refuse("graft-libraries-lack-card", candidate, arch=arch)


@functools.lru_cache(maxsize=512)
def _newest_graftable(platform: Platform, lacking: tuple[Sm, ...], facts: Facts) -> str | None:
    """The newest official wheel that could be grafted for these cards."""
    wheels = published_wheels("cuda", platform, facts, tegra=False)
    known = (wheel for wheel in wheels if grafting.find_recipe(wheel.torch, facts, measured=True) is not None)
    return next((each.name for each in known if each.cuda and grafting.graft_kits(each.cuda, lacking, facts)), None)


def graft_kit(candidate: Candidate, question: Question) -> str | None:
    """The toolkit to compile with: one that the machine has, the wheel's own, or the nearest after it."""
    archs, cuda = lacking_archs(candidate, question), candidate.cuda
    kits = grafting.graft_kits(cuda, archs, question.facts) if cuda else ()
    versions = question.installed("cuda")
    present = [kit for kit in kits if any(compare(kit, minor(version)) == 0 for version in versions)]
    return next(iter((*present, *kits)), None)


def graft_evidence(candidate: Candidate, question: Question) -> KnownBuild | None:
    """What is known of such a graft: run on such a card, its kernels compiled for it elsewhere, or nothing."""
    builds = []
    facts, kit = question.facts, graft_kit(candidate, question) or candidate.cuda or ""
    row = grafting.graft_cost(candidate.torch, facts)
    for sm in lacking_archs(candidate, question):
        name = f"{candidate.name} for {sm}"
        if candidate.wheel:
            builds.append(KnownBuild("compiled", f"A graft of {name} lies in a wheelhouse.", candidate.wheel))
        elif row is not None and grafting.is_proven(candidate.torch, sm, facts):
            if compare(row.cuda, candidate.cuda or "0") == 0:
                builds.append(KnownBuild("proven", f"{name} was grafted and run by us.", row.source[0], exact=True))
            else:
                text = f"The wheel of CUDA {row.cuda} was grafted for {sm} and run by us, {candidate.name} was not."
                builds.append(KnownBuild("compiled", text, row.source[0]))
        elif row is not None and row.proven and (official := _find_official(candidate, sm, question)) is not None:
            text = f"A graft of {name} is untried itself, but official wheels ({official}) hold these kernels for {sm}."
            builds.append(KnownBuild("compiled", text, row.source[0]))
        else:
            built = evidence(candidate.torch, kit, sm, question.machine.os.system, facts)
            compiles = built.grade in ("proven", "compiled")
            more = f" Its kernels compile: {built.text}" if compiles else ""
            text = f"A graft of {name} is untried.{more}"
            builds.append(KnownBuild("untried", text, built.source, near=compiles))
    return weakest_build(builds)


def _find_official(candidate: Candidate, sm: Sm, question: Question) -> str | None:
    """An official wheel of this very release, on whatever platform, that holds code for the architecture."""
    row, major = grafting.graft_cost(candidate.torch, question.facts), key(candidate.cuda or "0")[0]
    measured = row is not None and matches(candidate.torch, row.torch)
    flavours = question.facts.flavours(candidate.torch) if measured else ()
    same = (flavour for flavour in flavours if flavour.cuda and key(flavour.cuda)[0] == major)
    every = ((flavour, *held) for flavour in same for held in flavour.sm.items())
    return next((f"{row.name}, {platform}" for row, platform, archs in every if sm in map(parse_sm, archs)), None)


def decide_graft(candidate: Candidate, question: Question) -> GraftOutline:
    """What a graft of this wheel takes on this machine, what it keeps and what stays without."""
    facts = question.facts
    assert candidate.flavour is not None and candidate.cuda is not None
    archs = lacking_archs(candidate, question)
    kit = graft_kit(candidate, question)
    targets = tuple(dict.fromkeys((kit and emits_for(kit, arch, facts)) or arch for arch in archs))
    cpu, row = question.machine.cpu, grafting.graft_cost(candidate.torch, facts)
    jobs = jobs_for(question.memory_gib, cpu.threads or cpu.cores or 8, row) if row else 1
    time = None if candidate.wheel else grafting.planned_time(candidate.torch, targets, jobs, facts)
    about = candidate.torch, candidate.cuda, candidate.flavour.cudnn
    losses = dict.fromkeys(loss for arch in archs for loss in grafting.stays_without(*about, arch, facts))
    return GraftOutline(
        wheel=candidate.name,
        archs=tuple(map(str, targets)),
        file=candidate.wheel,
        toolkit=None if candidate.wheel else kit,
        toolkit_here=next(iter(question.machine.cuda_folders(minor(kit)) if kit else ()), None),
        cpu_minutes=round(time.cpu_seconds / 60) if time else None,
        **shared_fields(time, GraftOutline),
        disk_gib=row.disk_gib if row else None,
        keeps=grafting.KEPT,
        losses=tuple(losses),
    )


def spoken_graft(outline: GraftOutline) -> str:
    """What it takes, in a few words: `` (graft: 10 to 12 min on 16 cores, CUDA 11.8)``."""
    if outline.file:
        return f", by a graft made before ({outline.file})"
    kit = f" with CUDA {outline.toolkit}" if outline.toolkit else ""
    time = spoken_minutes(*outline.minutes) if outline.minutes else ""
    return f", compiled{kit} in about {time} on {outline.jobs} cores" if time else kit


def graft_steps(outline: GraftOutline, torch: Request, candidate: Candidate, question: Question) -> list[Step]:
    """The graft of the official wheel that ``torch`` asks for, and its installation."""
    what = ("apply", torch.requirement, outline.file) if outline.file else (torch.requirement,)
    index = ("--index", torch.index) if torch.index else ()
    cards = () if outline.file else [word for arch in outline.archs for word in ("--gpu", arch)]
    python = ("--python", candidate.python) if candidate.python else ()
    out = (*python, "--platform", question.platform, "--out", "grafted")
    graft = Step(kind="run", argv=("rekindle", "graft", *what, *index, *cards, *out))
    return [graft, Step(kind="install-built", folder="grafted")]
