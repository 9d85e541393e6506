"""From what the user named (a wheel, an interpreter) to a report. For an emulated CPU a wheel is laid out: unpacked,
its Python dependencies beside it, missing libraries replaced."""

import contextlib
import dataclasses
import errno
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from rekindle.emulate.qemu import EMULATED, PATIENCE, EmulatedCpu, EmulatedMachine, Emulator, choose_cpu, find_emulator
from rekindle.emulate.root import EmulatedPython, compile_ahead, find_emulated_python
from rekindle.emulate.stubs import write_stubs
from rekindle.errors import BadInput, RekindleError
from rekindle.facts import load_facts
from rekindle.host.files import file_state, refuse_changed, sha256_of
from rekindle.host.protocol import Host
from rekindle.host.sandbox import links_of, parts_of
from rekindle.interpreters.environment import unpack_wheel
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.interpreters.search import ask_interpreter, find_interpreter, search_version, usual_python
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Progress
from rekindle.model.spoken import spoken_bytes
from rekindle.model.verify import VerifyReport
from rekindle.verify.environment import (
    install_for_emulation,
    judge_wheel,
    prepare_environment,
    refuse_addresses,
    refuse_small_disk,
)
from rekindle.verify.runner import run_checks
from rekindle.verify.target import KNOWN, Subject, Target, Trial, provable, read_subject

_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Everything inside writes to the temporary directory or the cache."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OURS:
            raise
        text = f"cannot write to {error.filename or tempfile.gettempdir()}: {error.strerror}"
        raise BadInput(text, remedy="free some space there, or set TMPDIR to another disk") from error


@disk_errors()
def prove_wheel(host: Host, wheel: Path, trial: Trial, *, progress: Progress) -> VerifyReport:
    """Install a wheel into an environment of its own and try it there. A companion (one that an operation is known for)
    brings its torch along: that torch is proven, and the companion's operation beside it."""
    state = file_state(wheel)
    subject = read_subject(wheel)
    companions = provable([subject.distribution])
    package = "torch" if companions else subject.package
    _refuse_unknown(package)
    sha256 = sha256_of(wheel)
    isolation = judge_wheel(subject, sha256, trial.sandbox, trial.gpu)
    interpreter = python_for(host, subject, trial.python)
    with tempfile.TemporaryDirectory(prefix="rekindle-env-", ignore_cleanup_errors=True) as folder:
        refuse_small_disk(host, subject, folder)
        try:
            exe = prepare_environment(
                host,
                Path(folder) / "env",
                interpreter,
                subject,
                extra=extra_packages(subject),
                dependencies=trial.dependencies,
                # The torch it was compiled against may lie beside it, and nowhere else.
                find_links=(*trial.find_links, *([str(wheel.parent)] if companions else [])),
                wheels_only=isolation.wheels_only,
                progress=progress,
            )
        except RekindleError:
            refuse_changed(wheel, state)  # what the installer says of half a file is no help
            raise
        refuse_changed(wheel, state)  # before anything of it runs: another one was judged
        # What an interpreter needs to see of itself: where its standard library and its links lead.
        own = [*parts_of(Path(interpreter.base_prefix or interpreter.path)), *links_of(Path(interpreter.path))]
        shown = [Path(folder) / "env", *own, *links_of(exe)]
        box, about = isolation.sandbox(shown, [str(exe), "-I", "-S", "-c", ""], Path(folder) / "probe", progress)
        target = Target(
            command=(str(exe),), env=trial.env, package=package, subject=wheel.name, environment=about, sandbox=box
        )
        progress.stage("verifying", wheel.name)
        if not companions:
            trial = msgspec.structs.replace(trial, expect={"version": subject.version, **trial.expect})
        return about_wheel(run_checks(target, trial, companions=companions, progress=progress), wheel, sha256, state)


@disk_errors()
def prove_installed(
    host: Host, trial: Trial, package: str, companions: Sequence[str], progress: Progress
) -> VerifyReport:
    """Try the package that an interpreter already has, and the ``companions`` beside it."""
    _refuse_unknown(package)
    interpreter = installed_python(host, trial.python)
    path = interpreter.path
    target = Target(command=(path,), env=trial.env, package=package, subject=f"{package} in {path}")
    script = f"import importlib.util as u; print(u.find_spec({package!r}) is not None)"
    looked = host.run([path, "-c", script], timeout=60.0)
    if looked.out.strip() != "True":
        remedy = "give the right interpreter with --python EXE, or a wheel with --wheel FILE"
        raise BadInput(f"{path} (Python {interpreter.short}) has no {package}", remedy=remedy)
    progress.stage("verifying", target.subject)
    return run_checks(target, trial, companions=companions, progress=progress)


