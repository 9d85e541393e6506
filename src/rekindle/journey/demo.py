"""The whole way on spark, the miniature: probe, plan, unpack, patch, build, inspect, install, verify, report."""

import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from rekindle.api.build_wheels import build_one
from rekindle.api.examine_machine import doctor
from rekindle.api.source import choose_spark_patches, patch_spark
from rekindle.api.verify_torch import verify
from rekindle.errors import MissingTool
from rekindle.host.files import write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.made import mark_made
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.journey.from_source import inspect_built
from rekindle.journey.walk import Walk, digest, write_report
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.journey import Journey
from rekindle.model.machine import Examination
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress, Silent
from rekindle.model.verify import VerifyReport
from rekindle.plan.spark import plan_spark
from rekindle.render.summary import summarise_machine, summarise_patches, summarise_proof
from rekindle.spark import unpack as spark
from rekindle.toolkits.cuda import UsableCuda, find_usable_cuda


def demo(
    *,
    workspace: Path | None = None,
    cmake: str | None = None,
    use_cuda: bool = True,
    clean: bool = False,
    progress: Progress | None = None,
) -> Journey:
    """Probe, plan, unpack, patch, build, inspect, install, verify and report; under a minute, with real tools.

    ``cmake`` is the one to use instead of the one on PATH; ``use_cuda`` False leaves the CUDA part out; ``clean``
    forgets what earlier runs left in the workspace.
    """
    place, listener = workspace_at(workspace, "demo"), progress or Silent()
    with place.lock("demo", wait=3600.0, say=listener.note):
        # Only what the demo itself made; logs and anything else in the workspace stay.
        for folder in (place.source / "spark", place.reports, place.wheels) if clean else ():
            if folder.exists():
                shutil.rmtree(folder)
        return write_report(_walk(place, cmake, use_cuda, listener))


def _walk(workspace: Workspace, cmake: str | None, use_cuda: bool, progress: Progress) -> Journey:
    walk = Walk(workspace, progress)
    examined = walk.leg("probe", "what this machine is", lambda: doctor(workspace=str(workspace.root)))
    write_atomically(workspace.machine, encode(examined.machine))
    plan = walk.leg("plan", "what to build, and with what", lambda: _plan(examined, use_cuda, cmake))
    root = workspace.source / "spark"
    walk.leg("unpack", "the miniature source tree", lambda: _unpack(root), str)
    tree = walk.leg("patch", "fixes for today's tools", lambda: patch_spark(root, cmake=cmake), summarise_patches)
    missing = next((check for check in examined.checks if check.id == "compiler" and check.status == "fail"), None)
    if missing is not None and examined.os.system == "windows":
        # Windows brings no compiler, and CMake's own words about it name neither the product nor the way.
        why = "the demo ends here: it compiles C++, and this Windows has no Visual Studio with the C++ tools"
        raise MissingTool(why, remedy=missing.fix or "rekindle doctor")
    write_atomically(workspace.plan, encode(plan))
    mark_made(plan)
    inputs = digest(plan, tree.digest or "", spark.tree_digest(), platform.python_version(), cmake or "")
    ours = (sys.executable,)
    chosen = BuildOptions(plan=plan, source=tree, workspace=workspace.root, pythons=ours, cmake=cmake, as_is=True)

    def end(*, arrived: bool = False, **reached: Any) -> Journey:
        return Journey(
            goal=f"spark {spark.tree_version()}",
            arrived=arrived,
            workspace=str(workspace.root),
            legs=tuple(walk.legs),
            machine=summarise_machine(examined),
            plan=plan,
            report=str(workspace.reports / "report.html"),
            **reached,
        )

    what = "C++ libraries, Python extension, wheel"
    built = walk.kept_leg("build", what, BuildResult, inputs, lambda: build_one(chosen, walk.inner))
    if isinstance(built, BuildFailure):
        return end(verdict=f"spark was not built: {built.message}", failure=built)
    wheel = Path(built.wheel)
    report = inspect_built(walk, built)
    # Where the machine has no GPU the demo claims none: its CUDA part is compiled and read, not run.
    owed = None if examined.machine.gpus else False
    proof = walk.kept_leg(
        "verify",
        "installed into a fresh environment and tried",
        VerifyReport,
        digest(built.wheel_sha256, plan),
        lambda: verify(wheel=wheel, python=sys.executable, plan=workspace.plan, gpu=owed, progress=walk.inner),
    )
    verdict = f"spark runs on this machine: {proof.passed} checks passed"
    if not proof.good:
        verdict = f"spark was built, but it is not proven to work: {summarise_proof(proof)}"
    return end(
        arrived=proof.good,
        verdict=verdict,
        wheel=str(wheel),
        wheel_sha256=built.wheel_sha256,
        inspection=report,
        verification=proof,
        next=("rekindle plan", "rekindle up"),
    )


def _plan(examined: Examination, use_cuda: bool, cmake: str | None) -> Plan:
    cuda = find_usable_cuda(LiveHost()) if use_cuda else UsableCuda(why_not="CUDA was left out (--no-cuda).")
    return plan_spark(
        examined.machine,
        version=spark.tree_version(),
        python=platform.python_version(),
        cuda=cuda.toolkit,
        emits=cuda.emits,
        why_no_cuda=cuda.why_not,
        patches=tuple(choice.patch.id for choice in choose_spark_patches(cmake) if choice.verdict == "needed"),
    )


def _unpack(root: Path) -> str:
    """Unpack unless this very tree is there, and say which is so; the stamp is written last."""
    stamp, digest_now = root.with_name("spark.unpacked"), spark.tree_digest()
    if root.is_dir() and stamp.is_file() and stamp.read_text() == digest_now:
        return f"{root} (kept)"
    stamp.unlink(missing_ok=True)
    spark.unpack(root)
    write_atomically(stamp, digest_now)
    return str(root)
