"""R5xx: memory and disk. Too little is a doubt, not a no: fewer jobs, swap or another disk can mend it."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.model.plan import Refusal
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule

# Measured: the largest C++ file of 1.13.1 took 2.0 GiB; flash-attention kernels take 4.5 to 5.3 GB per nvcc.
COMPILE_GIB = {"cpu": 2.5, "cuda": 6.0, "rocm": 6.0}
TREE_GIB = {"cpu": 12.0, "cuda": 30.0, "rocm": 30.0}
WHEEL_GIB = {"cpu": 2.0, "cuda": 9.0, "rocm": 12.0}


@rule("R501", "build")
def memory_suffices(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The largest single compilation fits into memory."""
    have = question.machine.memory_gib
    need = COMPILE_GIB[candidate.backend]
    if have is not None and have + (question.machine.swap_gib or 0) < need:
        yield Refusal(
            rule="R501",
            code="memory-small",
            what=candidate.name,
            reason=f"one compiler can take {need:g} GiB, and there are {have:g} GiB of memory.",
            remedy="add swap and build with MAX_JOBS=1, or build on another machine",
            source="https://github.com/pytorch/pytorch/issues/124018",
            certain=False,
        )


@rule("R502")
def disk_suffices(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The tree and its objects, or the unpacked wheel, fit onto the disk."""
    have = question.machine.disk_free_gib
    need = (TREE_GIB if candidate.answer == "build" else WHEEL_GIB)[candidate.backend]
    if have is not None and have < need:
        yield Refusal(
            rule="R502",
            code="disk-small",
            what=candidate.name,
            reason=f"it takes about {need:g} GiB of disk, and {have:.1f} GiB are free.",
            remedy="make room, or choose another disk with --workspace and TMPDIR",
            source="https://github.com/huggingface/lerobot/issues/59",
            certain=False,
        )
