"""Why the chosen candidate was chosen: sourced sentences."""

import itertools
from collections.abc import Iterator

import msgspec

from rekindle.compat import BACKENDS, flavour_backend
from rekindle.compat.backends import PLATFORM_NAMES
from rekindle.compat.libc import flavour_libc, libc_runs
from rekindle.compat.processor import wheel_starts
from rekindle.compat.toolkit import emits_for, toolkits_for
from rekindle.model.plan import Change, Reason, Refusal
from rekindle.model.spoken import capital, sentence
from rekindle.model.version import compare, key
from rekindle.plan.assess import PlanOutcome, assessed_builds
from rekindle.plan.candidates import Assessed, Candidate, python_span, pythons_of
from rekindle.plan.grafts import lacking_archs
from rekindle.plan.question import Question
from rekindle.plan.rules import RULES, refuse, say
from rekindle.plan.rules_gpu import card, driver_answer
from rekindle.plan.rules_toolchain import files_page
from rekindle.plan.steps import FIRST_OWN_INDEX

_KITS = ("cuda", "rocm", "variant")


def choice_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate = assessed.candidate
    evidence = assessed.evidence
    if candidate.answer == "install":
        yield from _wheel_reasons(assessed, question)
    if candidate.answer == "graft":
        lacking = lacking_archs(candidate, question)
        cards = ", ".join(card(gpu) for gpu in question.gpus if gpu.arch in lacking)
        yield say("graft", candidate, cards=cards, source=evidence.source if evidence else None)
    if candidate.answer != "install" and evidence is not None:
        yield Reason(code=f"evidence-{evidence.grade}", text=f"Evidence: {evidence.text}", source=evidence.source)
    if candidate.answer == "build":
        yield from _build_reasons(candidate, question)
    if question.cpu_lacks(("avx2", "fma")):
        yield _cpu_reason(candidate, question)


def _wheel_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate = assessed.candidate
    flavour = candidate.flavour
    assert flavour is not None
    for gpu, coverage in assessed.covered:
        if coverage.kind != "unknown":
            yield say("wheel-has-code", candidate, card=card(gpu), seen=coverage.text, source=coverage.source)
    span, where = python_span(pythons_of(candidate, question)), PLATFORM_NAMES[question.platform].short
    yield say("wheel-exists", candidate, known=span, where=where, source=files_page(candidate))
    if candidate.wheel:
        yield say("wheelhouse", candidate)
    elif candidate.backend != "cpu" and question.platform == "windows":
        old = compare(candidate.torch, FIRST_OWN_INDEX) < 0
        where = "PyTorch's own page of files (-f)" if old else "an index of its own (--index-url)"
        yield say("windows-index", where=where)
    if flavour.publisher == "amd":
        yield say("amd-index", candidate, source=flavour.source[0])
    if candidate.cuda and question.driver and not question.tegra:
        drives = driver_answer(question.driver, candidate, question)
        if drives.kind == "yes":
            yield Reason(code="driver-fits", text=sentence(drives.text), source=drives.source)
    if question.wish.cuda and candidate.cuda:
        # A wheel needs no toolkit; what the asked one is still good for.
        asked, newest = question.wish.cuda, max(question.sms, default=None)
        able = toolkits_for(newest, question.facts) if newest else ()
        more = f", and for {newest} those take CUDA {able[0]} or newer" if able and compare(asked, able[0]) < 0 else ""
        yield say("wheel-brings-cuda", candidate, asked=asked, more=more)
    if question.wish.rocm and candidate.rocm and candidate.rocm != question.wish.rocm:
        yield say("wheel-brings-rocm", candidate, asked=question.wish.rocm)
    libc = libc_runs(flavour_libc(flavour, candidate.torch, question.platform, question.facts), question.libc)
    if libc.kind == "yes" and libc.code:
        yield say("glibc-fits", need=libc.text, source=libc.source)


