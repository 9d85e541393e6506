"""Every way to get torch that is worth judging: published wheels, wheels of a wheelhouse, builds."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from rekindle.compat import BACKENDS, Name, flavour_backend
from rekindle.facts import Facts
from rekindle.model.facts import Platform
from rekindle.model.version import compare, key, matches, minor
from rekindle.plan.candidate import Candidate
from rekindle.plan.evidence import tried_kits
from rekindle.plan.question import Question
from rekindle.plan.rules_system import python_key, pythons_of, same_python

# What a fresh environment should get where nothing is asked: new enough for everything, old enough for wheels.
_LIKED_PYTHONS = ("3.12", "3.11", "3.13", "3.10", "3.9", "3.8", "3.7", "3.6", "3.14")


def choose_python(candidate: Candidate, question: Question) -> str | None:
    """The asked Python if it is served, else the nearest served one; unasked, one the machine has or a liked one."""
    known = pythons_of(candidate, question)
    asked = question.wish.python
    if asked is not None:
        exact = [version for version in known if same_python(asked, version)]
        plain = [version for version in known if not version.endswith("t")]
        if exact or not plain:
            return exact[0] if exact else None
        number = python_key(asked)[:2]
        return min(plain, key=lambda v: abs(python_key(v)[1] - number[1]) + 50 * abs(python_key(v)[0] - number[0]))
    had = question.had_python(known, to_build=candidate.answer == "build")
    if had:
        return had
    pack = question.jetpack_of(candidate.cuda)
    if pack is not None and candidate.answer == "build" and pack.python in known:
        return pack.python  # the board's own
    liked = [version for version in _LIKED_PYTHONS if version in known]
    unharmed = (version for version in liked if not _is_harmful(version, candidate, question))
    return next(unharmed, liked[0] if liked else known[-1] if known else None)


def _is_harmful(python: str, candidate: Candidate, question: Question) -> bool:
    """A known hazard names this Python with this torch (torch.compile under 3.12 before 2.4)."""
    kind = "wheel" if candidate.answer == "install" else "build"
    return any(
        hazard.concerns in (kind, "both")
        and (kind == "wheel" or hazard.effect == "breaks")  # what warns of a build is cured by its pins
        and (hazard.torch is None or matches(candidate.torch, hazard.torch))
        for hazard in question.facts.python_hazards
        if matches(python, hazard.python or "")
    )


def official(question: Question) -> Iterator[Candidate]:
    """Published wheels for this platform and backend, of every release."""
    for bare in _published(question.backend, question.platform, question.facts):
        python = choose_python(bare, question)
        yield Candidate(bare.answer, bare.torch, bare.backend, bare.flavour, bare.cuda, bare.rocm, python)


@functools.lru_cache(maxsize=16)
def _published(backend: Name, platform: Platform, facts: Facts) -> tuple[Candidate, ...]:
    """The same for everybody with such a system: all but the Python."""
    return tuple(
        Candidate(
            answer="install", torch=version, backend=backend, flavour=flavour, cuda=flavour.cuda, rocm=flavour.rocm
        )
        for version in facts.releases
        for flavour in facts.flavours(version)
        if flavour_backend(flavour) == backend and platform in BACKENDS[backend].platforms(flavour)
    )


def builds(question: Question, versions: tuple[str, ...], *, kits: int | None = None) -> Iterator[Candidate]:
    """Source builds of these releases, each with the toolkits worth trying, best first; neither Python nor compiler
    is chosen yet: most end before that."""
    for version in versions:
        for kit in _kits(question, version)[:kits]:
            yield Candidate(
                answer="build",
                torch=version,
                backend=question.backend,
                cuda=kit if question.backend == "cuda" else None,
                rocm=kit if question.backend == "rocm" else None,
            )


def _kits(question: Question, version: str) -> list[str | None]:
    """The asked toolkit, what the machine has, what somebody compiled this with for these cards, what official builds
    of this release used, then the others."""
    facts, wish = question.facts, question.wish
    if question.backend == "cpu":
        return [None]
    flavours = facts.flavours(version)
    if question.backend == "rocm":
        used = [row.rocm for row in flavours if row.rocm and row.publisher == "pytorch"]
        paired = [
            rocm for rocm, row in facts.rocm.release.items() if any(minor(t) == minor(version) for t in row.torch)
        ]
        first = [wish.rocm] if wish.rocm else _had(question, "rocm")
        newest = sorted((*used, *paired), key=key, reverse=True)
        return list(dict.fromkeys((*first, *newest)))
    first = [wish.cuda] if wish.cuda else _had(question, "cuda")
    used = sorted((row.cuda for row in flavours if row.cuda), key=key, reverse=True)
    if not first:
        # On the board, with a driver made for it; a JetPack of the age of the sources before a newer one.
        majors = {key(kit)[0] for kit in used}
        first = sorted((row.cuda for row in question.jetpacks), key=lambda kit: key(kit)[0] not in majors)
    tried = () if wish.cuda else tried_kits(version, question.sms, question.machine.os.system, facts)
    others = [kit for kit in facts.toolkits if any(key(kit)[0] == key(u)[0] for u in used)] if used else []
    # Of a release that no wheel is known of, those of its own time are the oldest that its sources take.
    oldest = [kit for kit in reversed(facts.toolkits) if compare(kit, facts.era(version).cuda_min or "0") >= 0]
    return list(dict.fromkeys((*first, *tried, *used, *others, *(() if used else oldest), *facts.toolkits)))


def _had(question: Question, kind: str) -> list[str]:
    found = [kit.version for kit in question.machine.toolkits if kit.kind == kind and kit.version]
    return sorted(found, key=key, reverse=True)


def buildable_releases(question: Question) -> tuple[str, ...]:
    """Releases worth trying to build: the wanted ones first, then the others by nearness to the wish."""
    wanted = question.wanted_releases
    if question.torch is None:
        return wanted
    others = [version for version in question.facts.releases if version not in wanted]
    anchor = wanted[0]
    above = sorted((v for v in others if compare(v, anchor) > 0), key=key)
    below = sorted((v for v in others if compare(v, anchor) < 0), key=key, reverse=True)
    return (*wanted, *above[:12], *below)
