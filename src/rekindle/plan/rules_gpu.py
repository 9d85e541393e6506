"""R1xx: does it run on the cards, with this driver and these math libraries? Judged in :mod:`rekindle.compat`."""

import functools
from collections.abc import Iterator

from rekindle.compat import BACKENDS, Coverage
from rekindle.compat.answer import CompatAnswer
from rekindle.compat.driver import branch, driver_runs, toolkit_driver
from rekindle.compat.images import find_gap
from rekindle.compat.toolkit import compiles_for, cudnn_covers, emits_for, toolkits_for
from rekindle.facts import Facts
from rekindle.facts.gpus import jetson_cuda
from rekindle.model.arch import Sm
from rekindle.model.facts import SourceEnd
from rekindle.model.machine import Gpu
from rekindle.model.plan import Change, Refusal
from rekindle.model.spoken import sentence
from rekindle.model.version import compare, key, minor
from rekindle.plan.candidates import Candidate
from rekindle.plan.evidence import arch_syntax, sources_parse
from rekindle.plan.question import Question, recall
from rekindle.plan.rules import refuse, rule, say

# A driver may be installed or replaced; these say that none could do.
_NO_DRIVER = ("driver-none-for-all", "driver-branch-ended")


def card(gpu: Gpu) -> str:
    """``Tesla K40c (sm_35)``."""
    if gpu.name and gpu.arch and gpu.name.lower() != str(gpu.arch):
        return f"{gpu.name} ({gpu.arch})"
    return str(gpu.arch or gpu.name or f"an unknown {gpu.vendor} GPU")


def coverages(candidate: Candidate, question: Question) -> tuple[tuple[Gpu, Coverage], ...]:
    """Every card with what the wheel has for it; releases share their flavours, so it is judged once for each."""
    flavour = candidate.flavour
    if flavour is None:
        return ()
    cache, covers = question.cache if candidate.wheel else question.shared["cards"], BACKENDS[candidate.backend].covers
    return recall(
        cache,
        ("coverages", candidate.backend, id(flavour)),
        lambda: tuple((gpu, covers(flavour, question.platform, gpu, question.facts)) for gpu in question.gpus),
    )


