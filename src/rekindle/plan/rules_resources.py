"""R5xx: memory and disk. Too little is a doubt, not a no: fewer jobs, swap or another disk can fix it."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.resources import build_cost, memory_fits, use_disk_gib
from rekindle.model.plan import Refusal
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


@rule("R501", "build")
def memory_is_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The largest single compilation fits into memory."""
    have, swap = question.memory_gib, question.machine.swap_gib
    cost = build_cost(candidate.torch, candidate.backend, question.facts)
    if memory_fits(have, swap, cost) is False:
        yield Refusal(
            rule="R501",
            code="memory-small",
            what=candidate.name,
            reason=f"one compiler can take {cost.largest_gib:g} GiB, and there are {have:g} GiB of memory.",
            remedy="add swap and build with MAX_JOBS=1, or build on another machine",
            source=cost.source[0],
            certain=False,
        )


@rule("R502")
def disk_suffices(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The tree and its objects, or the unpacked wheel, fit onto the disk."""
    have = question.machine.disk_free_gib
    if have is None:
        return
    if candidate.answer == "build":
        row = build_cost(candidate.torch, candidate.backend, question.facts)
        need, source = row.disk_gib, row.source[0]
    else:
        need, source = use_disk_gib(candidate.backend, question.facts), "installed sizes of published wheels"
    if have < need:
        yield Refusal(
            rule="R502",
            code="disk-small",
            what=candidate.name,
            reason=f"it takes about {need:g} GiB of disk, and {have:.1f} GiB are free.",
            remedy="make room, or choose another disk with --workspace and TMPDIR",
            source=source,
            certain=False,
        )
