"""Every way to get torch that is worth judging: published wheels, wheels of a wheelhouse, builds; and their hazards. A
candidate is one such way; assessed, it carries every "no" that was found about it. The index room reads its own wheels
and hands them over as :class:`HouseWheel` values."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rekindle.compat import BACKENDS, Coverage, Name, flavour_backend
from rekindle.compat.hazards import Combination, torch_meets
from rekindle.facts import Facts
from rekindle.model.arch import parse_gfx
from rekindle.model.document import Part
from rekindle.model.facts import Flavour, Hazard, Platform
from rekindle.model.machine import Gpu
from rekindle.model.plan import Answer, Change, GraftOutline, Refusal
from rekindle.model.version import compare, key, matches, minor
from rekindle.plan.evidence import KnownBuild, tried_kits
from rekindle.plan.question import Question, recall


@dataclass(frozen=True, slots=True)
class Candidate:
    """``flavour`` for a published wheel; for a build the toolchain is chosen in the candidate itself."""

    answer: Answer
    torch: str
    backend: Name
    flavour: Flavour | None = None
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    compiler: str | None = None
    wheel: str | None = None

    @property
    def is_published(self) -> bool:
        """Is it a wheel of the tables, and not one that lies in a wheelhouse or is made?"""
        return self.answer == "install" and self.wheel is None and self.flavour is not None

    @property
    def variant(self) -> str | None:
        return self.flavour.name if self.flavour else None

    @property
    def name(self) -> str:
        if self.flavour is not None:
            return f"torch {self.torch}+{self.flavour.name}"
        kit = f" with CUDA {self.cuda}" if self.cuda else f" with ROCm {self.rocm}" if self.rocm else ""
        return f"torch {self.torch} from source{kit}"


@dataclass(slots=True)
class Assessed:
    """A candidate with all that was found about it."""

    candidate: Candidate
    refusals: list[Refusal] = field(default_factory=list)
    covered: list[tuple[Gpu, Coverage]] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    evidence: KnownBuild | None = None  # of a CUDA build or a graft: who compiled it before
    graft: GraftOutline | None = None
    cost: float = 0.0
    changes: list[Change] = field(init=False)
    feasible: bool = field(init=False)  # nothing is in the way that no change could fix

    def __post_init__(self) -> None:
        by_kind: dict[str, Change] = {}
        for refusal in self.refusals:
            if refusal.change is not None:
                by_kind.setdefault(refusal.change.what, refusal.change)
        self.changes = list(by_kind.values())
        self.feasible = all(refusal.change is not None or not refusal.certain for refusal in self.refusals)

    @property
    def doubts(self) -> list[Refusal]:
        return [refusal for refusal in self.refusals if not refusal.certain]

    @property
    def is_untried(self) -> bool:
        """A build or graft that nobody is known to have compiled."""
        return self.evidence is not None and self.evidence.grade == "untried"


# What a fresh environment should get where nothing is asked: new enough for everything, old enough for wheels.
_LIKED_PYTHONS = ("3.12", "3.11", "3.13", "3.10", "3.9", "3.8", "3.7", "3.6", "3.14")


def choose_python(candidate: Candidate, question: Question) -> str | None:
    """The asked Python if it is served, else the nearest served one; unasked, one the machine has or a liked one."""
    served = pythons_of(candidate, question)
    asked = question.wish.python
    if asked is not None:
        return _nearest_python(asked, served)
    if installed := question.had_python(served, to_build=candidate.answer == "build"):
        return installed
    pack = question.jetpack_of(candidate.cuda)
    if pack is not None and candidate.answer == "build" and pack.python in served:
        return pack.python  # the board's own
    liked = [version for version in _LIKED_PYTHONS if version in served]
    unharmed = (version for version in liked if not _is_harmful(version, candidate, question))
    return next(unharmed, liked[0] if liked else served[-1] if served else None)


@functools.lru_cache(maxsize=1024)
def _nearest_python(asked: str, served: tuple[str, ...]) -> str | None:
    if exact := [version for version in served if same_python(asked, version)]:
        return exact[0]
    plain = (version for version in served if not version.endswith("t"))
    major, second = key(asked)[:2]
    return min(plain, key=lambda each: (abs(key(each)[0] - major), abs(key(each)[1] - second)), default=None)


def _is_harmful(python: str, candidate: Candidate, question: Question) -> bool:
    """A known hazard names this Python with this torch (torch.compile under 3.12 before 2.4)."""
    kind = "build" if candidate.answer == "build" else "wheel"
    return any(
        hazard.concerns in (kind, "both")
        and (kind == "wheel" or hazard.effect == "breaks")  # what warns of a build is cured by its pins
        and (hazard.torch is None or matches(candidate.torch, hazard.torch))
        for hazard in question.facts.python_hazards
        if matches(python, hazard.python or "")
    )


def official_wheels(question: Question) -> Iterator[Candidate]:
    """Published wheels for this platform and backend, of every release."""
    wheels = question.shared["system"].setdefault("wheels", [])
    yield from wheels
    every = published_wheels(question.backend, question.platform, question.facts, tegra=question.tegra)
    for bare in every[len(wheels) :]:
        python = choose_python(bare, question)
        wheels.append(Candidate(bare.answer, bare.torch, bare.backend, bare.flavour, bare.cuda, bare.rocm, python))
        yield wheels[-1]


@functools.lru_cache(maxsize=16)
def published_wheels(backend: Name, platform: Platform, facts: Facts, *, tegra: bool) -> tuple[Candidate, ...]:
    """The same for everybody with such a system: all but the Python. Jetson's own wheels are for its boards."""
    return tuple(
        Candidate("install", version, backend, flavour, flavour.cuda, flavour.rocm)
        for version in facts.releases
        for flavour in facts.flavours(version)
        if flavour_backend(flavour) == backend
        and platform in BACKENDS[backend].platforms(flavour)
        and (tegra or flavour.publisher != "jetson")
    )