@rule("R101", "install", reads="cards")
def wheel_has_code(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The wheel holds code that every card runs."""
    for gpu, coverage in coverages(candidate, question):
        if coverage.kind in ("none", "jit"):
            code = "gpu-not-in-wheel" if coverage.kind == "none" else "gpu-only-ptx"
            yield refuse(code, candidate, seen=coverage.text, card=card(gpu), source=coverage.source)


def needs_ptx(candidate: Candidate, question: Question) -> bool:
    """Does the driver have to compile PTX for a card, because the wheel has no machine code for it?"""
    return candidate.answer == "install" and any(seen.kind == "jit" for _, seen in coverages(candidate, question))


@rule("R102", when=lambda question: not question.tegra)
def driver_serves(candidate: Candidate, question: Question) -> tuple[Refusal, ...]:
    """One driver drives every card and runs this CUDA: neither too old for it nor newer than a card's last branch."""
    if candidate.cuda is None:
        return ()
    key = ("driver", candidate.cuda, needs_ptx(candidate, question))
    return recall(question.cache, key, lambda: tuple(_driver_refusals(candidate, question)))


def driver_answer(driver: str | None, candidate: Candidate | None, question: Question) -> CompatAnswer:
    """Does this driver (None: any) run the candidate (None: anything) on the cards?"""
    cuda, ptx = (candidate.cuda, needs_ptx(candidate, question)) if candidate else (None, False)
    names = tuple(card(gpu) for gpu, _ in question.sm_cards)
    return driver_runs(driver, cuda, question.sms, question.side, question.facts, ptx=ptx, names=names)


def _driver_refusals(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    driver = question.driver
    answer = driver_answer(driver, candidate, question)
    old, floor = question.old_system, toolkit_driver(candidate.cuda or "", question.side, question.facts).floor
    if old is not None and old.driver_below and floor is not None and branch(floor) >= old.driver_below:
        # An old Windows got its last driver long ago.
        below, source = old.driver_below, old.source[-1]
        yield refuse("driver-branch-ended", candidate, floor=floor, system=old.name, below=below, source=source)
    if answer.kind != "no":
        return
    change = None
    alone = "each card in a machine of its own"
    if answer.code not in _NO_DRIVER:
        change = Change(what="driver", from_=driver, to=answer.want, why=answer.text)
    elif answer.code == "driver-none-for-all" and question.wish.build:
        # One wheel for several machines is a fair wish: each card runs it, only not in one box.
        names = ", ".join(card(gpu) for gpu, _ in question.sm_cards)
        change = Change(what="machine", from_=f"{names} in one", to=alone, why=answer.text)
    remedy = f"use {alone}" if len(question.sms) > 1 else "take a torch made with an older CUDA"
    yield Refusal(
        code=answer.code,
        what=f"driver {driver}" if driver else f"CUDA {candidate.cuda}",
        reason=sentence(answer.text),
        remedy=f"install NVIDIA driver {answer.want}" if answer.want else remedy,
        source=answer.source,
        change=change,
    )


@rule("R103", "install", "graft", reads="cards")
def cudnn_has_code(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The cuDNN that comes with the wheel still has code for the cards; a graft keeps it, which is a doubt."""
    assert candidate.flavour is not None
    name = "cudnn-lacks-arch/graft" if candidate.answer == "graft" else "cudnn-lacks-arch/wheel"
    for gpu in () if question.wish.without_cudnn else question.gpus:
        answer = cudnn_covers(candidate.flavour.cudnn, candidate.cuda, gpu.arch, question.facts)
        if answer.kind == "partly":
            yield refuse(name, candidate, gpu=gpu, card=card(gpu), answer=answer, source=answer.source)


@rule("R111", "build")
def toolkit_targets_cards(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """nvcc of this toolkit can compile for every card, or for a sibling whose code the card runs."""
    for gpu, sm in question.sm_cards if candidate.cuda else ():
        answer = compiles_for(candidate.cuda or "", sm, question.facts, gpu.name or str(sm))
        if answer.kind == "no":
            side = "newer" if answer.want in toolkits_for(sm, question.facts)[:1] else "older"
            remedy = f"to compile for it, use CUDA {answer.want} or {side}" if answer.want else None
            yield refuse("cuda-cannot-target-arch", candidate, seen=answer.text, remedy=remedy, source=answer.source)


@rule("R112", "build")
def sources_take_arch(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The build's own CMake understands the cards' numbers: before 2.6 it reads one digit before the point."""
    facts = question.facts
    for gpu, sm in question.sm_cards:
        if not sources_parse(candidate.torch, sm, facts):
            source = arch_syntax(candidate.torch, facts).source[0]
            able = next((version for version in reversed(facts.releases) if sources_parse(version, sm, facts)), None)
            remedy = f"build torch {able} or newer" if able else None
            yield refuse("source-does-not-know-arch", candidate, sm=sm, card=card(gpu), remedy=remedy, source=source)


@functools.lru_cache(maxsize=256)
def source_end(sm: Sm, facts: Facts) -> SourceEnd | None:
    return next((row for row in facts.cuda.source_end if row.first <= sm <= row.last), None)


@rule("R113", "build")
def sources_still_compile(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The release still compiles for old cards."""
    for gpu, sm in question.sm_cards:
        end = source_end(sm, question.facts)
        if end is not None and (end.torch_last == "none" or compare(candidate.torch, end.torch_last) > 0):
            most = f", with CUDA {end.cuda_last} at most" if end.cuda_last else ""
            yield refuse("source-ended-for-arch", candidate, end=end, card=card(gpu), most=most, source=end.source[0])


@rule("R120", "build")
def kernels_compile(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """No kernel file was seen failing to compile for the cards, unless a setting leaves it out."""
    for gpu, sm in question.sm_cards if candidate.cuda else ():
        target = emits_for(candidate.cuda or "", sm, question.facts)
        for row in question.facts.probes.probe:
            failed = sorted(set(row.failed) - set(row.without))
            if (row.torch, row.cuda, row.sm) == (candidate.torch, candidate.cuda, target) and failed:
                code, error, source = "kernel-does-not-compile", row.failed[failed[0]], row.source[0]
                yield refuse(code, candidate, file=failed[0], card=card(gpu), error=error, source=source)


@rule("R119", when=lambda question: bool(question.board_cuda and not question.wish.cuda))
def board_keeps_its_jetpack(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """A Jetson that has one major version of CUDA cannot run another without another JetPack."""
    installed = question.board_cuda or ""
    if candidate.cuda is None or key(installed)[0] == key(candidate.cuda)[0]:
        return
    why = say("jetpack-change/why", candidate, have=installed).text
    change = Change(what="cuda", from_=installed, to=candidate.cuda, why=why)
    yield refuse("jetpack-change", candidate, why=sentence(why), change=change)


@rule("R115", when=lambda question: question.tegra)
def jetpack_offers_cuda(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """On a Jetson the driver comes with JetPack, so only its CUDA versions can run."""
    for sm in question.sms if candidate.cuda else ():
        offered = jetson_cuda(sm, question.facts)
        if offered and minor(candidate.cuda or "") not in offered:
            yield refuse("jetpack-bound", candidate, sm=sm, offered=", ".join(offered))


@rule("R114", "build")
def rocm_knows_target(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """ROCm of this version knows the cards."""
    rocm = candidate.rocm or ""
    for gfx in question.gfxs if rocm else ():
        row = next((row for row in question.facts.rocm.span if row.gfx.name == gfx.name), None)
        if row is not None and compare(rocm, row.rocm) < 0:
            yield refuse("rocm-cannot-target-arch/old", candidate, row=row, source=row.source[-1])
        elif row is not None and row.last is not None and compare(rocm, row.last) > 0:
            yield refuse("rocm-cannot-target-arch/new", candidate, row=row, source=row.source[-1])


@rule("R116", "build")
def rocm_builds_on_windows(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """On Windows only AMD's own ROCm (TheRock) can build torch, and only for its targets."""
    if candidate.rocm is None or question.platform != "windows":
        return
    rows = [row for row in question.facts.wheels.flavour if row.publisher == "amd" and "windows" in row.gfx]
    targets = {gfx.name for row in rows for gfx in row.gfx["windows"]}
    versions = {row.rocm for row in rows}
    for gfx in question.gfxs:
        if gfx.name not in targets or candidate.rocm not in versions:
            source = rows[0].source[0] if rows else None
            yield refuse("rocm-not-on-windows", candidate, gfx=gfx, known=", ".join(sorted(targets)), source=source)


@rule("R117", "install", reads="cards")
def target_was_tested(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The maker tested the wheel on this target, not only compiled it."""
    assert candidate.flavour is not None
    for gpu in question.gpus:
        if gpu.arch in candidate.flavour.untested.get(question.platform, ()):
            yield refuse("target-untested", candidate, gpu=gpu, source=candidate.flavour.source[0])


@rule("R118", "build")
def math_library_has_target(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """ROCm's math libraries have files for the cards; else they must be built too, which few did."""
    for gfx in question.gfxs if candidate.rocm else ():
        if (gap := find_gap(gfx, candidate.rocm or "", "pytorch", question.facts)) is not None:
            yield refuse("rocm-math-gap", candidate, gap=gap, gfx=gfx, source=gap.source[0])
