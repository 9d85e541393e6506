"""``verify``: proof that a wheel, or an installed package, works."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from rekindle.api.explain_log import proof_with_causes
from rekindle.compat.cpu_names import find_cpu
from rekindle.compat.processor import Suspicion, features_of, suspicions, usual_suspects
from rekindle.doctor.cpu import probe_cpu
from rekindle.emulate.qemu import machine_of_cpu
from rekindle.errors import BadInput, RekindleError
from rekindle.facts import load_facts
from rekindle.formats.wheel import MAX_SMALL, check_wheel
from rekindle.host.asking import Asking
from rekindle.host.files import read_head, write_for_user
from rekindle.host.live import LiveHost
from rekindle.host.made import own_directories
from rekindle.interpreters.search import usual_python
from rekindle.model.document import encode, load, shared_fields
from rekindle.model.machine import Cpu
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress, Silent
from rekindle.model.verify import ForetoldFailure, VerifyComparison, VerifyOptions, VerifyReport
from rekindle.verify import output, prove
from rekindle.verify.crash import keep_trials, place_of
from rekindle.verify.gather import foretell, read_events
from rekindle.verify.output import compare
from rekindle.verify.target import Trial, promises, settings_words


def verify(options: VerifyOptions | None = None, *, progress: Progress | None = None, **choices: Any) -> VerifyReport:
    """Prove that a wheel, or the package an interpreter has, works; the options are a
    :class:`~rekindle.model.verify.VerifyOptions`, or its fields by name."""
    chosen = replace(options or VerifyOptions(), **choices)
    wheel, cpu, events = chosen.wheel, chosen.cpu, chosen.events
    if cpu is not None and wheel is None and events is None:
        raise BadInput("--cpu needs a wheel to try", remedy="give one with --wheel FILE")
    host = LiveHost()
    listener = progress or Silent()
    audit = Audit()
    if events is None and (not chosen.only or any(check.startswith("operator") for check in chosen.only)):
        audit = audit_for(chosen, listener)
    trial = Trial(
        **shared_fields(chosen, VerifyOptions),
        expect=promises(load(chosen.plan, Plan)) if chosen.plan else {},
        suspects=audit.suspects,
        foretold=_read_foretold(chosen) if events is None else (),
    )
    if events is not None:
        report = read_events(host, events, chosen.level, listener, chosen.gpu)
    elif cpu is not None and wheel is not None:
        report = prove.prove_emulated(host, wheel, cpu, trial, cache=own_directories()[1], progress=listener)
    elif wheel is not None:
        report = prove.prove_wheel(host, wheel, trial, progress=listener)
    else:
        named = chosen.package or "torch"
        report = prove.prove_installed(host, trial, package=named, companions=chosen.companions, progress=listener)
    # A run with settings of the user's own says nothing about the wheel as others use it.
    if audit.place is not None and not chosen.only and not chosen.env:
        keep_trials(report, audit.place)
    if events is None and (words := settings_words(os.environ, chosen.env)):
        report = replace(report, environment={**report.environment, "settings": words})
    report = proof_with_causes(report)
    # Some checks alone, or a companion, prove nothing of torch: that is not kept, nor compared with what is.
    if not chosen.only and (wheel is None or wheel.name.lower().startswith(("torch-", "spark"))):
        package = "spark" if "spark" in report.environment else "torch"
        place = output.proof_place(own_directories()[1], package, report.level, cpu is not None)
        since = output.compare_with_last(report, place)
        output.keep_proof(report, place)
        report = replace(report, since=since)
    if chosen.save is not None:
        write_for_user(chosen.save, encode(report))
    if chosen.junit is not None:
        write_for_user(chosen.junit, output.junit(report))
    return report


def _read_foretold(options: VerifyOptions) -> tuple[ForetoldFailure, ...]:
    """What a grafted wheel, or the grafted torch that is installed, says of itself that it cannot do."""
    from rekindle.inspect.targets import installed_in

    name = "rekindle-graft.json"
    if options.wheel is not None:
        try:
            wheel = check_wheel(options.wheel)
            return foretell(wheel.find(f"{wheel.dist_info}/{name}") or b"")
        except RekindleError:
            return ()  # what cannot be read is refused by the run itself, with its own words
    package = options.package or "torch"
    folder = installed_in(package, options.python or usual_python(LiveHost()))
    files = folder.glob(f"{package}-*.dist-info/{name}") if folder else ()
    return next((foretell(read_head(file, MAX_SMALL)) for file in files), ())


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


def audit_for(options: VerifyOptions, progress: Progress) -> Audit:
    """Emulated, or at the full level: the libraries are read, half a minute for torch. Otherwise the operators that are
    known to crash on CPUs like this are tried, which costs nothing on a CPU that lacks nothing."""
    cpu, wheel = options.cpu, options.wheel
    miniature = wheel is not None and wheel.name.lower().startswith("spark")  # it has none of torch's operators
    package = options.package or ("spark" if miniature else "torch")
    features = _features(cpu)
    arch = machine_of_cpu(cpu).machine if cpu is not None else LiveHost().machine
    if features is None:
        return Audit()
    if cpu is None and options.level != "full":
        return Audit(suspects=usual_suspects(package, arch, features))
    from rekindle.api.inspect_wheel import inspect

    progress.stage("reading", "which code asks nothing of the CPU")
    # The interpreter that the checks will run in, and no other that happens to have the package.
    python = options.python or usual_python(LiveHost())
    try:
        report = inspect(str(wheel) if wheel else package, python=None if wheel else python, progress=progress)
    except RekindleError:
        # What cannot be read is refused by the run itself, with its own words.
        return Audit(suspects=usual_suspects(package, arch, features))
    found = report.cpu.evidence
    return Audit(suspects=suspicions(found, features), place=place_of(own_directories()[1], found, features))


def _features(cpu: str | None) -> frozenset[str] | None:
    """What the named CPU can do, or the one of this machine; None where nobody knows."""
    facts = load_facts()
    if cpu is None:
        return features_of(probe_cpu(Asking(LiveHost(), "cpu", time.monotonic() + 5.0)), facts)
    try:
        return features_of(Cpu(microarchitecture=find_cpu(cpu, facts)), facts)
    except BadInput:
        return None
