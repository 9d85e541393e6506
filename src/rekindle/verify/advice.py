"""What to do after a verdict: the next command, from what failed or stood in the way."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.model.verify import Missing, Verdict, VerifyCheck
from rekindle.verify.verdict import Claim

MAX_STEPS = 4


def next_steps(
    verdict: Verdict, checks: Sequence[VerifyCheck], missing: Sequence[Missing], claim: Claim, *, only: bool
) -> tuple[str, ...]:
    """Best first; empty where everything is proven."""
    if verdict == "proven":
        return ()
    steps = [check.remedy for check in checks if check.status == "failed" and check.remedy]
    if verdict == "not-proven":
        lacking = {one.id for one in missing}
        steps += [check.remedy for check in checks if check.id in lacking and check.remedy]
        if claim.gpu and claim.gpus == 0 and any(one.id.startswith(("gpu", "cuda")) for one in missing):
            steps.append("no GPU was seen: rekindle doctor says why; --no-gpu proves the CPU part alone")
        if only:
            steps.append("--only leaves out what a proof needs: run it again without --only")
        if not checks:
            steps.append("no check ran: does the interpreter start, and does it have the package?")
    return tuple(dict.fromkeys(steps))[:MAX_STEPS]
