"""R0xx: where a candidate departs from what was asked for. Each is a change, not an obstacle."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from rekindle.compat.toolkit import cudnn_floor, last_cudnn
from rekindle.model.plan import Refusal
from rekindle.model.version import flavour_name, key, minor, same_prefix
from rekindle.plan import rules_gpu
from rekindle.plan.candidates import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import Check, passes_all, refuse, rule
from rekindle.plan.rules_toolchain import toolkit_is_new_enough

# Could a toolkit itself build this torch for these cards?
_CHECKS: dict[str, tuple[Check, ...]] = {
    "cuda": (
        *(rules_gpu.toolkit_targets_cards, rules_gpu.sources_take_arch, toolkit_is_new_enough),
        *(rules_gpu.driver_serves, rules_gpu.jetpack_offers_cuda),
    ),
    "rocm": (rules_gpu.rocm_knows_target,),
}
_NEEDS = {"cuda": "needs CUDA", "rocm": "needs ROCm", "xpu": "needs the XPU wheels", "cpu": "runs torch on the CPU"}


def _departure(what: str, asked: str, offered: str | None) -> Refusal:
    return refuse(f"{what}-not-as-asked", None, asked=asked, change=(what, asked, offered), departure=True)


@rule("R001", when=lambda question: question.torch is not None)
def torch_is_kept(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The torch version is the one asked for."""
    if not question.wants_torch(candidate.torch):
        yield _departure("torch", question.torch or "", candidate.torch)


@rule("R002", when=lambda question: question.flavour is not None)
def flavour_is_kept(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The flavour (cu128, rocm6.4, cpu) is the one asked for."""
    asked = question.flavour or ""
    offered = candidate.flavour.name if candidate.flavour else None
    # With a build asked for as well, the variant names what to build for, and no wheel.
    built = flavour_name(candidate.cuda, minor(candidate.rocm) if candidate.rocm else None)
    if question.wish.build and candidate.answer == "build" and asked == built:
        return
    if offered != asked:
        yield _departure("variant", asked, offered or "built from source")


def _toolkit_is_kept(kind: Literal["cuda", "rocm"], candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The toolkit is the asked one; or a wheel brings one of its major version, where the asked one could itself build
    this torch for these cards: then a wheel beside it disturbs nothing."""
    asked: str = getattr(question.wish, kind)
    if question.backend != kind:
        cards = ", ".join(map(rules_gpu.card, question.usable_gpus)) or "a machine without a GPU"
        needs, change = f"which {_NEEDS[question.backend]}", (kind, asked, None)
        yield refuse(f"{kind}-not-as-asked/vendor", None, asked=asked, cards=cards, needs=needs, change=change)
        return
    offered: str | None = getattr(candidate, kind)
    # 12.4.1 for an asked 12.4, and 12.4 for an asked 12.4.1: who names more numbers means the same toolkit.
    if offered is not None and (same_prefix(offered, asked) or same_prefix(asked, offered)):
        return
    brings_own = candidate.answer != "build" and question.flavour is None
    built = replace(candidate, answer="build", flavour=None, **dict[str, Any]({kind: asked}))
    if brings_own and offered and key(offered)[0] == key(asked)[0] and passes_all(_CHECKS[kind], built, question):
        return
    yield _departure(kind, asked, offered)


@rule("R003", when=lambda question: question.wish.cuda is not None)
def cuda_is_kept(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The CUDA version is the one asked for, or a wheel's own runtime goes beside it."""
    yield from _toolkit_is_kept("cuda", candidate, question)


@rule("R004", when=lambda question: question.wish.cudnn is not None)
def cudnn_is_kept(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The asked cuDNN has code for the cards."""
    asked, era = question.wish.cudnn or "", question.facts.era(candidate.torch)
    floor = cudnn_floor(asked, candidate.cuda, question.facts) if candidate.cuda else None
    oldest = min(question.sms, default=None)
    if floor is not None and candidate.answer == "build" and era.cudnn_major and key(asked)[0] not in era.cudnn_major:
        wanted, change = " or ".join(map(str, era.cudnn_major)), ("cudnn", asked, f"{max(era.cudnn_major)}.x")
        yield refuse("cudnn-not-for-source", candidate, asked=asked, wanted=wanted, source=era.source[0], change=change)
    elif floor is not None and oldest is not None and oldest < floor.oldest:
        last = last_cudnn(oldest, question.facts)
        name, change = "cudnn-lacks-arch/asked", ("cudnn", asked, f"<={last}")
        yield refuse(
            name, candidate, asked=asked, card=oldest, floor=floor, last=last, source=floor.source, change=change
        )


@rule("R005", when=lambda question: question.wish.rocm is not None)
def rocm_is_kept(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The ROCm version is the one asked for; a wheel brings its own of the same major version."""

    yield from _toolkit_is_kept("rocm", candidate, question)
