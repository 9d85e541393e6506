"""The doctor's table as one would paste it into an issue: short, aligned, nothing private in it."""

import functools
import os
import platform
from collections.abc import Iterable, Mapping

from rekindle.host.redact import redactor_for
from rekindle.model.machine import Compiler, Examination, Gpu, InstalledTorch, Machine
from rekindle.model.plan import Plan
from rekindle.model.spoken import sentence
from rekindle.render.screen import Screen, shown_as, widest
from rekindle.render.summary import summarise_plan


def show_examination(document: Examination, screen: Screen) -> None:
    """Everything the doctor found, and what it asked for it with -v."""
    screen.verdict(*shown_as("ready", f"{document.ready.use}/{document.ready.build}"))
    screen.line()
    rows: list[list[str]] = []
    labelled = _labelled_lines(document) | {"features": [" ".join(document.cpu.features)] if screen.verbosity else []}
    for label, lines in labelled.items():
        rows += [[label if number == 0 else "", line] for number, line in enumerate(filter(None, lines))]
    screen.rows(rows)
    screen.section("Needed to use / to build")
    width = widest(check.id for check in document.checks)
    for check in document.checks:
        want = f", want {check.want}" if check.status != "ok" and check.want else ""
        purposes, state = "+".join(check.needed_for).ljust(9), private((check.found or "missing") + want)
        screen.line(f"  {screen.mark(check.status)} {check.id.ljust(width)}  {purposes}  {state}")
        if check.why:
            screen.paragraph(private(check.why), indent=width + 17)
        if check.fix and check.status != "ok":
            screen.line(" " * (width + 17) + screen.style(f"→ {check.fix}", "cyan"))
    screen.bullets((private(f"{gap.what}: {gap.why}") for gap in document.gaps), title="Could not learn")
    if screen.verbosity:
        asked = ([note.probe, private(note.asked)[:70], private(note.said)] for note in document.evidence)
        screen.rows(asked, title="Asked")


def _labelled_lines(machine: Machine) -> dict[str, list[str]]:
    disks = ", ".join(f"{d.free_gib:g} GiB free for {d.purpose}" for d in machine.disks)
    if not machine.disks and machine.disk_free_gib is not None:
        disks = f"{machine.disk_free_gib:g} GiB free"
    drivers = {"NVIDIA": machine.drivers.nvidia, "amdgpu": machine.drivers.amdgpu, "L4T": machine.drivers.l4t}
    return {
        "system": [_system(machine)],
        "processor": [_processor(machine)],
        "memory": [_memory(machine)],
        "disk": [disks],
        "gpu": [*map(_gpu, machine.gpus)] or ["none found"],
        "driver": [_join_versions(drivers)],
        "toolkits": [
            f"{kit.kind} {kit.version or '?'}  {private(kit.path or '')}" + (f" ({kit.note})" if kit.note else "")
            for kit in machine.toolkits
        ],
        "compilers": [*map(_compiler, machine.compilers)],
        "pythons": [
            f"{each.version}  {private(each.path or '')}"
            + (f" ({', '.join(filter(None, (each.kind, each.note)))})" if each.kind else "")
            for each in machine.pythons
        ],
        "torch": [*map(_torch, machine.torches)],
        "tools": [_join_versions(machine.tools)],
    }


