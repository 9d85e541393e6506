"""Why the chosen candidate was chosen, and what its user must know: sourced sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.cudnn import last_cudnn
from rekindle.compat.driver import card_drivers, driver_runs, wanted_driver
from rekindle.compat.features import lost_features
from rekindle.compat.libc import flavour_libc, libc_runs
from rekindle.compat.processor import wheel_starts
from rekindle.compat.toolkit import emits_for, toolkits_for
from rekindle.model.arch import Sm
from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.model.version import compare, key
from rekindle.plan.candidate import Assessed, Candidate
from rekindle.plan.outcome import Outcome
from rekindle.plan.question import Question
from rekindle.plan.recipe import planned_cudnn
from rekindle.plan.rules_gpu import card, needs_ptx, source_end
from rekindle.plan.rules_system import pythons_of, span
from rekindle.plan.steps import FIRST_OWN_INDEX, cudnn_package

XPU_INDEX = "https://download.pytorch.org/whl/xpu"
XPU_PLATFORMS = ("linux_x86_64", "windows")
_KITS = ("cuda", "rocm", "variant")
_PLATFORMS = {
    "linux_x86_64": "Linux",
    "linux_aarch64": "Linux on aarch64",
    "windows": "Windows",
    "macos_x86_64": "macOS on Intel",
    "macos_arm64": "macOS",
}


def choice_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate = assessed.candidate
    if candidate.answer == "install":
        yield from _wheel_reasons(assessed, question)
    else:
        if assessed.evidence is not None:
            found = assessed.evidence
            yield Reason(code=f"evidence-{found.grade}", text=f"Evidence: {found.text}", source=found.source)
        yield from _build_reasons(candidate, question)
    yield from _cpu_reasons(candidate, question)


def _wheel_reasons(assessed: Assessed, question: Question) -> Iterator[Reason]:
    candidate = assessed.candidate
    flavour = candidate.flavour
    assert flavour is not None
    for gpu, coverage in assessed.covered:
        if coverage.kind == "unknown":
            continue
        subject = f"the wheel {candidate.torch}+{flavour.name}"
        yield Reason(code="wheel-has-code", text=f"{card(gpu)}: {subject} {coverage.text}.", source=coverage.source)
    known = span(pythons_of(candidate, question))
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
            text = f"{drives.text[0].upper()}{drives.text[1:]}."
            yield Reason(code="driver-fits", text=text, source=drives.source)
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


def why_no_wheel(outcome: Outcome) -> Iterator[Reason]:
    """For a build nobody insisted on: what stands against the wheels nearest to the wish."""
    question = outcome.question
    wanted = [one for one in outcome.wheels if question.wants_torch(one.candidate.torch)] or outcome.wheels
    wanted = [one for one in wanted if not any(change.what in _KITS for change in one.changes)] or wanted
    refused = [(one, [r for r in one.refusals if r.change is None and r.certain]) for one in wanted]
    refused = [(one, why) for one, why in refused if why]
    if not refused:
        text = "No official wheel keeps what was asked for, so it takes a source build."
        if not outcome.wheels:
            text = (
                f"No official wheel of this kind exists for {_PLATFORMS[question.platform]}: it takes a source build."
            )
        yield Reason(code="no-wheel-serves", text=text, source="wheels table (rekindle facts show wheels)")
        return
    nearest, why = min(refused, key=lambda pair: (any(r.code == "gpu-not-in-wheel" for r in pair[1]), len(pair[1])))
    listed = ", ".join(card(gpu) for gpu in question.gpus)
    if all(any(r.code == "gpu-not-in-wheel" for r in reasons) for _, reasons in refused) and listed:
        text = f"{_none_has_code(outcome)} has code for {listed}: it takes a source build."
        yield Reason(code="no-wheel-serves", text=text, source="wheels table (rekindle facts show wheels)")
        return
    text = f"No official wheel will do, so it takes a source build. The nearest is {nearest.candidate.name}. "
    text += why[0].reason + (f" Easier than a build: {why[0].remedy}." if why[0].remedy else "")
    yield Reason(code=why[0].code, text=text, source=why[0].source)


def _none_has_code(outcome: Outcome) -> str:
    """Which wheels that is said of: all of them, all that keep the wish, or all newer than the last that has code."""
    if outcome.question.torch is not None:
        return "No official wheel of the asked torch"
    older = [one.candidate for one in outcome.wheels if one.feasible and not one.changes]
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
    seen = wheel_starts(candidate.torch, question.cpu_features, question.facts)
    said = {"yes": f" It was {seen.text}.", "partly": f" It {seen.text}.", "unknown": f" But {seen.text}."}
    text = (
        f"{name} has no {', '.join(missing)}, and needs no build for that: wheels hold default kernels beside"
        f" the AVX2 ones and choose at run time (dispatch; ATEN_CPU_CAPABILITY).{said.get(seen.kind, '')}"
    )
    yield Reason(code="cpu-dispatch", text=text, source=seen.source or "ATen/native/DispatchStub.cpp")


def cpu_plan_reasons(question: Question) -> Iterator[Reason]:
    """For a "no": what is the matter with each card."""
    for gpu in question.hopeless_gpus:
        yield Reason(code="gpu-unsupported", text=_hopeless(gpu, question), source=_hopeless_source(gpu, question))


def _hopeless(gpu: Gpu, question: Question) -> str:
    if question.machine.os.system == "macos":
        return (
            f"{card(gpu)}: neither CUDA nor ROCm exists for macOS, so torch runs on the CPU there"
            " (and on Apple's own GPUs through MPS)."
        )
    if isinstance(gpu.arch, Sm) and (end := source_end(gpu.arch, question.facts)) is not None:
        return f"{card(gpu)} is {end.note or 'supported by no torch'}."
    if gpu.vendor == "intel":
        return (
            f"{card(gpu)}: Intel GPUs run torch with the XPU wheels (torch 2.5 and later, {XPU_INDEX}). They are not"
            " in the tables, so nothing is promised about this card."
        )
    return f"{card(gpu)} is older than gfx803 (Polaris): ROCm never supported it."


def _hopeless_source(gpu: Gpu, question: Question) -> str | None:
    end = source_end(gpu.arch, question.facts) if isinstance(gpu.arch, Sm) else None
    return end.source[0] if end else None


def warnings_for(assessed: Assessed, outcome: Outcome) -> Iterator[Reason]:
    question, candidate = outcome.question, assessed.candidate
    for gpu in outcome.unserved:
        why = outcome.apart.text if outcome.apart else "no torch serves all cards"
        if outcome.whole is not None:
            old = outcome.whole.best.candidate
            way = "build" if old.answer == "build" else "official wheel"
            why = f"the {way} that serves all cards is years older ({old.name})"
        text = f"{card(gpu)} is not served by this plan: {why}."
        yield Reason(code="gpu-not-served", text=text, source=outcome.apart.source if outcome.apart else None)
    for gpu in question.hopeless_gpus:
        yield Reason(code="gpu-unsupported", text=_hopeless(gpu, question), source=_hopeless_source(gpu, question))
    yield from _driver_needed(candidate, question)
    for gpu in question.usable_gpus:
        if gpu not in question.gpus and gpu.arch not in [other.arch for other in question.gpus]:
            text = f"{card(gpu)} stays unused: one torch serves either NVIDIA or AMD cards."
            yield Reason(code="other-vendor-unused", text=text)
        if gpu.possible:
            others = ", ".join(map(str, gpu.possible))
            text = (
                f"The name {gpu.name} is also listed with other chips ({others}); planned for {gpu.arch}."
                " The PCI id decides (lspci -nn)."
            )
            yield Reason(code="gpu-name-ambiguous", text=text, source="pci.ids")
    for refusal in assessed.doubts:
        remedy = f" {refusal.remedy[0].upper()}{refusal.remedy[1:]}." if refusal.remedy else ""
        yield Reason(code=refusal.code, text=f"Cannot tell for sure: {refusal.reason}{remedy}", source=refusal.source)
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
    yield from _limits(candidate, question)
    yield from _cudnn_by_hand(candidate, question)
    have = [python.version for python in question.machine.pythons]
    if have and candidate.python and not question.had_python((candidate.python,)):
        text = f"Python {candidate.python} is not among those found ({', '.join(have)})"
        yield Reason(code="python-missing", text=f"{text}: uv python install {candidate.python}")
    for hazard in assessed.hazards:
        yield Reason(code=hazard.id, text=f"{hazard.text} {hazard.remedy}", source=hazard.source[0])
    mac = question.platform.startswith("macos")
    if mac and question.arch == "aarch64":
        text = 'On Apple silicon this wheel uses the GPU through MPS: torch.device("mps").'
        yield Reason(code="mps", text=text, source="https://pytorch.org/docs/stable/notes/mps.html")
    named = question.machine.gpus or question.flavour is not None or question.no_gpu or mac
    if question.backend == "cpu" and not named:
        yield Reason(code="no-gpu-named", text="Planned without a GPU. If there is one, name it: --gpu.")
    seen = wheel_starts(candidate.torch, question.cpu_features, question.facts)
    cpu = question.machine.cpu
    if question.arch == "x86_64" and cpu.name and question.cpu_features is None:
        text = f"What {cpu.name} can do is not known here, so whether this torch starts on it was not judged"
        yield Reason(code=seen.code, text=f"{text}: name its microarchitecture (--cpu nehalem).")
    if candidate.answer == "install" and seen.kind == "partly":
        yield Reason(code=seen.code, text=f"On this CPU it {seen.text}.", source=seen.source)
    if candidate.answer == "install" and seen.kind == "unknown" and question.cpu_lacks(("avx2", "fma")):
        yield Reason(code=seen.code, text=f"Cannot tell for sure: {seen.text}.", source=seen.source)


def _cudnn_by_hand(candidate: Candidate, question: Question) -> Iterator[Reason]:
    cudnn = planned_cudnn(candidate, question) if candidate.answer == "build" else None
    if cudnn is None or question.tegra or any(kit.kind == "cudnn" for kit in question.machine.toolkits):
        return
    if cudnn_package(candidate, cudnn, question) is None:
        text = (
            f"cuDNN {cudnn} has to be put into the CUDA folder by hand (its archive asks for an account at NVIDIA), or"
            " CUDNN_INCLUDE_DIR and CUDNN_LIBRARY must name where it is: the package index has none to build with."
        )
        yield Reason(code="cudnn-by-hand", text=text, source="https://developer.nvidia.com/cudnn-archive")


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
