"""The public library: one function per verb. Only this file knows all stages; it joins them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.joins.build import build, build_script, save_bug_report
from rekindle.joins.bundle import bundle
from rekindle.joins.causes import examination_with_causes, proof_with_causes
from rekindle.joins.explain import explain, explain_list, explain_report, explain_rule, installed_torch
from rekindle.joins.export import export
from rekindle.joins.facts import facts_check, facts_show, facts_sources
from rekindle.joins.index import index_add, index_build, index_search, index_serve, index_yank
from rekindle.joins.inspect import inspect, inspect_diff, inspect_machine
from rekindle.joins.page import index_page
from rekindle.joins.plan import find_machine, machine_from_flags, machine_profile, plan, this_machine, why_not
from rekindle.joins.source import (
    find_tree,
    rewrite_cmake,
    save_patches,
    source_fetch,
    source_hipify,
    source_patch,
    source_status,
    source_unpatch,
)

if TYPE_CHECKING:
    from rekindle.host.protocol import Host
    from rekindle.model.machine import Examination
    from rekindle.model.progress import Progress
    from rekindle.model.verify import Level, VerifyComparison, VerifyReport


def doctor(
    host: Host | None = None,
    *,
    workspace: str | None = None,
    try_torch: bool = False,
    save: Path | None = None,
    capture: Path | None = None,
    replay: Path | None = None,
    progress: Progress | None = None,
) -> Examination:
    """What this machine is (or ``host``, or the capture ``replay``) and whether it is ready; under ten seconds."""
    from rekindle.doctor.examine import examine
    from rekindle.host.files import write_for_user
    from rekindle.host.live import LiveHost
    from rekindle.model.document import encode

    if host is None and replay is not None:
        from rekindle.host.recorded import load_recorded

        host = load_recorded(replay)
    examined = examine(host or LiveHost(), workspace=workspace, try_torch=try_torch, progress=progress)
    examination = examination_with_causes(examined.examination)
    if capture is not None:
        from rekindle.doctor.keep import keep

        keep(examined, capture)
    if save is not None:
        write_for_user(save, encode(examination.machine))
    return examination


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
    dependencies: bool = True,
    find_links: Sequence[str] = (),
    save: Path | None = None,
    junit: Path | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Prove that a wheel, or the package an interpreter has, works."""
    from rekindle.errors import BadInput
    from rekindle.host.live import LiveHost
    from rekindle.model.document import encode, load
    from rekindle.model.plan import Plan
    from rekindle.model.progress import Silent
    from rekindle.verify import output, prove
    from rekindle.verify.gather import read_events
    from rekindle.verify.promise import promises
    from rekindle.verify.room import write_report
    from rekindle.verify.root import user_cache

    host = LiveHost()
    listener = progress or Silent()
    expect = promises(load(plan, Plan)) if plan else {}
    if events is not None:
        report = read_events(host, events, level, listener)
    elif cpu is not None:
        if wheel is None:
            raise BadInput("--cpu needs a wheel to try", remedy="give one with --wheel FILE")
        report = prove.prove_emulated(
            host,
            wheel,
            cpu,
            python=python,
            cache=user_cache(),
            level=level,
            only=only,
            expect=expect,
            dependencies=dependencies,
            find_links=find_links,
            env=env,
            progress=listener,
        )
    elif wheel is not None:
        report = prove.prove_wheel(
            host,
            wheel,
            python=python,
            level=level,
            only=only,
            expect=expect,
            dependencies=dependencies,
            find_links=find_links,
            env=env,
            progress=listener,
        )
    else:
        report = prove.prove_installed(
            host,
            python=python,
            package=package or "torch",
            level=level,
            only=only,
            expect=expect,
            env=env,
            progress=listener,
        )
    report = proof_with_causes(report)
    if save is not None:
        write_report(save, encode(report))
    if junit is not None:
        write_report(junit, output.junit(report))
    return report


def compare_verifications(before: Path, after: Path) -> VerifyComparison:
    """What changed from one saved report to another."""
    from rekindle.model.document import load
    from rekindle.model.verify import VerifyReport
    from rekindle.verify.output import compare

    return compare(load(before, VerifyReport), load(after, VerifyReport))


__all__ = [
    "build",
    "build_script",
    "bundle",
    "compare_verifications",
    "doctor",
    "explain",
    "explain_list",
    "explain_report",
    "explain_rule",
    "export",
    "facts_check",
    "facts_show",
    "facts_sources",
    "find_machine",
    "find_tree",
    "index_add",
    "index_build",
    "index_page",
    "index_search",
    "index_serve",
    "index_yank",
    "inspect",
    "inspect_diff",
    "inspect_machine",
    "installed_torch",
    "machine_from_flags",
    "machine_profile",
    "plan",
    "rewrite_cmake",
    "save_bug_report",
    "save_patches",
    "source_fetch",
    "source_hipify",
    "source_patch",
    "source_status",
    "source_unpatch",
    "this_machine",
    "verify",
    "why_not",
]
