"""From a failed command to the first real error among the noise."""

from __future__ import annotations

from rekindle.build.log import BuildLog
from rekindle.errors import BuildFailed
from rekindle.model.build import BuildFailure


def account_for(project: str, phase: str, argv: list[str], code: int, log: BuildLog) -> BuildFailed:
    lines = list(log.recent)
    errors = [line for line in lines if "error" in line.lower()]
    first = errors[0].strip() if errors else (lines[-1].strip() if lines else "no output")
    failure = BuildFailure(
        project=project,
        phase=phase,
        message=first,
        command=" ".join(argv) or None,
        error=tuple(errors[:20]),
        log=str(log.path),
    )
    return BuildFailed(f"{phase} failed (exit code {code}): {first}", failure, remedy=f"the whole log: {log.path}")
