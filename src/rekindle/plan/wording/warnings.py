"""What the user of a plan must know beforehand: cards left out, drivers, limits, known hazards; sourced sentences."""

from collections.abc import Iterator

from rekindle.compat.driver import card_drivers, intel_driver
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
from rekindle.plan.rules_gpu import card, driver_answer, source_end
from rekindle.plan.steps import cudnn_package, lasting_env


def warnings_for(assessed: Assessed, outcome: PlanOutcome, cudnn: str | None) -> Iterator[Reason]:
    """What the user must know beforehand: of the cards, the software, the CPU. ``cudnn`` is the planned one."""
    question, candidate = outcome.question, assessed.candidate
    yield from _cards_not_served(outcome)
    yield from _price_of_sharing(outcome)
    yield from _how_long_it_holds(assessed, outcome)
    yield from hopeless_cards(question)
    if candidate.cuda and not question.driver and not question.tegra:
        needs = driver_answer(None, candidate, question)
        if needs.want and needs.kind == "unknown":
            yield say("driver-needed", want=needs.want, source=needs.source)
    if question.old_system is not None:
        name = "old-windows" if candidate.cuda else "old-windows/cpu"
        yield say(name, old=question.old_system, source=question.old_system.source[0])
    yield from _intel_gpus(candidate, question)
    yield from _cards_in_doubt(question)
    for refusal in assessed.doubts:
        remedy = f" {sentence(refusal.remedy)}" if refusal.remedy else ""
        lead = "" if refusal.rule == "R402" else "Cannot tell for sure: "
        yield Reason(code=refusal.code, text=f"{lead}{refusal.reason}{remedy}", source=refusal.source)
    yield from _code_in_doubt(assessed, question)
    yield from _card_limits(candidate, question)
    without_cudnn = candidate.answer == "build" and cudnn and not question.tegra and not question.has_toolkit("cudnn")
    if without_cudnn and cudnn_package(candidate, cudnn, question) is None:
        yield say("cudnn-by-hand", cudnn=cudnn)
    versions = [python.version for python in question.machine.pythons]
    if versions and candidate.python and not question.had_python((candidate.python,)):
        yield say("python-missing", candidate, have=", ".join(versions))
    for hazard in assessed.hazards:
        handled = candidate.answer == "build" and bool(hazard.env or hazard.cmake or hazard.patch)
        yield Reason(code=hazard.id, text=f"{hazard.text} {hazard.remedy}", source=hazard.source[0], handled=handled)
    yield from _on_the_processor(candidate, question)


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
    alone = max(outcome.alone, key=lambda group: key(group.best.candidate.torch), default=None)
    if outcome.best is None or outcome.unserved or alone is None:
        return
    theirs, ours = alone.best.candidate, outcome.best.candidate
    if compare(theirs.torch, ours.torch) <= 0:
        return
    other_cuda = ours.cuda and theirs.cuda and minor(ours.cuda) != minor(theirs.cuda)
    row = outcome.question.facts.release(ours.torch)
    yield say(
        "older-for-all",
        theirs,
        older=_how_much_older(ours, alone.best, outcome),
        names=", ".join(map(card, alone.gpus)),
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
    ended = [no for wheel in newer for no in wheel.refusals if no.code == "gpu-not-in-wheel"]
    if not newer or len({no.what for no in ended}) < len(newer):
        return
    newest = max((wheel.candidate.torch for wheel in newer), key=key)
    drivers = [card_drivers(sm, question.side, question.facts) for sm in question.sms]
    ending = min((row for row in drivers if row.last), key=lambda row: row.last or 0, default=None)
    fixes = f", {ending.fixes}" if ending and ending.fixes else ""
    branch = f"; R{ending.last} is the last driver branch too{fixes}" if ending else ""
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
    named = {gpu.arch for gpu in (*question.gpus, *question.idle_gpus)}
    for gpu in question.usable_gpus:
        if gpu.arch not in named:
            yield say("other-vendor-unused", card=card(gpu))
        if gpu in question.idle_gpus:
            yield say("graphics-beside-card", card=card(gpu), source=question.facts.rocm.integrated[0].source[0])
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


def _on_the_processor(candidate: Candidate, question: Question) -> Iterator[Reason]:
    mac = question.platform.startswith("macos")
    if mac and question.arch == "aarch64":
        yield say("mps")
    named = question.machine.gpus or question.flavour is not None or question.no_gpu or mac
    if question.backend == "cpu" and not named:
        yield say("no-gpu-named")
    start = wheel_starts(candidate.torch, question.cpu_features, question.facts, question.arch)
    cpu, wheel = question.machine.cpu, candidate.answer != "build"
    if cpu.name and question.cpu_features is None and question.arch in ("x86_64", "aarch64"):
        yield Reason(code=start.code, text=say(f"cpu-not-known/{question.arch}", cpu=cpu).text)
    if wheel and start.kind == "partly":
        yield Reason(code=start.code, text=f"On this CPU it {start.text}.", source=start.source)
    if wheel and start.kind == "unknown" and question.cpu_lacks(("avx2", "fma")):
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


def _intel_gpus(candidate: Candidate, question: Question) -> Iterator[Reason]:
    """Which driver the XPU wheels were validated with, how a GPU is chosen, and what became of Intel's extension."""
    rows = [row for gpu in question.gpus if (row := question.facts.xe_generation(gpu.arch))]
    if candidate.backend != "xpu" or not rows:
        return
    if driver := intel_driver(rows[0], question.side):
        yield say(f"driver-needed/intel-{question.side}", driver=driver, source=rows[0].source[0])
    yield say("xpu", triton="triton-xpu" if compare(candidate.torch, "2.10") >= 0 else "pytorch-triton-xpu")
    shared = [gpu for gpu in question.machine.gpus if gpu.vendor == "intel" and gpu.arch not in (None, rows[0].arch)]
    if shared:
        yield say("xpu-selection", card=card(shared[0]))


def _card_limits(candidate: Candidate, question: Question) -> Iterator[Reason]:
    facts, wheel = question.facts, candidate.answer == "install"
    codes: set[str] = set()
    for gpu, sm in question.sm_cards:
        lost = lost_features(sm, candidate.torch, facts, card(gpu))
        yield from (reason for reason in lost if reason.code not in codes)
        codes |= {reason.code for reason in lost}
    if question.tegra and candidate.cuda and wheel:
        yield say("jetpack", major=candidate.cuda.split(".")[0])
    # The newest that NVIDIA publishes wheels of its own for.
    pack = next((row for row in question.jetpacks if row.torch and candidate.cuda), None)
    if pack is not None:
        yield say("jetson-wheels", pack=pack, source=pack.source[-1])
    kepler = [(gpu, sm) for gpu, sm in question.sm_cards if sm.major == 3]
    if kepler:
        gpu, sm = kepler[0]
        branch = card_drivers(sm, question.side, facts).last
        yield say("kepler/wheel" if wheel else "kepler", card=card(gpu), last=last_cudnn(sm, facts), branch=branch)
