"""Which wheels are tried apart from the rest of the machine: those that were not built here, wherever that is possible.

The wheel's own code runs as soon as it is imported, so nothing of it is started before the sandbox stands. Installing
it runs nothing of it either: what is kept apart is installed from wheels alone, by an installer that starts no program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from rekindle.errors import BadInput
from rekindle.host.made import wheel_was_made_here
from rekindle.host.sandbox import Sandbox, Wish, find_sandbox
from rekindle.model.progress import Progress
from rekindle.verify.environment import WHEELS_ONLY
from rekindle.verify.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Apart:
    """How a wheel is to be tried. ``strange``: not built here, and nobody said to treat it as if it were."""

    wish: Wish
    strange: bool
    gpu: bool

    @property
    def wheels_only(self) -> bool:
        """Is nothing to be built for it, because that would run before any sandbox stands?"""
        return self.strange or self.wish == "yes"

    def sandbox(
        self, shown: Iterable[Path], probe: Sequence[str], work: Path, progress: Progress
    ) -> tuple[Sandbox | None, dict[str, str]]:
        """The sandbox, and what the report says about it; a stranger's wheel without one is never passed over."""
        if self.wish == "auto" and not self.strange:
            return None, {}
        work.mkdir(parents=True, exist_ok=True)
        box, words = find_sandbox(self.wish, shown=shown, gpu=self.gpu, probe=probe, work=work)
        if box is None and self.strange:
            progress.note(
                f"no sandbox ({words.removeprefix('none: ')}): this wheel was not built here, and its code runs"
            )
            progress.note("with your rights, your network and your files; a container keeps it apart")
        return box, {"sandbox": words, **({"installed": WHEELS_ONLY} if self.wheels_only else {})}


def judge_wheel(subject: Subject, sha256: str, wish: Wish, gpu: bool | None) -> Apart:
    """Whether this wheel is a stranger's; one whose dependencies would be built from source is refused."""
    strange = wish != "no" and not wheel_was_made_here(sha256)
    if strange or wish == "yes":
        for text in subject.requires:
            try:
                place = Requirement(text).url
            except InvalidRequirement:
                continue
            if place is not None:
                raise BadInput(
                    f"{subject.path.name} wants {text[:200]!r}: a place of its own choosing, which may run programs",
                    remedy="--no-deps leaves dependencies out; --sandbox no trusts it",
                )
    return Apart(wish=wish, strange=strange, gpu=gpu is not False)
