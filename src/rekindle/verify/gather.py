"""What an agent says, gathered into a report: live while it speaks, or later from a file of its words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from rekindle import __version__
from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.model.progress import Progress
from rekindle.model.verify import Level, VerifyCheck, VerifyReport, VerifyStatus
from rekindle.model.wheel import OperatorTrial
from rekindle.verify.crash import describe_crash, remedy_for, sentence
from rekindle.verify.verdict import Claim, judge, next_steps

MAX_EVENTS_BYTES = 64 << 20
TRIAL = "operator."
_WORDS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


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
        current = self.current
        name = current["id"] if current else "start"
        remedy = current.get("remedy") if current else "does this interpreter start at all?"
        self._record(VerifyCheck(id=name, status="failed", detail=how, remedy=remedy or None))
        self.current = None

    @property
    def done(self) -> list[str]:
        return [*(check.id for check in self.checks), *(TRIAL + id for id in self.trials)]

    @property
    def import_failed(self) -> bool:
        return any(check.id.startswith("import.") and check.status == "failed" for check in self.checks)

    @property
    def gpus(self) -> int:
        return sum(name.startswith("gpu") and name[3:].isdigit() for name in self.environment)

    def claim(self, package: str, level: Level, gpu: bool | None, **more: Any) -> Claim:
        """What the run owes. ``gpu`` None: as built; a build with GPU code owes a kernel on a GPU."""
        built = package != "torch" or bool({"cuda", "hip", "xpu"} & self.environment.keys())
        return Claim(package=package, level=level, gpu=built if gpu is None else gpu, gpus=self.gpus, **more)

    def report(
        self,
        claim: Claim,
        *,
        subject: str,
        seconds: float,
        only: bool = False,
        operators: tuple[OperatorTrial, ...] = (),
    ) -> VerifyReport:
        count = {word: sum(check.status == word for check in self.checks) for word in get_args(VerifyStatus)}
        verdict, missing = judge(self.checks, claim)
        return VerifyReport(
            verdict=verdict,
            missing=missing,
            next=next_steps(verdict, self.checks, missing, claim, only=only),
            claims=("cpu", "gpu") if claim.gpu else ("cpu",),
            checks=tuple(self.checks),
            passed=count["passed"],
            failed=count["failed"],
            skipped=count["skipped"],
            environment=self.environment,
            subject=subject,
            level=claim.level,
            seconds=round(seconds, 3),
            operators=operators,
        )

    def _end(self, event: Mapping[str, Any]) -> None:
        machine = self.environment.get("machine", "")
        crash = describe_crash(self._host, event["crash"], machine) if event.get("crash") else None
        detail = str(event.get("detail", ""))
        if crash is not None and (place := sentence(crash)):
            detail = f"{detail}: {place}"
        burnt = event.get("cpu_seconds")
        self._record(
            VerifyCheck(
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
        )

    def _record(self, check: VerifyCheck) -> None:
        if check.id.startswith(TRIAL):
            self.trials[check.id.removeprefix(TRIAL)] = check
        else:
            self.checks.append(check)
        line = f"{_WORDS[check.status]} {check.id:<26} {check.seconds:7.2f} s  {check.detail}"
        self._progress.note(line[:200])


def read_events(host: Host, path: Path, level: Level, progress: Progress, gpu: bool | None = None) -> VerifyReport:
    """The report of an agent that ran where Rekindle is not; ``path`` holds what it wrote to standard output."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_EVENTS_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error
    gathered = Gathering(host, progress, {"events": path.name})
    ended = False
    for number, line in enumerate(raw[:MAX_EVENTS_BYTES].splitlines(), start=1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            gathered.hear(event)
            ended = event["event"] == "done"
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(
                f"line {number} of {path} is nothing an agent says",
                remedy='there: echo \'{"package": "torch", "level": "full"}\' | python3 agent.py > events.jsonl',
            ) from error
    if not ended:
        gathered.cut_short("the record ends in the middle")
    total = sum(check.seconds for check in gathered.checks)
    subject = f"torch on {gathered.environment.get('gpu0', gathered.environment.get('machine', 'another machine'))}"
    return gathered.report(gathered.claim("torch", level, gpu), subject=subject, seconds=total)
