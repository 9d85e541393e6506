"""R3xx, R4xx and R5xx: Python, glibc and platforms, memory and disk.

Too little memory or disk is a doubt, not a no: fewer jobs, swap or another disk can fix it. Before all rules comes what
no torch was ever made for (:func:`find_obstacle`), with one clear answer each.
"""

from collections.abc import Iterator

from rekindle.compat.graft import graft_cost
from rekindle.compat.libc import flavour_libc, libc_runs, tools_libc
from rekindle.compat.resources import build_cost, memory_fits, use_disk_gib
from rekindle.model.plan import Change, Reason, Refusal
from rekindle.plan.candidates import Candidate, hazards_met, python_span, pythons_of, same_python
from rekindle.plan.question import NARROW, Question
from rekindle.plan.rules import hazard_refusal, refuse, rule, say


def find_obstacle(question: Question) -> Reason | None:
    """The first thing about the system itself that rules everything out, and the nearest that works instead."""
    arch, python = question.arch, question.wish.python or ""
    if arch in NARROW:
        return say("system-32-bit", arch=arch)
    if python.endswith("-32"):  # as Windows' py launcher spells it
        return say("system-32-bit/python", python=python, wide=python.removesuffix("-32"))
    if arch in ("ppc64le", "s390x"):  # PyTorch does not build for it, others do
        return say(f"arch-unsupported/{arch}")
    if arch not in ("x86_64", "aarch64"):
        return say("arch-unsupported", arch=arch)
    return say("libc-musl/system") if question.libc is not None and question.libc.kind == "musl" else None


@rule("R301", reads="system", when=lambda question: question.wish.python is not None)
def python_is_served(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """There is a wheel for the asked Python, or the sources know it."""
    asked = question.wish.python or ""
    served = pythons_of(candidate, question)
    if any(same_python(asked, version) for version in served):
        return
    last = question.last_python
    span = python_span(served)
    change = None
    if candidate.python:
        why = f"torch {candidate.torch} is for Python {span}"
        why += f", and Python {last} is the last that runs on {question.machine.os.distro}" if last else ""
        change = Change(what="python", from_=asked, to=candidate.python, why=why)
    code = "python-not-in-source" if candidate.answer == "build" else "python-has-no-wheel"
    where = {"windows": " on Windows", "linux_aarch64": " on aarch64"}.get(question.platform, "")
    yield refuse(code, candidate, asked=asked, span=span, where=where, source=files_page(candidate), change=change)


def files_page(candidate: Candidate) -> str:
    """Where PyPI lists the files of the release."""
    return f"https://pypi.org/project/torch/{candidate.torch}/#files"


@rule("R302", reads="system")
def some_python_is_served(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """There is any Python at all for this platform."""
    if candidate.python is None:
        yield refuse("no-python", candidate, platform=question.platform, source=files_page(candidate))


@rule("R401", "install", "graft", reads="system", when=lambda question: question.libc is not None)
def glibc_is_new_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The C library is as new as the wheel's manylinux tag wants."""
    assert candidate.flavour is not None
    need = flavour_libc(candidate.flavour, candidate.torch, question.platform, question.facts)
    answer = libc_runs(need, question.libc)
    if answer.kind == "no":
        wheel = candidate.name.removeprefix("torch ")
        yield refuse(answer.code, candidate, wheel=wheel, need=answer.text, source=answer.source)


@rule("R403", "build")
def tools_run_here(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The C library runs what a build takes from the package index: CMake, Ninja, NumPy, MKL."""
    floor, source = tools_libc(question.facts)
    if libc_runs(floor, question.libc).kind == "no":
        yield refuse("glibc-too-old-to-build", candidate, floor=floor.version, have=question.glibc, source=source)


@rule("R402", "install")
def results_are_right(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Nobody reported that the wheel computes silently wrong on such a machine."""
    for hazard in hazards_met(candidate, question):
        if hazard.effect == "wrong":
            yield hazard_refusal(hazard, candidate.name, certain=False)


@rule("R501", "build")
def memory_is_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The largest single compilation fits into memory."""
    have, swap = question.memory_gib, question.machine.swap_gib
    cost = build_cost(candidate.torch, candidate.backend, question.facts)
    if memory_fits(have, swap, cost) is False:
        yield refuse("memory-small", candidate, cost=cost, have=have, source=cost.source[0])


@rule("R502", reads="system", when=lambda question: question.machine.disk_free_gib is not None)
def disk_suffices(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The tree and its objects, or the unpacked wheel, fit onto the disk."""
    have = question.machine.disk_free_gib or 0
    grafted = graft_cost(candidate.torch, question.facts) if candidate.answer == "graft" else None
    if grafted is not None:
        need, source = grafted.disk_gib, grafted.source[0]
    elif candidate.answer == "build":
        row = build_cost(candidate.torch, candidate.backend, question.facts)
        need, source = row.disk_gib, row.source[0]
    else:
        need, source = use_disk_gib(candidate.backend, question.facts), "installed sizes of published wheels"
    if have < need:
        yield refuse("disk-small", candidate, need=need, have=have, source=source)
