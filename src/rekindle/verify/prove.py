"""From what the user named (a wheel, an interpreter) to a report."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.model.progress import Progress
from rekindle.model.verify import Level, VerifyReport
from rekindle.verify.environment import make_environment
from rekindle.verify.interpreter import find_interpreter, probe_interpreter
from rekindle.verify.runner import run_checks
from rekindle.verify.subject import KNOWN, read_subject
from rekindle.verify.target import Target


def prove_wheel(
    host: Host,
    wheel: Path,
    *,
    python: str | None,
    level: Level,
    only: Sequence[str],
    expect: Mapping[str, Any],
    dependencies: bool,
    find_links: Sequence[str],
    extra: Sequence[str] = (),
    progress: Progress,
) -> VerifyReport:
    """Install a wheel into an environment of its own and try it there."""
    subject = read_subject(wheel)
    _known(subject.package)
    interpreter = probe_interpreter(host, python) if python else find_interpreter(host, subject.pythons)
    with tempfile.TemporaryDirectory(prefix="rekindle-env-", ignore_cleanup_errors=True) as folder:
        exe = make_environment(
            host,
            Path(folder) / "env",
            interpreter,
            subject,
            extra=extra,
            dependencies=dependencies,
            find_links=find_links,
            progress=progress,
        )
        target = Target(command=(str(exe),), package=subject.package, subject=wheel.name)
        progress.stage("verifying", wheel.name)
        promise = {"version": subject.version, **expect}
        return run_checks(target, level=level, expect=promise, only=only, progress=progress)


def prove_installed(
    host: Host,
    *,
    python: str | None,
    package: str,
    level: Level,
    only: Sequence[str],
    expect: Mapping[str, Any],
    progress: Progress,
) -> VerifyReport:
    """Try the package that an interpreter already has."""
    _known(package)
    path = python or host.which("python3") or host.which("python")
    if path is None:
        raise BadInput("there is no python3 on PATH", remedy="give one with --python EXE")
    interpreter = probe_interpreter(host, path)
    target = Target(command=(path,), package=package, subject=f"{package} in {path}")
    looked = host.run(
        [path, "-c", f"import importlib.util as u; print(u.find_spec({package!r}) is not None)"], timeout=60.0
    )
    if looked.out.strip() != "True":
        raise BadInput(
            f"{path} (Python {interpreter.short}) has no {package}",
            remedy="give the right interpreter with --python EXE, or a wheel with --wheel FILE",
        )
    progress.stage("verifying", target.subject)
    return run_checks(target, level=level, expect=expect, only=only, progress=progress)


def _known(package: str) -> None:
    if package not in KNOWN:
        raise BadInput(f"there are checks for {' and '.join(KNOWN)}, none for {package!r}")
