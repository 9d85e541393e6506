"""``explain`` joined: a log, the machine it happened on, the plan, and the torch that is installed."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from msgspec.structs import replace

from rekindle.errors import BadInput
from rekindle.explain.engine import diagnose
from rekindle.explain.reading import make_report, open_log, read_chunks
from rekindle.host.files import write_for_user
from rekindle.host.redact import redactor_here
from rekindle.model.diagnosis import Diagnosis, Trials

if TYPE_CHECKING:
    from rekindle.model.build import BuildFailure
    from rekindle.model.diagnosis import Match
    from rekindle.model.machine import Examination, Machine
    from rekindle.model.plan import Plan
    from rekindle.model.progress import Progress
    from rekindle.model.verify import VerifyReport
    from rekindle.model.wheel import WheelReport


Source = Path | str | bytes | BinaryIO | Iterable[bytes]


def explain(
    source: Source, *, machine: Machine | None = None, plan: Plan | None = None, wheel: WheelReport | None = None
) -> Diagnosis:
    """A log (a path), a text, an open file or a stream of bytes into causes and fixes, best first.

    >>> diagnosis = explain("nvcc fatal   : Unsupported gpu architecture 'compute_120'")
    >>> diagnosis.matches[0].id, diagnosis.matches[0].confidence
    ('unsupported-gpu-architecture-new', 'high')
    >>> explain("all is well").matches
    ()
    """
    with _open_source(source) as chunks:
        return _diagnose(chunks, machine=machine, plan=plan, wheel=wheel)


def _diagnose(chunks: Iterable[bytes], **where: Any) -> Diagnosis:
    """With a text to post that goes out of the house: without names and secrets."""
    diagnosis = diagnose(chunks, **where)
    if (unexplained := diagnosis.unexplained) is None:
        return diagnosis
    return replace(diagnosis, unexplained=replace(unexplained, post=redactor_here().text(unexplained.post)))


def explain_command(
    command: Sequence[str], *, out: BinaryIO, err: BinaryIO, env: Mapping[str, str] | None = None, **where: Any
) -> Diagnosis:
    """Run a command as the user would, and explain its failure (``where`` as for :func:`explain`); its exit code is in
    the answer. One that succeeds is not explained."""
    from rekindle.host.process import run_and_copy

    with tempfile.TemporaryFile() as copy:
        code = run_and_copy(command, copy, out=out, err=err, env=env)
        if code == 0:
            return Diagnosis(exit_code=0)
        copy.seek(0)
        return replace(_diagnose(read_chunks(copy), **where), exit_code=code)


def explain_watch(
    path: Path, *, pause: float = 1.0, quiet: float = 3.0, until: Callable[[], bool] | None = None, **where: Any
) -> Diagnosis:
    """Wait until a log that is being written rests for ``quiet`` seconds with a failure in it, then explain it
    (``where`` as for :func:`explain`). One that rests without is waited for; ``until`` ends the waiting."""
    last_size, judged, rested = None, None, 0.0
    while True:
        size = path.stat().st_size if path.exists() else 0
        rested = rested + pause if size == last_size else 0.0
        if size and rested >= quiet and judged != size:
            judged = size
            diagnosis = explain(path, **where)
            # A line that only says "error" may stand in a build that goes on.
            if any(match.id != "plain-error" for match in diagnosis.matches):
                return diagnosis
        if until is not None and until():
            return explain(path, **where)
        last_size = size
        time.sleep(pause)


@contextmanager
def _open_source(source: Source) -> Iterator[Iterable[bytes]]:
    """What was given, as bytes to read: a path is opened and closed again."""
    if isinstance(source, Path):
        with open_log(source) as file:
            yield read_chunks(file)
    elif hasattr(source, "read"):
        yield read_chunks(cast(BinaryIO, source))
    elif isinstance(source, (str, bytes)):
        yield [source.encode("utf-8", "replace") if isinstance(source, str) else source]
    else:
        yield source


def installed_torch(where: str | None = None, *, progress: Progress | None = None) -> WheelReport:
    """The torch that is installed here (or the folder or wheel that is named), read from its bytes."""
    from rekindle.api.inspect_wheel import inspect
    from rekindle.api.plan_torch import this_machine

    if where and not Path(where).exists():
        raise BadInput(f"there is no {where}", remedy="name the folder of the installed torch, or a wheel")
    places = [where] if where else [torch.path for torch in this_machine().torches if torch.path]
    if not places:
        raise BadInput("no Python here has torch installed", remedy="name its folder or wheel: --torch PATH")
    return inspect(places[0], quick=True, progress=progress)


def explain_try(rule: str, source: Source) -> Trials:
    """Why a rule (its id, or a TOML file with new ones) won or lost on a log.

    >>> explain_try("gpu-too-old", "all is well").trials[0].outcome
    'did not fire'
    """
    from rekindle.explain.trial import try_rules

    with _open_source(source) as chunks:
        return try_rules(rule, chunks)


def explain_report(source: Path | str | bytes, diagnosis: Diagnosis, target: Path) -> None:
    """Save a redacted copy of the log for a bug report."""
    about = f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    with _open_source(source) as chunks:
        text = make_report(chunks, diagnosis, redactor_here(), machine=about)
    write_for_user(target, text)


def with_cause(failure: BuildFailure, plan: Plan | None = None) -> BuildFailure:
    """The failure with its diagnosis: of the failed command alone if that is certain, else of the whole log. CMake's
    message names the check that failed; why it failed stands further on, so a configure is read as a whole."""
    diagnosis = explain("\n".join([failure.command or "", *failure.error]), plan=plan)
    unsure = failure.phase == "configure" or not diagnosis.matches or diagnosis.matches[0].confidence != "high"
    if unsure and failure.log and Path(failure.log).is_file():
        whole = explain(Path(failure.log), plan=plan)
        diagnosis = whole if whole.matches else diagnosis
    return replace(failure, diagnosis=diagnosis)


def advice_on(text: str, machine: Machine | None = None) -> Match | None:
    """The known cause of what a command said; None where it is only a guess, or no cause is known."""
    diagnosis = explain(text, machine=machine)
    first = diagnosis.matches[0] if diagnosis.matches else None
    return None if first is None or first.confidence == "low" or diagnosis.unexplained is not None else first


def remedy_for(text: str) -> str | None:
    """The known cause and its first step, in one line."""
    cause = advice_on(text)
    return f"{cause.title}: {cause.fix[0]}" if cause and cause.fix else None


def proof_with_causes(report: VerifyReport) -> VerifyReport:
    """What the failed checks said, diagnosed; a report without failures stays as it is."""
    failed = [check for check in report.checks if check.status == "failed"]
    if not failed:
        return report
    diagnosis = explain("\n".join(check.detail for check in failed))
    if all(check.crash is not None and check.crash.isa for check in failed):
        # The very instruction and its set are known: what the words alone suggest can only be less right.
        diagnosis = replace(diagnosis, matches=tuple(match for match in diagnosis.matches if match.confidence != "low"))
    return replace(report, diagnosis=diagnosis) if diagnosis.matches else report


def examination_with_causes(examination: Examination) -> Examination:
    """A broken torch gets the remedy of its error where that is known."""
    checks = []
    for check in examination.checks:
        broken = check.id == "torch" and check.status != "ok" and check.why
        if broken and (first := advice_on(broken, examination.machine)) is not None:
            why = f"{broken} ({first.title}; rekindle explain --rule {first.id})"
            check = replace(check, why=why, fix=first.fix[0])
        checks.append(check)
    return replace(examination, checks=tuple(checks))


def redacted(text: str) -> str:
    """The text without who and where, tokens and passwords.

    >>> redacted("Authorization: Bearer abcdefgh12345678")
    'Authorization: redacted'
    """
    return redactor_here().text(text)
