"""Does what is installed fit together, and fit the cards? By the facts tables.

A toolkit may be there and still be useless: too old for the card, too old for the compiler, or with a
cuDNN made for another CUDA. Each such misfit is one sentence; no misfit is no sentence; what the tables do
not know is no misfit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from rekindle.doctor.text import version_key
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm, sass_runs_on
from rekindle.model.facts import CudaToolkit
from rekindle.model.machine import Compiler, Gpu, Machine, Toolkit


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """``blocking``: nothing can be built with it here; else it only leaves out some card."""

    toolkit: Toolkit
    why: str
    blocking: bool = True


def cuda_misfits(machine: Machine, toolkit: Toolkit) -> list[Misfit]:
    """What keeps this CUDA toolkit from building for this machine."""
    row = load_facts().toolkit(toolkit.version or "")
    if row is None:
        return []
    found = []
    if (toolkit.note or "").startswith("no nvcc"):
        found.append(Misfit(toolkit=toolkit, why=f"CUDA {toolkit.version} has no nvcc here: it cannot compile"))
    if reason := _no_compiler(machine, toolkit, row):
        found.append(Misfit(toolkit=toolkit, why=reason))
    cards = _nvidia(machine)
    without = [(gpu, reason) for gpu in cards if (reason := _no_code(toolkit, row, gpu))]
    # A second card for the screen may be too old for a toolkit that serves the first well.
    found += [Misfit(toolkit=toolkit, why=reason, blocking=len(without) == len(cards)) for _, reason in without]
    return found


def _nvidia(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]


def _no_code(toolkit: Toolkit, row: CudaToolkit, gpu: Gpu) -> str | None:
    if not isinstance(gpu.arch, Sm) or any(sass_runs_on(code, gpu.arch) for code in row.sass):
        return None
    newest = max(row.sass)
    side = "the newest it knows is" if gpu.arch > newest else "the oldest it knows is"
    edge = newest if gpu.arch > newest else min(row.sass)
    return f"CUDA {toolkit.version} cannot compile for {gpu.arch} ({gpu.name}); {side} {edge}"


def _no_compiler(machine: Machine, toolkit: Toolkit, row: CudaToolkit) -> str | None:
    if machine.os.system == "windows":
        wanted, text = [c for c in machine.compilers if c.kind == "msvc"], _msvc_range(row)
        good = [c for c in wanted if _msvc_fits(c, row)]
    else:
        wanted, text = [c for c in machine.compilers if c.kind in ("gcc", "clang") and usable(c)], _unix_range(row)
        good = [c for c in wanted if _unix_fits(c, row)]
    if good or not wanted or not text:
        return None
    have = ", ".join(f"{c.kind} {c.version}" for c in wanted)
    return f"CUDA {toolkit.version} takes {text}; here is {have}"


def usable(compiler: Compiler) -> bool:
    return not (compiler.note or "").startswith("C only")


def _unix_fits(compiler: Compiler, row: CudaToolkit) -> bool:
    low, high = (row.gcc_min, row.gcc_max) if compiler.kind == "gcc" else (row.clang_min, row.clang_max)
    version = version_key(compiler.version)
    if high is not None and version[0] > high:
        return False
    return low is None or version >= version_key(low)


def _unix_range(row: CudaToolkit) -> str:
    parts = [
        f"{kind} up to {high}" for kind, high in (("gcc", row.gcc_max), ("clang", row.clang_max)) if high is not None
    ]
    return " or ".join(parts)


def _msvc_fits(compiler: Compiler, row: CudaToolkit) -> bool:
    """``_MSC_VER`` is 1900 and the minor: cl 19.44 says 1944."""
    major, minor = version_key(compiler.version)[:2]
    number = major * 100 + minor
    return (row.msvc_from is None or number >= row.msvc_from) and (row.msvc_below is None or number < row.msvc_below)


def _msvc_range(row: CudaToolkit) -> str:
    if row.msvc_below is None:
        return ""
    limit = row.msvc_below - 1
    studio = f" (Visual Studio {row.visual_studio})" if row.visual_studio else ""
    return f"MSVC up to {limit // 100}.{limit % 100}{studio}"


def cudnn_misfits(machine: Machine) -> list[Misfit]:
    """cuDNNs with headers (a build would take them) that belong to no CUDA toolkit of this machine."""
    cuda = [t for t in machine.toolkits if t.kind == "cuda" and t.version and not _from_pip(t)]
    found = []
    for toolkit in machine.toolkits:
        made_for = re.search(r"for CUDA (\d+)", toolkit.note or "")
        if toolkit.kind != "cudnn" or _from_pip(toolkit) or made_for is None or not cuda:
            continue
        if not any(version_key(t.version)[0] == int(made_for[1]) for t in cuda):
            have = ", ".join(str(t.version) for t in cuda)
            why = f"cuDNN {toolkit.version} is made {toolkit.note}; the toolkit here is CUDA {have}"
            found.append(Misfit(toolkit=toolkit, why=why))
    return found


def cudnn_cards(machine: Machine) -> list[Misfit]:
    """cuDNNs that have no code for a card of this machine."""
    found = []
    for toolkit in (t for t in machine.toolkits if t.kind == "cudnn" and not _from_pip(t)):
        row = load_facts().cudnn.cudnn.get(toolkit.version or "")
        made_for = re.search(r"for CUDA (\d+(?:\.\d+)?)", toolkit.note or "")
        if row is None or made_for is None:
            continue
        oldest = row.cuda.get(made_for[1]) or row.cuda.get(made_for[1].split(".")[0] + ".x")
        cards = _nvidia(machine)
        without = [gpu for gpu in cards if oldest is not None and isinstance(gpu.arch, Sm) and gpu.arch < oldest]
        for gpu in without:
            why = f"cuDNN {toolkit.version} has no code for {gpu.arch} ({gpu.name}); its oldest is {oldest}"
            found.append(Misfit(toolkit=toolkit, why=why, blocking=len(without) == len(cards)))
    return found


def rocm_misfit(machine: Machine, toolkit: Toolkit) -> str | None:
    """A ROCm whose published list has none of the machine's cards; a version the tables lack is no misfit."""
    ours = version_key(toolkit.version)[:2]
    row = next((row for name, row in load_facts().rocm.release.items() if version_key(name)[:2] == ours), None)
    cards = [gpu for gpu in machine.gpus if gpu.vendor == "amd" and isinstance(gpu.arch, Gfx)]
    if row is None or not cards:
        return None
    known = {target.name for target in row.gfx}
    without = [gpu for gpu in cards if isinstance(gpu.arch, Gfx) and gpu.arch.name not in known]
    if len(without) < len(cards):
        return None
    named = ", ".join(f"{gpu.arch} ({gpu.name})" for gpu in without)
    return f"AMD does not list {named} for ROCm {toolkit.version}; its libraries may have no code for it"


