"""Host compilers: which one nvcc and the sources take, and which to propose where the given one is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rekindle.compat.toolkit import compiler_span, newest_compiler, takes_compiler
from rekindle.compat.visual_studio import find_visual_studio
from rekindle.model.plan import Refusal
from rekindle.model.version import at_least, compare, key
from rekindle.plan.candidate import Candidate
from rekindle.plan.hazards import cured, met
from rekindle.plan.question import Question

# Proposed in this order. The last toolset of each Visual Studio, so that a link to it can be found.
GCC = ("gcc-13", "gcc-12", "gcc-11", "gcc-14", "gcc-10", "gcc-9", "gcc-8", "gcc-7", "gcc-6", "gcc-5", "gcc-4.9")
CLANG = ("clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang-13", "clang-12", "clang-11", "clang-10")
MSVC = ("msvc-19.29", "msvc-19.37", "msvc-19.39", "msvc-19.44", "msvc-19.16", "msvc-19.0")


def visual_studio(version: str) -> str:
    """2019 for 19.29."""
    major, rest = key(version)[0], key(version)[1:2]
    product = find_visual_studio(rest[0] if rest else 0) if major == 19 else None
    return product[1] if product else "of an unknown year"


def problems(compiler: str, candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Why this compiler cannot build this candidate."""
    kind, _, version = compiler.partition("-")
    row = question.facts.toolkit(candidate.cuda) if candidate.cuda else None
    if version and row is not None and takes_compiler(row, kind, version) is False:
        takes = [v for v in reversed(question.facts.toolkits) if _takes(v, kind, version, question)]
        newer = f", or CUDA {takes[0]} or newer" if takes and compare(takes[0], candidate.cuda or "0") > 0 else ""
        best = (
            f"the Visual Studio {row.visual_studio} toolset"
            if kind == "msvc"
            else f"{kind}-{newest_compiler(row, kind)}"
        )
        yield Refusal(
            rule="R202",
            code="host-compiler-rejected",
            what=compiler,
            reason=f"nvcc of CUDA {candidate.cuda} takes {compiler_span(row, kind)} as host compiler;"
            f" {_spoken(compiler)} is none of them.",
            remedy=f"use {best}{newer}",
            source=row.host_source or row.source[0],
        )
    era = question.facts.era(candidate.torch)
    if kind == "gcc" and version and era.gcc_min and not _reaches(version, era.gcc_min):
        yield Refusal(
            rule="R203",
            code="compiler-too-old",
            what=compiler,
            reason=f"the sources of torch {candidate.torch} need gcc {era.gcc_min} or newer ({era.cxx}).",
            source=era.source[0],
        )
    for hazard in met(replace(candidate, compiler=compiler), question):
        if hazard.compiler is not None and hazard.effect == "breaks" and not cured(hazard):
            yield Refusal(
                rule="R204",
                code=hazard.id,
                what=compiler,
                reason=hazard.text,
                remedy=hazard.remedy,
                source=hazard.source[0],
            )


def _reaches(version: str, floor: str) -> bool:
    """A bare major version (gcc-9) means its newest release."""
    return key(version)[0] >= key(floor)[0] if len(key(version)) == 1 else at_least(version, floor)


def _takes(toolkit: str, kind: str, version: str, question: Question) -> bool:
    return takes_compiler(question.facts.cuda.toolkit[toolkit], kind, version) is True


def _spoken(compiler: str) -> str:
    kind, _, version = compiler.partition("-")
    if kind == "msvc" and version:
        return f"MSVC {version} (Visual Studio {visual_studio(version)})"
    return compiler.replace("-", " ", 1)


def fits(compiler: str, candidate: Candidate, question: Question) -> bool:
    """The same judgement as :func:`problems`, without words: most compilers are only tried."""
    kind, _, version = compiler.partition("-")
    row = question.facts.toolkit(candidate.cuda) if candidate.cuda else None
    if version and row is not None and takes_compiler(row, kind, version) is False:
        return False
    era = question.facts.era(candidate.torch)
    if kind == "gcc" and version and era.gcc_min and not _reaches(version, era.gcc_min):
        return False
    hazards = met(replace(candidate, compiler=compiler), question)
    return not any(hazard.compiler and hazard.effect == "breaks" and not cured(hazard) for hazard in hazards)


def choose(candidate: Candidate, question: Question) -> str | None:
    """The compiler to build with: the asked one, one the machine has, or the first proposal without a problem.

    Among equals one that takes the sources as they are comes before one that needs a patch.
    """
    wish = question.wish.compiler
    if wish and fits(wish, candidate, question):
        return wish
    if wish is None:
        had = [f"{one.kind}-{one.version}" for one in question.machine.compilers]
        # gcc first, even where it needs a patch: official Linux builds are made with it, and it brings OpenMP along.
        for kind in ("gcc-", "msvc-", "clang-"):
            own = [name for name in had if name.startswith(kind)]
            if (found := _first(own, candidate, question)) is not None:
                return found
    windows = question.machine.os.system == "windows"
    proposals = _own_msvc(candidate, question) if windows else (*_own_gcc(candidate, question), *GCC)
    if wish is None:
        return _first(proposals, candidate, question)
    if wish.startswith("clang"):
        proposals = (*CLANG, *proposals)
    fitting = [name for name in proposals if fits(name, candidate, question)]
    # The nearest to what was asked for: usually the distribution has that one too.
    kind, _, number = wish.partition("-")
    older = [name for name in fitting if name.startswith(f"{kind}-") and compare(name.partition("-")[2], number) <= 0]
    if older and fitting[0].startswith(f"{kind}-"):
        return max(older, key=lambda name: key(name.partition("-")[2]))
    return fitting[0] if fitting else None


def _own_msvc(candidate: Candidate, question: Question) -> tuple[str, ...]:
    """First those of the Visual Studio that official builds of this release are made with, newest first."""
    year = question.facts.era(candidate.torch).visual_studio
    same = [name for name in reversed(MSVC) if year and visual_studio(name.partition("-")[2]) == year]
    return (*same, *(name for name in MSVC if name not in same))


def _own_gcc(candidate: Candidate, question: Question) -> tuple[str, ...]:
    """The distribution's own, which its package manager has and whose libstdc++ every program there loads."""
    row = question.distro_of(candidate.cuda)
    return (f"gcc-{row.gcc}",) if row is not None and row.gcc is not None and row.gcc >= 5 else ()


def _first(names: Iterable[str], candidate: Candidate, question: Question) -> str | None:
    """The first that takes the sources as they are; else the first that does with a patch."""
    patched = None
    for name in names:
        if fits(name, candidate, question):
            if not any(map(cured, met(replace(candidate, compiler=name), question))):
                return name
            patched = patched or name
    return patched
