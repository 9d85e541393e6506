"""What an agent says, gathered into a report: live while it speaks, or later from a file of its words. The level names
the checks that must have run. ``failed``: something was tried and is wrong. ``not-proven``: nothing is known to be
wrong, but a required check was not carried out. ``proven``: all of them passed, and no other failed."""

import fnmatch
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec

from rekindle import __version__
from rekindle.errors import BadInput, reading
from rekindle.host.protocol import Host
from rekindle.model.graft import LibraryBeside, UnitOutcome
from rekindle.model.progress import Progress
from rekindle.model.toml import read_beside
from rekindle.model.verify import ForetoldFailure, Level, Missing, Verdict, VerifyCheck, VerifyReport, VerifyStatus
from rekindle.model.wheel import OperatorTrial
from rekindle.verify.crash import crash_place, describe_crash, remedy_for

MAX_EVENTS_BYTES = 64 << 20
MAX_STEPS = 4
TRIAL = "operator."
_WORDS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a run sets out to prove. ``gpus`` is how many the package saw; ``gpu`` whether it owes us one;
    ``companions`` are their checks that were asked for; ``foretold``: those that a grafted wheel says must fail."""

    package: str
    level: Level
    gpu: bool
    gpus: int = 0
    emulated: bool = False
    companions: tuple[str, ...] = ()
    foretold: tuple[ForetoldFailure, ...] = ()


class Gathering:
    """Hears events in the order they were said. ``current`` is the check that began and has not ended."""

    def __init__(self, host: Host, progress: Progress, environment: Mapping[str, str]) -> None:
        self._host = host
        self._progress = progress
        self._expected: int | None = None
        self.checks: list[VerifyCheck] = []
        # Operators that were tried because they may crash: by id, without the prefix.
        self.trials: dict[str, VerifyCheck] = {}
        self.environment: dict[str, str] = {**environment, "rekindle": __version__}
        self.current: dict[str, Any] | None = None

    def hear(self, event: Mapping[str, Any]) -> None:
        """One event of the agent's, whatever it tells of."""
        kind = event["event"]
        if kind == "hello":
            for name in ("python", "implementation", "machine", "executable"):
                self.environment.setdefault(name, str(event[name]))
        elif kind == "plan":
            self._expected = len(self.checks) + int(event["checks"])
            self.environment.update({str(k): str(v) for k, v in (event.get("about") or {}).items()})
            for number, gpu in enumerate(event["gpus"]):
                self.environment[f"gpu{number}"] = str(gpu["name"])
        elif kind == "begin":
            self.current = dict(event)
            self._progress.step(len(self.checks), self._expected, str(event["id"]))
        elif kind == "end":
            self._end(event)
            self.current = None

    def cut_short(self, how: str) -> None:
        """The agent itself ended while ``current`` ran, or before it said anything."""
        current = self.current or {"id": "start", "remedy": "does this interpreter start at all?"}
        self._record(VerifyCheck(id=current["id"], status="failed", detail=how, remedy=current.get("remedy") or None))
        self.current = None

    @property
    def done(self) -> list[str]:
        """The ids of all that came to an end."""
        return [*(check.id for check in self.checks), *(TRIAL + id for id in self.trials)]

    def claim(self, package: str, level: Level, gpu: bool | None, **more: Any) -> Claim:
        """What the run owes. ``gpu`` None: as built; a build with GPU code owes a kernel on a GPU."""
        built = package != "torch" or bool({"cuda", "hip", "xpu"} & self.environment.keys())
        gpus = sum(name.startswith("gpu") and name[3:].isdigit() for name in self.environment)
        return Claim(package=package, level=level, gpu=built if gpu is None else gpu, gpus=gpus, **more)

    def report(
        self, claim: Claim, *, subject: str, seconds: float, only: bool = False, operators: Sequence[OperatorTrial] = ()
    ) -> VerifyReport:
        """All that was heard, judged by what the run set out to prove."""
        checks = hold_to_list(self.checks, claim.foretold, self.environment)
        count = {word: sum(check.status == word for check in checks) for word in get_args(VerifyStatus)}
        verdict, missing = judge(checks, claim)
        return VerifyReport(
            verdict=verdict,
            missing=missing,
            next=next_steps(verdict, checks, missing, claim, only=only),
            claims=("cpu", "gpu") if claim.gpu else ("cpu",),
            checks=tuple(checks),
            **count,
            environment=self.environment,
            subject=subject,
            level=claim.level,
            seconds=round(seconds, 3),
            operators=tuple(operators),
            crashed=sum(trial.harms for trial in operators),
        )

    def _end(self, event: Mapping[str, Any]) -> None:
        machine = self.environment.get("machine", "")
        crash = describe_crash(self._host, event["crash"], machine) if event.get("crash") else None
        detail = str(event.get("detail", ""))
        if crash is not None and (place := crash_place(crash)):
            detail = f"{detail}: {place}"
        burnt = event.get("cpu_seconds")
        check = VerifyCheck(
            id=str(event["id"]),
            status=event["status"],
            detail=detail,
            skip=(event.get("skip") or "untried") if event["status"] == "skipped" else None,
            seconds=round(float(event.get("seconds", 0.0)), 3),
            cpu_seconds=None if burnt is None else round(float(burnt), 3),
            remedy=(crash and remedy_for(crash)) or event.get("remedy"),
            crash=crash,
            worst=event.get("worst"),
        )
        self._record(check)

    def _record(self, check: VerifyCheck) -> None:
        if check.id.startswith(TRIAL):
            self.trials[check.id.removeprefix(TRIAL)] = check
        else:
            self.checks.append(check)
        line = f"{_WORDS[check.status]} {check.id:<26} {check.seconds:7.2f} s  {check.detail}"
        self._progress.note(line[:200])


