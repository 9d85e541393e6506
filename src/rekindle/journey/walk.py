"""One walk: runs its legs in order, times them, and keeps each leg's document for the next run, as long as what it was
made from (its ``inputs``) is unchanged. The digest of the inputs is written last: a kill in between repeats the leg."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from rekindle.errors import BadInput, RekindleError
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure, BuildResult, BundleReport
from rekindle.model.document import encode, load
from rekindle.model.graft import GraftReport
from rekindle.model.journey import Journey, Leg, LegStatus
from rekindle.model.progress import BuildView, Progress, show_build
from rekindle.model.verify import VerifyReport
from rekindle.render.pages import render_journey_html
from rekindle.render.summary import summarise

D = TypeVar("D")


def digest(*inputs: Any) -> str:
    """One name for a set of inputs: documents and strings."""
    return hashlib.sha256(b"".join(map(encode, inputs))).hexdigest()


def is_whole(file: str | None, sha256: str | None) -> bool:
    """Does the file lie there with this digest?"""
    return file is not None and Path(file).is_file() and sha256_of(Path(file)) == sha256


def is_still_true(kept: object) -> bool:
    """Does the file that a kept document is about lie there unchanged; was it a proof?"""
    match kept:
        case BuildResult():
            return is_whole(kept.wheel, kept.wheel_sha256)
        case GraftReport():
            return is_whole(kept.out, kept.sha256)
        case BundleReport():
            return kept.out is None or is_whole(kept.out, kept.sha256)
        case VerifyReport():
            return kept.good
    return True


class Walk:
    """One walk: its legs so far, and where their documents are kept. A leg's stages tell ``inner`` how they go on."""

    def __init__(self, workspace: Workspace, progress: Progress) -> None:
        self.workspace = workspace
        self.progress = progress
        self.inner = Within(progress)
        self.legs: list[Leg] = []

    def kept_leg(
        self,
        name: str,
        announce: str,
        kind: type[Any],
        inputs: str,
        make: Callable[[], D],
        *,
        still_good: Callable[[Any], bool] = is_still_true,
    ) -> D:
        """A leg whose document, a ``kind``, is kept; walked again only if something changed. A failed build is not
        kept."""
        document = self.workspace.reports / f"{name}.json"
        key = self.workspace.reports / f"{name}.key"
        try:
            kept = load(document, kind) if key.read_text(encoding="ascii") == inputs else None
        except (OSError, UnicodeDecodeError, BadInput):
            kept = None  # missing, half gone or from another version: the leg is walked again
        if kept is not None and still_good(kept):
            return self.leg(name, announce, lambda: cast(D, kept), status="kept", file=document)

        def make_and_keep() -> D:
            key.unlink(missing_ok=True)
            made = make()
            if not isinstance(made, BuildFailure):
                write_atomically(document, encode(made))
                write_atomically(key, inputs)
            return made

        return self.leg(name, announce, make_and_keep, file=document)

    def leg(
        self,
        name: str,
        announce: str,
        make: Callable[[], D],
        tell: Callable[[D], str] = summarise,
        *,
        status: LegStatus = "done",
        file: Path | None = None,
    ) -> D:
        """A leg that is always walked; ``tell`` says in a line what came of it, ``file`` is where that is kept."""
        self.progress.stage(name, announce if status == "done" else "already there")
        begin = time.monotonic()

        def note(status: LegStatus, detail: str) -> None:
            seconds, where = round(time.monotonic() - begin, 3), str(file) if file else None
            self.legs.append(Leg(name=name, status=status, seconds=seconds, detail=detail, file=where))

        try:
            made = make()
        except RekindleError as error:
            note("failed", error.message)
            raise
        if isinstance(made, BuildFailure):
            file = None
            note("failed", made.message)
            return cast(D, made)
        detail = tell(made)
        # A proof that does not hold is a leg that failed, however well it was carried out.
        note("failed" if isinstance(made, VerifyReport) and not made.good else status, detail)
        self.progress.note(detail)
        return made


class Within:
    """A leg's own progress: its stages are told as lines under the leg, not beside it."""

    def __init__(self, outer: Progress) -> None:
        self._outer = outer

    def stage(self, name: str, detail: str = "") -> None:
        self._outer.note(f"{name}: {detail}" if detail else name)

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self._outer.step(done, total, detail)

    def panel(self, view: BuildView) -> None:
        show_build(self._outer, view)

    def note(self, text: str) -> None:
        self._outer.note(f"  {text}")


def write_report(journey: Journey) -> Journey:
    """The journey, with its page and its document written where it says that they lie."""
    if journey.report is not None:
        path = Path(journey.report)
        write_atomically(path, render_journey_html(journey))
        write_atomically(path.with_suffix(".json"), encode(journey))
    return journey
