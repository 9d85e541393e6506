"""What the user of a plan must know beforehand: cards left out, drivers, limits, known hazards; sourced sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.driver import card_drivers, driver_runs, intel_driver, wanted_driver
from rekindle.compat.hazards import ever_supported, lost_features
from rekindle.compat.processor import wheel_starts
from rekindle.compat.toolkit import last_cudnn
from rekindle.model.arch import Sm
from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.model.spoken import sentence, spoken_months
from rekindle.model.version import compare, key, minor
from rekindle.plan.assess import PlanOutcome
from rekindle.plan.candidates import Assessed, Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules_gpu import card, needs_ptx, source_end
from rekindle.plan.steps import cudnn_package

_XPU_NOTES = "https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html"


def warnings_for(assessed: Assessed, outcome: PlanOutcome, cudnn: str | None) -> Iterator[Reason]:
    """What the user of this plan must know beforehand: first of the cards, then of the software, then of the CPU.
    ``cudnn`` is the one it is planned with."""
    question, candidate = outcome.question, assessed.candidate
    yield from _cards_not_served(outcome)
    yield from _price_of_sharing(outcome)
    yield from _how_long_it_holds(assessed, outcome)
    yield from hopeless_cards(question)
    yield from _driver_needed(candidate, question)
    yield from _intel_gpus(candidate, question)
    yield from _cards_in_doubt(question)
    for refusal in assessed.doubts:
        remedy = f" {sentence(refusal.remedy)}" if refusal.remedy else ""
        seen = "" if refusal.rule == "R402" else "Cannot tell for sure: "
        yield Reason(code=refusal.code, text=f"{seen}{refusal.reason}{remedy}", source=refusal.source)
    yield from _code_in_doubt(assessed)
    yield from _limits(candidate, question)
    yield from _cudnn_by_hand(candidate, cudnn, question)
    have = [python.version for python in question.machine.pythons]
    if have and candidate.python and not question.had_python((candidate.python,)):
        text = f"Python {candidate.python} is not among those found ({', '.join(have)})"
        yield Reason(code="python-missing", text=f"{text}: uv python install {candidate.python}")
    for hazard in assessed.hazards:
        if hazard.effect == "wrong":
            continue  # told above
        handled = candidate.answer == "build" and bool(hazard.env or hazard.cmake or hazard.patch)
        text = f"{hazard.text} {hazard.remedy}"
        yield Reason(code=hazard.id, text=text, source=hazard.source[0], handled=handled)
    yield from _without_card(question)
    yield from _on_this_cpu(candidate, question)


def _cards_not_served(outcome: PlanOutcome) -> Iterator[Reason]:
    for gpu in outcome.unserved:
        why = outcome.apart.text if outcome.apart else "no torch serves all cards"
        if outcome.whole is not None:
            old = outcome.whole.best.candidate
            way = "official wheel" if old.answer == "install" else old.answer
            why = f"the {way} that serves all cards is {_how_much_older(old, outcome.best, outcome)} ({old.name})"
        text = f"{card(gpu)} is not served by this plan: {why}."
        yield Reason(code="gpu-not-served", text=text, source=outcome.apart.source if outcome.apart else None)


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
    alone = max(newer, key=lambda one: key(one.best.candidate.torch))
    theirs, ours = alone.best.candidate, best.candidate
    names = ", ".join(map(card, alone.gpus))
    text = (
        f"This torch serves all cards and is {_how_much_older(ours, alone.best, outcome)} than what {names} alone could"
        f" have ({theirs.name}), which here goes without all that torch learnt since {minor(ours.torch)}"
    )
    if ours.cuda and theirs.cuda and minor(ours.cuda) != minor(theirs.cuda):
        text += f" and without CUDA {theirs.cuda}"
    row = question.facts.release(ours.torch)
    yield Reason(
        code="older-for-all", text=f"{text}: --serve newest plans for that.", source=row.source[0] if row else None
    )


def _how_long_it_holds(assessed: Assessed, outcome: PlanOutcome) -> Iterator[Reason]:
    """Where newer releases have no wheel for a card any more: this is the last, and so is its driver branch."""
    question, candidate = outcome.question, assessed.candidate
    newer = [one for one in outcome.wheels if compare(one.candidate.torch, candidate.torch) > 0]
    if candidate.answer != "install" or question.torch is not None or not newer:
        return
    ended = [no for one in newer for no in one.refusals if no.code == "gpu-not-in-wheel"]
    if len({no.what for no in ended}) < len(newer):
        return
    text = f"torch {candidate.torch} is the last with a wheel for {', '.join(map(card, question.gpus))}"
    text += f": {max(newer, key=lambda one: key(one.candidate.torch)).candidate.torch} has none. Keep a copy of it"
    sms = [gpu.arch for gpu in question.gpus if isinstance(gpu.arch, Sm)]
    last = min((row.last for sm in sms if (row := card_drivers(sm, question.side, question.facts)).last), default=None)
    text += f"; R{last} is the last driver branch too" if last else ""
    yield Reason(code="last-torch", text=f"{text}.", source=ended[0].source)


def _how_much_older(old: Candidate, new: Assessed | None, outcome: PlanOutcome) -> str:
    """``17 months older``, by the days of the two releases."""
    release = outcome.question.facts.release
    first, last = release(old.torch), release(new.candidate.torch) if new else None
    return f"{spoken_months(first.released, last.released)} older" if first and last else "older"


def _cards_in_doubt(question: Question) -> Iterator[Reason]:
    """Cards of the other maker, and names that several chips go by."""
    for gpu in question.usable_gpus:
        named = (*question.gpus, *question.aside)
        if gpu not in named and gpu.arch not in [other.arch for other in named]:
            text = f"{card(gpu)} stays unused: one torch serves the cards of one maker."
            yield Reason(code="other-vendor-unused", text=text)
        if gpu in question.aside:
            text = (
                f"{card(gpu)} is the processor's graphics beside the card: HIP_VISIBLE_DEVICES=0 (or 1) shows torch the"
                " card alone."
            )
            yield Reason(code="graphics-beside-card", text=text, source=question.facts.rocm.integrated[0].source[0])
        if gpu.possible:
            others = ", ".join(map(str, gpu.possible))
            text = (
                f"The name {gpu.name} is also listed with other chips ({others}); planned for {gpu.arch}."
                " The PCI id decides (lspci -nn)."
            )
            yield Reason(code="gpu-name-ambiguous", text=text, source="pci.ids")


def _code_in_doubt(assessed: Assessed) -> Iterator[Reason]:
    """Code that runs only by a switch, or of which nobody can say whether it runs."""
    for _, coverage in assessed.covered:
        if coverage.kind == "override":
            assignment = " ".join(f"{name}={value}" for name, value in coverage.env)
            text = f"Set {assignment} before starting Python; AMD does not support this."
            yield Reason(code="hsa-override", text=text, source=coverage.source)
        if coverage.kind == "unknown":
            text = (
                "Cannot tell whether the wheel has code for the card: its architecture is unknown. Give it with --gpu."
            )
            yield Reason(code="gpu-unknown", text=text)


def _without_card(question: Question) -> Iterator[Reason]:
    mac = question.platform.startswith("macos")
    if mac and question.arch == "aarch64":
        text = 'On Apple silicon this wheel uses the GPU through MPS: torch.device("mps").'
        yield Reason(code="mps", text=text, source="https://pytorch.org/docs/stable/notes/mps.html")
    named = question.machine.gpus or question.flavour is not None or question.no_gpu or mac
    if question.backend == "cpu" and not named:
        yield Reason(code="no-gpu-named", text="Planned without a GPU. If there is one, name it: --gpu.")


def _on_this_cpu(candidate: Candidate, question: Question) -> Iterator[Reason]:
    seen = wheel_starts(candidate.torch, question.cpu_features, question.facts, question.arch)
    cpu = question.machine.cpu
    if question.arch == "x86_64" and cpu.name and question.cpu_features is None:
        text = f"What {cpu.name} can do is not known here, so whether this torch starts on it was not judged"
        yield Reason(code=seen.code, text=f"{text}: name its microarchitecture (--cpu nehalem).")
    if candidate.answer != "build" and seen.kind == "partly":
        yield Reason(code=seen.code, text=f"On this CPU it {seen.text}.", source=seen.source)
    if candidate.answer != "build" and seen.kind == "unknown" and question.cpu_lacks(("avx2", "fma")):
        yield Reason(code=seen.code, text=f"Cannot tell for sure: {seen.text}.", source=seen.source)


def hopeless_cards(question: Question) -> Iterator[Reason]:
    """What is the matter with each card that no torch can use."""
    for gpu in question.hopeless_gpus:
        if gpu.vendor == "intel" and question.backend != "cpu":
            continue  # graphics inside the processor, beside a card that computes
        yield Reason(code="gpu-unsupported", text=_hopeless(gpu, question), source=_hopeless_source(gpu, question))


def _hopeless(gpu: Gpu, question: Question) -> str:
    if question.machine.os.system == "macos":
        return (
            f"{card(gpu)}: neither CUDA nor ROCm exists for macOS, so torch runs on the CPU there"
            " (and on Apple's own GPUs through MPS)."
        )
    if question.platform == "windows_arm64":
        return f"{card(gpu)}: neither CUDA nor ROCm exists for Windows on Arm, so torch runs on the CPU there."
    if isinstance(gpu.arch, Sm) and (end := source_end(gpu.arch, question.facts)) is not None:
        return f"{card(gpu)} is {end.note or 'supported by no torch'}."
    if gpu.vendor == "intel" and gpu.arch is None:
        return (
            f"{card(gpu)}: which generation this is cannot be told, so torch is planned for the CPU. Arc cards and Core"
            ' Ultra\'s Arc graphics run the XPU wheels: name one (--gpu "Arc A770"), or give its PCI id (8086:56a0).'
        )
    if gpu.vendor == "intel":
        return f"{card(gpu)}: {ever_supported(gpu, question.facts).text}. torch runs on the CPU here."
    if ever_supported(gpu, question.facts).kind != "no":
        return f"{card(gpu)}: no ROCm for Windows has code for it, so torch runs on the CPU here; on Linux it computes."
    return f"{card(gpu)} is older than gfx803 (Polaris): ROCm never supported it."


def _hopeless_source(gpu: Gpu, question: Question) -> str | None:
    end = source_end(gpu.arch, question.facts) if isinstance(gpu.arch, Sm) else None
    return end.source[0] if end else None


def _cudnn_by_hand(candidate: Candidate, cudnn: str | None, question: Question) -> Iterator[Reason]:
    if (
        candidate.answer != "build"
        or cudnn is None
        or question.tegra
        or any(kit.kind == "cudnn" for kit in question.machine.toolkits)
    ):
        return
    if cudnn_package(candidate, cudnn, question) is None:
        text = (
            f"cuDNN {cudnn} has to be put into the CUDA folder by hand (its archive asks for an account at NVIDIA), or"
            " CUDNN_INCLUDE_DIR and CUDNN_LIBRARY must name where it is: the package index has none to build with."
        )
        yield Reason(code="cudnn-by-hand", text=text, source="https://developer.nvidia.com/cudnn-archive")


def _intel_gpus(candidate: Candidate, question: Question) -> Iterator[Reason]:
    """Which driver the XPU wheels were validated with, how a GPU is chosen, and what became of Intel's extension."""
    rows = [row for gpu in question.gpus if (row := question.facts.xe_generation(gpu.arch))]
    if candidate.backend != "xpu" or not rows:
        return
    windows = question.side == "windows"
    driver = intel_driver(rows[0], question.side)
    if driver:
        text = (
            f"Needs Intel's graphics driver; {driver} is the oldest seen with a torch of today, so take that or newer."
        )
        text = text if windows else f"Needs Intel's driver: {driver}; the user must be in the group render."
        yield Reason(code="driver-needed", text=text, source=rows[0].source[0])
    text = (
        'The device is torch.device("xpu"), and nothing else is needed: the wheel brings oneAPI\'s libraries and'
        f" {'triton-xpu' if compare(candidate.torch, '2.10') >= 0 else 'pytorch-triton-xpu'}. Intel ended its extension"
        " (IPEX) in March 2026, since torch does it itself; do not install it beside this."
    )
    yield Reason(code="xpu", text=text, source=_XPU_NOTES)
    shared = [gpu for gpu in question.machine.gpus if gpu.vendor == "intel" and gpu.arch not in (None, rows[0].arch)]
    if shared:
        text = (
            f"{card(shared[0])} is beside it: ONEAPI_DEVICE_SELECTOR=level_zero:0 (or :1) shows torch one alone;"
            " sycl-ls lists them in their order."
        )
        yield Reason(code="xpu-selection", text=text, source="https://intel.github.io/llvm/EnvironmentVariables.html")