def installed_python(host: Host, given: str | None) -> Interpreter:
    """The interpreter that was named, or the one people mean, by a path that holds wherever the checks run."""
    if (name := given or usual_python(host)) is None:
        raise BadInput("there is no python3 on PATH", remedy="give one with --python EXE")
    interpreter = find_interpreter(host, name)
    return msgspec.structs.replace(interpreter, path=str(Path(interpreter.path).absolute()))


def python_for(host: Host, subject: Subject, given: str | None) -> Interpreter:
    """The interpreter that was named, or one that the wheel is for: the one that runs us, where any will do."""
    if given:
        return find_interpreter(host, given)
    if not subject.pythons:
        return ask_interpreter(host, sys.executable)
    suffix = "t" if subject.gil_disabled else ""
    names = [f"{major}.{minor}{suffix}" for major, minor in sorted(subject.pythons, reverse=True)]
    for version in names:
        if python := next(search_version(host, version, ours_first=True), None):
            return python
    remedy = f"give one with --python EXE, or install one: uv python install {names[0]}"
    raise BadInput(f"the wheel is for Python {' or '.join(names)}, and there is none on this machine", remedy=remedy)


def about_wheel(report: VerifyReport, wheel: Path, sha256: str, state: tuple[int, ...]) -> VerifyReport:
    """The report of this very file, which must still be the one that was tried."""
    refuse_changed(wheel, state)
    return msgspec.structs.replace(report, wheel_sha256=sha256)


def extra_packages(subject: Subject) -> list[str]:
    """NumPy beside torch, of a version it was built for: torch does not require it, its users do. A companion that was
    built for one torch asks for any NumPy, and pip would bring the newest."""
    release = subject.version if subject.package == "torch" else _torch_of(subject)
    wants = any(text.lower().startswith("numpy") for text in subject.requires)
    if release is None or (wants and subject.package == "torch"):
        return []
    limit = load_facts().era(Version(release).base_version).numpy_linux
    return [f"numpy{limit}"] if limit or not wants else []


def _torch_of(subject: Subject) -> str | None:
    """The one torch that a wheel requires; None where it leaves a choice."""
    for wish in subject.requirements:
        exact = [clause.version for clause in wish.specifier if clause.operator == "==" and "*" not in clause.version]
        if wish.name == "torch" and wish.marker is None and exact:
            return exact[0]
    return None


def _refuse_unknown(package: str) -> None:
    if package not in KNOWN:
        raise BadInput(f"there are checks for {' and '.join(KNOWN)}, none for {package!r}")


@disk_errors()
def prove_emulated(host: Host, wheel: Path, name: str, trial: Trial, cache: Path, progress: Progress) -> VerifyReport:
    """Lay a wheel out for an emulated CPU and try it there."""
    state = file_state(wheel)
    subject = read_subject(wheel)
    _refuse_unknown(subject.package)
    sha256 = sha256_of(wheel)
    isolation = judge_wheel(subject, sha256, trial.sandbox, False)
    emulated = machine_for(subject)
    emulator = find_emulator(host, emulated)
    cpu = choose_cpu(emulator, name)
    if emulated.is_here:
        # The interpreter itself, not an environment around it: only the wheel and its dependencies are to be seen.
        interpreter = python_for(host, subject, trial.python)
        python = EmulatedPython(path=Path(interpreter.path).resolve(), version=interpreter.release)
    else:
        python = find_emulated_python(host, emulator, subject.pythons, trial.python, cache, progress)
    with tempfile.TemporaryDirectory(prefix="rekindle-emulated-", ignore_cleanup_errors=True) as folder:
        site, stubs = Path(folder) / "site", Path(folder) / "stubs"
        site.mkdir()
        unpack_for_emulation(subject, site, progress)
        refuse_changed(wheel, state)
        fits = not subject.pythons or python.version in subject.pythons
        # The C functions alone need neither Python dependencies nor byte code: that saves most of the preparation.
        importing = fits and not (trial.only and all(pattern.split(".")[0] == "core" for pattern in trial.only))
        if trial.dependencies and importing:
            progress.stage("dependencies", "for the emulated Python")
            release = "{}.{}".format(*python.version)
            there = OtherMachine(system="linux", arch=emulated.machine, python=release, glibc=EMULATED_GLIBC)
            wishes = [*wanted_dependencies(subject, there), *extra_packages(subject)]
            install_for_emulation(wishes, site, there, trial.find_links)
            if isolation.wheels_only:
                refuse_addresses(site, subject)
        stubbed = {"stub libraries": " ".join(write_stubs(site / subject.package, stubs, python.root, emulated))}
        if importing:
            progress.stage("compiling", "Python byte code ahead of the emulation")
            compile_ahead(host, site, python.version)
        target = emulated_target(emulator, cpu, python, Path(folder), subject, trial.env)
        shown = [site, stubs, Path(emulator.path), *python.places()]
        box, about = isolation.sandbox(shown, [emulator.path, "--version"], Path(folder) / "probe", progress)
        about = {name: words for name, words in {**target.environment, **stubbed, **about}.items() if words}
        target = dataclasses.replace(target, sandbox=box, environment=about)
        progress.stage("verifying", target.subject)
        trial = msgspec.structs.replace(trial, expect={"version": subject.version, **trial.expect})
        return about_wheel(run_checks(target, trial, progress=progress), wheel, sha256, state)


