"""What the user may choose about a build beyond the plan. Sizes are bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rekindle.errors import BadInput
from rekindle.model.size import parse_size

LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
MIN_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """``jobs`` is a ceiling, ``memory_bytes`` a budget for all compilers together, ``target`` what alone is built:
    CMake targets or files of the build tree, with commas between them."""

    jobs: int | None = None
    memory_bytes: int | None = None
    launcher: str | None = None
    clean: bool = False
    target: str | None = None
    cmake: str | None = None
    ninja: str | None = None
    # Use the given Python with the packages it has instead of an environment made for the build.
    as_is: bool = False
    # Switches by hand; they win over the plan's.
    settings: tuple[tuple[str, str], ...] = ()
    # What a companion is compiled against: a wheel's path or "torch==2.6.0"; default: the workspace's torch.
    against: str | None = None
    # The tree is the user's own work: editing it goes on with the build that was begun.
    may_be_edited: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """What alone is built; empty for the whole wheel."""
        return tuple(name for part in (self.target or "").split(",") if (name := part.strip()))

    def continued(self) -> BuildOptions:
        """The same for the next Python: it must not clean away what the first one built."""
        return replace(self, clean=False)


def memory_budget(text: str) -> int:
    """Bytes for all compilers together: ``16``, ``8G``, ``1500M``."""
    size = parse_size(text)
    if size < MIN_MEMORY_BYTES:
        raise BadInput(f"{text!r} is too small for any compiler", remedy="write for example 8G or 1500M")
    return size


def most_jobs(jobs: int | None, settings: Iterable[tuple[str, str]]) -> int | None:
    """The ceiling asked for: ``--jobs``, or MAX_JOBS among the switches by hand. A plan's own MAX_JOBS is none: it is
    what fits where nobody watches the memory."""
    said = dict(settings).get("MAX_JOBS")
    if jobs is None and said:
        if not said.isdecimal():
            raise BadInput(f"MAX_JOBS is a number of jobs, not {said!r}", remedy="--jobs 4")
        jobs = int(said)
    if jobs is not None and jobs < 1:
        raise BadInput("--jobs is at least 1")
    return jobs
