"""What the user of a plan must know beforehand: cards left out, drivers, limits, known hazards; sourced sentences."""

from collections.abc import Iterator

from rekindle.compat.driver import card_drivers, driver_runs, intel_driver, wanted_driver
from rekindle.compat.hazards import ever_supported, lost_features
from rekindle.compat.processor import wheel_starts
from rekindle.compat.toolkit import last_cudnn
from rekindle.model.arch import Sm
from rekindle.model.plan import CUDNN_SWITCH, Reason
from rekindle.model.spoken import sentence, spoken_months
from rekindle.model.version import compare, key, minor
from rekindle.plan.assess import PlanOutcome
from rekindle.plan.candidates import Assessed, Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import say
from rekindle.plan.rules_gpu import card, needs_ptx, source_end
from rekindle.plan.steps import cudnn_package, lasting_env


def warnings_for(assessed: Assessed, outcome: PlanOutcome, cudnn: str | None) -> Iterator[Reason]:
    """What the user of this plan must know beforehand: first of the cards, then of the software, then of the CPU.
    ``cudnn`` is the one it is planned with."""
    question, candidate = outcome.question, assessed.candidate
    yield from _cards_not_served(outcome)
    yield from _price_of_sharing(outcome)
    yield from _how_long_it_holds(assessed, outcome)
    yield from hopeless_cards(question)
    yield from _driver_needed(candidate, question)
    if question.old_system is not None:
        old, name = question.old_system, "old-windows" if candidate.cuda else "old-windows/cpu"
        yield say(name, old=old, source=old.source[0])
    yield from _intel_gpus(candidate, question)
    yield from _cards_in_doubt(question)
    for refusal in assessed.doubts:
        remedy = f" {sentence(refusal.remedy)}" if refusal.remedy else ""
        lead = "" if refusal.rule == "R402" else "Cannot tell for sure: "
        yield Reason(code=refusal.code, text=f"{lead}{refusal.reason}{remedy}", source=refusal.source)
    yield from _code_in_doubt(assessed, question)
    yield from _card_limits(candidate, question)
    yield from _cudnn_by_hand(candidate, cudnn, question)
    versions = [python.version for python in question.machine.pythons]
    if versions and candidate.python and not question.had_python((candidate.python,)):
        yield say("python-missing", candidate, have=", ".join(versions))
    for hazard in assessed.hazards:
        if hazard.effect == "wrong":
            continue  # told above
        handled = candidate.answer == "build" and bool(hazard.env or hazard.cmake or hazard.patch)
        text = f"{hazard.text} {hazard.remedy}"
        yield Reason(code=hazard.id, text=text, source=hazard.source[0], handled=handled)
    yield from _without_card(question)
    yield from _on_this_cpu(candidate, question)


def _cards_not_served(outcome: PlanOutcome) -> Iterator[Reason]:
    clash = outcome.driver_clash
    for gpu in outcome.unserved:
        why = clash.text if clash else "no torch serves all cards"
        if outcome.whole is not None:
            old = outcome.whole.best.candidate
            way = "official wheel" if old.answer == "install" else old.answer
            why = f"the {way} that serves all cards is {_how_much_older(old, outcome.best, outcome)} ({old.name})"
        yield say("gpu-not-served", card=card(gpu), why=why, source=clash.source if clash else None)


def _price_of_sharing(outcome: PlanOutcome) -> Iterator[Reason]:
    """One torch for all cards, and a newer one for some of them: how much older it is, and what they go without."""
    best, question = outcome.best, outcome.question
    newer = [
        alone
        for alone in outcome.alone
        if best and compare(alone.best.candidate.torch, best.candidate.torch) > 0 and not outcome.unserved
    ]
    if best is None or not newer:
        return
    alone = max(newer, key=lambda group: key(group.best.candidate.torch))
    theirs, ours = alone.best.candidate, best.candidate
    names = ", ".join(map(card, alone.gpus))
    other_cuda = ours.cuda and theirs.cuda and minor(ours.cuda) != minor(theirs.cuda)
    row = question.facts.release(ours.torch)
    yield say(
        "older-for-all",
        theirs,
        older=_how_much_older(ours, alone.best, outcome),
        names=names,
        since=minor(ours.torch),
        more=f" and without CUDA {theirs.cuda}" if other_cuda else "",
        source=row.source[0] if row else None,
    )


