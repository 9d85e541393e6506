"""One line about a document: what ``up`` and ``demo`` say of each leg."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rekindle.model.build import BuildResult, BundleReport, spoken_targets
from rekindle.model.graft import GraftReport
from rekindle.model.journey import Installation
from rekindle.model.machine import Check, Examination
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.model.spoken import spoken_minutes
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport


def summarise_machine(examined: Examination) -> str:
    """System, CPU, memory and cards."""
    machine = examined.machine
    gpus = ", ".join(gpu.name or str(gpu.arch or gpu.vendor) for gpu in machine.gpus) or "no GPU"
    cpu = machine.cpu.name or machine.cpu.microarchitecture or machine.os.arch or "unknown CPU"
    memory = f", {machine.memory_gib:.0f} GiB" if machine.memory_gib else ""
    return f"{machine.os.distro or machine.os.system}, {cpu}{memory}, {gpus}"


def summarise_graft(report: GraftReport) -> str:
    """How many units got code for the card."""
    without = report.count("left-out") + report.count("refused")
    stay = f"; {without} stay without" if without else ""
    return f"{report.count('added')} of {len(report.units)} units got code for {report.arch}{stay}"


def summarise_plan(plan: Plan) -> str:
    """What the plan proposes, and what that costs."""
    if plan.project == "spark":
        return " ".join(reason.text for reason in plan.because)
    if plan.answer == "none":
        return "nothing fits: " + "; ".join(reason.text for reason in plan.because)
    name = f"torch {plan.torch}+{plan.variant}" if plan.variant else f"torch {plan.torch}"
    python = f" for Python {plan.python}" if plan.python else ""
    if plan.answer == "install":
        return f"install the official {name}{python}"
    if plan.graft is not None:
        time = f", about {spoken_minutes(*plan.graft.minutes)}" if plan.graft.minutes else ""
        return f"graft the official {name}{python} for {', '.join(plan.graft.archs)}{time}"
    if plan.build and plan.build.taken:
        return f"take {plan.build.taken.split(' ')[0]}{python}, and build what goes beside it"
    cost = ""
    if plan.build and plan.build.minutes:
        disk = f", {plan.build.disk_gib:g} GiB of disk" if plan.build.disk_gib else ""
        cost = f" (about {spoken_minutes(*plan.build.minutes)}{disk})"
    return f"build {name}{python} from source{cost}"


def _summarise_tree(tree: SourceTree) -> str:
    return f"{tree.project} {tree.version}{' at ' + tree.commit[:12] if tree.commit else ''} in {tree.root}"


def summarise_patches(tree: SourceTree) -> str:
    """Our patches that this build needs."""
    ours = [patch for patch in tree.patches if patch.state == "applied"]
    if not ours:
        return "none needed with these tools"
    return "; ".join(f"{patch.id} ({patch.title})" if patch.title else patch.id for patch in ours)


def _summarise_build(built: BuildResult) -> str:
    if not built.wheel:
        return f"{spoken_targets(built.target or '') or 'the target'}: {built.steps or 0} steps, no wheel"
    return f"{Path(built.wheel).name} (sha256 {built.wheel_sha256[:12]}…)"


def summarise_bundle(report: BundleReport) -> str:
    """Which libraries are inside now, and which were not found."""
    left = f"; not found here: {', '.join(library.name for library in report.missing)}" if report.missing else ""
    if not report.out:
        return f"nothing to bring along: it needs only what every machine has{left}"
    names = [Path(library.file).name for library in report.brought]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{', '.join(names[:4])}{more} now inside {Path(report.out).name}{left}"


def _summarise_inspection(report: WheelReport) -> str:
    gpu = [*report.gpu.kernels.sass, *report.gpu.kernels.ptx, *report.gpu.kernels.gfx]
    dispatched = [use.isa for use in report.cpu.dispatched]
    parts = [
        f"GPU code for {' '.join(gpu)}" if gpu else "no GPU code",
        f"CPU code from {report.cpu.runs_from}" if report.cpu.runs_from else "",
        f"CPU code from {report.cpu.at_least} or newer (cannot be told)" if report.cpu.untold else "",
        f"dispatched at run time: {' '.join(dispatched)}" if dispatched else "",
        f"glibc {report.links.glibc}" if report.links.glibc else "",
    ]
    return "; ".join(part for part in parts if part)


def summarise_proof(proof: VerifyReport) -> str:
    """The verdict with its counts, and the reason where it is no proof."""
    names = [check.id for check in proof.checks if check.status == "failed"]
    which = f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})" if names else ""
    count = f"{proof.passed} passed, {proof.failed} failed{which}, {proof.skipped} skipped"
    if harmed := [trial.operator for trial in proof.operators if trial.outcome == "crashes" and trial.operator]:
        count += f"; on this CPU these operators crash: {', '.join(harmed)}"
    if proof.verdict != "not-proven":
        return f"{proof.verdict}: {count}"
    way = [need.why for need in proof.missing if need.why != "did not run"] or ["required checks did not run"]
    return f"not proven: {count}; {way[0]}"


def _summarise_installation(done: Installation) -> str:
    torch = done.packages.get("torch", "?")
    return f"torch {torch} and {max(0, len(done.packages) - 1)} other packages in {done.python}"


def summarise_checks(checks: Sequence[Check]) -> str:
    """How many were asked, and which of them are missing."""
    failed = [check for check in checks if check.status == "fail"]
    if failed:
        return f"{len(failed)} of {len(checks)} are missing: {', '.join(check.id for check in failed)}"
    warned = [check for check in checks if check.status == "warn"]
    return f"{len(checks)} asked, all there" + "".join(f"; note: {check.found}" for check in warned)


_BY_KIND: dict[type, Callable[[Any], str]] = {
    BuildResult: _summarise_build,
    BundleReport: summarise_bundle,
    Examination: summarise_machine,
    GraftReport: summarise_graft,
    Installation: _summarise_installation,
    Plan: summarise_plan,
    SourceTree: _summarise_tree,
    VerifyReport: summarise_proof,
    WheelReport: _summarise_inspection,
}


def summarise(document: object) -> str:
    """The line for any of these kinds."""
    return _BY_KIND[type(document)](document)
