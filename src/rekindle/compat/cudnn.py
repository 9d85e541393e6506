"""What cuDNN still has code for. A wheel brings its own; on a card it left out, convolutions fail."""

from __future__ import annotations

import functools
from typing import NamedTuple

from rekindle.compat.answer import Answer, answer
from rekindle.facts import Facts
from rekindle.model.arch import GpuArch, Sm
from rekindle.model.version import compare, key, minor


class CudnnFloor(NamedTuple):
    """``oldest`` architecture of a cuDNN for one toolkit, and the row (``version``) that says so."""

    oldest: Sm
    version: str
    source: str


@functools.lru_cache(maxsize=1024)
def cudnn_floor(cudnn: str, cuda: str, facts: Facts) -> CudnnFloor | None:
    """By the newest known cuDNN that is not newer than this one; None where the tables do not reach."""
    best: str | None = None
    for version in facts.cudnn.cudnn:
        if compare(version, cudnn) <= 0 and (best is None or compare(version, best) > 0):
            best = version
    if best is None:
        return None
    row = facts.cudnn.cudnn[best]
    oldest = row.cuda.get(minor(cuda)) or row.cuda.get(f"{key(cuda)[0]}.x")
    return CudnnFloor(oldest, best, row.source[0]) if oldest else None


@functools.lru_cache(maxsize=256)
def last_cudnn(sm: Sm, facts: Facts) -> str | None:
    """The newest cuDNN with code for an architecture."""
    fitting = [v for v, row in facts.cudnn.cudnn.items() if any(oldest <= sm for oldest in row.cuda.values())]
    return max(fitting, key=key, default=None)


def cudnn_covers(cudnn: str | None, cuda: str | None, card: GpuArch | None, facts: Facts) -> Answer:
    """Has this cuDNN code for the card? *partly*: all works but what cuDNN does."""
    if cudnn is None or cuda is None or not isinstance(card, Sm):
        return Answer("unknown")
    floor = cudnn_floor(cudnn, cuda, facts)
    if floor is None:
        return Answer("unknown")
    if card >= floor.oldest:
        return answer("yes", "cudnn", f"cuDNN {cudnn} has code for {card}", floor.source)
    text = (
        f"cuDNN {cudnn} has no code for {card}: cuDNN {floor.version} starts at {floor.oldest} with CUDA {cuda}, so"
        " convolutions fail unless torch.backends.cudnn.enabled is set to False"
    )
    return answer("partly", "cudnn-lacks-arch", text, floor.source, last_cudnn(card, facts))
