"""The GPU axes: does each container have an image the card can load, and is the driver new enough?

Per container, by the real rule: machine code of the same major and an equal or lower minor; ``a`` code only on
exactly that chip, ``f`` code on its family; else PTX that is not newer than the card.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.model.arch import SPIRV, Gfx, Sm, parse_sm, ptx_runs_on, sass_runs_on
from rekindle.model.machine import Machine
from rekindle.model.version import at_least
from rekindle.model.wheel import ArchSet, AxisVerdict, WheelReport


def loads(archs: Iterable[str], device: Sm) -> str | None:
    """How a container with these targets runs on a card: sass, ptx, or not at all."""
    names = list(archs)
    if any(name.startswith("sm_") and sass_runs_on(parse_sm(name), device) for name in names):
        return "sass"
    if any(name.startswith("compute_") and ptx_runs_on(parse_sm(name), device) for name in names):
        return "ptx"
    return None


def loads_gfx(archs: Iterable[str], device: Gfx) -> bool | None:
    """AMD's rule with our tables: on its own chip, or on those a generic target covers; None if it depends."""
    from rekindle.facts import load_facts

    return load_facts().gfx_rule.runs(archs, device)


def gpu_verdicts(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    if not machine.gpus:
        return []
    if not report.gpu.libraries and not report.gpu.declared:
        if report.quick and (report.cuda or report.rocm):
            return [_say("unknown", "gpu-not-read", "the GPU code was not read (quick)", "leave out --quick")]
        text = "the wheel has no GPU code: it runs on the CPU and leaves the GPU unused"
        return [_say("partly", "cpu-only", text, "take a CUDA or ROCm wheel: rekindle plan")]
    out = []
    for gpu in machine.gpus:
        name = f"{gpu.name or gpu.vendor}" + (f" ({gpu.arch})" if gpu.arch else "")
        if isinstance(gpu.arch, Sm):
            out.append(_nvidia(report, gpu.arch, name))
        elif isinstance(gpu.arch, Gfx):
            out.append(_amd(report, gpu.arch, name))
        else:
            out.append(_say("unknown", "gpu-arch-not-told", f"the architecture of {name} is not known"))
    return out


def _say(runs: str, code: str, text: str, remedy: str | None = None) -> AxisVerdict:
    return AxisVerdict(axis="gpu", runs=runs, code=code, text=text, remedy=remedy)  # type: ignore[arg-type]


def _nvidia(report: WheelReport, device: Sm, name: str) -> AxisVerdict:
    if not report.gpu.libraries:
        how = loads(report.gpu.declared, device)
        listed = " ".join(report.gpu.declared)
        if how is None:
            return _say(
                "no", "gpu-declared", f"built for {listed}: nothing for {name}", "rekindle plan --gpu " + str(device)
            )
        return _say("yes", "gpu-declared", f"declared for {listed}, which includes {name}; libraries were not read")
    sets = [(library.file.rsplit("/", 1)[-1], one) for library in report.gpu.libraries for one in library.sets]
    if all(one.archs and _is_amd(one.archs[0]) for _, one in sets):
        return _say("no", "gpu-vendor", f"the wheel has AMD code only; {name} is NVIDIA", "take a CUDA wheel")
    general = [(file, one) for file, one in sets if one.origin in ("own", "other")]
    lost = [(file, one) for file, one in general if loads(one.archs, device) is None]
    if general and len(lost) == len(general):
        have = " ".join(report.gpu.torch_kernels.sass or general[0][1].archs)
        near = [(file, one) for file, one in sets if one.origin == "static" and loads(one.archs, device)]
        also = f" (only static libraries inside have it: {near[0][0]})" if near else ""
        return _say("no", "gpu-no-kernels", f"the kernels are for {have}: no image for {name}{also}", _plan(device))
    static = [(file, one) for file, one in sets if one.origin == "static" and loads(one.archs, device) is None]
    missing = lost + static
    if missing:
        total = sum(one.count for _, one in sets)
        count = sum(one.count for _, one in missing)
        where = "; ".join(sorted({f"{file}: {_brief(one)}" for file, one in missing}))
        return _say(
            "partly",
            "gpu-some-kernels",
            f"{count} of {total} containers have no image for {name}: {where}",
            _plan(device),
        )
    if any(loads(one.archs, device) == "ptx" for _, one in general):
        return _say("yes", "gpu-jit", f"runs on {name} through PTX, which the driver compiles at first use")
    return _say("yes", "gpu-native", f"machine code for {name} in every kernel that needs it")


def _brief(one: ArchSet) -> str:
    who = f" ({', '.join(one.kernels)})" if one.kernels else ""
    return f"{one.count} for {' '.join(one.archs)} only{who}"


def _plan(device: object) -> str:
    return f"rekindle plan --gpu {device}"


def _amd(report: WheelReport, device: Gfx, name: str) -> AxisVerdict:
    sets = [(library.file.rsplit("/", 1)[-1], one) for library in report.gpu.libraries for one in library.sets]
    with_gfx = [(file, one) for file, one in sets if any(_is_amd(arch) for arch in one.archs)]
    if not with_gfx and not any(_is_amd(arch) for arch in report.gpu.declared):
        return _say("no", "gpu-vendor", f"the wheel has NVIDIA code only; {name} is AMD", "take a ROCm wheel")
    doubtful: list[tuple[str, ArchSet]] = []
    if with_gfx:
        lost = [(file, one) for file, one in with_gfx if loads_gfx(one.archs, device) is False]
        doubtful = [(file, one) for file, one in with_gfx if loads_gfx(one.archs, device) is None]
        if len(lost) == len(with_gfx):
            have = " ".join(report.gpu.torch_kernels.gfx or with_gfx[0][1].archs)
            return _say("no", "gpu-no-kernels", f"the kernels are for {have}: no code for {name}", _plan(device))
        if lost:
            where = ", ".join(sorted({file for file, _ in lost}))
            return _say("partly", "gpu-some-kernels", f"no code for {name} in parts of {where}", _plan(device))
    else:
        fits, listed = loads_gfx(report.gpu.declared, device), " ".join(report.gpu.declared)
        if fits is False:
            return _say("no", "gpu-declared", f"built for {listed}: nothing for {name}", _plan(device))
        if fits is None:
            return _say(
                "unknown", "gpu-declared", f"built for {listed}: whether {name} runs it depends on its switches"
            )
    for data in report.gpu.data_files:
        if data.library in ("rocBLAS", "hipBLASLt") and loads_gfx(data.gfx, device) is False:
            runs = "no" if data.library == "rocBLAS" else "partly"
            text = f"{data.library} has no kernel files for {name} (it has {' '.join(data.gfx)})"
            return _say(runs, "gpu-math-library", text, _plan(device))
    if doubtful:
        return _doubt(doubtful, device, name)
    return _say("yes", "gpu-native", f"code for {name}")


def _is_amd(arch: str) -> bool:
    return arch.startswith("gfx") or arch == SPIRV


def _doubt(sets: list[tuple[str, ArchSet]], device: Gfx, name: str) -> AxisVerdict:
    """Why it cannot be told: code for the card that wants a switch set so or so, or SPIR-V alone."""
    file, one = sets[0]
    near = [arch for arch in one.archs if ":" in arch and loads_gfx([arch], device) is None]
    if near:
        switches = ", ".join(sorted({feature[:-1] for arch in near for feature in arch.split(":")[1:]}))
        text = f"{file} has code for {name} only as {' '.join(near)}; how {switches} stands on it is not known here"
        return _say(
            "unknown", "gpu-switch", text, "rocminfo shows it; HSA_XNACK=1 or 0 sets xnack on cards that allow it"
        )
    how = [arch for arch in one.archs if loads_gfx([arch], device) is None]
    if SPIRV in how:
        text = f"{file} has no code for {name}, only SPIR-V ({SPIRV}), which ROCm compiles on the machine itself"
        return _say("unknown", "gpu-spirv", text, "run it there: rekindle verify")
    text = f"{file} has code for {' '.join(how)}; whether that covers {name} is not in our tables"
    return _say("unknown", "gpu-generic", text, "run it there: rekindle verify")


def driver_verdicts(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    from rekindle.facts import load_facts

    if not report.cuda or not any(gpu.vendor == "nvidia" for gpu in machine.gpus):
        return []
    have = machine.drivers.nvidia
    toolkits = load_facts().cuda.toolkit
    version = ".".join(report.cuda.split(".")[:2])
    toolkit = toolkits.get(version)
    windows = machine.os.system == "windows"
    need = None
    if toolkit is not None:
        # Within a major release a driver of its first minor is enough for machine code.
        need = toolkit.minor_driver_windows if windows else toolkit.minor_driver_linux
        need = need or (toolkit.driver_windows if windows else toolkit.driver_linux)
    if need is None:
        return [_driver("unknown", "driver-not-known", f"which driver CUDA {version} needs is not in our tables")]
    if have is None:
        return [_driver("unknown", "driver-not-told", f"CUDA {version} needs driver {need} or newer")]
    if at_least(have, need):
        return [_driver("yes", "driver", f"driver {have} is new enough for CUDA {version} (needs {need})")]
    return [
        _driver("no", "driver", f"CUDA {version} needs driver {need}; the machine has {have}", "install a newer driver")
    ]


def _driver(runs: str, code: str, text: str, remedy: str | None = None) -> AxisVerdict:
    return AxisVerdict(axis="driver", runs=runs, code=code, text=text, remedy=remedy)  # type: ignore[arg-type]
