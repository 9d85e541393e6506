"""Has the checks run in the target's Python and gathers what they say; a crash costs one check, not the run."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.host.live import LiveHost
from rekindle.model.progress import Progress, Silent
from rekindle.model.verify import Level, VerifyCheck, VerifyReport
from rekindle.verify.crash import describe_crash, sentence
from rekindle.verify.dialogue import Silence, dialogue
from rekindle.verify.target import Target

# The agent keeps the checks' own time limits; past this many seconds more it must have been stopped itself.
GRACE = 60.0
START = 60.0
MAX_RESTARTS = 40
# Variables of our own Python, or of the user's, that would change which torch the target finds.
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")


def run_checks(
    target: Target,
    *,
    level: Level = "smoke",
    expect: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> VerifyReport:
    """Every check of ``level`` for the target's package, in the target's Python."""
    run = _Run(target, level, dict(expect or {}), tuple(only), progress or Silent())
    return run.carry_out()


class _Run:
    def __init__(
        self, target: Target, level: Level, expect: dict[str, Any], only: tuple[str, ...], progress: Progress
    ) -> None:
        self.host = LiveHost()
        self.target = target
        self.level: Level = level
        self.expect = expect
        self.only = only
        self.progress = progress
        self.checks: list[VerifyCheck] = []
        self.environment: dict[str, str] = dict(target.environment)
        self.expected: int | None = None

    def carry_out(self) -> VerifyReport:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rekindle-verify-", ignore_cleanup_errors=True) as folder:
            work = Path(folder)
            for _ in range(MAX_RESTARTS):
                if self._session(work):
                    break
        return VerifyReport(
            checks=tuple(self.checks),
            passed=sum(check.status == "passed" for check in self.checks),
            failed=sum(check.status == "failed" for check in self.checks),
            skipped=sum(check.status == "skipped" for check in self.checks),
            environment=self.environment,
            subject=self.target.subject,
            level=self.level,
            seconds=round(time.monotonic() - started, 3),
        )

    def _session(self, work: Path) -> bool:
        """One life of the agent; True where there is nothing left to do."""
        log = work / "stderr.log"
        request = {
            "package": self.target.package,
            "level": self.level,
            "only": list(self.only),
            "expect": self.expect,
            "patience": self.target.patience,
            "cpu": self.target.cpu,
            "cpu_features": self.target.cpu_features,
            "no_import": self.target.no_import,
            "inline": self.target.inline,
            "done": [check.id for check in self.checks],
        }
        env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONIOENCODING": "utf-8"}
        env |= self.target.env
        with dialogue(self.target.agent(), request, env=env, cwd=work, log=log) as talk:
            current: dict[str, Any] | None = None
            limit = START * self.target.patience
            while True:
                try:
                    event = talk.next(limit)
                except Silence:
                    self._dead(current, f"no answer within {limit:.0f} s", log)
                    return current is None
                if event is None:
                    code = talk.wait(5.0)
                    self._dead(current, _ending(code), log)
                    return current is None or current["id"].startswith("import.")
                limit = START * self.target.patience
                kind = event["event"]
                if kind == "hello":
                    for name in ("python", "implementation", "machine", "executable"):
                        self.environment.setdefault(name, str(event[name]))
                elif kind == "plan":
                    self.expected = len(self.checks) + int(event["checks"])
                    for number, gpu in enumerate(event["gpus"]):
                        self.environment[f"gpu{number}"] = str(gpu["name"])
                elif kind == "begin":
                    current = event
                    limit = float(event["timeout"]) + GRACE
                    self.progress.step(len(self.checks), self.expected, event["id"])
                elif kind == "end":
                    self._add(event)
                    current = None
                elif kind == "done":
                    talk.wait(5.0)
                    return bool(event.get("clean", True)) or bool(self.checks and self._import_failed())

    def _import_failed(self) -> bool:
        return any(check.id.startswith("import.") and check.status == "failed" for check in self.checks)

    def _dead(self, current: dict[str, Any] | None, how: str, log: Path) -> None:
        """The agent itself ended while ``current`` ran, or before it said anything."""
        words = _last_line(log)
        detail = f"{how}: {words}" if words else how
        name = current["id"] if current else "start"
        remedy = current.get("remedy") if current else "does this interpreter start at all?"
        self._record(VerifyCheck(id=name, status="failed", detail=detail, remedy=remedy or None))

    def _add(self, event: dict[str, Any]) -> None:
        machine = self.environment.get("machine", "")
        crash = describe_crash(self.host, event["crash"], machine) if event.get("crash") else None
        detail = str(event.get("detail", ""))
        if crash is not None:
            detail = f"{detail}: {sentence(crash)}" if sentence(crash) else detail
        self._record(
            VerifyCheck(
                id=str(event["id"]),
                status=event["status"],
                detail=detail,
                seconds=round(float(event.get("seconds", 0.0)), 3),
                cpu_seconds=round(event["cpu_seconds"], 3) if "cpu_seconds" in event else None,
                remedy=event.get("remedy"),
                crash=crash,
                worst=event.get("worst"),
            )
        )

    def _record(self, check: VerifyCheck) -> None:
        self.checks.append(check)
        word = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}[check.status]
        self.progress.note(f"{word} {check.id:<26} {check.seconds:7.2f} s  {check.detail}"[:200])


def _ending(code: int) -> str:
    if code < 0:
        return f"the interpreter died of signal {-code}"
    # Windows: 0xC0000005 access violation, 0xC000001D illegal instruction
    return f"the interpreter ended with exit code {code if code < 2**31 else hex(code)}"


def _last_line(log: Path) -> str:
    try:
        data = log.read_bytes()[-4000:]
    except OSError:
        return ""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
