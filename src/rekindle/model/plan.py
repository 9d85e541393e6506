"""A plan: which torch for a machine, how to get it, and why. The word for "no" is ``Refusal``."""

from collections.abc import Iterable
from typing import Literal

from rekindle.model.document import (
    Address,
    CMakeName,
    Document,
    EnvName,
    Line,
    Name,
    Part,
    Place,
    Specifier,
    Tag,
    VersionText,
)
from rekindle.model.machine import System

# "graft": the official wheel, with device code compiled for a card it lacks.
Answer = Literal["install", "graft", "build", "none"]
Backend = Literal["cpu", "cuda", "rocm", "xpu"]
Evidence = Literal["proven", "compiled", "reported", "untried"]
StepKind = Literal["run", "set", "keep", "cd", "activate", "vcvars", "write", "install-built"]
# In the value of a variable: the folder the steps have gone to.
HERE = "@here@"
# "off": the start file of an environment of ours, and ``configure``, switch cuDNN off as soon as torch is imported.
CUDNN_SWITCH = "REKINDLE_CUDNN"
CompanionAnswer = Literal["runs", "last", "build", "alternative", "none", "unknown"]


class Request(Part, frozen=True, kw_only=True):
    """One package to install, and why. ``version`` is what the installed package will call itself: ``2.7.1+cu128`` from
    an index of its own, ``2.7.1`` from PyPI. ``specifier`` stands where no exact version is wanted (``<2``). ``index``
    is None for PyPI; ``links`` is a page of files (pip's ``-f``); ``url`` a wheel by its place."""

    name: Name
    version: VersionText | None = None
    specifier: Specifier | None = None
    extras: tuple[Name, ...] = ()
    index: Address | None = None
    links: Place | None = None
    url: Place | None = None
    why: Line = ""

    @property
    def requirement(self) -> str:
        """What pip is asked for. An index of one flavour needs no local part; a page of all flavours does."""
        if self.url:
            return self.url
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        if self.version is None:
            return f"{self.name}{extras}{self.specifier or ''}"
        public = self.version.partition("+")[0]
        return f"{self.name}{extras}=={self.version if self.links else public}"


def pip_arguments(requests: Iterable[Request]) -> tuple[tuple[str, ...], ...]:
    """What follows ``pip install``: one list per index and page of files. A limit (``numpy<2``) is asked for apart, so
    that it cannot change which torch is taken."""
    groups: dict[tuple[str | None, str | None, bool], list[str]] = {}
    for request in requests:
        groups.setdefault((request.index, request.links, bool(request.version)), []).append(request.requirement)
    return tuple(
        (*names, *(("--index-url", index) if index else ()), *(("-f", links) if links else ()))
        for (index, links, _), names in groups.items()
    )


class Step(Part, frozen=True, kw_only=True):
    """One step by hand, before any shell's spelling: a command (``env``: for it alone, in a POSIX shell), variables to
    set (or to keep set for good), a folder to go to, a virtual environment to activate, the compiler of Visual Studio
    (``argv``: toolset), lines to write into a file, or the wheel in a folder to install."""

    kind: StepKind
    argv: tuple[Line, ...] = ()
    env: dict[EnvName, Line] = {}
    folder: Line | None = None


class Reason(Part, frozen=True, kw_only=True):
    """One sourced reason; ``code`` is stable, ``text`` is for people. ``handled``: the plan's own settings avoid it."""

    code: Line
    text: Line
    source: Line | None = None
    handled: bool = False


class Wish(Part, frozen=True, kw_only=True):
    """What the user wants kept. None means: no matter.

    ``torch`` is a version (``2.1``: any 2.1), a condition (``>=2.1,<2.4``) or a flavour (``2.8.0+cu128``). The
    toolchain values are what was asked for by hand; what a machine merely has is in its :class:`Machine`. ``origin`` is
    where sources come from: git, tarball, debian, or a directory. ``settings`` are the build's own switches by hand
    (``USE_PRECOMPILED_HEADERS=1``); they win over the plan's. ``companions`` are names, or names with versions
    (``xformers==0.0.30``). ``serve`` decides for a box of different cards: one torch for all of them where there is one
    (so it is where nothing is said), or the newest torch of the newest card. ``without_cudnn`` takes a wheel whose
    cuDNN has no code for a card: there cuDNN is switched off at run time."""

    torch: str | None = None
    variant: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    compiler: str | None = None
    python: str | None = None
    build: bool = False
    origin: str | None = None
    settings: tuple[tuple[EnvName, Line], ...] = ()
    companions: tuple[str, ...] = ()
    serve: Literal["all", "newest"] | None = None
    without_cudnn: bool = False