def _join_versions(versions: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _system(machine: Machine) -> str:
    os_ = machine.os
    parts = (
        *(os_.distro or os_.system, os_.arch, f"glibc {os_.glibc}" if os_.glibc else None, "WSL" if os_.wsl else None),
        f"container: {os_.container}" if os_.container else None,
        f"virtual machine: {os_.virtual_machine}" if os_.virtual_machine and not os_.wsl else None,
        os_.model,
    )
    return ", ".join(filter(None, parts))


def _processor(machine: Machine) -> str:
    cpu = machine.cpu
    cores = f"{cpu.cores} cores" if cpu.cores else None
    threads = f"{cpu.threads} threads" if cpu.threads and cpu.threads != cpu.cores else None
    allowed = f"{cpu.allowed:g} allowed" if cpu.allowed else None
    return ", ".join(filter(None, (cpu.name or "unknown", cpu.microarchitecture, cores, threads, allowed)))


def _memory(machine: Machine) -> str:
    if machine.memory_gib is None:
        return "unknown"
    whole = machine.memory_physical_gib if machine.memory_limited_by else None
    limit = f" ({machine.memory_limited_by} limit; the machine has {whole:g})" if whole else ""
    return f"{machine.memory_gib:g} GiB{limit}, swap {machine.swap_gib or 0:g} GiB"


def _gpu(gpu: Gpu) -> str:
    memory = f"{gpu.memory_gib:g} GiB" if gpu.memory_gib else None
    parts = (gpu.name or f"unknown {gpu.vendor} card", str(gpu.arch or "architecture unknown"), memory)
    return ", ".join(filter(None, parts)) + f" [{gpu.how}]" + (f" {gpu.note}" if gpu.note else "")


def _compiler(compiler: Compiler) -> str:
    # Visual Studio's paths are a line long and say nothing that the toolset does not.
    place = "" if compiler.kind == "msvc" else private(compiler.path or "")
    note = compiler.note if compiler.kind == "msvc" else f"({compiler.note})" if compiler.note else None
    return f"{compiler.kind} {compiler.version}  " + " ".join(filter(None, (place, note)))


def _torch(torch: InstalledTorch) -> str:
    built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm}" if torch.rocm else "CPU only"
    state = {True: "loads", False: "does not load", None: "not tried"}[torch.works]
    if torch.gpu_works is not None:
        state = "works on the GPU" if torch.gpu_works else "fails on the GPU"
    return private(f"{torch.version}  {torch.path or torch.python} ({built}; {state})")


def private(text: str) -> str:
    """Paths below the user's home begin with ~; names, serials and numbers that identify are taken out."""
    for home in (os.path.expanduser("~"), os.environ.get("USERPROFILE", "")):  # noqa: PTH111 (plain text wanted)
        if len(home) > 3:
            text = text.replace(home, "~")
    return _redactor().text(text)


_redactor = functools.cache(lambda: redactor_for(os.environ, platform.node()))
_SHORT = ("system", "processor", "memory", "disk", "gpu", "driver")
_SHOWN_VERSIONS = 5


def show_glance(document: Examination, plan: Plan | None, screen: Screen) -> None:
    """One line per part of the machine, what is wrong with it, and the torch for it."""
    screen.verdict(*shown_as("ready", f"{document.ready.use}/{document.ready.build}"))
    screen.line()
    screen.labels(_glance_rows(document))
    wrong = [check for check in document.checks if check.status in ("warn", "fail")]
    if wrong:
        screen.section("Missing, or to know")
        wide = widest(check.id for check in wrong)
        for check in wrong:
            why = private(check.why or (check.found or "missing") + (f", want {check.want}" if check.want else ""))
            screen.entry(check.id.ljust(wide), f"{why} (to {' and '.join(check.needed_for)})", status=check.status)
            if check.fix:
                screen.line(" " * (wide + 5) + screen.style(f"→ {check.fix}", "cyan"))
    if plan is not None:
        _torch_line(document, plan, screen)
    screen.line()
    screen.hint("--details shows every path, check and gap; --json is for scripts")


def _torch_line(document: Examination, plan: Plan, screen: Screen) -> None:
    screen.section("The torch for it")
    if plan.answer == "none":
        screen.bullets((reason.text for reason in plan.because[:2]), status="fail")
        screen.command("rekindle plan -v")
        return
    screen.paragraph(sentence(summarise_plan(plan)))
    screen.bullets([warning.text for warning in plan.warnings if not warning.handled][:2], status="warn")
    screen.command("rekindle up")
    torches = [torch for torch in document.torches if torch.version.partition("+")[0] == plan.torch]
    if torches:
        screen.paragraph(f"(one of that release is here: {private(torches[0].path or torches[0].python or '')})")


def _glance_rows(document: Examination) -> list[tuple[str, str]]:
    labelled = _labelled_lines(document)
    rows = {
        **{name: "; ".join(labelled[name]) for name in _SHORT},
        "toolkits": _join_few(f"{kit.kind} {kit.version or '?'}" for kit in document.toolkits),
        "compilers": _join_few(f"{compiler.kind} {compiler.version}" for compiler in document.compilers),
        "pythons": _join_few(python.version for python in document.pythons) or "none found",
        "torch": _join_few(torch.version for torch in document.torches),
    }
    return [(name, text) for name, text in rows.items() if text]


def _join_few(values: Iterable[str]) -> str:
    names = list(dict.fromkeys(values))
    more = f" and {len(names) - _SHOWN_VERSIONS} more" if len(names) > _SHOWN_VERSIONS else ""
    return ", ".join(names[:_SHOWN_VERSIONS]) + more
