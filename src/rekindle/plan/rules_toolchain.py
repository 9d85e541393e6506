"""R3xx, R4xx and R5xx: Python, glibc and platforms, memory and disk. R2xx: do the sources, the toolkit and the compiler
go together? And the known hazards of combinations. What is said first of a candidate stands first here. Too little
memory or disk is a doubt, not a no: fewer jobs, swap or another disk can fix it. Before all rules comes what no torch
was ever made for (:func:`find_obstacle`), with one clear answer each."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from rekindle.compat.graft import graft_cost
from rekindle.compat.libc import Libc, flavour_libc, libc_runs, tools_libc
from rekindle.compat.resources import build_cost, memory_fits
from rekindle.compat.toolkit import compiler_span, find_visual_studio, newest_compiler, takes_compiler
from rekindle.model.plan import Change, Reason, Refusal
from rekindle.model.version import compare, key, matches, reaches
from rekindle.plan.candidates import Candidate, hazards_met, is_cured, python_span, pythons_of, same_python
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
    asked, served = question.wish.python or "", pythons_of(candidate, question)
    if any(same_python(asked, version) for version in served):
        return
    last, span, change = question.last_python, python_span(served), None
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
        need, source = question.facts.costs.use[candidate.backend].disk_gib, "installed sizes of published wheels"
    if have < need:
        yield refuse("disk-small", candidate, need=need, have=have, source=source)


# Proposed in this order. The last toolset of each Visual Studio, so that a link to it can be found.
GCC = ("gcc-13", "gcc-12", "gcc-11", "gcc-14", "gcc-10", "gcc-9", "gcc-8", "gcc-7", "gcc-6", "gcc-5", "gcc-4.9")
CLANG = ("clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang-13", "clang-12", "clang-11", "clang-10")
MSVC = ("msvc-19.29", "msvc-19.37", "msvc-19.39", "msvc-19.44", "msvc-19.16", "msvc-19.0")


def visual_studio(version: str) -> str:
    """2019 for 19.29."""
    major, toolset = (*key(version), 0)[:2]
    product = find_visual_studio(toolset) if major == 19 else None
    return product[1] if product else "of an unknown year"


def compiler_problems(compiler: str, candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """What speaks against it: nvcc, the sources, known hazards."""
    kind, _, version = compiler.partition("-")
    row = question.facts.toolkit(candidate.cuda) if candidate.cuda else None
    if version and row is not None and takes_compiler(row, kind, version) is False:
        rows = question.facts.cuda.toolkit
        takes = [v for v in reversed(question.facts.toolkits) if takes_compiler(rows[v], kind, version) is True]
        newer = f", or CUDA {takes[0]} or newer" if takes and compare(takes[0], candidate.cuda or "0") > 0 else ""
        best, spoken = f"{kind}-{newest_compiler(row, kind)}", compiler.replace("-", " ", 1)
        if kind == "msvc":
            best = f"the Visual Studio {row.visual_studio} toolset"
            spoken = f"MSVC {version} (Visual Studio {visual_studio(version)})"
        yield refuse(
            "host-compiler-rejected",
            candidate,
            rule="R202",
            compiler=compiler,
            spoken=spoken,
            span=compiler_span(row, kind),
            remedy=f"use {best}{newer}",
            source=row.host_source or row.source[0],
        )
    era = question.facts.era(candidate.torch)
    if kind == "gcc" and version and era.gcc_min and not reaches(version, era.gcc_min):
        yield refuse("compiler-too-old", candidate, rule="R203", compiler=compiler, era=era, source=era.source[0])
    for hazard in hazards_met(replace(candidate, compiler=compiler), question):
        if hazard.compiler is not None and hazard.effect == "breaks" and not is_cured(hazard):
            yield hazard_refusal(hazard, compiler, rule="R204")


def compiler_fits(compiler: str, candidate: Candidate, question: Question) -> bool:
    """Does nothing speak against it?"""
    return next(compiler_problems(compiler, candidate, question), None) is None


def choose_compiler(candidate: Candidate, question: Question) -> str | None:
    """The asked one, one the machine has, or the first proposal that fits; one that needs a patch comes after."""
    wish = question.wish.compiler
    if wish and compiler_fits(wish, candidate, question):
        return wish
    if wish is None:
        installed = [f"{compiler.kind}-{compiler.version}" for compiler in question.machine.compilers]
        # gcc first, even where it needs a patch: official Linux builds are made with it, and it brings OpenMP along.
        for kind in ("gcc-", "msvc-", "clang-"):
            of_kind = [name for name in installed if name.startswith(kind)]
            if (choice := _first_fitting(of_kind, candidate, question)) is not None:
                return choice
    proposals = _proposed_compilers(candidate, question)
    if wish is None:
        return _first_fitting(proposals, candidate, question)
    if wish.startswith("clang"):
        proposals = (*CLANG, *proposals)
    fitting = [name for name in proposals if compiler_fits(name, candidate, question)]
    # The nearest to what was asked for: usually the distribution has that one too.
    kind, _, number = wish.partition("-")
    older = [name for name in fitting if name.startswith(f"{kind}-") and compare(name.partition("-")[2], number) <= 0]
    return max(older, key=lambda name: key(name.partition("-")[2]), default=fitting[0] if fitting else None)


def _proposed_compilers(candidate: Candidate, question: Question) -> tuple[str, ...]:
    """On Windows those of the Visual Studio that official builds of this release are made with first, newest first;
    else the distribution's own, which its package manager has and whose libstdc++ every program there loads."""
    if question.machine.os.system == "windows":
        year = question.facts.era(candidate.torch).visual_studio
        same = [name for name in reversed(MSVC) if year and visual_studio(name.partition("-")[2]) == year]
        return (*same, *(name for name in MSVC if name not in same))
    row = question.distro_of(candidate.cuda)
    return (f"gcc-{row.gcc}", *GCC) if row is not None and row.gcc is not None and row.gcc >= 5 else GCC


