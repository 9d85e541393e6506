"""R1xx for Jetson boards: the driver is part of JetPack, so CUDA is bound to it."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.facts.gpus import jetson_cuda
from rekindle.model.plan import Change, Refusal
from rekindle.model.spoken import sentence
from rekindle.model.version import key, minor
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


@rule("R119")
def board_keeps_its_jetpack(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """A Jetson that has one major version of CUDA cannot run another without another JetPack."""
    have = question.board_cuda
    if have is None or question.wish.cuda or candidate.cuda is None or key(have)[0] == key(candidate.cuda)[0]:
        return
    why = f"the board has CUDA {have}; CUDA {candidate.cuda} takes another JetPack (L4T), which means flashing it anew"
    yield Refusal(
        rule="R119",
        code="jetpack-change",
        what=f"CUDA {candidate.cuda}",
        reason=sentence(why),
        source="https://developer.nvidia.com/embedded/jetpack-archive",
        change=Change(what="cuda", from_=have, to=candidate.cuda, why=why),
    )


@rule("R115")
def jetpack_offers_cuda(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """On a Jetson the driver comes with JetPack, so only its CUDA versions can run."""
    if candidate.cuda is None or not question.tegra:
        return
    for sm in question.sms:
        offered = jetson_cuda(sm, question.facts)
        if offered and minor(candidate.cuda) not in offered:
            yield Refusal(
                rule="R115",
                code="jetpack-bound",
                what=f"CUDA {candidate.cuda}",
                reason=f"JetPack for this Jetson board ({sm}) offers CUDA {', '.join(offered)}, not {candidate.cuda}.",
                source="https://developer.nvidia.com/embedded/jetpack-archive",
            )