def source_builds(question: Question, versions: tuple[str, ...], *, kits: int | None = None) -> Iterator[Candidate]:
    """Source builds of these releases with the toolkits worth trying, best first; Python and compiler stay open."""
    backend = question.backend
    for version in versions:
        for kit in _kits_to_try(question, version)[:kits]:
            cuda, rocm = kit if backend == "cuda" else None, kit if backend == "rocm" else None
            yield Candidate("build", version, backend, cuda=cuda, rocm=rocm)


def _kits_to_try(question: Question, version: str) -> list[str | None]:
    """The asked one, the machine's, those that somebody compiled this with, those of official builds, the others."""
    facts, wish = question.facts, question.wish
    if question.backend in ("cpu", "xpu"):
        return [None] if question.backend == "cpu" else []  # what oneAPI a build takes is not in the tables
    flavours = facts.flavours(version)
    if question.backend == "rocm":
        used = [row.rocm for row in flavours if row.rocm and row.publisher == "pytorch"]
        first = [wish.rocm] if wish.rocm else question.installed("rocm")
        newest = sorted((*used, *question.paired_rocm(version)), key=key, reverse=True)
        return list(dict.fromkeys((*first, *newest)))
    first = [wish.cuda] if wish.cuda else question.installed("cuda")
    used = sorted((row.cuda for row in flavours if row.cuda), key=key, reverse=True)
    if not first:
        # On the board, with a driver made for it; a JetPack of the age of the sources before a newer one.
        majors = {key(kit)[0] for kit in used}
        first = sorted((row.cuda for row in question.jetpacks), key=lambda kit: key(kit)[0] not in majors)
    tried = () if wish.cuda else tried_kits(version, question.sms, question.machine.os.system, facts)
    others = [kit for kit in facts.toolkits if any(key(kit)[0] == key(u)[0] for u in used)] if used else []
    # Of a release that no wheel is known of, those of its own time are the oldest that its sources take.
    oldest = [kit for kit in reversed(facts.toolkits) if compare(kit, facts.era(version).cuda_min or "0") >= 0]
    return list(dict.fromkeys((*first, *tried, *used, *others, *(() if used else oldest), *facts.toolkits)))


def buildable_releases(question: Question) -> tuple[str, ...]:
    """Releases worth trying to build: the wanted ones first, then the others by nearness to the wish."""
    wanted = question.wanted_releases
    if question.torch is None:
        return wanted
    others = [version for version in question.facts.releases if version not in wanted]
    anchor = wanted[0]
    above = sorted((v for v in others if compare(v, anchor) > 0), key=key)
    below = sorted((v for v in others if compare(v, anchor) < 0), key=key, reverse=True)
    return (*wanted, *above[:12], *below)


