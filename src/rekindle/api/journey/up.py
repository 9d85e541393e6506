"""The whole way for a real torch: probe, plan, then install an official wheel or build one; always prove it.

Every leg's result is kept under the digest of what it was made from, so a second ``up`` is instant and an
interrupted one continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.api.doctor import doctor
from rekindle.api.journey import install as installing
from rekindle.api.journey.from_source import build_from_source
from rekindle.api.journey.options import UpOptions
from rekindle.api.journey.report import reported
from rekindle.api.journey.walk import Walk, Within, digest
from rekindle.api.plan import plan as make_plan
from rekindle.api.verify import verify
from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure
from rekindle.model.document import encode
from rekindle.model.journey import Installation, Journey
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Wish
from rekindle.model.progress import Progress
from rekindle.model.verify import VerifyReport
from rekindle.render.summary import summarise_installation, summarise_machine, summarise_plan, summarise_proof

Confirm = Callable[[Plan], bool]


def run_up(workspace: Workspace, options: UpOptions, progress: Progress, confirm: Confirm) -> Journey:
    with workspace.lock("up", wait=3600.0, say=progress.note):
        return reported(_walk(workspace, options, progress, confirm))


def _walk(workspace: Workspace, options: UpOptions, progress: Progress, confirm: Confirm) -> Journey:
    walk = Walk(workspace, progress)
    where = str(workspace.root)
    examined = walk.leg("probe", "what this machine is", lambda: doctor(workspace=where), summarise_machine)
    machine = examined.machine
    write_atomically(workspace.machine, encode(machine))
    wish = _wish_for(options)
    plan = walk.leg("plan", "which torch runs here", lambda: make_plan(machine, wish), summarise_plan)
    write_atomically(workspace.plan, encode(plan))
    story = _Story(walk=walk, workspace=workspace, options=options, progress=progress, machine=machine, plan=plan)
    if plan.answer == "none":
        return story.end(False, "No torch can run here as asked: " + "; ".join(reason.text for reason in plan.because))
    if options.dry_run:
        return story.end(True, f"{summarise_plan(plan)} (dry run: nothing was changed)")
    if not story.is_done() and not confirm(plan):
        raise BadInput(
            f"nothing was done: {summarise_plan(plan)} needs a yes",
            remedy="answer y, or give --yes where nobody can answer",
        )
    return story.install() if plan.answer == "install" else story.build()


def _wish_for(options: UpOptions) -> Wish:
    import msgspec

    if options.python is None or options.wish.python is not None:
        return options.wish
    version = LiveHost().run([options.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], timeout=30.0)
    if not version.ok:
        raise BadInput(f"{options.python} is no Python that runs here", remedy="give a path with --python EXE")
    return msgspec.structs.replace(options.wish, python=version.out.strip())


@dataclass(kw_only=True)
class _Story:
    """One ``up``: what the legs after the plan share."""

    walk: Walk
    workspace: Workspace
    options: UpOptions
    progress: Progress
    machine: Machine
    plan: Plan

    @property
    def environment(self) -> Path:
        """One per plan, so that another wish never spoils an environment that works."""
        return self.workspace.root / "envs" / f"torch-{self.plan.torch}-{self.plan.variant}-{digest(self.plan)[:8]}"

    @property
    def python(self) -> str:
        return self.options.python or str(installing.environment_python(self.environment))

    @property
    def inputs(self) -> str:
        return digest(self.plan, self.python, self.options.index or "", self.options.torch_only)

    def is_done(self) -> bool:
        return self.walk.is_kept("install", Installation, self.inputs) and Path(self.python).exists()

    def install(self) -> Journey:
        self._installed(
            installing.to_install(self.plan.requests, index=self.options.index, torch_only=self.options.torch_only)
        )
        return self._proved(None)

    def build(self) -> Journey:
        wheel = build_from_source(
            self.walk, self.workspace, self.plan, self.machine, self.options, Within(self.progress)
        )
        if isinstance(wheel, BuildFailure):
            return self.end(False, f"torch {self.plan.torch} was not built: {wheel.message}", failure=wheel)
        self._installed([["--force-reinstall", str(wheel)]])
        return self._proved(wheel)

    def _installed(self, requests: Sequence[Sequence[str]]) -> Installation:
        def make() -> Installation:
            if self.options.python is None:
                base = installing.find_python(self.machine, self.plan.python)
                installing.make_environment(base, self.environment, self.workspace.new_log("environment"))
            return installing.install(LiveHost(), self.python, requests, self.workspace, Within(self.progress))

        return self.walk.kept_leg(
            "install", f"into {self.python}", Installation, self.inputs, make, summarise_installation,
            still_good=lambda kept: Path(kept.python).exists(),
        )  # fmt: skip

    def _proved(self, wheel: Path | None) -> Journey:
        proof = self.walk.kept_leg(
            "verify", f"is it really good? ({self.options.level})", VerifyReport,
            digest(self.inputs, self.options.level), self._verify, summarise_proof, still_good=lambda kept: kept.good,
        )  # fmt: skip
        verdict = f"torch {self.plan.torch} runs on this machine: {proof.passed} checks passed"
        if not proof.good:
            verdict = f"torch {self.plan.torch} is installed, but not proven to work: {summarise_proof(proof)}"
        return self.end(proof.good, verdict, proof=proof, wheel=wheel)

    def _verify(self) -> VerifyReport:
        return verify(
            python=self.python, level=self.options.level, plan=self.workspace.plan, progress=Within(self.progress)
        )

    def end(
        self,
        arrived: bool,
        verdict: str,
        *,
        proof: VerifyReport | None = None,
        wheel: Path | None = None,
        failure: BuildFailure | None = None,
    ) -> Journey:
        use = (f"{self.python} -c 'import torch; print(torch.__version__)'",) if proof and proof.good else ()
        return Journey(
            goal=f"torch {self.plan.torch}" if self.plan.torch else "a torch",
            arrived=arrived,
            verdict=verdict,
            workspace=str(self.workspace.root),
            legs=tuple(self.walk.legs),
            machine=None,
            plan=self.plan,
            verification=proof,
            failure=failure,
            wheel=str(wheel) if wheel else None,
            python=self.python if proof else None,
            report=str(self.workspace.reports / "report.html"),
            next=use or (() if arrived else ("rekindle plan -v",)),
        )