class Change(Part, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What the plan does differently from the wish. (JSON says "from"; Python cannot.)"""

    what: Line
    from_: Line | None = None
    to: Line | None = None
    why: Line


class Refusal(Part, frozen=True, kw_only=True):
    """A "no" as a value: what was refused, why, and what would help. ``change`` of machine or wish would make it do;
    without one it is out. ``certain`` is False for "cannot tell"; ``departure``: it only differs from the wish."""

    code: str
    what: str
    reason: str
    remedy: str | None = None
    source: str | None = None
    rule: str | None = None
    change: Change | None = None
    certain: bool = True
    departure: bool = False


class BuildRecipe(Part, frozen=True, kw_only=True):
    """Everything a source build needs, complete: nothing is left to folklore. ``origin`` is where the tree comes from
    (git, tarball, debian, a directory); ``packages`` what the machine's package manager must bring. ``taken`` names a
    wheel of torch that is built already: only what goes beside it is compiled."""

    source: Line
    taken: Line | None = None
    origin: Line = "git"
    packages: tuple[Line, ...] = ()
    env: dict[EnvName, Line] = {}
    cmake: dict[CMakeName, Line] = {}
    patches: tuple[Name, ...] = ()
    compiler: Tag | None = None
    toolchain: dict[Line, Line] = {}
    pins: dict[Name, Specifier] = {}
    asserts: dict[CMakeName, Line] = {}
    losses: tuple[Line, ...] = ()
    disk_gib: float | None = None
    memory_gib: float | None = None
    minutes: tuple[int, int] | None = None
    arch_list: tuple[Tag, ...] = ()


class GraftOutline(Part, frozen=True, kw_only=True):
    """What a graft of the official ``wheel`` takes: device code for ``archs`` by nvcc of ``toolkit`` (``toolkit_here``:
    where this machine has it), ``units`` compiled by so many ``jobs`` at once. ``file`` is a graft made before, which
    needs no compiler. ``keeps`` is what stays the official build's, ``losses`` what will not work on the card."""

    wheel: Line
    archs: tuple[Tag, ...]
    file: Place | None = None
    toolkit: VersionText | None = None
    toolkit_here: Line | None = None
    units: int | None = None
    jobs: int | None = None
    cpu_minutes: int | None = None
    minutes: tuple[int, int] | None = None
    disk_gib: float | None = None
    keeps: tuple[Line, ...] = ()
    losses: tuple[Line, ...] = ()


class Alternative(Part, frozen=True, kw_only=True):
    """Another way that would work, and what it costs."""

    answer: Answer
    torch: VersionText | None = None
    variant: Tag | None = None
    cuda: VersionText | None = None
    rocm: VersionText | None = None
    python: VersionText | None = None
    compiler: Tag | None = None
    driver: Line | None = None
    why: Line


class Companion(Part, frozen=True, kw_only=True):
    """What becomes of one package beside this torch.

    ``runs``: this version. ``last``: it runs, and newer ones do not on this machine. ``build``: from source, with
    ``env``. ``alternative``: ``instead`` names somebody's fork or build and its ``state``. ``none``: ``why`` not.
    ``instead`` of a ``none`` is another package that does the same work. ``requests`` is what an installer is asked
    for; ``commands`` the same for people. ``wants`` is the torch a better answer needs."""

    name: Name
    answer: CompanionAnswer
    version: VersionText | None = None
    why: Line
    source: Line | None = None
    requests: tuple[Request, ...] = ()
    commands: tuple[Line, ...] = ()
    env: dict[EnvName, Line] = {}
    cost: Line | None = None
    instead: Line | None = None
    state: Line | None = None
    url: Line | None = None
    wants: Line | None = None
    notes: tuple[Line, ...] = ()

    @property
    def comes(self) -> bool:
        """Is there a wheel of it for this torch?"""
        return self.answer in ("runs", "last") and bool(self.requests)


class CompanionChoice(Part, frozen=True, kw_only=True):
    """One torch, and what it gives and costs among the companions asked for."""

    answer: Answer
    torch: VersionText | None = None
    variant: Tag | None = None
    gives: tuple[Line, ...] = ()
    costs: tuple[Line, ...] = ()
    taken: bool = False


class PlannedFor(Part, frozen=True, kw_only=True):
    """The machine's system and CPU, spelt as in machine.json: what other programs need to know of it."""

    system: System
    arch: Tag


class Plan(Document, frozen=True, kw_only=True):
    """The finished plan. ``requests`` is what gets installed, ``env`` what must be set whenever torch is used,
    ``steps`` the way by hand; ``commands`` is only their spelling for people (bash, or cmd on Windows, where
    ``powershell`` has the other). ``asked`` names what the wish asked for; ``os`` is the system it was made for."""

    answer: Answer
    as_asked: bool = False
    torch: VersionText | None = None
    variant: Tag | None = None
    cuda: VersionText | None = None
    rocm: VersionText | None = None
    cudnn: VersionText | None = None
    python: VersionText | None = None
    numpy: Specifier | None = None
    arch_list: tuple[Tag, ...] = ()
    requests: tuple[Request, ...] = ()
    evidence: Evidence | None = None
    env: dict[EnvName, Line] = {}
    steps: tuple[Step, ...] = ()
    commands: tuple[Line, ...] = ()
    because: tuple[Reason, ...] = ()
    changes: tuple[Change, ...] = ()
    build: BuildRecipe | None = None
    graft: GraftOutline | None = None
    alternatives: tuple[Alternative, ...] = ()
    warnings: tuple[Reason, ...] = ()
    project: Name = "torch"
    asked: tuple[Line, ...] = ()
    powershell: tuple[Line, ...] = ()
    companions: tuple[Companion, ...] = ()
    choices: tuple[CompanionChoice, ...] = ()
    os: PlannedFor | None = None

    @property
    def backend(self) -> Backend:
        """What it is for: a card's vendor, or the processor alone."""
        return "cuda" if self.cuda else "rocm" if self.rocm else "xpu" if self.variant == "xpu" else "cpu"


class Considered(Part, frozen=True, kw_only=True):
    """One way that was judged, and every "no" that was found. ``feasible`` ones were merely not the best."""

    name: str
    answer: Answer
    feasible: bool
    refusals: tuple[Refusal, ...] = ()


class WhyNot(Document, frozen=True, kw_only=True):
    """``plan --why-not torch=2.15``: what was judged about that value; ``way`` is how it can be had, if at all, and
    ``proposed`` says that the plan has it already."""

    asked: str
    possible: bool
    way: Answer = "none"
    instead: str | None = None
    proposed: bool = False
    considered: tuple[Considered, ...] = ()


class TorchChoice(Document, frozen=True, kw_only=True):
    """Which torch. ``answer``: install a published wheel, graft one (with code for the card), build one, or none that
    would run. ``pip`` holds what follows ``pip install``, one list per call; ``env`` is what must be set whenever torch
    is used. ``cpu`` is the same without the card, where no wheel serves it and one for the CPU alone does. ``why`` and
    ``beware`` are sentences for people; ``minutes`` and ``disk_gib`` are estimates, None where unknown."""

    answer: Answer
    torch: str | None = None
    variant: str | None = None
    backend: Backend = "cpu"
    python: str | None = None
    packages: tuple[Request, ...] = ()
    pip: tuple[tuple[str, ...], ...] = ()
    cpu: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}
    disk_gib: float | None = None
    minutes: tuple[float, float] | None = None
    why: tuple[str, ...] = ()
    beware: tuple[str, ...] = ()


class TorchReady(Document, frozen=True, kw_only=True):
    """What became of it. ``ready`` is True only where the proof held; ``python`` runs it, ``constraints`` keeps it."""

    ready: bool
    verdict: str
    torch: str | None = None
    python: str | None = None
    activate: str | None = None
    constraints: str | None = None
    report: str | None = None