def pythons_of(candidate: Candidate, question: Question) -> tuple[str, ...]:
    """The Pythons a candidate can serve: those of the wheels, or those the sources were built for."""
    release = question.facts.release(candidate.torch)
    assert release is not None
    platform, last = question.platform, question.last_python
    pythons = release.pythons.get(platform, ())
    if candidate.flavour is not None:
        pythons = candidate.flavour.pythons.get(platform) or pythons
    else:
        if not pythons or question.tegra:
            everywhere = {version for versions in release.pythons.values() for version in versions}
            pythons = tuple(sorted(everywhere, key=key))
        pythons = tuple(version for version in pythons if not version.endswith("t") or version == question.wish.python)
    return tuple(version for version in pythons if last is None or key(version) <= key(last))


def python_span(versions: tuple[str, ...]) -> str:
    plain = [version for version in versions if not version.endswith("t")]
    return plain[0] if len(plain) == 1 else f"{plain[0]} to {plain[-1]}" if plain else "none"


def same_python(asked: str, version: str) -> bool:
    return asked.endswith("t") == version.endswith("t") and key(asked)[:2] == key(version)[:2]


def hazards_met(candidate: Candidate, question: Question) -> list[Hazard]:
    """The known hazards of this torch, with its toolchain and Python, on this machine."""
    return [hazard for number, hazard in hazards_of(candidate, question) if number in question.possible_hazards]


def hazards_of(candidate: Candidate, question: Question) -> list[tuple[int, Hazard]]:
    """Those of this torch, with its toolchain and Python, numbered, on whatever cards and CPU."""
    if not candidate.is_published:
        return _find_hazards(candidate, question)
    key = ("hazards", candidate.torch, id(candidate.flavour), candidate.python)
    return recall(question.shared["system"], key, lambda: _find_hazards(candidate, question))


def _find_hazards(candidate: Candidate, question: Question) -> list[tuple[int, Hazard]]:
    kinds = ("build" if candidate.answer == "build" else "wheel", "both")
    # A wheel made for the board is not what is said of other Arm wheels on it.
    for_board = candidate.flavour is not None and candidate.flavour.publisher == "jetson"
    met = _torch_hazards(_make_combination(candidate, question), question.facts)
    return [(number, row) for number, row in met if row.concerns in kinds and not (row.tegra and for_board)]


def is_cured(hazard: Hazard) -> bool:
    """A patch of ours takes it away: no reason to refuse a compiler, but the sources change."""
    return hazard.effect == "breaks" and hazard.patch is not None


@functools.lru_cache(maxsize=1 << 14)
def _torch_hazards(mix: Combination, facts: Facts) -> tuple[tuple[int, Hazard], ...]:
    """Those whose conditions on the torch hold, numbered: the same for every machine."""
    return tuple((number, hazard) for number, hazard in enumerate(facts.hazards.hazard) if torch_meets(hazard, mix))


def _make_combination(candidate: Candidate, question: Question) -> Combination:
    folders = question.machine.cuda_folders(candidate.cuda) if candidate.cuda else ()
    made_with = candidate.cuda, candidate.rocm, candidate.python, candidate.compiler
    return Combination(candidate.torch, candidate.backend, candidate.variant, *made_with, folders)


class HouseWheel(Part, frozen=True, kw_only=True):
    """What the planner must know of a wheel: ``archs`` in the spelling of TORCH_CUDA_ARCH_LIST, or gfx targets."""

    torch: str
    python: str
    platform: Platform
    location: str
    cuda: str | None = None
    rocm: str | None = None
    archs: tuple[str, ...] = ()
    glibc: str | None = None
    variant: str | None = None


def house_candidates(wheels: Sequence[HouseWheel], question: Question) -> Iterator[Candidate]:
    """Wheels of a wheelhouse for this platform and backend."""
    for wheel in wheels:
        version = wheel.torch.partition("+")[0]
        if wheel.platform != question.platform or question.facts.release(version) is None:
            continue
        flavour = Flavour(
            torch=minor(version),
            name=wheel.variant or wheel.torch.partition("+")[2] or "house",
            cuda=wheel.cuda,
            rocm=wheel.rocm,
            sm={wheel.platform: wheel.archs} if wheel.cuda else {},
            gfx={wheel.platform: tuple(parse_gfx(arch) for arch in wheel.archs)} if wheel.rocm else {},
            platforms=(wheel.platform,),
            pythons={wheel.platform: (wheel.python,)},
            glibc=wheel.glibc,
            source=(wheel.location,),
            date="",
            how="measured",
        )
        backend = flavour_backend(flavour)
        if backend == question.backend and question.platform in BACKENDS[backend].platforms(flavour):
            kits = wheel.cuda, wheel.rocm
            yield Candidate("install", version, backend, flavour, *kits, wheel.python, wheel=wheel.location)