def _driver_needed(candidate: Candidate, question: Question) -> Iterator[Reason]:
    if candidate.cuda and not question.driver and not question.tegra:
        ptx = needs_ptx(candidate, question)
        want = wanted_driver(candidate.cuda, question.sms, question.side, question.facts, ptx=ptx)
        needs = driver_runs(None, candidate.cuda, question.sms, question.side, question.facts, ptx=ptx)
        if want and needs.kind == "unknown":
            yield Reason(code="driver-needed", text=f"Needs NVIDIA driver {want}.", source=needs.source)


def _limits(candidate: Candidate, question: Question) -> Iterator[Reason]:
    seen: set[str] = set()
    for gpu in question.gpus:
        lost = lost_features(gpu.arch, candidate.torch, question.facts, card(gpu)) if isinstance(gpu.arch, Sm) else ()
        yield from (reason for reason in lost if reason.code not in seen)
        seen |= {reason.code for reason in lost}
    yield from _jetson(candidate, question)
    kepler = [gpu for gpu in question.gpus if isinstance(gpu.arch, Sm) and gpu.arch.major == 3]
    if kepler and isinstance(kepler[0].arch, Sm):
        last = last_cudnn(kepler[0].arch, question.facts)
        branch = card_drivers(kepler[0].arch, question.side, question.facts).last
        text = f"{card(kepler[0])} is Kepler: cuDNN {last} is the last with code for it, R{branch} the last driver."
        if candidate.answer == "install":
            text += " The wheel has code for it; no run of this wheel on such a card is on record."
        yield Reason(code="kepler", text=text, source="fatbin scans of nvidia-cudnn-cu11 8.5.0 to 9.10.2")


def _jetson(candidate: Candidate, question: Question) -> Iterator[Reason]:
    if not question.tegra or candidate.cuda is None:
        return
    source = "https://developer.nvidia.com/embedded/jetpack-archive"
    pack = question.jetpack_with_wheels
    if candidate.answer == "install":
        text = f"This wheel is for Jetson boards with a JetPack that brings CUDA {candidate.cuda.split('.')[0]} (L4T)."
        yield Reason(code="jetpack", text=text, source=source)
    if pack is not None:
        text = (
            f"NVIDIA publishes its own wheels for {pack.name} (CUDA {pack.cuda}, cuDNN {pack.cudnn}, Python"
            f" {pack.python}): torch {pack.torch}. Where one of them will do, nothing has to be built: {pack.wheels}"
        )
        yield Reason(code="jetson-wheels", text=text, source=pack.source[-1])
