"""What a build can be told beyond its plan: one value, from the command line to the engine."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.model.spoken import parse_size

LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
MIN_MEMORY_BYTES = 64 * 1024 * 1024


class CompilerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the compilers of a build can be told; everything has a default.

    memory      what all of them together may use, such as ``12G``
    jobs        never more than so many at once
    launcher    ccache, sccache, distcc or icecc
    farm        compile on a farm's machines: its folder, or "" for the user's own
    farm_check  compile one in so many of a farm's objects here as well and compare (0: none; default: 50)
    trace       write a time line of the build there, for Perfetto or Chrome"""

    memory: str | None = None
    jobs: int | None = None
    launcher: str | None = None
    farm: str | None = None
    farm_check: int | None = None
    trace: Path | None = None


class BuildOptions(CompilerOptions, frozen=True, kw_only=True):
    """What a build can be told beyond :class:`CompilerOptions`; everything has a default.

    plan        a plan or its file (default: ``plan.json`` of the workspace)
    source      a tree or its folder (default: the workspace's)
    project     torch, torchvision, torchaudio or spark (default: as the tree says)
    pythons     paths or versions, one wheel each (default: the plan's)
    workspace   where everything is kept (default: the user's data directory)
    target      build only these CMake targets or files of the build tree (several: with commas), make no wheel
    cmake       the CMake to use
    ninja       the Ninja to use
    clean       remove the build tree first
    settings    switches by hand, as pairs; they win over the plan's
    against     the torch a companion is compiled against: a wheel or ``torch==2.6.0`` (default: the workspace's)
    as_is       use the given Python with the packages it has instead of an environment made for the build
    package     an extension by name (``torch-scatter==2.1.2``): its sources come from the package index
    gpus        the cards an extension is for (``sm_80``, a product name), instead of this machine's"""

    plan: Plan | Path | None = None
    source: SourceTree | Path | None = None
    project: str | None = None
    pythons: tuple[str, ...] = ()
    workspace: Path | None = None
    target: str | None = None
    cmake: str | None = None
    ninja: str | None = None
    clean: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    against: str | None = None
    as_is: bool = False
    package: str | None = None
    gpus: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """What alone is built; empty for the whole wheel."""
        return tuple(name for part in (self.target or "").split(",") if (name := part.strip()))

    @property
    def memory_bytes(self) -> int | None:
        """The budget of all compilers together; None without one."""
        return memory_budget(self.memory) if self.memory else None

    def check(self) -> None:
        """Raise :class:`BadInput` where a value is none that a build understands."""
        if self.launcher and self.launcher not in LAUNCHERS:
            raise BadInput(f"{self.launcher!r} is no launcher I know", remedy=f"one of {', '.join(LAUNCHERS)}")
        if self.farm is not None and self.launcher not in (None, "sccache"):
            raise BadInput(f"a farm is sccache's, not {self.launcher}'s", remedy="--farm without --launcher")
        if self.farm_check is not None and self.farm_check < 0:
            raise BadInput("--farm-check is 0 (none) or more", remedy="--farm-check 50 compares one in fifty")
        if self.memory:
            memory_budget(self.memory)
        most_jobs(self.jobs, self.settings)

    def for_next_python(self) -> "BuildOptions":
        """The same for the next Python: it must not clean away what the first one built."""
        return msgspec.structs.replace(self, clean=False)


def memory_budget(text: str) -> int:
    """Bytes for all compilers together: ``16``, ``8G``, ``1500M``."""
    if (size := parse_size(text)) < MIN_MEMORY_BYTES:
        raise BadInput(f"{text!r} is too small for any compiler", remedy="write for example 8G or 1500M")
    return size


def most_jobs(jobs: int | None, settings: Iterable[tuple[str, str]]) -> int | None:
    """The ceiling asked for: ``jobs``, or MAX_JOBS by hand; never a plan's, for where nobody watches memory."""
    ceiling = dict(settings).get("MAX_JOBS")
    if jobs is None and ceiling:
        if not ceiling.isdecimal():
            raise BadInput(f"MAX_JOBS is a number of jobs, not {ceiling!r}", remedy="--jobs 4")
        jobs = int(ceiling)
    if jobs is not None and jobs < 1:
        raise BadInput("--jobs is at least 1")
    return jobs
