"""The end of a build: the wheel into the wheelhouse, and ``build.json`` beside it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.build.environment import BuildEnvironment
from rekindle.build.state import plan_digest
from rekindle.build.target import Interpreter
from rekindle.host.files import sha256_of, write_atomically
from rekindle.model.build import BuildResult
from rekindle.model.document import encode

if TYPE_CHECKING:
    from rekindle.build.engine import Work


def finish(
    work: Work, wheel: Path | None, env: BuildEnvironment, interpreter: Interpreter, *, resumed: bool
) -> BuildResult:
    final = digest = ""
    if wheel is not None:
        place = work.workspace.wheels / wheel.name
        beside = place.with_name(f".{place.name}.new")
        shutil.copyfile(wheel, beside)
        os.replace(beside, place)  # noqa: PTH105
        wheel.unlink()
        final, digest = str(place), sha256_of(place)
    result = BuildResult(
        project=work.tree.project,
        wheel=final,
        wheel_sha256=digest,
        plan=work.plan,
        plan_digest=plan_digest(work.plan),
        source_commit=work.tree.commit,
        source_digest=work.tree.digest,
        patches=work.tree.patches,
        toolchain=dict(work.toolchain),
        environment=dict(env.chosen),
        phases=tuple(work.phases),
        python=interpreter.version,
        target=work.options.target,
        resumed=resumed,
        log=str(work.log.path),
        notes=tuple(work.notes),
        peak_memory_bytes=work.jobs.governor.peak_bytes if work.jobs else None,
        memory_budget_bytes=work.options.memory_bytes,
        paused=work.jobs.governor.pauses if work.jobs else 0,
        retried=tuple(work.retried),
    )
    write_atomically(work.workspace.wheels / "build.json", encode(result))
    return result