def read_events(host: Host, path: Path, level: Level, progress: Progress, gpu: bool | None = None) -> VerifyReport:
    """The report of an agent that ran where Rekindle is not; ``path`` holds what it wrote to standard output."""
    with reading(path), path.open("rb") as file:
        raw = file.read(MAX_EVENTS_BYTES)
    gathered = Gathering(host, progress, {"events": path.name})
    ended = False
    for number, line in enumerate(raw.splitlines(), start=1):
        try:
            if line.strip():
                event = json.loads(line)
                gathered.hear(event)
                ended = event["event"] == "done"
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            remedy = 'there: echo \'{"package": "torch", "level": "full"}\' | python3 agent.py > events.jsonl'
            raise BadInput(f"line {number} of {path} is nothing an agent says", remedy=remedy) from error
    if not ended:
        gathered.cut_short("the record ends in the middle")
    total = sum(check.seconds for check in gathered.checks)
    subject = f"torch on {gathered.environment.get('gpu0', gathered.environment.get('machine', 'another machine'))}"
    return gathered.report(gathered.claim("torch", level, gpu), subject=subject, seconds=total)


def load_minimum(package: str) -> Mapping[str, Sequence[str]]:
    """The ids of ``levels.toml``, by group; empty for a package without a row: nothing can be proven about it."""
    groups: Mapping[str, Sequence[str]] = read_beside(__file__, "levels.toml", dict[str, Any]).get(package, {})
    return groups


def required_checks(claim: Claim) -> tuple[str, ...]:
    """The ids that must have run, in the order in which they run."""
    minimum, full = load_minimum(claim.package), claim.level == "full"
    if not minimum:
        return ()
    ids = [*minimum["smoke"], *(minimum["full"] if full else ())]
    if claim.emulated:
        ids = [*minimum["emulated"], *(id for id in ids if id not in minimum["native"])]
    if claim.gpu:
        # Without any GPU in sight the first one's checks are owed all the same.
        for id in [*minimum["gpu_smoke"], *(minimum["gpu_full"] if full else ())]:
            ids += [id.replace("*", str(number)) for number in range(max(1, claim.gpus))] if "*" in id else [id]
    return (*ids, *claim.companions)


