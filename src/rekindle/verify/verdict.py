"""Whether a run proves anything: a level names the checks that must have run, and fewer prove nothing.

``failed``: something was tried and is wrong. ``not-proven``: nothing is known to be wrong, but a check that the level
requires was not carried out. ``proven``: every required check ran and passed, and no other check failed.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import msgspec

from rekindle.model.verify import Level, Missing, Verdict, VerifyCheck

MAX_STEPS = 4


class Minimum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of ``levels.toml`` for one package."""

    smoke: tuple[str, ...]
    full: tuple[str, ...]
    gpu_smoke: tuple[str, ...]
    gpu_full: tuple[str, ...]
    native: tuple[str, ...]
    emulated: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a run sets out to prove. ``gpus`` is how many the package saw; ``gpu`` whether it owes us one; ``beside``
    are the checks of companions that were asked for."""

    package: str
    level: Level
    gpu: bool
    gpus: int = 0
    emulated: bool = False
    beside: tuple[str, ...] = ()


@functools.cache
def load_minimum(package: str) -> Minimum | None:
    """None for a package without a row: nothing can be proven about it."""
    text = resources.files(__package__).joinpath("levels.toml").read_text(encoding="utf-8")
    row = tomllib.loads(text).get(package)
    return msgspec.convert(row, Minimum) if row is not None else None


def required_checks(claim: Claim) -> tuple[str, ...]:
    """The ids that must have run, in the order in which they run."""
    minimum = load_minimum(claim.package)
    if minimum is None:
        return ()
    full = claim.level == "full"
    ids = [*minimum.smoke, *(minimum.full if full else ())]
    if claim.emulated:
        ids = [*minimum.emulated, *(id for id in ids if id not in minimum.native)]
    if claim.gpu:
        # Without any GPU in sight the first one's checks are owed all the same.
        for id in [*minimum.gpu_smoke, *(minimum.gpu_full if full else ())]:
            ids += [id.replace("*", str(number)) for number in range(max(1, claim.gpus))] if "*" in id else [id]
    return (*ids, *claim.beside)


def judge(checks: Sequence[VerifyCheck], claim: Claim) -> tuple[Verdict, tuple[Missing, ...]]:
    """The verdict, and each required check that did not do its work, with what stood in its way."""
    missing = _missing(checks, required_checks(claim))
    # A wrong emulator refutes nothing about the wheel: it only proves nothing.
    if any(check.status == "failed" and not check.id.startswith("cpu.") for check in checks):
        return "failed", missing
    if load_minimum(claim.package) is None or missing or any(check.status == "failed" for check in checks):
        return "not-proven", missing
    return "proven", ()


def _missing(checks: Iterable[VerifyCheck], required: Iterable[str]) -> tuple[Missing, ...]:
    done: Mapping[str, VerifyCheck] = {check.id: check for check in checks}
    found = []
    for id in required:
        check = done.get(id)
        if check is None:
            found.append(Missing(id=id, why="did not run"))
        elif check.status == "failed":
            found.append(Missing(id=id, why=f"failed: {check.detail}"))
        elif check.status == "skipped" and check.skip != "absent":
            found.append(Missing(id=id, why=f"could not be tried: {check.detail}"))
    return tuple(found)


def next_steps(
    verdict: Verdict, checks: Sequence[VerifyCheck], missing: Sequence[Missing], claim: Claim, *, only: bool
) -> tuple[str, ...]:
    """What to do after a verdict, from what failed or stood in the way; best first, empty where all is proven."""
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
