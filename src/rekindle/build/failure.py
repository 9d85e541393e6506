"""The log of a build, and from a failed command in it to the first real error among the noise, and to what was only
killed for memory.

Ninja prints ``FAILED: [code=N] outputs``, then the command, then what the command said; other jobs' lines
never come between, so the first such block is the whole story of one failed command.
"""

import itertools
import platform
import re
import shlex
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rekindle import __version__
from rekindle.errors import BuildFailed
from rekindle.host.files import text_at, write_atomically
from rekindle.host.redact import redactor_here
from rekindle.model.build import BuildFailure
from rekindle.model.toml import read_beside

TAIL_LINES = 60

_FAILED = re.compile(r"FAILED: (?:\[code=(-?\d+)\] )?(.*)")
_STATUS = re.compile(r"\[\d+/\d+\] ")
_TABLE = read_beside(__file__, "log_words.toml", dict[str, list[str]])
_WORDS = {name: "|".join(words) for name, words in _TABLE.items()}
_ERROR, _MAYBE, _CERTAIN, _NOISE = (re.compile(_WORDS[name]) for name in ("error", "maybe", "certain", "noise"))
_KILLED = re.compile(_WORDS["killed"], re.IGNORECASE)
_CMAKE = "CMake Error"
_VARIABLE = re.compile(r"(\w+)(?: \(ADVANCED\))?")
MAX_LINES = 400


class BuildLog:
    """Every line whole and flushed, with the seconds since the start. They are monotonic, so a clock that jumps does
    not spoil them; the head tells the wall clock once."""

    def __init__(self, path: Path, *, keep: int = 4000) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", errors="replace", buffering=1)
        self._begun = time.monotonic()
        self.lines = 0
        self.recent: deque[str] = deque(maxlen=keep)
        self.write(f"rekindle build, {datetime.now(UTC).isoformat(timespec='seconds')}")

    def write(self, line: str) -> None:
        """One line, with its time."""
        self.recent.append(line)
        self.lines += 1
        self._file.write(f"[{time.monotonic() - self._begun:9.2f}] {line}\n")

    def command(self, argv: tuple[str, ...] | list[str], cwd: Path) -> None:
        """What is run now, as a shell would take it."""
        self.write(f"$ cd {shlex.quote(str(cwd))} && {shlex.join(argv)}")

    def close(self) -> None:
        self._file.close()


def without_times(line: str) -> str:
    """A line of such a log as the tool printed it."""
    return line[12:] if line[:1] == "[" and line[10:12] == "] " else line


class FailedCommand(NamedTuple):
    """What Ninja reports of a command that failed: the number of its first line, the exit code as told (Ninja 1.13
    on), what it was to make, and the lines: Ninja's own, the command, then the command's output."""

    number: int
    code: str
    outputs: list[str]
    lines: list[str]

    @property
    def printed(self) -> list[str]:
        """The command's own output."""
        return self.lines[2:]


def failed_blocks(lines: Sequence[str]) -> list[FailedCommand]:
    """Every failed command in what Ninja printed."""
    blocks: list[FailedCommand] = []
    told: list[str] | None = None
    for number, line in enumerate(lines):
        if (match := _FAILED.match(line)) and match[2]:
            told = [line]
            blocks.append(FailedCommand(number, match[1] or "", match[2].split(), told))
        elif _STATUS.match(line) or line.startswith("ninja: "):
            told = None
        elif told and len(told) < MAX_LINES:
            told.append(line)
    return blocks


def failed_commands(log: BuildLog) -> list[FailedCommand]:
    """Those of the last run that the log has."""
    return failed_blocks(_last_run_lines(log))


def killed_for_memory(log: BuildLog, by_us: Sequence[str]) -> list[str]:
    """Outputs whose command was killed for lack of memory; empty if anything failed for another reason."""
    killed: list[str] = []
    for _, code, outputs, lines in failed_commands(log):
        if code in ("137", "-9", "9") or any(map(_KILLED.search, lines)) or set(outputs) & set(by_us):
            killed.extend(outputs[:1])
        else:
            return []
    return killed


