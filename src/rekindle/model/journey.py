"""A walk through the stages: what was done, what was already there, and where everything lies."""

from typing import Literal

from rekindle.model.build import BuildFailure
from rekindle.model.document import Document, Part
from rekindle.model.plan import Plan
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport


class Card(Part, frozen=True, kw_only=True):
    """What a yes means, told before the question: what comes, from where, how much of it, where to, and what not to
    expect. Unknown is None.

    ``download_bytes`` counts what is known, ``download_unknown`` how many packages nobody told the size of.
    ``into`` is the interpreter or folder that gets torch; ``new`` says that it is made for this. ``network`` is why a
    place cannot be reached, ``reachable`` lines that take a torch from one that can. ``wont`` is what will not work
    there, ``others`` are the other choices.
    """

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


LegStatus = Literal["done", "kept", "failed", "skipped"]


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
    """``goal`` is what the way leads to: the demo's spark or a torch. ``failure``: the build that ended it.

    ``card`` is what was told before the question; ``keeps`` are files that keep other packages from replacing torch.
    ``beside`` are the companions of a torch that was built here.
    """

    goal: str
    arrived: bool
    verdict: str
    workspace: str
    legs: tuple[Leg, ...] = ()
    machine: str | None = None
    plan: Plan | None = None
    wheel: str | None = None
    wheel_sha256: str | None = None
    beside: tuple[BuiltCompanion, ...] = ()
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
    """What an environment holds after an install.

    ``told`` is what was announced before and compared afterwards, None where pip could not tell; ``fingerprint``
    names the environment's state right after the install, ``wheel_sha256`` the wheel of ours that went in.
    """

    python: str
    packages: dict[str, str] = {}
    told: tuple[Package, ...] | None = None
    wheel_sha256: str | None = None
    fingerprint: str = ""
    log: str | None = None