MAX_UNPACKED = 64 << 30
# Wheels that ask for a newer one are not taken for the emulated Python.
EMULATED_GLIBC = "2.36"
# Machine code for GPUs, which no emulated CPU has; the libraries among them are replaced by stubs.
_GPU_ONLY = ("nvidia-", "triton", "pytorch-triton", "cuda-", "rocm", "intel-")


def machine_for(subject: Subject) -> EmulatedMachine:
    """The kind of machine the wheel's code is for."""
    emulated = EMULATED.get(subject.machine or "")
    if subject.system != "linux" or emulated is None:
        text = f"{subject.path.name} holds no code for Linux on x86-64 or AArch64, which are what can be emulated"
        raise BadInput(text, remedy="--cpu takes wheels for linux_x86_64, linux_aarch64 or manylinux of these")
    return emulated


def unpack_for_emulation(subject: Subject, folder: Path, progress: Progress) -> None:
    """Lay the wheel's files out as an installer does. Sizes are strangers' words, so they are checked."""
    progress.stage("unpacking", subject.path.name)
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    if subject.unpacked > min(free, MAX_UNPACKED):
        needs = f"{subject.path.name} unpacks to {spoken_bytes(subject.unpacked)}"
        raise BadInput(f"{needs}, {folder} has {spoken_bytes(free)} free", remedy="set TMPDIR to a larger disk")
    try:
        unpack_wheel(subject.path, folder, lambda done, name: progress.step(done, subject.unpacked, name))
    except (OSError, zipfile.BadZipFile, RuntimeError, EOFError) as error:
        raise BadInput(f"cannot unpack {subject.path}: {error}", remedy="is the download complete?") from error


def wanted_dependencies(subject: Subject, machine: OtherMachine) -> list[str]:
    """The wheel's requirements on that machine with the emulated Python, without what only serves GPUs."""
    values = {**machine.markers, "extra": ""}
    met = [wish for wish in subject.requirements if wish.marker is None or wish.marker.evaluate(values)]
    for wish in met:
        wish.marker = None
    return [str(wish) for wish in met if not wish.name.lower().startswith(_GPU_ONLY)]


def emulated_target(
    emulator: Emulator, cpu: EmulatedCpu, python: EmulatedPython, folder: Path, subject: Subject, env: Mapping[str, str]
) -> Target:
    """The command that runs the agent on the emulated CPU; ``env`` is the user's, for the emulated program alone."""
    # One thread: the emulator runs them in turn, and a crash is then where it seems to be.
    settings = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    settings = {"PYTHONPATH": str(folder / "site"), "LD_LIBRARY_PATH": str(folder / "stubs"), **settings, **env}
    if python.home is not None:
        settings["PYTHONHOME"] = str(python.home)
    command = emulator.command(cpu, root=python.root, env=settings)
    no_import = remedy = None
    if subject.pythons and python.version not in subject.pythons:
        versions = [f"{major}.{minor}" for major, minor in sorted(subject.pythons)]
        here = "{}.{}".format(*python.version)
        wanted = f"cpython-{versions[-1]}-linux-{emulator.emulated.machine}-gnu"
        no_import = f"the wheel is for Python {' or '.join(versions)}, the emulated one is {here}; "
        no_import += "only its C functions were tried"
        remedy = f"the emulated system needs Python {versions[-1]}: uv python install {wanted}, then the same command; "
        remedy += "or give one with --python EXE"
    return Target(
        command=(*command, str(python.path)),
        package=subject.package,
        subject=f"{subject.path.name} on emulated {cpu.name}",
        patience=PATIENCE,
        cpu=cpu.name,
        cpu_features=None if cpu.has is None else {"has": sorted(cpu.has), "lacks": sorted(cpu.lacks or ())},
        no_import=no_import,
        no_import_remedy=remedy,
        environment={"emulator": f"qemu-user {emulator.version}", "cpu model": cpu.model},
    )