def _last_run_lines(log: BuildLog) -> list[str]:
    lines = list(log.recent)
    begins = [number for number, line in enumerate(lines) if line.startswith("$ cd ")]
    return lines[begins[-1] :] if begins else lines


def first_error(lines: Sequence[str]) -> int | None:
    """The first line that is an error itself, not a test for one or a flag about them."""
    maybe = None
    for number, line in enumerate(lines):
        if _CERTAIN.search(line) or (_ERROR.search(line) and not _NOISE.search(line)):
            return number if maybe is None or line.lstrip().startswith(_CMAKE) else maybe
        if maybe is None and _MAYBE.search(line) and not _NOISE.search(line):
            maybe = number
    return maybe


def account_for(project: str, phase: str, argv: Sequence[str], code: int, log: BuildLog) -> BuildFailed:
    """Why a command failed, as an error to raise: the first error in its output, and the line of the log."""
    lines = _last_run_lines(log)
    offset = log.lines - len(lines)
    blocks = failed_blocks(lines)
    command: str | None = " ".join(argv) or None
    failed_log = None
    printed, begin = lines, 0
    # What is told where no line is an error.
    message, error, number = lines[-1] if lines else "no output", lines[-20:], len(lines) - 1
    if blocks:
        block = blocks[0].lines
        command = block[1] if len(block) > 1 else command
        printed, begin = blocks[0].printed or block, blocks[0].number + 2
        message, error, number = block[0], printed[:40], blocks[0].number
        place = log.path.with_suffix(".failed.log")
        write_atomically(place, "\n".join(line for each in blocks for line in [*each.lines, ""]))
        failed_log = str(place)
    if (at := first_error(printed)) is not None:
        message, error, number = _error_message(printed, at), printed[max(0, at - 2) : at + 40], begin + at
    failure = BuildFailure(
        project=project,
        phase=phase,
        message=_shorten(message),
        command=command,
        error=tuple(error),
        first_line=max(1, offset + number + 1),
        log=str(log.path),
        failed_log=failed_log,
    )
    why = f"{phase} failed (exit code {code}): {failure.message}"
    return BuildFailed(why, failure, remedy=f"the whole log: {log.path}")


def _error_message(lines: Sequence[str], at: int) -> str:
    """The line itself; a message of CMake stands on the indented lines after it."""
    if not lines[at].lstrip().startswith(_CMAKE):
        return lines[at]
    if lines[at].rstrip().endswith("set to NOTFOUND."):
        # The variables stand one a line, their users indented; then comes a blank line.
        below = itertools.takewhile(str.strip, lines[at + 1 :])
        unset = [match[1] for match in (_VARIABLE.fullmatch(line.rstrip()) for line in below) if match is not None]
        return f"{lines[at].rstrip().removesuffix('.')}: {', '.join(unset) or 'not named'}"
    if not lines[at].rstrip().endswith(":"):
        return lines[at]
    words: list[str] = []
    for line in lines[at + 1 : at + 12]:
        # "Call Stack" stands at the beginning of a line, too.
        if line.strip() and not line.startswith("  "):
            break
        # It may take several paragraphs (a path stands alone), but not more than its first full sentence.
        if not line.strip() and words and words[-1].endswith("."):
            break
        words.append(line.strip())
    return " ".join([lines[at], *filter(None, words)])


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:297] + "..."


def render_bug_report(failure: BuildFailure) -> str:
    """An issue in Markdown, without what tells who and where."""
    import jinja2

    form = Path(__file__).with_name("bug_report.md.jinja").read_text(encoding="utf-8")
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    report = jinja2.Template(form, undefined=jinja2.StrictUndefined, trim_blocks=True)
    log = [without_times(line)[:1000] for line in text_at(Path(failure.log or "")).splitlines()[-TAIL_LINES:]]
    return redactor_here().text(report.render(failure=failure, version=__version__, system=system, log=log))
