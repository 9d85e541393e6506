"""R1xx: does it run on the cards, with this driver and these math libraries?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from rekindle.compat import BACKENDS
from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.facts import DriverEnd, SourceEnd
from rekindle.model.machine import Gpu
from rekindle.model.plan import Change, Refusal
from rekindle.model.version import at_least, compare, key, minor
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


def card(gpu: Gpu) -> str:
    """``Tesla K40c (sm_35)``."""
    if gpu.name and gpu.arch and gpu.name.lower() != str(gpu.arch):
        return f"{gpu.name} ({gpu.arch})"
    return str(gpu.arch or gpu.name or f"an unknown {gpu.vendor} GPU")


@rule("R101", "install")
def wheel_has_code(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The wheel holds code that every card runs."""
    assert candidate.flavour is not None
    backend = BACKENDS[candidate.backend]
    for gpu in question.gpus:
        coverage = backend.covers(candidate.flavour, question.platform, gpu, question.facts)
        if coverage.kind in ("none", "jit"):
            yield Refusal(
                rule="R101",
                code="gpu-not-in-wheel" if coverage.kind == "none" else "gpu-only-ptx",
                what=candidate.name,
                reason=f"{candidate.name} {coverage.text}"
                + (f", so {card(gpu)} is not served." if coverage.kind == "none" else ", and nobody saw that work."),
                source=coverage.source,
                certain=coverage.kind == "none",
            )


@functools.lru_cache(maxsize=256)
def needed_driver(cuda: str, system: str, facts: Facts) -> tuple[str | None, str | None, str | None]:
    """(driver the toolkit was made with, floor by minor-version compatibility, source)."""
    row = facts.toolkit(cuda)
    if row is None:
        return None, None, None
    own = row.driver_windows if system == "windows" else row.driver_linux
    floor = row.minor_driver_windows if system == "windows" else row.minor_driver_linux
    own = own or row.driver_linux
    # Of 11.0 the toolkit's own driver is older than the floor of minor-version compatibility: the lower one counts.
    known = [driver for driver in (own, floor) if driver]
    return own, min(known, key=key, default=None), row.driver_source


def driver_at_least(driver: str, floor: str) -> bool:
    """A driver given as a bare branch (470) means the newest of that branch."""
    if len(key(driver)) == 1:
        return key(driver)[0] >= key(floor)[0]
    return at_least(driver, floor)


@functools.lru_cache(maxsize=256)
def last_branch(sm: Sm, facts: Facts) -> DriverEnd | None:
    return next((row for row in facts.cuda.driver_end if row.first <= sm <= row.last), None)


@functools.lru_cache(maxsize=256)
def card_driver(sm: Sm, system: str, facts: Facts) -> tuple[str, str] | None:
    """(driver, toolkit): no driver older than that of the first toolkit for an architecture knows its cards."""
    for kit in reversed(facts.toolkits):
        if sm in facts.cuda.toolkit[kit].sass:
            own, _, _ = needed_driver(kit, system, facts)
            return (own, kit) if own and kit != facts.toolkits[-1] else None
    return None


@rule("R102")
def driver_is_new_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The driver can run this CUDA; a newer driver is proposed where the card still gets one."""
    if candidate.cuda is None or question.tegra:
        return
    system = question.machine.os.system
    _, floor, source = needed_driver(candidate.cuda, system, question.facts)
    if floor is None:
        return
    for gpu in question.gpus:
        end = last_branch(gpu.arch, question.facts) if isinstance(gpu.arch, Sm) else None
        if end is not None and key(floor)[0] > end.branch:
            yield Refusal(
                rule="R102",
                code="driver-branch-ended",
                what=f"CUDA {candidate.cuda}",
                reason=f"CUDA {candidate.cuda} needs driver {floor}, and R{end.branch} is the last driver branch"
                f" for {card(gpu)}.",
                source=end.source[0],
            )
            return
    driver = question.driver
    for gpu in question.gpus:
        known = card_driver(gpu.arch, system, question.facts) if isinstance(gpu.arch, Sm) else None
        if driver is not None and known is not None and key(driver)[0] < key(known[0])[0]:
            first, kit = known
            why = f"{card(gpu)} itself needs a driver of branch {key(first)[0]} or newer (CUDA {kit} introduced it)"
            yield Refusal(
                rule="R102",
                code="driver-older-than-card",
                what=f"driver {driver}",
                reason=f"{why}; this one is {driver}.",
                remedy=f"update the driver to {first} or newer",
                source=source,
                change=Change(what="driver", from_=driver, to=f">={max((first, floor), key=key)}", why=why),
            )
            return
    if driver is not None and not driver_at_least(driver, floor):
        yield Refusal(
            rule="R102",
            code="driver-too-old",
            what=f"driver {driver}",
            reason=f"CUDA {candidate.cuda} needs NVIDIA driver {floor} or newer; this one is {driver}.",
            remedy=f"update the driver to {floor} or newer",
            source=source,
            change=Change(what="driver", from_=driver, to=f">={floor}", why=f"CUDA {candidate.cuda} needs it"),
        )


@rule("R103", "install")
def cudnn_has_code(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The cuDNN that comes with the wheel still has code for the cards."""
    flavour = candidate.flavour
    if flavour is None or flavour.cudnn is None or candidate.cuda is None:
        return
    floor = cudnn_floor(flavour.cudnn, candidate.cuda, question.facts)
    if floor is None:
        return
    oldest, version, source = floor
    for gpu in question.gpus:
        if isinstance(gpu.arch, Sm) and gpu.arch < oldest:
            yield Refusal(
                rule="R103",
                code="cudnn-lacks-arch",
                what=candidate.name,
                reason=f"{candidate.name} brings cuDNN {flavour.cudnn}; cuDNN {version} starts at {oldest}, so on"
                f" {card(gpu)} convolutions fail unless torch.backends.cudnn.enabled is set to False.",
                remedy=f"a wheel with an older cuDNN, for {gpu.arch} at most {last_cudnn(gpu.arch, question.facts)}",
                source=source,
            )


