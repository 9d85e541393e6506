"""Why the chosen candidate was chosen: sourced sentences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rekindle.compat import BACKENDS, flavour_backend
from rekindle.compat.driver import driver_runs
from rekindle.compat.libc import flavour_libc, libc_runs
from rekindle.compat.processor import wheel_starts
from rekindle.compat.toolkit import emits_for, toolkits_for
from rekindle.model.plan import Change, Reason, Refusal
from rekindle.model.spoken import capital, sentence
from rekindle.model.version import compare, key
from rekindle.plan.assess import PlanOutcome, assessed_builds
from rekindle.plan.candidates import Assessed, Candidate, python_span, pythons_of
from rekindle.plan.grafts import lacking_cards
from rekindle.plan.question import Question
from rekindle.plan.rules import RULES
from rekindle.plan.rules_gpu import card, needs_ptx
from rekindle.plan.sentences import refuse
from rekindle.plan.steps import FIRST_OWN_INDEX

_KITS = ("cuda", "rocm", "variant")
_PLATFORMS = {
    "linux_x86_64": "Linux",
    "linux_aarch64": "Linux on aarch64",
    "windows": "Windows",
    "windows_arm64": "Windows on Arm",
    "macos_x86_64": "macOS on Intel",
    "macos_arm64": "macOS",
}


def choice_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate = assessed.candidate
    if candidate.answer == "install":
        yield from _wheel_reasons(assessed, question)
    elif candidate.answer == "graft":
        yield from _graft_reasons(assessed, question)
    else:
        if assessed.evidence is not None:
            found = assessed.evidence
            yield Reason(code=f"evidence-{found.grade}", text=f"Evidence: {found.text}", source=found.source)
        yield from _build_reasons(candidate, question)
    yield from _cpu_reasons(candidate, question)


def _graft_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate, known = assessed.candidate, assessed.evidence
    text = f"{candidate.name} runs here but for its code for {lacking_cards(candidate, question)}, which a graft adds: "
    text += (
        "its own kernel files are compiled for it, and all else stays the official build. A build from source takes"
        " hours and lacks what only the official one has."
    )
    yield Reason(code="graft", text=text, source=known.source if known else None)
    if known is not None:
        yield Reason(code=f"evidence-{known.grade}", text=f"Evidence: {known.text}", source=known.source)


def _wheel_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate = assessed.candidate
    flavour = candidate.flavour
    assert flavour is not None
    for gpu, coverage in assessed.covered:
        if coverage.kind == "unknown":
            continue
        subject = f"the wheel {candidate.torch}+{flavour.name}"
        yield Reason(code="wheel-has-code", text=f"{card(gpu)}: {subject} {coverage.text}.", source=coverage.source)
    known = python_span(pythons_of(candidate, question))
    where = _PLATFORMS[question.platform]
    yield Reason(
        code="wheel-exists",
        text=f"{candidate.name} is published for Python {known} on {where}.",
        source=f"https://pypi.org/project/torch/{candidate.torch}/#files",
    )
    if candidate.wheel:
        yield Reason(code="wheelhouse", text=f"A wheel that fits lies in the wheelhouse: {candidate.wheel}")
    elif candidate.backend != "cpu" and question.platform == "windows":
        old = compare(candidate.torch, FIRST_OWN_INDEX) < 0
        where = "PyTorch's own page of files (-f)" if old else "an index of its own (--index-url)"
        text = f"PyPI has no CUDA or ROCm wheels for Windows; this one is on {where}."
        yield Reason(code="windows-index", text=text, source="https://pypi.org/project/torch/#files")
    if flavour.publisher == "amd":
        text = (
            f"AMD builds these wheels itself (TheRock, ROCm {candidate.rocm});"
            " download.pytorch.org has no ROCm wheels for Windows and fewer targets."
        )
        yield Reason(code="amd-index", text=text, source=flavour.source[0])
    if candidate.cuda and question.driver and not question.tegra:
        ptx = needs_ptx(candidate, question)
        drives = driver_runs(question.driver, candidate.cuda, question.sms, question.side, question.facts, ptx=ptx)
        if drives.kind == "yes":
            yield Reason(code="driver-fits", text=sentence(drives.text), source=drives.source)
    if question.wish.cuda and candidate.cuda:
        yield _brings_cuda(candidate, question)
    if question.wish.rocm and candidate.rocm and candidate.rocm != question.wish.rocm:
        text = (
            f"A wheel needs no ROCm on the system: it brings its own ROCm {candidate.rocm} libraries. The installed"
            f" ROCm {question.wish.rocm} may stay as it is; only the kernel driver (amdgpu) is shared."
        )
        yield Reason(code="wheel-brings-rocm", text=text, source="https://pytorch.org/get-started/locally")
    libc = libc_runs(flavour_libc(flavour, candidate.torch, question.platform, question.facts), question.libc)
    if libc.kind == "yes" and libc.reasons:
        yield Reason(code="glibc-fits", text=f"The C library is new enough: the wheel {libc.text}.", source=libc.source)


def _brings_cuda(candidate: Candidate, question: Question) -> Reason:
    """A wheel needs no toolkit; what the asked one is still good for."""
    asked = question.wish.cuda
    text = (
        f"A wheel needs no CUDA toolkit: it brings its own CUDA {candidate.cuda} runtime. The installed CUDA {asked}"
        " may stay as it is; it is only used to compile extensions"
    )
    newest = max(question.sms, default=None)
    able = toolkits_for(newest, question.facts) if newest else ()
    if able and asked and compare(asked, able[0]) < 0:
        text += f", and for {newest} those take CUDA {able[0]} or newer"
    return Reason(code="wheel-brings-cuda", text=text + ".", source="https://pytorch.org/get-started/locally")


def _build_reasons(candidate: Candidate, question: Question) -> Iterator[Reason]:
    if candidate.backend == "cuda":
        row = question.facts.toolkit(candidate.cuda or "")
        cuda, facts = candidate.cuda or "", question.facts
        targets = ", ".join(f"{sm} ({sm.dotted})" for sm in question.sms if emits_for(cuda, sm, facts) == sm)
        if row is not None and targets:
            text = f"CUDA {cuda} compiles for {targets}; build with TORCH_CUDA_ARCH_LIST set to it."
            yield Reason(code="cuda-targets-arch", text=text, source=row.source[0])
        for sm in question.sms if row is not None else ():
            near = emits_for(cuda, sm, facts)
            if row is not None and near is not None and near != sm:
                own = toolkits_for(sm, facts)[0]
                text = (
                    f"CUDA {cuda} does not know {sm} ({sm.dotted}); it is built for {near.dotted}, which runs there"
                    f" (CUDA {own} and newer know the card itself)."
                )
                yield Reason(code="cuda-targets-sibling", text=text, source=row.source[0])
        if row is not None and not question.sms:
            text = "No card is named, so TORCH_CUDA_ARCH_LIST is left out and the build takes the cards it finds"
            reach = f"CUDA {cuda} can do {row.sass[0]} to {row.sass[-1]}"
            yield Reason(code="cuda-targets-arch", text=f"{text} ({reach}).", source=row.source[0])
    elif candidate.backend == "rocm":
        text = "No card is named, so PYTORCH_ROCM_ARCH is left out and the build takes the cards it finds."
        if question.gfxs:
            targets = ", ".join(map(str, question.gfxs))
            text = f"Built from source for {targets}: PYTORCH_ROCM_ARCH={';'.join(map(str, question.gfxs))}."
        yield Reason(code="rocm-targets-arch", text=text)
    else:
        yield Reason(code="build-asked", text=f"torch {candidate.torch} is built from source for the CPU.")


def why_no_wheel(outcome: PlanOutcome) -> Iterator[Reason]:
    """For a build (or a graft) nobody insisted on: what stands against the wheels nearest to the wish."""
    question, best = outcome.question, outcome.best
    way = "a graft" if best is not None and best.candidate.answer == "graft" else "a source build"
    wanted = [one for one in outcome.wheels if question.wants_torch(one.candidate.torch)] or outcome.wheels
    wanted = [one for one in wanted if not any(change.what in _KITS for change in one.changes)] or wanted
    refused = [(one, [r for r in one.refusals if r.change is None and r.certain]) for one in wanted]
    refused = [(one, why) for one, why in refused if why]
    if not refused:
        text = f"No official wheel keeps what was asked for, so it takes {way}."
        if not outcome.wheels:
            text = f"No official wheel of this kind exists for {_PLATFORMS[question.platform]}: it takes {way}."
        yield Reason(code="no-wheel-serves", text=text, source="wheels table (rekindle facts show wheels)")
        return
    nearest, why = min(refused, key=lambda pair: (any(r.code == "gpu-not-in-wheel" for r in pair[1]), len(pair[1])))
    listed = ", ".join(card(gpu) for gpu in question.gpus)
    if all(any(r.code == "gpu-not-in-wheel" for r in reasons) for _, reasons in refused) and listed:
        text = f"{_none_has_code(outcome)} has code for {listed}: it takes {way}."
        yield Reason(code="no-wheel-serves", text=text, source="wheels table (rekindle facts show wheels)")
        return
    text = f"No official wheel will do, so it takes {way}. The nearest is {nearest.candidate.name}. "
    text += why[0].reason + (f" Easier than a build: {why[0].remedy}." if why[0].remedy else "")
    yield Reason(code=why[0].code, text=text, source=why[0].source)


def _none_has_code(outcome: PlanOutcome) -> str:
    """Which wheels that is said of: all of them, all that keep the wish, or all newer than the last that has code."""
    if outcome.question.torch is not None:
        return "No official wheel of the asked torch"
    older = [one.candidate for one in outcome.wheels if one.feasible and not one.changes and not one.doubts]
    if not older:
        return "No official wheel that keeps the wish" if outcome.question.asked else "No official wheel"
    last = max(older, key=lambda one: key(one.torch))
    python = f" (Python {last.python})" if last.python else ""
    return f"No official wheel after {last.name}{python}"


def _cpu_reasons(candidate: Candidate, question: Question) -> Iterator[Reason]:
    name = question.machine.cpu.microarchitecture or question.machine.cpu.name or "this CPU"
    if question.cpu_features is None or not question.cpu_lacks(("avx2", "fma")):
        return
    missing = [f.upper() for f in ("avx", "avx2", "fma") if question.cpu_lacks((f,))]
    if candidate.answer == "build":
        text = (
            f"{name} has no {', '.join(missing)}: the kernels are compiled for it and the AVX2 and AVX512 sets are left"
            f" out (CXX_AVX2_FOUND=OFF); -mfma or -mavx2 would crash. Official wheels dispatch at run time anyway."
        )
        yield Reason(code="cpu-dispatch", text=text, source="ATen/native/DispatchStub.cpp")
        return
    seen = wheel_starts(candidate.torch, question.cpu_features, question.facts, question.arch)
    said = {"yes": f" It was {seen.text}.", "partly": f" It {seen.text}.", "unknown": f" But {seen.text}."}
    text = (
        f"{name} has no {', '.join(missing)}, and needs no build for that: wheels hold default kernels beside"
        f" the AVX2 ones and choose at run time (dispatch; ATEN_CPU_CAPABILITY).{said.get(seen.kind, '')}"
    )
    yield Reason(code="cpu-dispatch", text=text, source=seen.source or "ATen/native/DispatchStub.cpp")


_MANY = 6
# Which departure a rule's refusal explains, best first (docs/rules.md has the rules by their numbers).
_EXPLAINS = {
    "cuda": ("R111", "R201", "R202", "R102", "R115", "R204", "R206"),
    "rocm": ("R114", "R116", "R118", "R205"),
    "torch": ("R112", "R113", "R101", "R103", "R401", "R301", "R302", "R111", "R114", "R102", "R002", "R204", "R201"),
    "variant": ("R002", "R101", "R103", "R102", "R401", "R301", "R204"),
}


def explain_change(change: Change, departures: set[str], against: list[Refusal], candidate: Candidate) -> Change:
    """A departure from the wish gets the reason the asked value was refused for."""
    if change.what not in departures:
        return change
    rules = _EXPLAINS.get(change.what, ())
    if candidate.answer != "build":  # what is wrong with the asked wheel comes before what is wrong with a build
        rules = tuple(sorted(rules, key=lambda number: "install" not in RULES[number].applies))
    fitting = [refusal for refusal in against if refusal.rule in rules]
    if not fitting:
        return change
    best = min(fitting, key=lambda refusal: rules.index(refusal.rule or ""))
    return Change(what=change.what, from_=change.from_, to=change.to, why=best.reason)


def wheel_instead(against: list[Refusal]) -> Change:
    """A build was insisted on and none is possible: a wheel is not what was asked for, and the reason comes with it."""
    in_the_way = [one for one in against if one.rule in RULES and "build" in RULES[one.rule].applies]
    why = in_the_way[0].reason if in_the_way else "no build is known to work here."
    return Change(what="build", from_="from source", to="a published wheel", why=why)


def against_the_wish(outcome: PlanOutcome) -> list[Refusal]:
    """Why the wish as it stands does not work: what was refused about the candidates nearest to it."""
    question = outcome.question
    found: list[Refusal] = []
    asked_flavour = question.flavour
    wheels = [assessed for assessed in outcome.wheels if question.wants_torch(assessed.candidate.torch)]
    if asked_flavour is not None:
        exact = [each for each in wheels if each.candidate.flavour and each.candidate.flavour.name == asked_flavour]
        if not exact:
            found.append(_never_published(question, asked_flavour))
        wheels = exact or wheels
    elif question.torch is not None and not wheels and not question.wish.build:
        found.append(_no_wheel_of(question))
    if question.wish.cuda:
        same = [assessed for assessed in wheels if all(change.what != "cuda" for change in assessed.changes)]
        wheels = same or wheels
    if not question.wish.build and set(question.asked) & {"torch", "variant", "cuda", "rocm"}:
        nearest = sorted(wheels, key=lambda each: sum(not refusal.departure for refusal in each.refusals))
        for assessed in nearest[:2]:
            found += [refusal for refusal in assessed.refusals if not refusal.departure]
    wants_build = question.wish.build or question.wish.cuda or question.wish.compiler or question.wish.rocm
    if (wants_build and asked_flavour is None) or question.torch is not None:
        version = question.wanted_releases[:1] if question.torch else _built_version(outcome)
        for assessed in itertools.islice(assessed_builds(question, version, every=True), 1):
            found += [refusal for refusal in assessed.refusals if not refusal.departure]
    if question.wish.cudnn:
        found += [refusal for assessed in wheels[:1] for refusal in assessed.refusals if refusal.rule == "R004"]
    unique = {(refusal.code, refusal.reason): refusal for refusal in found}
    return list(unique.values())[:_MANY]


def _built_version(outcome: PlanOutcome) -> tuple[str, ...]:
    best = outcome.best
    return (best.candidate.torch,) if best else outcome.question.wanted_releases[:1]


def _never_published(question: Question, flavour: str) -> Refusal:
    version = question.wanted_releases[0]
    names = [
        row.name
        for row in question.facts.flavours(version)
        if question.platform in BACKENDS[flavour_backend(row)].platforms(row)
    ]
    name = "flavour-never-published" if names else "flavour-never-published/none"
    values = {"version": version, "flavour": flavour, "platform": question.platform, "names": ", ".join(names)}
    return refuse(name, None, rule="R002", **values)


def _no_wheel_of(question: Question) -> Refusal:
    version = question.wanted_releases[0]
    kind = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "cpu": "CPU"}[question.backend]
    where = question.platform.replace("_", " ")
    return refuse("release-never-published", None, rule="R002", kind=kind, version=version, where=where)


def refusal_reasons(refusals: list[Refusal]) -> list[Reason]:
    return [
        Reason(
            code=refusal.code,
            text=capital(refusal.reason) + (f" {sentence(refusal.remedy)}" if refusal.remedy else ""),
            source=refusal.source,
        )
        for refusal in refusals
    ]


def commonest_refusals(outcome: PlanOutcome) -> list[Refusal]:
    found: dict[str, Refusal] = {}
    for assessed in (*outcome.builds, *outcome.wheels):
        for refusal in assessed.refusals:
            if refusal.change is None and refusal.certain:
                found.setdefault(refusal.code, refusal)
    return list(found.values())[:_MANY]
