"""A wheel laid out for an emulated CPU: unpacked, its Python dependencies beside it, missing libraries replaced."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rekindle.emulate.python import EmulatedPython
from rekindle.emulate.qemu import EMULATED, PATIENCE, X86, EmulatedCpu, EmulatedMachine, Emulator
from rekindle.emulate.root import Root
from rekindle.errors import BadInput
from rekindle.host.sandbox import parts_of
from rekindle.interpreters.environment import unpack_wheel
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Progress
from rekindle.model.spoken import spoken_bytes
from rekindle.verify.subject import Subject
from rekindle.verify.target import Target

MAX_UNPACKED = 64 << 30
# Machine code for GPUs, which no emulated CPU has; the libraries among them are replaced by stubs.
_GPU_ONLY = ("nvidia-", "triton", "pytorch-triton", "cuda-", "rocm", "intel-")


@dataclass(frozen=True, kw_only=True)
class EmulatedLayout:
    """The interpreter inside the emulation. ``root`` is None where the machine itself is of that kind."""

    python: Path
    version: tuple[int, int]
    root: Root | None
    home: Path | None = None
    emulated: EmulatedMachine = X86


def layout_from(interpreter: Interpreter, emulated: EmulatedMachine = X86) -> EmulatedLayout:
    """The layout around an interpreter of this machine, which is of the kind that is emulated."""
    # The interpreter itself, not an environment around it: only the wheel and its dependencies are to be seen.
    python = Path(interpreter.path).resolve()
    return EmulatedLayout(python=python, version=interpreter.release, root=None, emulated=emulated)


def layout_in(found: EmulatedPython) -> EmulatedLayout:
    """The layout around an interpreter of the emulated system."""
    return EmulatedLayout(
        python=found.path, version=found.version, root=found.root, home=found.home, emulated=found.root.emulated
    )


def places(layout: EmulatedLayout) -> list[Path]:
    """The folders the emulated interpreter lies in."""
    root = [layout.root.path] if layout.root else []
    return [*root, *parts_of(layout.python.parent.parent), *(parts_of(layout.home) if layout.home else [])]


def machine_for(subject: Subject) -> EmulatedMachine:
    """The kind of machine the wheel's code is for."""
    emulated = EMULATED.get(subject.machine or X86.machine)
    if subject.system != "linux" or emulated is None:
        raise BadInput(
            f"{subject.path.name} holds no code for Linux on x86-64 or AArch64, which are what can be emulated",
            remedy="--cpu takes wheels for linux_x86_64, linux_aarch64 or manylinux of these",
        )
    return emulated


def unpack(subject: Subject, folder: Path, progress: Progress) -> None:
    """Lay the wheel's files out as an installer does. Sizes are strangers' words, so they are checked."""
    progress.stage("unpacking", subject.path.name)
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    if subject.unpacked > min(free, MAX_UNPACKED):
        raise BadInput(
            f"{subject.path.name} unpacks to {spoken_bytes(subject.unpacked)}, {folder} has {spoken_bytes(free)} free",
            remedy="set TMPDIR to a larger disk",
        )
    try:
        unpack_wheel(subject.path, folder, lambda done, name: progress.step(done, subject.unpacked, name))
    except (OSError, zipfile.BadZipFile, RuntimeError, EOFError) as error:
        raise BadInput(f"cannot unpack {subject.path}: {error}", remedy="is the download complete?") from error


def wanted_dependencies(subject: Subject, version: tuple[int, int], emulated: EmulatedMachine = X86) -> list[str]:
    """The wheel's requirements on that machine with the emulated Python, without what only serves GPUs."""
    environment = {
        "python_version": f"{version[0]}.{version[1]}",
        "python_full_version": f"{version[0]}.{version[1]}.0",
        "platform_machine": emulated.machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "extra": "",
    }
    found = []
    for requirement in subject.requirements:
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        if not requirement.name.lower().startswith(_GPU_ONLY):
            requirement.marker = None
            found.append(str(requirement))
    return found


def emulated_target(
    emulator: Emulator,
    cpu: EmulatedCpu,
    layout: EmulatedLayout,
    *,
    site: Path,
    stubs: Path,
    subject: Subject,
    stubbed: list[str],
    env: Mapping[str, str],
) -> Target:
    """The command that runs the agent on the emulated CPU; ``env`` is the user's, for the emulated program alone."""
    settings = {
        "PYTHONPATH": str(site),
        "LD_LIBRARY_PATH": str(stubs),
        # One thread: the emulator runs them in turn, and a crash is then where it seems to be.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **env,
    }
    if layout.home is not None:
        settings["PYTHONHOME"] = str(layout.home)
    command = emulator.command(cpu, root=layout.root.path if layout.root else None, env=settings)
    environment = {"emulator": f"qemu-user {emulator.version}", "cpu model": cpu.model}
    if stubbed:
        environment["stub libraries"] = " ".join(stubbed)
    fits = not subject.pythons or layout.version in subject.pythons
    return Target(
        command=(*command, str(layout.python)),
        package=subject.package,
        subject=f"{subject.path.name} on emulated {cpu.name}",
        patience=PATIENCE,
        cpu=cpu.name,
        cpu_features=None if cpu.has is None else {"has": sorted(cpu.has), "lacks": sorted(cpu.lacks or ())},
        no_import=None if fits else _other_python(subject, layout),
        no_import_remedy=None if fits else _wanted_python(subject, layout.emulated),
        environment=environment,
    )


def _other_python(subject: Subject, layout: EmulatedLayout) -> str:
    wanted = " or ".join(f"{a}.{b}" for a, b in sorted(subject.pythons))
    return (
        f"the wheel is for Python {wanted}, the emulated one is {layout.version[0]}.{layout.version[1]}; "
        "only its C functions were tried"
    )


def _wanted_python(subject: Subject, emulated: EmulatedMachine) -> str:
    """How the emulated system gets the Python of this wheel."""
    major, minor = max(subject.pythons)
    name = f"cpython-{major}.{minor}-linux-{emulated.machine}-gnu"
    return (
        f"the emulated system needs Python {major}.{minor}: uv python install {name}, then the same command; "
        "or give one with --python EXE"
    )