def _first_fitting(names: Iterable[str], candidate: Candidate, question: Question) -> str | None:
    """The first that takes the sources as they are; else the first that does with a patch."""
    patched = None
    for name in names:
        if compiler_fits(name, candidate, question):
            if not any(map(is_cured, hazards_met(replace(candidate, compiler=name), question))):
                return name
            patched = patched or name
    return patched


@rule("R201", "build")
def toolkit_is_new_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The sources accept this CUDA."""
    era = question.facts.era(candidate.torch)
    if candidate.cuda is not None and era.cuda_min is not None and compare(candidate.cuda, era.cuda_min) < 0:
        yield refuse("cuda-too-old-for-source", candidate, era=era, source=era.source[-1])


@rule("R208", "build")
def toolkit_runs_here(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The toolkit's own programs run on this C library."""
    row = question.facts.toolkit(candidate.cuda) if candidate.cuda else None
    if row is not None and question.machine.os.system == "linux" and not question.tegra:
        answer = libc_runs(Libc("glibc", row.glibc), question.libc)
        if answer.kind == "no":
            yield refuse("glibc-too-old-for-toolkit", candidate, need=answer.text, source=row.source[-1])


@rule("R202", "build")
def compiler_is_taken(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """nvcc and the sources take the host compiler."""
    asked = question.wish.compiler
    if candidate.compiler is None:
        yield refuse("no-compiler", candidate, source=question.facts.era(candidate.torch).source[0])
    elif asked and candidate.compiler != asked:
        why = list(compiler_problems(asked, candidate, question))
        text = why[0].reason if why else f"{asked} does not build it."
        change = Change(what="compiler", from_=asked, to=candidate.compiler, why=text)
        yield from (msgspec.structs.replace(refusal, change=change) for refusal in why)


@rule("R203", "build")
def distribution_compiler_will_do(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The distribution's own gcc is new enough for the sources; else another compiler must come from outside."""
    row = question.distro_of(candidate.cuda)
    era = question.facts.era(candidate.torch)
    if row is None or row.gcc is None or era.gcc_min is None or question.wish.compiler or question.machine.compilers:
        return
    if row.gcc < key(era.gcc_min)[0]:
        change = ("compiler", f"gcc-{row.gcc}", candidate.compiler)
        yield refuse("compiler-too-old/system", candidate, row=row, era=era, source=era.source[0], change=change)


@rule("R204")
def no_known_hazard(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Nobody reported that this very combination breaks."""
    for hazard in hazards_met(candidate, question):
        # A compiler's hazard is a matter of choosing another one: R202.
        if hazard.effect == "breaks" and hazard.compiler is None and not is_cured(hazard):
            yield hazard_refusal(hazard, candidate.name)


@rule("R207", "build")
def sources_need_no_patch(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The sources build as they were released; a known defect that a patch of ours cures is a change of them."""
    for hazard in hazards_met(candidate, question):
        if is_cured(hazard):
            why = f"{hazard.text} The patch {hazard.patch} cures it"
            change = Change(what="sources", from_="as released", to=f"with the patch {hazard.patch}", why=why)
            yield hazard_refusal(hazard, candidate.name, change=change)


@rule("R205", "build")
def rocm_pair_is_known(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Somebody official built this torch with this major version of ROCm."""
    if candidate.rocm is None:
        return
    used = [flavour.rocm for flavour in question.facts.flavours(candidate.torch) if flavour.rocm]
    known = dict.fromkeys((*used, *question.paired_rocm(candidate.torch)))
    if not any(key(rocm)[0] == key(candidate.rocm)[0] for rocm in known):
        yield refuse("rocm-pair-unproven", candidate, official=", ".join(known) or "none that we know")


@rule("R206", "build")
def cuda_pair_is_known(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Official builds of this release used the same major version of CUDA, or it is known to build with this one."""
    if candidate.cuda is None:
        return
    major, rows = key(candidate.cuda)[0], question.facts.sources.evidence
    used = {flavour.cuda for flavour in question.facts.flavours(candidate.torch) if flavour.cuda}
    tried = any(matches(candidate.torch, row.torch) and matches(candidate.cuda, row.cuda) for row in rows)
    if used and not tried and not any(key(cuda)[0] == major for cuda in used):
        yield refuse("cuda-pair-unproven", candidate, major=major, official=", ".join(sorted(used, key=key)))
