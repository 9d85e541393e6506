"""``verify``: proof that a wheel, or an installed package, works."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rekindle.api.causes import proof_with_causes
from rekindle.compat.cpu_names import find_cpu
from rekindle.compat.operators import Suspicion, suspicions, usual_suspects
from rekindle.compat.processor import features_of
from rekindle.doctor.cpu import probe_cpu
from rekindle.emulate.qemu import machine_of_cpu
from rekindle.emulate.root import user_cache
from rekindle.errors import BadInput, RekindleError
from rekindle.facts import load_facts
from rekindle.host.asking import Asking
from rekindle.host.files import write_for_user
from rekindle.host.live import LiveHost
from rekindle.interpreters.search import usual_python
from rekindle.model.document import encode, load
from rekindle.model.machine import Cpu
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress, Silent
from rekindle.model.verify import Level, VerifyComparison, VerifyReport
from rekindle.verify import last_proof, output, prove
from rekindle.verify.gather import read_events
from rekindle.verify.output import compare
from rekindle.verify.suspects import keep as keep_trials
from rekindle.verify.suspects import place_of
from rekindle.verify.target import Trial, promises, told_settings

if TYPE_CHECKING:
    from rekindle.host.sandbox import Wish


def verify(
    *,
    wheel: Path | None = None,
    python: str | None = None,
    package: str | None = None,
    events: Path | None = None,
    cpu: str | None = None,
    env: Mapping[str, str] | None = None,
    level: Level = "smoke",
    only: Sequence[str] = (),
    plan: Path | None = None,
    gpu: bool | None = None,
    beside: Sequence[str] = (),
    dependencies: bool = True,
    find_links: Sequence[str] = (),
    sandbox: Wish = "auto",
    save: Path | None = None,
    junit: Path | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Prove that a wheel, or the package an interpreter has, works.

    ``gpu`` False claims nothing about a GPU; None asks for a kernel on one wherever the package was built for one.
    ``beside`` are companions of an installed torch: each is imported, and one operation held against its reference.
    ``sandbox``: "auto" tries a wheel that was not built here without network and home, where bubblewrap can do that.
    """
    if cpu is not None and wheel is None and events is None:
        raise BadInput("--cpu needs a wheel to try", remedy="give one with --wheel FILE")
    host = LiveHost()
    listener = progress or Silent()
    expect = promises(load(plan, Plan)) if plan else {}
    audit = Audit()
    if events is None and (not only or any(one.startswith("operator") for one in only)):
        audit = audit_for(wheel, python, package or "torch", cpu=cpu, thorough=level == "full", progress=listener)
    trial = Trial(
        python=python,
        level=level,
        only=only,
        expect=expect,
        dependencies=dependencies,
        find_links=find_links,
        env=env or {},
        gpu=gpu,
        sandbox=sandbox,
        suspects=audit.suspects,
    )
    if events is not None:
        report = read_events(host, events, level, listener, gpu)
    elif cpu is not None and wheel is not None:
        report = prove.prove_emulated(host, wheel, cpu, trial, cache=user_cache(), progress=listener)
    elif wheel is not None:
        report = prove.prove_wheel(host, wheel, trial, progress=listener)
    else:
        report = prove.prove_installed(host, trial, package=package or "torch", beside=beside, progress=listener)
    # A run with settings of the user's own says nothing about the wheel as others use it.
    if audit.place is not None and not only and not env:
        keep_trials(report, audit.place)
    if events is None and (words := told_settings(os.environ, env or {})):
        report = msgspec.structs.replace(report, environment={**report.environment, "settings": words})
    # A companion's proof is none of torch's own, so it is neither kept as one nor held against one.
    apart = bool(only) or (wheel is not None and not wheel.name.lower().startswith(("torch-", "spark")))
    report = _with_history(proof_with_causes(report), only=apart, emulated=cpu is not None)
    if save is not None:
        write_for_user(save, encode(report))
    if junit is not None:
        write_for_user(junit, output.junit(report))
    return report


def _with_history(report: VerifyReport, *, only: bool, emulated: bool) -> VerifyReport:
    """Remember a proof; tell a failure since when. A run of chosen checks is neither."""
    package = "spark" if "spark" in report.environment else "torch"
    if only:
        return report
    place = last_proof.place_of(user_cache(), package, report.level, emulated)
    since = last_proof.compare_with_last(report, place)
    last_proof.keep(report, place)
    return msgspec.structs.replace(report, since=since) if since else report


def compare_verifications(before: Path, after: Path) -> VerifyComparison:
    """What changed from one saved report to another."""
    return compare(load(before, VerifyReport), load(after, VerifyReport))


def verify_page(report: VerifyReport, path: Path) -> None:
    """Write a verification as one HTML page that needs no network.

    >>> from rekindle.model.verify import VerifyReport
    >>> verify_page(VerifyReport(), folder / "verify.html")
    >>> "not proven" in (folder / "verify.html").read_text(encoding="utf-8")
    True
    """
    from rekindle.render.pages import verify_page as render

    write_for_user(path, render(report))


class Audit(NamedTuple):
    """``place`` is where the outcome is kept for ``inspect``; None where nothing was read or nothing is suspected."""

    suspects: Sequence[Suspicion] = ()
    place: Path | None = None


def audit_for(
    wheel: Path | None, python: str | None, package: str, *, cpu: str | None, thorough: bool, progress: Progress
) -> Audit:
    """Emulated, or ``thorough``: the libraries are read, half a minute for torch. Otherwise the operators that are
    known to crash on CPUs like this are tried, which costs nothing on a CPU that lacks nothing."""
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
    if cpu is None:
        import time

        asking = Asking(LiveHost(), "cpu", time.monotonic() + 5.0)
        return features_of(probe_cpu(asking), load_facts())
    try:
        return features_of(Cpu(microarchitecture=find_cpu(cpu, load_facts())), load_facts())
    except BadInput:
        return None
