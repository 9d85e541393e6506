"""From what the user named (a wheel, an interpreter) to a report."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from rekindle.emulate.qemu import choose_cpu, find_emulator
from rekindle.emulate.root import EmulatedPython, compile_ahead, find_emulated_python
from rekindle.emulate.stubs import write_stubs
from rekindle.errors import BadInput, RekindleError
from rekindle.facts import load_facts
from rekindle.host.files import file_state, refuse_changed, sha256_of
from rekindle.host.protocol import Host
from rekindle.host.sandbox import links_of, parts_of
from rekindle.interpreters.search import ask_interpreter, find_interpreter, search_version, usual_python
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Progress
from rekindle.model.verify import VerifyReport
from rekindle.verify.environment import (
    install_for_emulation,
    judge_wheel,
    prepare_environment,
    refuse_addresses,
    refuse_small_disk,
)
from rekindle.verify.runner import run_checks
from rekindle.verify.subject import KNOWN, Subject, read_subject
from rekindle.verify.target import Target, Trial, provable

_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Everything inside writes to the temporary directory or the cache."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OURS:
            raise
        place = error.filename or tempfile.gettempdir()
        raise BadInput(
            f"cannot write to {place}: {error.strerror}", remedy="free some space there, or set TMPDIR to another disk"
        ) from error


@disk_errors()
def prove_wheel(host: Host, wheel: Path, trial: Trial, *, progress: Progress) -> VerifyReport:
    """Install a wheel into an environment of its own and try it there.

    A companion (torchvision, torchaudio and the others that an operation is known for) brings its torch along: that
    torch is proven, and the companion's operation beside it.
    """
    state = file_state(wheel)
    subject = read_subject(wheel)
    beside = provable([subject.distribution])
    package = "torch" if beside else subject.package
    _known(package)
    sha256 = sha256_of(wheel)
    apart = judge_wheel(subject, sha256, trial.sandbox, trial.gpu)
    interpreter = python_for(host, subject, trial.python)
    with tempfile.TemporaryDirectory(prefix="rekindle-env-", ignore_cleanup_errors=True) as folder:
        refuse_small_disk(host, subject, folder)
        try:
            exe = prepare_environment(
                host,
                Path(folder) / "env",
                interpreter,
                subject,
                extra=extras(subject),
                dependencies=trial.dependencies,
                # The torch it was compiled against may lie beside it, and nowhere else.
                find_links=(*trial.find_links, *([str(wheel.parent)] if beside else [])),
                wheels_only=apart.wheels_only,
                progress=progress,
            )
        except RekindleError:
            refuse_changed(wheel, state)  # what the installer says of half a file is no help
            raise
        refuse_changed(wheel, state)  # before anything of it runs: another one was judged
        # What an interpreter needs to see of itself: where its standard library and its links lead.
        own = [*parts_of(Path(interpreter.base_prefix or interpreter.path)), *links_of(Path(interpreter.path))]
        shown = [Path(folder) / "env", *own, *links_of(exe)]
        box, about = apart.sandbox(shown, [str(exe), "-I", "-S", "-c", ""], Path(folder) / "probe", progress)
        target = Target(
            command=(str(exe),),
            env=trial.env,
            package=package,
            subject=wheel.name,
            environment=about,
            sandbox=box,
        )
        progress.stage("verifying", wheel.name)
        if not beside:
            trial = msgspec.structs.replace(trial, expect={"version": subject.version, **trial.expect})
        return about_wheel(run_checks(target, trial, beside=beside, progress=progress), wheel, sha256, state)


@disk_errors()
def prove_installed(
    host: Host, trial: Trial, *, package: str, beside: Sequence[str] = (), progress: Progress
) -> VerifyReport:
    """Try the package that an interpreter already has, and the companions ``beside`` it."""
    _known(package)
    interpreter = installed_python(host, trial.python)
    path = interpreter.path
    target = Target(command=(path,), env=trial.env, package=package, subject=f"{package} in {path}")
    looked = host.run(
        [path, "-c", f"import importlib.util as u; print(u.find_spec({package!r}) is not None)"], timeout=60.0
    )
    if looked.out.strip() != "True":
        raise BadInput(
            f"{path} (Python {interpreter.short}) has no {package}",
            remedy="give the right interpreter with --python EXE, or a wheel with --wheel FILE",
        )
    progress.stage("verifying", target.subject)
    return run_checks(target, trial, beside=beside, progress=progress)


def installed_python(host: Host, given: str | None) -> Interpreter:
    """The interpreter that was named, or the one people mean, by a path that holds wherever the checks run."""
    wanted = given or usual_python(host)
    if wanted is None:
        raise BadInput("there is no python3 on PATH", remedy="give one with --python EXE")
    found = find_interpreter(host, wanted)
    return msgspec.structs.replace(found, path=str(Path(found.path).absolute()))


def python_for(host: Host, subject: Subject, given: str | None) -> Interpreter:
    """The interpreter that was named, or one that the wheel is for: the one that runs us, where any will do."""
    if given:
        return find_interpreter(host, given)
    if not subject.pythons:
        return ask_interpreter(host, sys.executable)
    wanted = [f"{major}.{minor}{'t' if subject.gil_disabled else ''}" for major, minor in sorted(subject.pythons)][::-1]
    for version in wanted:
        if found := next(search_version(host, version, ours_first=True), None):
            return found
    raise BadInput(
        f"the wheel is for Python {' or '.join(wanted)}, and there is none on this machine",
        remedy=f"give one with --python EXE, or install one: uv python install {wanted[0]}",
    )


def about_wheel(report: VerifyReport, wheel: Path, sha256: str, state: tuple[int, ...]) -> VerifyReport:
    """The report with the digest it speaks about."""
    refuse_changed(wheel, state)
    return msgspec.structs.replace(report, wheel_sha256=sha256)


def extras(subject: Subject) -> list[str]:
    """NumPy beside torch, of a version it was built for: torch does not require it, its users do. A companion that was
    built for one torch asks for any NumPy, and pip would bring the newest."""
    release = subject.version if subject.package == "torch" else _torch_of(subject)
    wants = any(one.lower().startswith("numpy") for one in subject.requires)
    if release is None or (wants and subject.package == "torch"):
        return []
    limit = load_facts().era(Version(release).base_version).numpy_linux
    return [f"numpy{limit}"] if limit or not wants else []


def _torch_of(subject: Subject) -> str | None:
    """The one torch that a wheel requires; None where it leaves a choice."""
    for wanted in subject.requirements:
        exact = [one.version for one in wanted.specifier if one.operator == "==" and "*" not in one.version]
        if wanted.name == "torch" and wanted.marker is None and exact:
            return exact[0]
    return None


def _known(package: str) -> None:
    if package not in KNOWN:
        raise BadInput(f"there are checks for {' and '.join(KNOWN)}, none for {package!r}")


@disk_errors()
def prove_emulated(
    host: Host, wheel: Path, cpu_name: str, trial: Trial, *, cache: Path, progress: Progress
) -> VerifyReport:
    """Try a wheel on a CPU this machine does not have."""
    from rekindle.verify import emulated_layout as laying

    state = file_state(wheel)
    subject = read_subject(wheel)
    _known(subject.package)
    sha256 = sha256_of(wheel)
    apart = judge_wheel(subject, sha256, trial.sandbox, False)
    emulated = laying.machine_for(subject)
    emulator = find_emulator(host, emulated)
    cpu = choose_cpu(emulator, cpu_name)
    if emulated.is_here:
        # The interpreter itself, not an environment around it: only the wheel and its dependencies are to be seen.
        interpreter = python_for(host, subject, trial.python)
        python = EmulatedPython(path=Path(interpreter.path).resolve(), version=interpreter.release)
    else:
        given = trial.python
        python = find_emulated_python(host, emulator, subject.pythons, given=given, cache=cache, progress=progress)
    with tempfile.TemporaryDirectory(prefix="rekindle-emulated-", ignore_cleanup_errors=True) as folder:
        site, stubs = Path(folder) / "site", Path(folder) / "stubs"
        site.mkdir()
        laying.unpack(subject, site, progress)
        refuse_changed(wheel, state)
        fits = not subject.pythons or python.version in subject.pythons
        # The C functions alone need neither Python dependencies nor byte code: that saves most of the preparation.
        importing = fits and not (trial.only and all(one.split(".")[0] == "core" for one in trial.only))
        if trial.dependencies and importing:
            progress.stage("dependencies", "for the emulated Python")
            wanted = [*laying.wanted_dependencies(subject, python.version, emulated), *extras(subject)]
            install_for_emulation(wanted, site, python.version, emulated.machine, trial.find_links)
            if apart.wheels_only:
                refuse_addresses(site, subject)
        stubbed = write_stubs(site / subject.package, stubs, python.root.path if python.root else None, emulated)
        if importing:
            progress.stage("compiling", "Python byte code ahead of the emulation")
            compile_ahead(host, site, python.version)
        target = laying.emulated_target(
            emulator, cpu, python, site=site, stubs=stubs, subject=subject, stubbed=stubbed, env=trial.env
        )
        shown = [site, stubs, Path(emulator.path), *python.places()]
        box, about = apart.sandbox(shown, [emulator.path, "--version"], Path(folder) / "probe", progress)
        target = dataclasses.replace(target, sandbox=box, environment={**target.environment, **about})
        progress.stage("verifying", target.subject)
        trial = msgspec.structs.replace(trial, expect={"version": subject.version, **trial.expect})
        return about_wheel(run_checks(target, trial, progress=progress), wheel, sha256, state)