def judge(checks: Sequence[VerifyCheck], claim: Claim) -> tuple[Verdict, tuple[Missing, ...]]:
    """The verdict, and each required check that did not do its work, with what stood in its way."""
    why = dict.fromkeys(required_checks(claim), "did not run")
    for check in checks:
        if check.id in why:
            words = {"failed": "failed: ", "skipped": "could not be tried: "}.get(check.status, "")
            done = check.status == "passed" or check.skip in ("absent", "foretold")
            why[check.id] = "" if done else words + check.detail
    missing = tuple(Missing(id=id, why=text) for id, text in why.items() if text)
    # A wrong emulator refutes nothing about the wheel: it only proves nothing.
    if any(check.status == "failed" and not check.id.startswith("cpu.") for check in checks):
        return "failed", missing
    if not load_minimum(claim.package) or missing or any(check.status == "failed" for check in checks):
        return "not-proven", missing
    return "proven", ()


def foretell(graft: bytes) -> tuple[ForetoldFailure, ...]:
    """What a grafted wheel's ``rekindle-graft.json`` says as checks that must fail; nothing where it cannot be read."""
    table = read_beside(__file__, "levels.toml", dict[str, Any])["grafted"]
    try:
        contents = msgspec.json.decode(graft, type=_GraftList)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ()
    reasons: dict[tuple[str, str], str] = {}
    for row in contents.libraries:
        if row.code == "none" and row.operators:
            why = f"{row.why}: {', '.join(row.operators)} cannot work"
            reasons |= {(id, row.arch): why for id in table["libraries"].get(row.name, ())}
    for unit in contents.left_out:
        for pattern, ids in table["units"].items():
            if fnmatch.fnmatchcase(unit.unit or "", pattern):
                why = f"{unit.unit} has no code for {unit.arch} ({unit.why})"
                reasons = {(id, unit.arch or ""): why for id in ids} | reasons
    return tuple(ForetoldFailure(id=id, arch=arch, why=why) for (id, arch), why in reasons.items())


class _GraftList(msgspec.Struct, frozen=True):
    """Of a graft's own list, what cannot work."""

    libraries: tuple[LibraryBeside, ...] = ()
    left_out: tuple[UnitOutcome, ...] = ()


def hold_to_list(
    checks: Iterable[VerifyCheck], foretold: Sequence[ForetoldFailure], environment: Mapping[str, str]
) -> list[VerifyCheck]:
    """A failure that was foretold counts as skipped; a check that works though its failure was foretold says so. The
    ``environment`` names GPUs by their number, each with its architecture."""
    judged = []
    for check in checks:
        card = environment.get(check.id.split(".")[0], "")
        rows = [row for row in foretold if fnmatch.fnmatchcase(check.id, row.id) and (not card or row.arch in card)]
        if rows:
            changes: dict[str, Any] = {"foretold": (why := rows[0].why)}
            if check.status == "failed":
                detail = f"fails as the graft foretold: {why} ({check.detail})"
                changes |= {"status": "skipped", "skip": "foretold", "detail": detail, "remedy": None}
            elif check.status == "passed":
                changes["detail"] = f"{check.detail}; works, though the graft foretold: {why}".removeprefix("; ")
            check = msgspec.structs.replace(check, **changes)
        judged.append(check)
    return judged


def next_steps(
    verdict: Verdict, checks: Sequence[VerifyCheck], missing: Sequence[Missing], claim: Claim, *, only: bool
) -> tuple[str, ...]:
    """What to do after a verdict, from what failed or stood in the way; best first, empty where all is proven."""
    if verdict == "proven":
        return ()
    steps = [check.remedy for check in checks if check.status == "failed" and check.remedy]
    if verdict == "not-proven":
        lacking = {gap.id for gap in missing}
        steps += [check.remedy for check in checks if check.id in lacking and check.remedy]
        if claim.gpu and claim.gpus == 0 and any(gap.id.startswith(("gpu", "cuda")) for gap in missing):
            steps.append("no GPU was seen: rekindle doctor says why; --no-gpu proves the CPU part alone")
        if only:
            steps.append("--only leaves out what a proof needs: run it again without --only")
        if not checks:
            steps.append("no check ran: does the interpreter start, and does it have the package?")
    return tuple(dict.fromkeys(steps))[:MAX_STEPS]
