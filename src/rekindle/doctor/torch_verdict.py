"""Why an installed torch does or does not work on this machine, in one sentence."""

from __future__ import annotations

import re

from msgspec.structs import replace

from rekindle.doctor.fit import driver_misfit, lacks_code
from rekindle.facts import load_facts
from rekindle.model.arch import parse_sm
from rekindle.model.machine import InstalledTorch, Machine


def torch_with_verdict(machine: Machine, torch: InstalledTorch) -> InstalledTorch:
    """The same torch with its targets from the tables where it was not imported, and the reason if it fails."""
    archs = torch.archs or _published(machine, torch)
    if torch.works is False or torch.gpu_works is True:
        return replace(torch, archs=archs)
    reason = torch.why or _reason(machine, torch, archs)
    # The tables say it cannot: that is knowledge, too. That it can is only known after trying.
    gpu_works = False if reason and machine.gpus and torch.gpu_works is None else torch.gpu_works
    return replace(torch, archs=archs, why=reason, gpu_works=gpu_works)


def _reason(machine: Machine, torch: InstalledTorch, archs: tuple[str, ...]) -> str | None:
    if not machine.gpus:
        return None
    if not (torch.cuda or torch.rocm):
        return "it is a CPU build, so it cannot use the GPU"
    vendor = "nvidia" if torch.cuda else "amd"
    ours = [gpu for gpu in machine.gpus if gpu.vendor == vendor]
    if not ours:
        return f"it is built for {'CUDA' if torch.cuda else 'ROCm'}, and there is no such card"
    if torch.cuda and (old := driver_misfit(machine, torch.cuda)):
        return old
    missing = [gpu for gpu in ours if archs and lacks_code(archs, gpu)]
    if missing:
        return f"it has no code for {missing[0].arch} ({missing[0].name}), only for {', '.join(archs)}"
    return None


def _published(machine: Machine, torch: InstalledTorch) -> tuple[str, ...]:
    """What the published wheel of that name was built for; a private build says so only when imported."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\+(cu\d+|rocm[\d.]+))?", torch.version)
    if match is None:
        return ()
    platform = {"windows": "windows", "linux": f"linux_{machine.os.arch}"}.get(machine.os.system, "")
    for flavour in load_facts().flavours(match[1]):
        if match[2] not in (None, flavour.name) or (match[2] is None and flavour.cuda != torch.cuda):
            continue
        if torch.cuda and flavour.sm:
            return _spelled(flavour.sm.get(platform, ()))  # type: ignore[call-overload]
        if torch.rocm and flavour.gfx:
            return tuple(str(gfx) for gfx in flavour.gfx.get(platform, ()))  # type: ignore[call-overload]
    return ()


def _spelled(targets: tuple[str, ...]) -> tuple[str, ...]:
    """As ``torch.cuda.get_arch_list()`` spells them: ``8.6+PTX`` is sm_86 and compute_86."""
    found: dict[str, None] = {}
    for target in targets:
        sm = parse_sm(target)
        found[str(sm)] = None
        if target.endswith("+PTX"):
            found[sm.compute] = None
    return tuple(found)