def _how_long_it_holds(assessed: Assessed, outcome: PlanOutcome) -> Iterator[Reason]:
    """Where newer releases have no wheel for a card any more: this is the last, and so is its driver branch."""
    question, candidate = outcome.question, assessed.candidate
    if candidate.answer != "install" or question.torch is not None:
        return
    newer = [wheel for wheel in outcome.wheels if compare(minor(wheel.candidate.torch), minor(candidate.torch)) > 0]
    if not newer:
        return
    ended = [no for wheel in newer for no in wheel.refusals if no.code == "gpu-not-in-wheel"]
    if len({no.what for no in ended}) < len(newer):
        return
    newest = max((wheel.candidate.torch for wheel in newer), key=key)
    drivers = [card_drivers(sm, question.side, question.facts) for sm in question.sms]
    ending = min((row for row in drivers if row.last), key=lambda row: row.last or 0, default=None)
    branch = f"; R{ending.last} is the last driver branch too" if ending else ""
    if ending and ending.fixes:
        branch += f", {ending.fixes}"
    cards = " and ".join(dict.fromkeys(map(card, question.gpus)))
    cards += " together" if len({gpu.arch for gpu in question.gpus}) > 1 else ""
    yield say("last-torch", candidate, cards=cards, newest=newest, branch=branch, source=ended[0].source)


def _how_much_older(old: Candidate, new: Assessed | None, outcome: PlanOutcome) -> str:
    """``17 months older``, by the days of the two releases."""
    release = outcome.question.facts.release
    first, last = release(old.torch), release(new.candidate.torch) if new else None
    return f"{spoken_months(first.released, last.released)} older" if first and last else "older"


def _cards_in_doubt(question: Question) -> Iterator[Reason]:
    """Cards of the other maker, and names that several chips go by."""
    for gpu in question.usable_gpus:
        named = (*question.gpus, *question.idle_gpus)
        if gpu not in named and gpu.arch not in [other.arch for other in named]:
            yield say("other-vendor-unused", card=card(gpu))
        if gpu in question.idle_gpus:
            source = question.facts.rocm.integrated[0].source[0]
            yield say("graphics-beside-card", card=card(gpu), source=source)
        if gpu.possible:
            yield say("gpu-name-ambiguous", gpu=gpu, others=", ".join(map(str, gpu.possible)))


def _code_in_doubt(assessed: Assessed, question: Question) -> Iterator[Reason]:
    """Code that runs only by a switch, or of which nobody can say whether it runs."""
    if assessed.candidate.answer == "install" and lasting_env(assessed, question).get(CUDNN_SWITCH):
        yield say("cudnn-off", assessed.candidate, cards=", ".join(map(card, question.gpus)))
    for _, coverage in assessed.covered:
        if coverage.kind == "override":
            assignment = " ".join(f"{name}={value}" for name, value in coverage.env)
            yield say("hsa-override", assignment=assignment, source=coverage.source)
        if coverage.kind == "unknown":
            yield say("gpu-unknown")


def _without_card(question: Question) -> Iterator[Reason]:
    mac = question.platform.startswith("macos")
    if mac and question.arch == "aarch64":
        yield say("mps")
    named = question.machine.gpus or question.flavour is not None or question.no_gpu or mac
    if question.backend == "cpu" and not named:
        yield say("no-gpu-named")


def _on_this_cpu(candidate: Candidate, question: Question) -> Iterator[Reason]:
    start = wheel_starts(candidate.torch, question.cpu_features, question.facts, question.arch)
    cpu = question.machine.cpu
    if cpu.name and question.cpu_features is None and question.arch in ("x86_64", "aarch64"):
        yield Reason(code=start.code, text=say(f"cpu-not-known/{question.arch}", cpu=cpu).text)
    if candidate.answer != "build" and start.kind == "partly":
        yield Reason(code=start.code, text=f"On this CPU it {start.text}.", source=start.source)
    if candidate.answer != "build" and start.kind == "unknown" and question.cpu_lacks(("avx2", "fma")):
        yield Reason(code=start.code, text=f"Cannot tell for sure: {start.text}.", source=start.source)


