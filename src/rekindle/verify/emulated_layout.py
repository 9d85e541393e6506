"""A wheel laid out for an emulated CPU: unpacked, its Python dependencies beside it, missing libraries replaced."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from rekindle.emulate.qemu import EMULATED, PATIENCE, X86, EmulatedCpu, EmulatedMachine, Emulator
from rekindle.emulate.root import EmulatedPython
from rekindle.errors import BadInput
from rekindle.interpreters.environment import unpack_wheel
from rekindle.model.progress import Progress
from rekindle.model.spoken import spoken_bytes
from rekindle.verify.subject import Subject
from rekindle.verify.target import Target

MAX_UNPACKED = 64 << 30
# Machine code for GPUs, which no emulated CPU has; the libraries among them are replaced by stubs.
_GPU_ONLY = ("nvidia-", "triton", "pytorch-triton", "cuda-", "rocm", "intel-")


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
    python: EmulatedPython,
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
    if python.home is not None:
        settings["PYTHONHOME"] = str(python.home)
    command = emulator.command(cpu, root=python.root.path if python.root else None, env=settings)
    environment = {"emulator": f"qemu-user {emulator.version}", "cpu model": cpu.model}
    if stubbed:
        environment["stub libraries"] = " ".join(stubbed)
    no_import = remedy = None
    if subject.pythons and python.version not in subject.pythons:
        wanted = " or ".join(f"{major}.{minor}" for major, minor in sorted(subject.pythons))
        newest = "{}.{}".format(*max(subject.pythons))
        no_import = (
            f"the wheel is for Python {wanted}, the emulated one is {python.version[0]}.{python.version[1]}; "
            "only its C functions were tried"
        )
        remedy = (
            f"the emulated system needs Python {newest}: uv python install "
            f"cpython-{newest}-linux-{emulator.emulated.machine}-gnu, then the same command; "
            "or give one with --python EXE"
        )
    return Target(
        command=(*command, str(python.path)),
        package=subject.package,
        subject=f"{subject.path.name} on emulated {cpu.name}",
        patience=PATIENCE,
        cpu=cpu.name,
        cpu_features=None if cpu.has is None else {"has": sorted(cpu.has), "lacks": sorted(cpu.lacks or ())},
        no_import=no_import,
        no_import_remedy=remedy,
        environment=environment,
    )
