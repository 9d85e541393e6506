"""Does what is installed fit together, and fit the cards? By the facts tables.

A toolkit may be there and still be useless: too old for the card, too old for the compiler, or with a
cuDNN made for another CUDA. Each such misfit is one sentence; no misfit is no sentence; what the tables do
not know is no misfit.
"""

from __future__ import annotations

import re

import msgspec

from rekindle.compat.driver import driver_runs, driver_side, is_board
from rekindle.compat.toolkit import compiler_span, compiles_for, cudnn_covers, takes_compiler
from rekindle.facts import load_facts
from rekindle.host.text import version_key
from rekindle.model.arch import Gfx, Sm
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
    answers = [
        compiles_for(toolkit.version or "", gpu.arch, load_facts(), gpu.name)
        for gpu in cards
        if isinstance(gpu.arch, Sm)
    ]
    without = [found for found in answers if found.kind == "no"]
    # A second card for the screen may be too old for a toolkit that serves the first well.
    found += [Misfit(toolkit=toolkit, why=one.text, blocking=len(without) == len(cards)) for one in without]
    found += [Misfit(toolkit=toolkit, why=one.text, blocking=False) for one in answers if one.kind == "partly"]
    return found


def _nvidia(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]


def _no_compiler(machine: Machine, toolkit: Toolkit, row: CudaToolkit) -> str | None:
    kinds = ("msvc",) if machine.os.system == "windows" else ("gcc", "clang")
    wanted = [c for c in machine.compilers if c.kind in kinds and usable(c)]
    text = " or ".join(span for kind in kinds if (span := compiler_span(row, kind)))
    good = [c for c in wanted if takes_compiler(row, c.kind, c.version) is not False]
    if good or not wanted or not text:
        return None
    have = ", ".join(f"{c.kind} {c.version}" for c in wanted)
    return f"CUDA {toolkit.version} takes {text}; here is {have}"


def usable(compiler: Compiler) -> bool:
    return not (compiler.note or "").startswith("C only")


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
    cards = _nvidia(machine)
    for toolkit in (t for t in machine.toolkits if t.kind == "cudnn" and not _from_pip(t)):
        made_for = re.search(r"for CUDA (\d+(?:\.\d+)?)", toolkit.note or "")
        if made_for is None or not toolkit.version:
            continue
        answers = [(gpu, cudnn_covers(toolkit.version, made_for[1], gpu.arch, load_facts())) for gpu in cards]
        without = [(gpu, one) for gpu, one in answers if one.kind == "partly"]
        for gpu, one in without:
            why = f"{one.text} ({gpu.name})"
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


def driver_misfit(machine: Machine, cuda: str | None, *, ptx: bool = False) -> str | None:
    """Does the driver not run programs of this CUDA here (None: not drive the cards at all)? Too old, or too new."""
    sms = [gpu.arch for gpu in _nvidia(machine) if isinstance(gpu.arch, Sm)]
    driver = machine.drivers.nvidia
    if driver is None or is_board(machine.os, sms, load_facts()):
        return None
    names = [f"{gpu.name or 'the card'} ({gpu.arch})" for gpu in _nvidia(machine) if isinstance(gpu.arch, Sm)]
    found = driver_runs(driver, cuda, sms, driver_side(machine.os), load_facts(), ptx=ptx, names=names)
    return found.text if found.kind == "no" else None


def _from_pip(toolkit: Toolkit) -> bool:
    return (toolkit.note or "").startswith("pip")