def _build_reasons(candidate: Candidate, question: Question) -> Iterator[Reason]:
    if candidate.backend == "cuda":
        cuda, facts = candidate.cuda or "", question.facts
        if (row := facts.toolkit(cuda)) is None:
            return
        source = row.source[0]
        targets = [f"{sm} ({sm.dotted})" for sm in question.sms if emits_for(cuda, sm, facts) == sm]
        if targets:
            yield say("cuda-targets-arch", candidate, targets=", ".join(targets), source=source)
        for sm in question.sms:
            near = emits_for(cuda, sm, facts)
            if near is not None and near != sm:
                own = toolkits_for(sm, facts)[0]
                yield say("cuda-targets-sibling", candidate, sm=sm, near=near, own=own, source=source)
        if not question.sms:
            yield say("cuda-targets-arch/unnamed", candidate, sass=row.sass, last=row.sass[-1], source=source)
    elif candidate.backend == "rocm" and question.gfxs:
        names = [str(gfx) for gfx in question.gfxs]
        yield say("rocm-targets-arch", targets=", ".join(names), listed=";".join(names))
    elif candidate.backend == "rocm":
        yield say("rocm-targets-arch/unnamed")
    else:
        yield say("build-asked", candidate)


def why_no_wheel(outcome: PlanOutcome) -> Iterator[Reason]:
    """For a build (or a graft) nobody insisted on: what stands against the wheels nearest to the wish."""
    question, best = outcome.question, outcome.best
    way = "a graft" if best is not None and best.candidate.answer == "graft" else "a source build"
    wheels = [wheel for wheel in outcome.wheels if question.wants_torch(wheel.candidate.torch)] or outcome.wheels
    wheels = [wheel for wheel in wheels if not any(change.what in _KITS for change in wheel.changes)] or wheels
    every = [(wheel, [no for no in wheel.refusals if no.change is None and no.certain]) for wheel in wheels]
    refused = [(wheel, why) for wheel, why in every if why]
    if not refused:
        why_not = "kept" if outcome.wheels else "platform"
        yield say(f"no-wheel-serves/{why_not}", way=way, where=PLATFORM_NAMES[question.platform].short)
        return
    nearest, why = min(refused, key=lambda pair: (any(r.code == "gpu-not-in-wheel" for r in pair[1]), len(pair[1])))
    listed = ", ".join(card(gpu) for gpu in question.gpus)
    if all(any(r.code == "gpu-not-in-wheel" for r in reasons) for _, reasons in refused) and listed:
        yield say("no-wheel-serves", none=_none_has_code(outcome), cards=listed, way=way)
        return
    text = f"No official wheel will do, so it takes {way}. The nearest is {nearest.candidate.name}. "
    text += why[0].reason + (f" Easier than a build: {why[0].remedy}." if why[0].remedy else "")
    yield Reason(code=why[0].code, text=text, source=why[0].source)


def _none_has_code(outcome: PlanOutcome) -> str:
    """Which wheels that is said of: all of them, all that keep the wish, or all newer than the last that has code."""
    if outcome.question.torch is not None:
        return "No official wheel of the asked torch"
    older = [way.candidate for way in outcome.wheels if way.feasible and not way.changes and not way.doubts]
    if not older:
        return "No official wheel that keeps the wish" if outcome.question.asked else "No official wheel"
    last = max(older, key=lambda candidate: key(candidate.torch))
    python = f" (Python {last.python})" if last.python else ""
    return f"No official wheel after {last.name}{python}"


def _cpu_reason(candidate: Candidate, question: Question) -> Reason:
    name = question.machine.cpu.microarchitecture or question.machine.cpu.name or "this CPU"
    missing = ", ".join(f.upper() for f in ("avx", "avx2", "fma") if question.cpu_lacks((f,)))
    if candidate.answer == "build":
        return say("cpu-dispatch/build", name=name, missing=missing)
    start = wheel_starts(candidate.torch, question.cpu_features, question.facts, question.arch)
    outlook = {"yes": f" It was {start.text}.", "partly": f" It {start.text}.", "unknown": f" But {start.text}."}
    return say("cpu-dispatch", name=name, missing=missing, outlook=outlook.get(start.kind, ""), source=start.source)


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
    rules = _EXPLAINS.get(change.what, ()) if change.what in departures else ()
    if candidate.answer != "build":  # what is wrong with the asked wheel comes before what is wrong with a build
        rules = tuple(sorted(rules, key=lambda number: "install" not in RULES[number].applies))
    fitting = [refusal for refusal in against if refusal.rule in rules]
    best = min(fitting, key=lambda refusal: rules.index(refusal.rule or ""), default=None)
    return msgspec.structs.replace(change, why=best.reason) if best else change


