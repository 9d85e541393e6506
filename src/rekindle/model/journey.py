"""A walk through the stages: what ``up`` can be told, what was done, what was already there, and where it all lies."""

from pathlib import Path
from typing import Literal

from rekindle.model.build import BuildFailure
from rekindle.model.build_options import CompilerOptions
from rekindle.model.document import Document, Part
from rekindle.model.plan import Plan, Wish
from rekindle.model.verify import Level, VerifyReport
from rekindle.model.wheel import WheelReport

LegStatus = Literal["done", "kept", "failed", "skipped"]


class Card(Part, frozen=True, kw_only=True):
    """What a yes means, told before the question: what comes, from where, how much of it, where to, and what not to
    expect. Unknown is None. ``download_bytes`` counts what is known, ``download_unknown`` how many packages nobody told
    the size of. ``into`` is the interpreter or folder that gets torch; ``new`` says that it is made for this.
    ``network`` is why a place cannot be reached, ``reachable`` lines that take a torch from one that can. ``wont`` is
    what will not work there, ``others`` are the other choices."""

    what: tuple[str, ...]
    places: tuple[str, ...] = ()
    packages: int | None = None
    download_bytes: int | None = None
    download_unknown: int = 0
    largest: tuple[str, ...] = ()
    disk_gib: float | None = None
    disk_free_gib: float | None = None
    memory_gib: float | None = None
    minutes: tuple[float, float] | None = None
    into: str = ""
    new: bool = False
    python: str | None = None
    installer: str = "pip"
    network: str | None = None
    reachable: tuple[str, ...] = ()
    wont: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Leg(Part, frozen=True, kw_only=True):
    """One stage of the way. ``kept`` means that its result was there from an earlier run."""

    name: str
    status: LegStatus
    seconds: float = 0.0
    detail: str = ""
    file: str | None = None


class BuiltCompanion(Part, frozen=True, kw_only=True):
    """torchvision or torchaudio of a torch that was built here: its own wheel, or ``why`` there is none."""

    name: str
    version: str | None = None
    wheel: str | None = None
    wheel_sha256: str | None = None
    why: str | None = None


class Journey(Document, frozen=True, kw_only=True):
    """``goal``: the demo's spark or a torch. ``failure``: the build that ended it. ``card`` was told before the
    question; ``keeps`` are files that keep others from replacing torch, ``companions`` those of a torch built here."""

    goal: str
    arrived: bool
    verdict: str
    workspace: str
    legs: tuple[Leg, ...] = ()
    machine: str | None = None
    plan: Plan | None = None
    wheel: str | None = None
    wheel_sha256: str | None = None
    companions: tuple[BuiltCompanion, ...] = ()
    inspection: WheelReport | None = None
    verification: VerifyReport | None = None
    failure: BuildFailure | None = None
    python: str | None = None
    report: str | None = None
    card: Card | None = None
    keeps: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


class Package(Part, frozen=True, kw_only=True):
    """A package as it will be installed: the build itself, where it comes from, and its digest."""

    name: str
    version: str
    url: str = ""
    sha256: str | None = None
    bytes: int | None = None
    asked: bool = False


class Installation(Document, frozen=True, kw_only=True):
    """What an environment holds after an install. ``told`` is what was announced before, None where pip could not tell;
    ``fingerprint`` names the state right after the install, ``wheel_sha256`` our wheel."""

    python: str
    packages: dict[str, str] = {}
    told: tuple[Package, ...] | None = None
    wheel_sha256: str | None = None
    fingerprint: str = ""
    log: str | None = None


class UpOptions(CompilerOptions, frozen=True, kw_only=True):
    """What ``up`` can be told beyond :class:`CompilerOptions`; everything has a default.

    wish        which torch: release, variant, toolkit, companions, settings by hand
    gpu, cpu    what a built torch is for (``("sm_35", "sm_90")``, ``"ivybridge"``) where that is not what this machine
                has; it is proved on what this machine has
    workspace   where everything is kept (default: the user's data directory)
    python      an interpreter that gets torch itself, or a release (``3.12``) for the environment that is made
    venv        where that environment is (default: in the workspace)
    installer   ``pip`` (default) or ``uv``
    find_links  folders or pages of wheels that are looked through besides
    offline     ask no index at all
    index       this package index instead of the plan's: a mirror, or ``default`` for pip's own
    torch_only  without torchvision and torchaudio
    source      a tree to build instead of fetching one
    wheel       a torch that is built already: it is taken as it is, and torchvision and torchaudio are built against it
    level       how hard the result is proved
    target      build only that CMake target, and stop
    bundle      put libraries of this machine that a built wheel needs into it
    clean       remove what another plan left in the build tree; without it, such a tree is refused
    dry_run     stop after the plan and its card, and write nothing"""

    wish: Wish = Wish()
    gpu: tuple[str, ...] = ()
    cpu: str | None = None
    workspace: Path | None = None
    python: str | None = None
    venv: Path | None = None
    installer: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False
    index: str | None = None
    torch_only: bool = False
    source: Path | None = None
    wheel: Path | None = None
    level: Level = "smoke"
    target: str | None = None
    bundle: bool = True
    clean: bool = False
    dry_run: bool = False
