"""The examination: all probes side by side, their answers joined into one machine, and the verdicts."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import get_args

import msgspec
from msgspec.structs import replace

from rekindle import __version__
from rekindle.doctor.cpu import probe_cpu
from rekindle.doctor.gpus import probe_gpus
from rekindle.doctor.limits import MemoryLimits, probe_disks, probe_memory
from rekindle.doctor.probing import Answers, run_probes
from rekindle.doctor.pythons import Installations, probe_installations
from rekindle.doctor.system import probe_holders, probe_os
from rekindle.doctor.torch_verdict import torch_with_verdict
from rekindle.errors import BadInput
from rekindle.host.capture import write_capture
from rekindle.host.protocol import Host
from rekindle.host.record import join_records
from rekindle.host.redact import redactor_for
from rekindle.model.machine import Cpu, Examination, Os, System, Volume
from rekindle.model.progress import Progress
from rekindle.model.spoken import gib
from rekindle.readiness.case import ExaminedMachine, Graphics
from rekindle.readiness.fixes import find_managers
from rekindle.readiness.register import check_machine
from rekindle.toolkits.compilers import list_compilers
from rekindle.toolkits.libraries import find_toolkits
from rekindle.toolkits.programs import probe_programs

# Whatever hangs, the doctor is done by then; ten seconds is what the user is promised.
DEADLINE_S = 7.5
# Importing torch from a cold disk may take most of a minute; it is done only where asked for.
TRYING_DEADLINE_S = 60.0


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """The document, and everything that was asked for it (for a capture)."""

    examination: Examination
    answers: Answers


def examine(
    host: Host,
    *,
    workspace: str | None = None,
    try_torch: bool = False,
    deadline_s: float | None = None,
    progress: Progress | None = None,
) -> Examined:
    """Look at the whole machine. Never longer than ``deadline_s`` and a little, whatever hangs."""
    deadline_s = deadline_s or (TRYING_DEADLINE_S if try_torch else DEADLINE_S)
    begin = time.monotonic()
    if host.system not in get_args(System):
        raise BadInput(f"{host.system} is no system Rekindle knows (linux, windows, macos)")
    place = workspace or host.env.get("HOME") or host.env.get("USERPROFILE") or str(Path.home())
    probes = {
        "system": probe_os,
        "processor": probe_cpu,
        "memory": probe_memory,
        "disks": probe_disks(place),
        "graphics": probe_gpus,
        "toolkits": find_toolkits,
        "compilers": list_compilers,
        "pythons": probe_installations(try_torch),
        "tools": probe_programs,
        "package managers": find_managers,
        "programs that hold torch": probe_holders,
    }
    answers = run_probes(host, probes, deadline=begin + deadline_s, progress=progress)
    found = answers.found
    memory: MemoryLimits = found.get("memory", MemoryLimits())
    graphics: Graphics = found.get("graphics", Graphics())
    disks: tuple[Volume, ...] = found.get("disks", ())
    installed: Installations = found.get("pythons", Installations())
    machine = Examination(
        os=found.get("system") or Os(system=host.system),  # type: ignore[arg-type]
        cpu=found.get("processor", Cpu()),
        memory_gib=gib(memory.usable),
        memory_physical_gib=gib(memory.physical),
        memory_limited_by=memory.limited_by,
        swap_gib=gib(memory.swap),
        disk_free_gib=next((disk.free_gib for disk in disks if disk.purpose == "workspace"), None),
        disks=disks,
        gpus=graphics.gpus,
        drivers=graphics.drivers,
        toolkits=(*found.get("toolkits", ()), *installed.pieces),
        compilers=found.get("compilers", ()),
        pythons=installed.pythons,
        torches=installed.torches,
        tools=found.get("tools", {}),
    )
    machine = replace(machine, torches=tuple(torch_with_verdict(machine, torch) for torch in machine.torches))
    case = ExaminedMachine(
        machine=machine,
        graphics=graphics,
        managers=found.get("package managers", ()),
        workspace=place,
        torch_users=found.get("programs that hold torch", ()),
        gaps=tuple(answers.gaps),
    )
    checks, ready = check_machine(case)
    examination = replace(
        machine,
        checks=checks,
        ready=ready,
        gaps=tuple(answers.gaps),
        evidence=tuple(note for asking in answers.asked for note in list(asking.evidence)),
        seconds=round(time.monotonic() - begin, 2),
    )
    return Examined(examination=examination, answers=answers)


def write_examination(examined: Examined, directory: Path, *, host_name: str | None = None) -> Path:
    """Write all that was asked and answered as a capture, with nobody named in it, to be replayed anywhere."""
    record = join_records(asking.record for asking in examined.answers.asked)
    record.about = {
        "kind": "recorded",
        "title": f"{examined.examination.os.distro or examined.examination.os.system}, "
        + (", ".join(gpu.name or gpu.vendor for gpu in examined.examination.gpus) or "no GPU"),
        "written_by": f"rekindle {__version__} doctor --capture",
    }
    name = platform.node() if host_name is None else host_name
    return write_capture(redactor_for(record.env, name).record(record), directory)
