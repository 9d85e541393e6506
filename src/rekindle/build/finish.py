"""The end of a build: the wheel finished and in the wheelhouse, its attestations, ``build.json`` and the report."""

from __future__ import annotations

from pathlib import Path

from rekindle.build import attestations, launchers
from rekindle.build.environment import BuildEnvironment
from rekindle.build.report import write_report
from rekindle.build.target import TargetPython
from rekindle.build.wheelfile import finish_wheel
from rekindle.build.work import Work
from rekindle.errors import BadInput
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.made import mark_wheel_made, plan_digest
from rekindle.interpreters.packages import ask_contents
from rekindle.model.build import BuildResult
from rekindle.model.document import encode


def finish(work: Work, wheel: Path | None, env: BuildEnvironment, target: TargetPython) -> BuildResult:
    """Everything beside the wheel carries the wheel's name; ``build.json`` and ``report.html`` are the latest."""
    digest = plan_digest(work.plan)
    place = sha256 = ""
    sbom = provenance = None
    with work.phase("finish"):
        if wheel is not None:
            packages = installed_packages(work, target)
            tools = {name: what.split(" ")[0] for name, what in work.toolchain.items()}
            bill = attestations.bill_of_materials(work.tree, work.version, packages, tools)
            final = work.workspace.wheels / wheel.name
            finish_wheel(
                wheel,
                final,
                epoch=int(env.chosen["SOURCE_DATE_EPOCH"]),
                add={
                    "rekindle.json": _identity(work, digest),
                    f"sboms/{work.tree.project}.cdx.json": bill,
                },
            )
            wheel.unlink()
            place, sha256 = str(final), sha256_of(final)
            mark_wheel_made(sha256)
            sbom = _beside(final, ".cdx.json", bill)
            home = work.host.env.get("HOME") or work.host.env.get("USERPROFILE") or ""
            places = {"workspace": str(work.workspace.root), "home": home}
            statement = attestations.provenance(
                work.plan, digest, work.tree, [(final.name, sha256)], env.chosen, tools, places
            )
            provenance = _beside(final, ".intoto.json", statement)
            _beside(final, ".sha256", f"{sha256}  {final.name}\n".encode())
    jobs = work.jobs
    result = BuildResult(
        project=work.tree.project,
        wheel=place,
        wheel_sha256=sha256,
        plan=work.plan,
        plan_digest=digest,
        source_commit=work.tree.commit,
        source_digest=work.tree.digest,
        patches=work.tree.patched,
        toolchain=dict(work.toolchain),
        environment=dict(env.chosen),
        phases=tuple(work.phases),
        peak_memory_bytes=jobs.governor.peak_bytes if jobs else None,
        report=str(work.workspace.reports / "report.html"),
        python=target.interpreter.version,
        target=work.options.target,
        resumed=work.resumed,
        facts=work.facts,
        log=str(work.log.path),
        steps=work.steps,
        memory_budget_bytes=work.options.memory_bytes,
        paused=jobs.governor.pauses if jobs else 0,
        retried=tuple(work.retried),
        launcher=launchers.statistics(work.host, work.launcher) if work.launcher else {},
        sbom=sbom,
        provenance=provenance,
        notes=tuple(work.notes),
    )
    samples = jobs.governor.samples if jobs else []
    learnt = jobs.learnt if jobs else None
    # A walk writes its own report over the latest one; the build's stays beside it and is led to from there.
    for page in (Path(result.report or ""), work.workspace.reports / "build.html"):
        write_report(page, result, work.front.ninja_tree, samples, learnt)
    if place:
        _beside(Path(place), ".build.json", encode(result))
    write_atomically(work.workspace.wheels / "build.json", encode(result))
    return result


def _beside(wheel: Path, suffix: str, content: bytes) -> str:
    path = wheel.with_name(wheel.name + suffix)
    write_atomically(path, content)
    return str(path)


def _identity(work: Work, digest: str) -> bytes:
    """What a wheel says about its own making; the same for the same plan and source."""
    said = {"schema": 1, "plan_digest": digest}
    said |= {"source_commit": work.tree.commit, "source_digest": work.tree.digest}
    return encode(said | {"patches": [{"id": patch.id, "sha256": patch.sha256} for patch in work.tree.patched]})


def installed_packages(work: Work, target: TargetPython) -> dict[str, str]:
    """What the build environment held, asked of the interpreter itself."""
    try:
        return {one.name: one.version for one in ask_contents(work.host, target.python).packages}
    except BadInput:
        return {}
