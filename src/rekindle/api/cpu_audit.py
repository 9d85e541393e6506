"""What ``inspect`` suspects of crashing on a CPU, so that ``verify`` tries it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rekindle.compat.operators import Suspicion
    from rekindle.model.progress import Progress


class Audit(NamedTuple):
    """``place`` is where the outcome is kept for ``inspect``; None where nothing was read or nothing is suspected."""

    suspects: Sequence[Suspicion] = ()
    place: Path | None = None


def audit_for(
    wheel: Path | None, python: str | None, package: str, *, cpu: str | None, thorough: bool, progress: Progress
) -> Audit:
    """Emulated, or ``thorough``: the libraries are read, half a minute for torch. Otherwise the operators that are
    known to crash on CPUs like this are tried, which costs nothing on a CPU that lacks nothing."""
    from rekindle.compat.operators import suspicions, usual_suspects
    from rekindle.emulate.qemu import machine_of_cpu
    from rekindle.emulate.root import user_cache
    from rekindle.errors import RekindleError
    from rekindle.host.live import LiveHost
    from rekindle.interpreters.search import usual_python
    from rekindle.verify.suspects import place_of

    features = _features(cpu)
    arch = machine_of_cpu(cpu).machine if cpu is not None else LiveHost().machine
    if features is None:
        return Audit()
    if cpu is None and not thorough:
        return Audit(suspects=usual_suspects(package, arch, features))
    from rekindle.api.inspect import inspect

    progress.stage("reading", "which code asks nothing of the CPU")
    # The interpreter that the checks will run in, and no other that happens to have the package.
    found = python or usual_python(LiveHost())
    try:
        report = inspect(str(wheel) if wheel else package, python=None if wheel else found, progress=progress)
    except RekindleError:
        # What cannot be read is refused by the run itself, with its own words.
        return Audit(suspects=usual_suspects(package, arch, features))
    return Audit(
        suspects=suspicions(report.cpu.evidence, features),
        place=place_of(user_cache(), report.cpu.evidence, features),
    )


def _features(cpu: str | None) -> frozenset[str] | None:
    """What the named CPU can do, or the one of this machine; None where nobody knows."""
    from rekindle.compat.cpu_names import find_cpu
    from rekindle.compat.processor import features_of
    from rekindle.doctor.cpu import probe_cpu
    from rekindle.errors import BadInput
    from rekindle.facts import load_facts
    from rekindle.host.asking import Asking
    from rekindle.host.live import LiveHost
    from rekindle.model.machine import Cpu

    if cpu is None:
        import time

        asking = Asking(LiveHost(), "cpu", time.monotonic() + 5.0)
        return features_of(probe_cpu(asking), load_facts())
    try:
        return features_of(Cpu(microarchitecture=find_cpu(cpu, load_facts())), load_facts())
    except BadInput:
        return None
