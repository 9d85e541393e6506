"""R2xx: do the sources, the toolkit and the compiler go together? And the known hazards of combinations."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.libc import libc_runs, toolkit_libc
from rekindle.model.plan import Change, Refusal
from rekindle.model.version import compare, key, minor
from rekindle.plan.candidate import Candidate
from rekindle.plan.compilers import problems
from rekindle.plan.hazards import cured, met
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


@rule("R201", "build")
def toolkit_is_new_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The sources accept this CUDA."""
    era = question.facts.era(candidate.torch)
    if candidate.cuda is None or era.cuda_min is None or compare(candidate.cuda, era.cuda_min) >= 0:
        return
    yield Refusal(
        rule="R201",
        code="cuda-too-old-for-source",
        what=f"CUDA {candidate.cuda}",
        reason=f"the sources of torch {candidate.torch} need CUDA {era.cuda_min} or newer.",
        remedy=f"to build it, use CUDA {era.cuda_min} or newer, or an older torch",
        source=era.source[-1],
    )


@rule("R208", "build")
def toolkit_runs_here(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The toolkit's own programs run on this C library."""
    row = question.facts.toolkit(candidate.cuda) if candidate.cuda else None
    if row is None or question.machine.os.system != "linux" or question.tegra:
        return
    answer = libc_runs(toolkit_libc(row), question.libc)
    if answer.kind == "no":
        yield Refusal(
            rule="R208",
            code="glibc-too-old-for-toolkit",
            what=f"CUDA {candidate.cuda}",
            reason=f"CUDA {candidate.cuda} {answer.text}.",
            remedy="take an older CUDA, a container, or a newer distribution",
            source=row.source[-1],
        )


@rule("R202", "build")
def compiler_is_taken(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """nvcc and the sources take the host compiler."""
    asked = question.wish.compiler
    if candidate.compiler is None:
        yield Refusal(
            rule="R202",
            code="no-compiler",
            what=candidate.name,
            reason=f"no compiler is known that can build {candidate.name}.",
            source=question.facts.era(candidate.torch).source[0],
        )
    elif asked and candidate.compiler != asked:
        why = list(problems(asked, candidate, question))
        text = why[0].reason if why else f"{asked} does not build it."
        change = Change(what="compiler", from_=asked, to=candidate.compiler, why=text)
        for refusal in why:
            yield Refusal(
                rule=refusal.rule,
                code=refusal.code,
                what=refusal.what,
                reason=refusal.reason,
                remedy=refusal.remedy,
                source=refusal.source,
                change=change,
            )


@rule("R203", "build")
def distribution_compiler_will_do(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The distribution's own gcc is new enough for the sources; else another compiler must come from outside."""
    row = question.distro_of(candidate.cuda)
    era = question.facts.era(candidate.torch)
    if row is None or row.gcc is None or era.gcc_min is None or question.wish.compiler or question.machine.compilers:
        return
    if row.gcc < key(era.gcc_min)[0]:
        why = f"{row.name} has gcc {row.gcc}, and the sources of torch {candidate.torch} need gcc {era.gcc_min}."
        yield Refusal(
            rule="R203",
            code="compiler-too-old",
            what=f"gcc {row.gcc}",
            reason=why,
            source=era.source[0],
            change=Change(what="compiler", from_=f"gcc-{row.gcc}", to=candidate.compiler, why=why),
        )


@rule("R204")
def no_known_hazard(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Nobody reported that this very combination breaks."""
    for hazard in met(candidate, question):
        # A compiler's hazard is a matter of choosing another one: R202.
        if hazard.effect == "breaks" and hazard.compiler is None and not cured(hazard):
            yield Refusal(
                rule="R204",
                code=hazard.id,
                what=candidate.name,
                reason=hazard.text,
                remedy=hazard.remedy,
                source=hazard.source[0],
            )


@rule("R207", "build")
def sources_need_no_patch(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The sources build as they were released; a known defect that a patch of ours cures is a change of them."""
    for hazard in met(candidate, question):
        if cured(hazard):
            why = f"{hazard.text} The patch {hazard.patch} cures it"
            yield Refusal(
                rule="R207",
                code=hazard.id,
                what=candidate.name,
                reason=f"{why}.",
                remedy=hazard.remedy,
                source=hazard.source[0],
                change=Change(what="sources", from_="as released", to=f"with the patch {hazard.patch}", why=why),
            )


@rule("R205", "build")
def rocm_pair_is_known(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Somebody official built this torch with this major version of ROCm."""
    if candidate.rocm is None:
        return
    facts = question.facts
    flavours = [flavour.rocm for flavour in facts.flavours(candidate.torch) if flavour.rocm]
    named = [
        version
        for version, row in facts.rocm.release.items()
        if any(compare(minor(torch), minor(candidate.torch)) == 0 for torch in row.torch)
    ]
    if not any(key(known)[0] == key(candidate.rocm)[0] for known in (*flavours, *named)):
        official = ", ".join(dict.fromkeys((*flavours, *named))) or "none that we know"
        yield Refusal(
            rule="R205",
            code="rocm-pair-unproven",
            what=candidate.name,
            reason=f"nobody official pairs torch {candidate.torch} with ROCm {candidate.rocm}; named are: {official}.",
            source="https://rocm.docs.amd.com/en/latest/compatibility/compatibility-matrix.html",
            certain=False,
        )


@rule("R206", "build")
def cuda_pair_is_known(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Official builds of this release used the same major version of CUDA."""
    if candidate.cuda is None:
        return
    used = [flavour.cuda for flavour in question.facts.flavours(candidate.torch) if flavour.cuda]
    if used and not any(key(cuda)[0] == key(candidate.cuda)[0] for cuda in used):
        yield Refusal(
            rule="R206",
            code="cuda-pair-unproven",
            what=candidate.name,
            reason=f"no official build of torch {candidate.torch} used CUDA {key(candidate.cuda)[0]}.x"
            f" (they used {', '.join(sorted(set(used), key=key))}), so nobody proved that it compiles.",
            source="RELEASE.md compatibility matrix of pytorch/pytorch",
            certain=False,
        )