def driver_misfit(machine: Machine, cuda: str) -> str | None:
    """Is the driver too old for programs of this CUDA? Within a major version a lower minimum holds."""
    row, driver = load_facts().toolkit(cuda), machine.drivers.nvidia
    if row is None or driver is None or not re.match(r"\d+\.\d+", driver):
        return None
    if machine.os.system == "windows":
        least = row.minor_driver_windows or row.driver_windows
    else:
        least = row.minor_driver_linux or row.driver_linux
    if least is None or version_key(driver) >= version_key(least):
        return None
    return f"CUDA {cuda} needs driver {least} or newer; here is {driver}"


def _from_pip(toolkit: Toolkit) -> bool:
    return (toolkit.note or "").startswith("pip")


def lacks_code(archs: Sequence[str], gpu: Gpu) -> bool:
    """Has a torch with these targets nothing that runs on the card? ``sm_86``, ``8.6`` or ``8.6+PTX``."""
    from rekindle.model.arch import parse_sm, ptx_runs_on

    if not isinstance(gpu.arch, Sm):
        return not any(name.split(":")[0] == str(gpu.arch).split(":")[0] for name in archs) if gpu.arch else False
    for name in archs:
        if not re.fullmatch(r"(sm_|compute_)?\d+(\.\d)?[af]?(\+PTX)?", name):
            continue
        target = parse_sm(name.removesuffix("+PTX"))
        if (name.startswith("compute_") or name.endswith("+PTX")) and ptx_runs_on(target, gpu.arch):
            return False
        if not name.startswith("compute_") and sass_runs_on(target, gpu.arch):
            return False
    return True