def wheel_instead(against: list[Refusal]) -> Change:
    """A build was insisted on and none is possible: a wheel is not what was asked for, and the reason comes with it."""
    in_the_way = [refusal for refusal in against if refusal.rule in RULES and "build" in RULES[refusal.rule].applies]
    why = in_the_way[0].reason if in_the_way else "no build is known to work here."
    return Change(what="build", from_="from source", to="a published wheel", why=why)


def against_the_wish(outcome: PlanOutcome) -> list[Refusal]:
    """Why the wish as it stands does not work: what was refused about the candidates nearest to it."""
    question = outcome.question
    refusals: list[Refusal] = []
    asked_flavour = question.flavour
    wheels = [assessed for assessed in outcome.wheels if question.wants_torch(assessed.candidate.torch)]
    if asked_flavour is not None:
        version, platform = question.wanted_releases[0], question.platform
        exact = [each for each in wheels if each.candidate.variant == asked_flavour]
        if not exact:
            rows = question.facts.flavours(version)
            names = [row.name for row in rows if platform in BACKENDS[flavour_backend(row)].platforms(row)]
            name = "flavour-never-published" if names else "flavour-never-published/none"
            listed, flavour = ", ".join(names), asked_flavour
            refusals.append(
                refuse(name, None, rule="R002", version=version, flavour=flavour, platform=platform, names=listed)
            )
        wheels = exact or wheels
    elif question.torch is not None and not wheels and not question.wish.build:
        kind = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "cpu": "CPU"}[question.backend]
        version, where = question.wanted_releases[0], question.platform.replace("_", " ")
        refusals.append(refuse("release-never-published", None, rule="R002", kind=kind, version=version, where=where))
    if question.wish.cuda:
        same = [assessed for assessed in wheels if all(change.what != "cuda" for change in assessed.changes)]
        wheels = same or wheels
    nearest: list[Assessed] = []
    if not question.wish.build and set(question.asked) & {"torch", "variant", "cuda", "rocm"}:
        nearest += sorted(wheels, key=lambda each: sum(not refusal.departure for refusal in each.refusals))[:2]
    wants_build = question.wish.build or question.wish.cuda or question.wish.compiler or question.wish.rocm
    if (wants_build and asked_flavour is None) or question.torch is not None:
        best = outcome.best if question.torch is None else None
        versions = (best.candidate.torch,) if best else question.wanted_releases[:1]
        nearest += itertools.islice(assessed_builds(question, versions, every=True), 1)
    refusals += [refusal for each in nearest for refusal in each.refusals if not refusal.departure]
    for assessed in outcome.feasible[:1]:
        refusals += [refusal for refusal in assessed.refusals if refusal.rule == "R004"]  # the cuDNN that is not kept
    return list({(refusal.code, refusal.reason): refusal for refusal in refusals}.values())[:_MANY]


def refusal_reasons(refusals: list[Refusal]) -> list[Reason]:
    return [
        Reason(code=no.code, text=" ".join((capital(no.reason), *told)), source=no.source)
        for no in refusals
        for told in [(sentence(no.remedy),) if no.remedy else ()]
    ]


def commonest_refusals(outcome: PlanOutcome) -> list[Refusal]:
    by_code: dict[str, Refusal] = {}
    every = (no for assessed in (*outcome.builds, *outcome.wheels) for no in assessed.refusals)
    for refusal in (no for no in every if no.change is None and no.certain):
        by_code.setdefault(refusal.code, refusal)
    return list(by_code.values())[:_MANY]