@functools.lru_cache(maxsize=1024)
def cudnn_floor(cudnn: str, cuda: str, facts: Facts) -> tuple[Sm, str, str] | None:
    """(oldest architecture, cuDNN row, source) for the newest known cuDNN that is not newer than this one."""
    best: str | None = None
    for version in facts.cudnn.cudnn:
        if compare(version, cudnn) <= 0 and (best is None or compare(version, best) > 0):
            best = version
    if best is None:
        return None
    row = facts.cudnn.cudnn[best]
    oldest = row.cuda.get(minor(cuda)) or row.cuda.get(f"{key(cuda)[0]}.x")
    return (oldest, best, row.source[0]) if oldest else None


@functools.lru_cache(maxsize=256)
def last_cudnn(sm: Sm, facts: Facts) -> str | None:
    """The newest cuDNN with code for an architecture."""
    fitting = [v for v, row in facts.cudnn.cudnn.items() if any(oldest <= sm for oldest in row.cuda.values())]
    return max(fitting, key=key, default=None)


@rule("R111", "build")
def toolkit_targets_cards(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """nvcc of this toolkit can compile for every card."""
    if candidate.cuda is None:
        return
    row = question.facts.toolkit(candidate.cuda)
    if row is None:
        return
    for gpu in question.gpus:
        if not isinstance(gpu.arch, Sm) or gpu.arch in row.sass:
            continue
        able = [v for v in reversed(question.facts.toolkits) if gpu.arch in question.facts.cuda.toolkit[v].sass]
        span = f"CUDA {able[0]} to {able[-1]} can" if able else "no known toolkit can"
        yield Refusal(
            rule="R111",
            code="cuda-cannot-target-arch",
            what=f"CUDA {candidate.cuda}",
            reason=f"CUDA {candidate.cuda} cannot compile for {gpu.arch} ({gpu.arch.dotted}, {gpu.name or gpu.arch});"
            f" its nvcc knows {row.sass[0]} to {row.sass[-1]}; {span}.",
            remedy=f"use CUDA {able[-1] if gpu.arch < row.sass[0] else able[0]}" if able else None,
            source=row.source[0],
        )


@rule("R112", "build")
def sources_take_arch(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The release's own arch list knows the cards: older sources do not parse newer numbers."""
    if candidate.backend != "cuda":
        return
    era = question.facts.era(candidate.torch)
    accepted = {parse_sm(arch) for arch in era.accepts}
    for gpu in question.gpus:
        sm = gpu.arch
        if not isinstance(sm, Sm) or sm in accepted or not accepted:
            continue
        newest = max(accepted)
        # A sibling of a known generation passes through CMake; a new generation does not.
        if sm < min(accepted) or (sm.major <= newest.major and any(sm.major == known.major for known in accepted)):
            continue
        yield Refusal(
            rule="R112",
            code="source-does-not-know-arch",
            what=f"torch {candidate.torch}",
            reason=f"the sources of torch {candidate.torch} end at {newest} and do not know {sm} ({sm.dotted}).",
            source=era.source[0],
        )


@functools.lru_cache(maxsize=256)
def source_end(sm: Sm, facts: Facts) -> SourceEnd | None:
    return next((row for row in facts.cuda.source_end if row.first <= sm <= row.last), None)


@rule("R113", "build")
def sources_still_compile(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The release still compiles for old cards."""
    if candidate.backend != "cuda":
        return
    for gpu in question.gpus:
        end = source_end(gpu.arch, question.facts) if isinstance(gpu.arch, Sm) else None
        if end is None or (end.torch_last != "none" and compare(candidate.torch, end.torch_last) <= 0):
            continue
        yield Refusal(
            rule="R113",
            code="source-ended-for-arch",
            what=f"torch {candidate.torch}",
            reason=f"torch {end.torch_last} is the last that is known to compile for {card(gpu)}"
            f"{f', with CUDA {end.cuda_last} at most' if end.cuda_last else ''}.",
            source=end.source[0],
        )