def hopeless_cards(question: Question) -> Iterator[Reason]:
    """What is the matter with each card that no torch can use."""
    for gpu in question.hopeless_gpus:
        if gpu.vendor == "intel" and question.backend != "cpu":
            continue  # graphics inside the processor, beside a card that computes
        end = source_end(gpu.arch, question.facts) if isinstance(gpu.arch, Sm) else None
        ever = ever_supported(gpu, question.facts)
        if question.machine.os.system == "macos":
            why = "macos"
        elif question.platform == "windows_arm64":
            why = "windows-arm"
        elif end is not None:
            why = "ended"
        elif gpu.vendor == "intel":
            why = "intel-unknown" if gpu.arch is None else "intel"
        else:
            why = "rocm-windows" if ever.kind != "no" else "rocm"
        note = (end and end.note) or "supported by no torch"
        source = end.source[0] if end else None
        yield say(f"gpu-unsupported/{why}", card=card(gpu), ever=ever.text, end=note, source=source)


def _cudnn_by_hand(candidate: Candidate, cudnn: str | None, question: Question) -> Iterator[Reason]:
    if (
        candidate.answer != "build"
        or cudnn is None
        or question.tegra
        or any(kit.kind == "cudnn" for kit in question.machine.toolkits)
    ):
        return
    if cudnn_package(candidate, cudnn, question) is None:
        yield say("cudnn-by-hand", cudnn=cudnn)


def _intel_gpus(candidate: Candidate, question: Question) -> Iterator[Reason]:
    """Which driver the XPU wheels were validated with, how a GPU is chosen, and what became of Intel's extension."""
    rows = [row for gpu in question.gpus if (row := question.facts.xe_generation(gpu.arch))]
    if candidate.backend != "xpu" or not rows:
        return
    driver = intel_driver(rows[0], question.side)
    if driver:
        yield say(f"driver-needed/intel-{question.side}", driver=driver, source=rows[0].source[0])
    yield say("xpu", triton="triton-xpu" if compare(candidate.torch, "2.10") >= 0 else "pytorch-triton-xpu")
    shared = [gpu for gpu in question.machine.gpus if gpu.vendor == "intel" and gpu.arch not in (None, rows[0].arch)]
    if shared:
        yield say("xpu-selection", card=card(shared[0]))


def _driver_needed(candidate: Candidate, question: Question) -> Iterator[Reason]:
    if candidate.cuda and not question.driver and not question.tegra:
        ptx = needs_ptx(candidate, question)
        want = wanted_driver(candidate.cuda, question.sms, question.side, question.facts, ptx=ptx)
        needs = driver_runs(None, candidate.cuda, question.sms, question.side, question.facts, ptx=ptx)
        if want and needs.kind == "unknown":
            yield say("driver-needed", want=want, source=needs.source)


def _card_limits(candidate: Candidate, question: Question) -> Iterator[Reason]:
    codes: set[str] = set()
    for gpu in question.gpus:
        lost = lost_features(gpu.arch, candidate.torch, question.facts, card(gpu)) if isinstance(gpu.arch, Sm) else ()
        yield from (reason for reason in lost if reason.code not in codes)
        codes |= {reason.code for reason in lost}
    yield from _jetson_notes(candidate, question)
    kepler = [gpu for gpu in question.gpus if isinstance(gpu.arch, Sm) and gpu.arch.major == 3]
    if kepler and isinstance(kepler[0].arch, Sm):
        last = last_cudnn(kepler[0].arch, question.facts)
        branch = card_drivers(kepler[0].arch, question.side, question.facts).last
        name = "kepler/wheel" if candidate.answer == "install" else "kepler"
        yield say(name, card=card(kepler[0]), last=last, branch=branch)


def _jetson_notes(candidate: Candidate, question: Question) -> Iterator[Reason]:
    if not question.tegra or candidate.cuda is None:
        return
    if candidate.answer == "install":
        yield say("jetpack", major=candidate.cuda.split(".")[0])
    if pack := question.jetpack_with_wheels:
        yield say("jetson-wheels", pack=pack, source=pack.source[-1])
