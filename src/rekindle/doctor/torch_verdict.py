"""Why an installed torch does or does not work on this machine, in one sentence."""

from __future__ import annotations

from msgspec.structs import replace

from rekindle.compat.images import GpuCode, covers, flavour_code
from rekindle.compat.published import find_flavour, platform_of
from rekindle.compat.toolkit import cudnn_covers
from rekindle.facts import load_facts
from rekindle.model.arch import parse_sm
from rekindle.model.facts import Flavour
from rekindle.model.machine import Gpu, InstalledTorch, Machine
from rekindle.readiness.cuda import driver_misfit


def torch_with_verdict(machine: Machine, torch: InstalledTorch) -> InstalledTorch:
    """The same torch with its targets from the tables where it was not imported, and the reason if it fails."""
    code = code_of(machine, torch)
    if torch.works is False or torch.gpu_works is True:
        return replace(torch, archs=code.targets)
    reason = torch.why or _reason(machine, torch, code)
    # The tables say it cannot: that is knowledge, too. That it can is only known after trying.
    gpu_works = False if reason and machine.gpus and torch.gpu_works is None else torch.gpu_works
    return replace(torch, archs=code.targets, why=reason, gpu_works=gpu_works)


def code_of(machine: Machine, torch: InstalledTorch) -> GpuCode:
    """Its GPU code: as it says itself, else as the published wheel of that name has it."""
    flavour = find_flavour(torch.version, load_facts(), cuda=torch.cuda, rocm=torch.rocm)
    platform = platform_of(machine.os)
    if flavour is None or platform is None:
        return GpuCode(torch.archs, cuda=torch.cuda, rocm=torch.rocm)
    published = flavour_code(flavour, platform)
    return published._replace(
        targets=torch.archs or _spelled(published.targets, flavour),
        cuda=torch.cuda or flavour.cuda,
        rocm=torch.rocm or flavour.rocm,
    )


def _reason(machine: Machine, torch: InstalledTorch, code: GpuCode) -> str | None:
    if not machine.gpus:
        return None
    if not (torch.cuda or torch.rocm):
        return "it is a CPU build, so it cannot use the GPU"
    vendor = "nvidia" if torch.cuda else "amd"
    ours = [gpu for gpu in machine.gpus if gpu.vendor == vendor]
    if not ours:
        return f"it is built for {'CUDA' if torch.cuda else 'ROCm'}, and there is no such card"
    facts = load_facts()
    found = [(gpu, covers(code, gpu.arch, machine.os.system, facts)) for gpu in ours]
    for gpu, one in found:
        if one.kind == "none" and one.code != "gpu-math-library":
            return f"it has no code for {gpu.arch} ({gpu.name}), only for {', '.join(code.targets)}"
        if one.kind in ("none", "override"):
            return f"it {one.text}"
    if torch.cuda and (wrong := driver_misfit(machine, torch.cuda, ptx=any(one.kind == "jit" for _, one in found))):
        return wrong
    return next((lacking for gpu in ours if (lacking := _without_cudnn(code, gpu))), None)


def _without_cudnn(code: GpuCode, gpu: Gpu) -> str | None:
    answer = cudnn_covers(code.cudnn, code.cuda, gpu.arch, load_facts())
    return f"its {answer.text}" if answer.kind == "partly" else None


def _spelled(targets: tuple[str, ...], flavour: Flavour) -> tuple[str, ...]:
    """As ``torch.cuda.get_arch_list()`` spells them: ``8.6+PTX`` is sm_86 and compute_86."""
    if not flavour.sm:
        return targets
    found: dict[str, None] = {}
    for target in targets:
        sm = parse_sm(target)
        found[str(sm)] = None
        if target.endswith("+PTX"):
            found[sm.compute] = None
    return tuple(found)
