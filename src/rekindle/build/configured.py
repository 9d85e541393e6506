"""The check after configure, and a watch for front ends that cannot configure alone."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from rekindle.build import state
from rekindle.build.assertwanted import SUMMARY_FILE, check_configuration, summary_lines
from rekindle.build.work import Work
from rekindle.errors import BuildFailed
from rekindle.model.build import BuildFailure

_WRITTEN = re.compile(r"-- Build files have been written to: (.+)")


def check(work: Work, log: list[str], *, tree: Path | None = None) -> None:
    """Stop here, with the reason, where the configuration (of ``tree``) is not what was planned."""
    place = tree or work.front.build_tree
    try:
        summary = (place / SUMMARY_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        summary = summary_lines(log)
    work.facts = check_configuration(work.plan, place, summary, log)
    wrong = [fact for fact in work.facts if fact.ok is False]
    work.log.write(f"rekindle: {len(work.facts)} settings planned, {len(wrong)} configured otherwise")
    if not wrong:
        return
    first = wrong[0]
    message = f"{first.name} was planned as {first.wanted} but configured as {first.found or 'nothing'}"
    failure = BuildFailure(
        project=work.tree.project,
        phase="check",
        message=message,
        error=tuple(f"{fact.name}: {fact.where}" for fact in wrong if fact.where),
        log=str(work.log.path),
        facts=work.facts,
    )
    # The next run must configure again, once the cause is fixed.
    old = state.load_state(work.front.build_tree)
    if old is not None:
        state.save_state(work.front.build_tree, msgspec.structs.replace(old, configured=False, running=False))
    raise BuildFailed(message, failure, remedy="fix the cause, or change the plan; nothing was compiled yet")


class ConfigureWatch:
    """Sees every line of a command that configures and compiles in one go; checks as soon as CMake is through."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._lines: list[str] = []
        self._done = False

    def line(self, line: str) -> None:
        if self._done:
            return
        self._lines.append(line)
        if match := _WRITTEN.match(line):
            self._done = True
            check(self._work, self._lines, tree=Path(match[1].strip()))
