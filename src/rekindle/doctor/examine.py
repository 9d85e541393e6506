"""The examination: all probes side by side under one deadline, their answers joined into one machine, the verdicts. A
probe that hangs costs its own answer, no more."""

import functools
import platform
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from rekindle import __version__
from rekindle.doctor.amd import find_amd
from rekindle.doctor.cpu import probe_cpu
from rekindle.doctor.nvidia import find_jetson, find_nvidia
from rekindle.doctor.pci import find_cards, find_intel
from rekindle.doctor.pythons import Installations, probe_installations, torch_with_verdict
from rekindle.doctor.system import MemoryLimits, probe_disks, probe_holders, probe_memory, probe_os
from rekindle.errors import BadInput
from rekindle.host.asking import Asking
from rekindle.host.capture import join_records, render_capture
from rekindle.host.files import write_for_user
from rekindle.host.protocol import Host
from rekindle.host.redact import redactor_for
from rekindle.model.machine import Cpu, Examination, Gap, Os, System, Volume
from rekindle.model.progress import Progress, Silent
from rekindle.model.spoken import gib
from rekindle.readiness.case import ExaminedMachine, Graphics, find_managers
from rekindle.readiness.register import check_machine
from rekindle.toolkits.compilers import list_compilers
from rekindle.toolkits.libraries import find_toolkits
from rekindle.toolkits.programs import probe_programs

# Whatever hangs, the doctor is done by then; ten seconds is what the user is promised.
DEADLINE_S = 7.5
# Importing torch from a cold disk may take most of a minute; it is done only where asked for.
TRYING_DEADLINE_S = 60.0
OUR_BUG = "a bug in rekindle"
Probe = Callable[[Asking], Any]


class Examined(NamedTuple):
    """The document, and everything that was asked for it (for a capture)."""

    examination: Examination
    asked: list[Asking]


def examine(
    host: Host,
    *,
    workspace: str | None = None,
    try_torch: bool = False,
    deadline_s: float | None = None,
    progress: Progress | None = None,
) -> Examined:
    """Look at the whole machine. Never longer than ``deadline_s`` and a little, whatever hangs."""
    begin, deadline_s = time.monotonic(), deadline_s or (TRYING_DEADLINE_S if try_torch else DEADLINE_S)
    if host.system not in get_args(System):
        raise BadInput(f"{host.system} is no system Rekindle knows (linux, windows, macos)")
    place = workspace or host.env.get("HOME") or host.env.get("USERPROFILE") or str(Path.home())
    probes: dict[str, Probe] = {
        "system": probe_os,
        "processor": probe_cpu,
        "memory": probe_memory,
        "disks": functools.partial(probe_disks, workspace=place),
        "graphics": _probe_gpus,
        "toolkits": find_toolkits,
        "compilers": list_compilers,
        "pythons": functools.partial(probe_installations, try_torch=try_torch),
        "tools": probe_programs,
        "package managers": find_managers,
        "programs that hold torch": probe_holders,
    }
    by_probe, gaps, asked = _run_probes(host, probes, begin + deadline_s, progress or Silent())
    memory: MemoryLimits = by_probe.get("memory", MemoryLimits())
    graphics: Graphics = by_probe.get("graphics", Graphics())
    disks: tuple[Volume, ...] = by_probe.get("disks", ())
    installed: Installations = by_probe.get("pythons", Installations())
    machine = Examination(
        os=by_probe.get("system") or Os(system=host.system),  # type: ignore[arg-type]
        cpu=by_probe.get("processor", Cpu()),
        memory_gib=gib(memory.usable),
        memory_physical_gib=gib(memory.physical),
        memory_limited_by=memory.limited_by,
        swap_gib=gib(memory.swap),
        disk_free_gib=next((disk.free_gib for disk in disks if disk.purpose == "workspace"), None),
        disks=disks,
        gpus=graphics.gpus,
        drivers=graphics.drivers,
        toolkits=(*by_probe.get("toolkits", ()), *installed.pieces),
        compilers=by_probe.get("compilers", ()),
        pythons=installed.pythons,
        torches=installed.torches,
        tools=by_probe.get("tools", {}),
    )
    machine = replace(machine, torches=tuple(torch_with_verdict(machine, torch) for torch in machine.torches))
    managers, users = by_probe.get("package managers", ()), by_probe.get("programs that hold torch", ())
    asked_about = {"managers": managers, "torch_users": users}
    case = ExaminedMachine(machine=machine, graphics=graphics, workspace=place, gaps=gaps, **asked_about)
    checks, ready = check_machine(case)
    evidence = tuple(note for asking in asked for note in list(asking.evidence))
    seconds = round(time.monotonic() - begin, 2)
    return Examined(replace(machine, checks=checks, ready=ready, gaps=gaps, evidence=evidence, seconds=seconds), asked)


def _probe_gpus(host: Asking) -> Graphics:
    cards, nvidia = find_cards(host), find_jetson(host)
    nvidia = nvidia if nvidia.gpus else find_nvidia(host, cards)
    return Graphics(nvidia=nvidia, amd=find_amd(host, cards), intel=find_intel(host, cards))


def _run_probes(
    host: Host, probes: Mapping[str, Probe], deadline: float, progress: Progress
) -> tuple[dict[str, Any], tuple[Gap, ...], list[Asking]]:
    """Run all of them at once; ``deadline`` (monotonic) holds for the lot. What they found by name, without those that
    did not finish; what could not be learned, those included; and what was asked."""
    asked = {name: Asking(host, name, deadline) for name in probes}
    found: dict[str, Any] = {}
    errors: dict[str, Exception] = {}

    def run(name: str) -> None:
        try:
            found[name] = probes[name](asked[name])
        except Exception as error:  # noqa: BLE001 (carried to the caller's thread and reported there)
            errors[name] = error

    # Daemon threads: one that is stuck in a dead network mount must not keep the process from ending.
    threads = [threading.Thread(target=run, args=(name,), name=name, daemon=True) for name in probes]
    for thread in threads:
        thread.start()
    begin = time.monotonic()
    while threads and (left := deadline - time.monotonic()) > 0:
        threads[0].join(min(left, 0.5))
        threads = [thread for thread in threads if thread.is_alive()]
        waited = time.monotonic() - begin
        if threads and waited > 1.5:
            progress.step(waited, deadline - begin, "waiting for " + ", ".join(thread.name for thread in threads))
    # Copied, because a probe that is still running may go on noting.
    answers, gaps = dict(found), []
    for name, asking in asked.items():
        gaps += list(asking.gaps)
        if name in errors:
            # Our own mistake in one probe must not hide the rest of the machine; it is said, not swallowed.
            gaps.append(Gap(what=name, why=f"{OUR_BUG} ({errors[name]!r:.200}); please report it"))
        elif name not in answers:
            last = asking.evidence[-1].asked if asking.evidence else "its first question"
            gaps.append(Gap(what=name, why=f"no answer in time (after {last})"))
    return answers, tuple(gaps), list(asked.values())


def write_examination(examined: Examined, directory: Path) -> Path:
    """Write all that was asked and answered as a capture, with nobody named in it, to be replayed anywhere."""
    record, machine = join_records(asking.record for asking in examined.asked), examined.examination
    gpus = ", ".join(gpu.name or gpu.vendor for gpu in machine.gpus) or "no GPU"
    title = f"{machine.os.distro or machine.os.system}, {gpus}"
    record.about = {"kind": "recorded", "title": title, "written_by": f"rekindle {__version__} doctor --capture"}
    path = directory / "capture.toml"
    write_for_user(path, render_capture(redactor_for(record.env, platform.node()).record(record)))
    return path
