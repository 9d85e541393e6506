"""What is known of building a release for a card: proven, compiled, reported, or untried. ``proven``: we built it and
ran it on such a card. ``compiled``: we, or those who publish wheels, compiled it. ``reported``: people say that it
works. The grade of several cards is that of the weakest."""

import functools
import re
from typing import NamedTuple

from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.facts import ArchSyntax
from rekindle.model.plan import Evidence
from rekindle.model.version import compare, key, matches

ORDER: tuple[Evidence, ...] = ("proven", "compiled", "reported", "untried")


class KnownBuild(NamedTuple):
    """``near``: official builds compile a sibling of this architecture; ``exact``: it is about this very toolkit."""

    grade: Evidence
    text: str
    source: str | None = None
    near: bool = False
    exact: bool = False


@functools.lru_cache(maxsize=64)
def arch_syntax(torch: str, facts: Facts) -> ArchSyntax:
    """How the CMake of this release reads an entry of the architecture list."""
    rows = [row for row in facts.sources.syntax if compare(row.since, torch) <= 0]
    return max(rows or facts.sources.syntax[:1], key=lambda row: key(row.since))


def sources_parse(torch: str, sm: Sm, facts: Facts) -> bool:
    """Does the release's own CMake understand this architecture's number?"""
    return re.fullmatch(arch_syntax(torch, facts).pattern, sm.dotted) is not None


@functools.lru_cache(maxsize=4096)
def evidence(torch: str, cuda: str, sm: Sm, system: str, facts: Facts) -> KnownBuild:
    """The best that is known of this release, toolkit and architecture."""
    subject = f"torch {torch} for {sm}"
    of_card = [row for row in facts.sources.evidence if sm in row.sm and (not row.os or system in row.os)]
    rows = [row for row in of_card if matches(torch, row.torch)]
    exact = [row for row in rows if matches(cuda, row.cuda)]
    if exact:
        best = min(exact, key=lambda row: ORDER.index(row.grade))
        who = "PyTorch itself names" if best.how == "documented" else "People report"
        words = {
            "proven": f"{subject} was built with CUDA {cuda} and run by us.",
            "compiled": f"{subject} was compiled with CUDA {cuda} before.",
            "reported": f"{who} builds of {subject} with CUDA {cuda}.",
        }
        return KnownBuild(best.grade, words[best.grade], best.source[0], exact=True)
    major = key(cuda)[0]
    flavours = [row for row in facts.flavours(torch) if row.cuda and key(row.cuda)[0] == major]
    official = [(row, arch) for row in flavours for archs in row.sm.values() for arch in map(parse_sm, archs)]
    if same := next((row for row, arch in official if arch == sm), None):
        text = f"{subject} is compiled by the official {same.name} builds (CUDA {same.cuda})."
        return KnownBuild("compiled", text, same.source[0])
    probed = _probe_evidence(torch, cuda, sm, facts) if system == "linux" else None  # their host compiler was GCC
    if probed is not None and probed.grade == "compiled":
        return probed
    kin = [row for row in rows if any(key(part.strip("<>=!~ "))[0] == major for part in row.cuda.split(","))]
    if kin:
        text = f"{subject} was built before, with CUDA {kin[0].cuda}; with CUDA {cuda} nobody is known to have tried."
        return KnownBuild("reported", text, kin[0].source[0])
    if probed is not None:
        return probed
    # What a newer sibling can do, an older may lack.
    if older := [arch for _, arch in official if arch.major == sm.major and arch < sm]:
        text = f"{subject} with CUDA {cuda} is untried as far as is known; official builds compile its sibling"
        return KnownBuild("untried", f"{text} {older[-1]}.", near=True)
    return KnownBuild("untried", f"{subject} with CUDA {cuda} is untried: nobody is known to have compiled it.")


def _probe_evidence(torch: str, cuda: str, sm: Sm, facts: Facts) -> KnownBuild | None:
    """What our own probes say: all kernel files compiled, or some of them; a failed one is a rule's matter."""
    rows = [row for row in facts.probes.probe if (row.torch, row.cuda, row.sm) == (torch, cuda, sm)]
    files = {name for row in rows for name in row.good}
    if not files or any(row.failed for row in rows):
        return None
    total = max(row.of for row in rows)
    if len(files) >= total:
        text = f"All {total} kernel files of torch {torch} were compiled for {sm} with CUDA {cuda} by us."
        return KnownBuild("compiled", text, rows[0].source[0], exact=True)
    text = f"{len(files)} of {total} kernel files of torch {torch} were compiled for {sm} with CUDA {cuda} by us"
    text += " and none failed; the whole was not built."
    return KnownBuild("untried", text, rows[0].source[0], near=True)


@functools.lru_cache(maxsize=4096)
def tried_kits(torch: str, sms: tuple[Sm, ...], system: str, facts: Facts) -> tuple[str, ...]:
    """Toolkits, newest first, that somebody compiled this very release with for all these cards."""
    kits = facts.toolkits if sms else ()
    return tuple(kit for kit in kits if all(evidence(torch, kit, sm, system, facts).exact for sm in sms))


@functools.lru_cache(maxsize=4096)
def anybody_built(torch: str, sm: Sm, system: str, facts: Facts) -> bool:
    """Is anything known of this release for this architecture, with whatever toolkit?"""
    return any(evidence(torch, kit, sm, system, facts).grade != "untried" for kit in facts.toolkits)


def weakest_build(builds: list[KnownBuild]) -> KnownBuild | None:
    """Of several cards, the one that is known least."""
    return max(builds, key=lambda build: (ORDER.index(build.grade), not build.near), default=None)
