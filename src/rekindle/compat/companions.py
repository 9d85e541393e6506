"""Does a companion run beside this torch on this machine, and how is it to be had? ``judge`` walks the published wheels
newest first, then forks that spare compiling, then sources, then other forks. Each "no" keeps its axis: what a card or
a system forbids is for ever, what a torch or a Python forbids is a choice."""

import difflib
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from rekindle.compat.backends import PLATFORM_NAMES
from rekindle.compat.driver import Side, driver_runs
from rekindle.compat.images import GpuCode, covers
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, GpuArch, Sm, parse_sm
from rekindle.model.companion import Bounds, CompanionFork, CompanionPackage, CompanionPackageWheel, CompanionSource
from rekindle.model.facts import Platform
from rekindle.model.version import compare, key, matches, same_prefix

Axis = Literal["card", "backend", "platform", "libc", "cuda", "python", "torch", "version", "unknown"]
# What a person can choose otherwise without another machine.
CHOICES: frozenset[Axis] = frozenset(["python", "torch", "cuda", "version"])
_STRENGTH: tuple[Axis, ...] = ("backend", "card", "platform", "libc", "unknown", "python", "cuda", "torch", "version")
_Some = TypeVar("_Some", bound=Bounds)
_CARDS = {"cuda": "NVIDIA cards", "rocm": "AMD cards", "xpu": "Intel's GPUs", "cpu": "a machine without a GPU"}
FindingKind = Literal["runs", "last", "build", "alternative", "none", "unknown"]
ChosenRow = CompanionPackageWheel | CompanionSource | CompanionFork


class TorchSurroundings(NamedTuple):
    """What a companion meets: a torch (None: there is none), its toolkit, a Python, a system and cards."""

    torch: str | None
    cuda: str | None
    rocm: str | None
    python: str | None
    platform: Platform
    system: str
    glibc: str | None
    backend: str
    cards: tuple[GpuArch, ...]
    driver: str | None = None
    side: Side = "linux"


class No(NamedTuple):
    """Why one row does not do."""

    axis: Axis
    text: str
    source: str


RefusedRow = tuple[Bounds, tuple[No, ...]]


class CompanionFinding(NamedTuple):
    """``kind`` as in the plan's JSON. ``row`` is what was chosen; ``nos`` why the newest was not; ``pulls`` are torch
    conditions under which a newer one would do."""

    package: str
    kind: FindingKind
    version: str | None = None
    row: ChosenRow | None = None
    nos: tuple[No, ...] = ()
    notes: tuple[str, ...] = ()
    pulls: tuple[str, ...] = ()
    stand_ins: tuple[CompanionFork, ...] = ()


def find_package(name: str, facts: Facts) -> str | None:
    """The package people mean by a name: ``flash_attn``, ``FlashAttention``."""
    rows = facts.packages.package.items()
    return next((p for p, row in rows if _plain_name(name) in map(_plain_name, (p, *row.names))), None)


def near_packages(name: str, facts: Facts) -> list[str]:
    """Names that look like this one."""
    by_name = {
        _plain_name(n): package for package, row in facts.packages.package.items() for n in (package, *row.names)
    }
    near = difflib.get_close_matches(_plain_name(name), by_name, n=3, cutoff=0.6)
    return list(dict.fromkeys(map(by_name.__getitem__, near)))


def _plain_name(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())


def judge(package: str, at: TorchSurroundings, facts: Facts, *, version: str = "") -> CompanionFinding:
    """The best way to ``package`` beside ``at``; ``version`` is a condition of the user's own."""
    about = facts.packages.package[package]
    if (beyond := _missing_version(package, about, version)) is not None:
        return CompanionFinding(package, "none", None, None, (beyond,))
    wheels, sources = _newest_first(package, facts)
    forks = [row for row in facts.packages.fork if row.package == package]
    stand_ins = tuple(row for row in forks if row.stands_in and not refusals(row, at, facts))
    refused: list[RefusedRow] = []
    away: list[RefusedRow] = []

    def finding(kind: FindingKind, row: ChosenRow | None) -> CompanionFinding:
        name, notes = (chosen_version(row, version), tuple(_notes(row, at, facts))) if row else (None, ())
        # Torch conditions of rows that only the torch (or its CUDA, or its Python) keeps away.
        free = {"torch", "python", "cuda"}
        pulls = dict.fromkeys(row.torch for row, nos in refused if row.torch and {no.axis for no in nos} <= free)
        return CompanionFinding(package, kind, name, row, _main_refusals(refused), notes, tuple(pulls), stand_ins)

    if wheel := _first_fitting(wheels, at, facts, version, refused):
        last = wheel.version != about.last and _is_dropped(wheel, refused)
        return finding("last" if last else "runs", wheel)
    ready = [row for row in forks if not row.stands_in]
    if not version and (early := _first_fitting([row for row in ready if row.first], at, facts, "", away)):
        return finding("alternative", early)
    if source := _first_fitting(sources, at, facts, version, refused):
        newest = chosen_version(source, version) == about.last or not _is_dropped(source, refused)
        return finding("build" if newest else "last", source)
    if not version and (late := _first_fitting(ready, at, facts, "", away)):
        return finding("alternative", late)
    refused += away
    unknown = all(no.axis == "unknown" for no in _main_refusals(refused))
    return finding("unknown" if unknown else "none", None)


def _missing_version(package: str, about: CompanionPackage, version: str) -> No | None:
    """A version that does not exist, as far as the tables know."""
    exact = version.removeprefix("==")
    if not version.startswith("==") or "*" in exact or compare(about.first, exact) <= 0 <= compare(about.last, exact):
        return None
    span = f"versions go from {about.first} to {about.last} ({about.date})"
    return No("version", f"There is no {package} {exact} in the tables: {span}.", about.source[0])


def chosen_version(row: Bounds, condition: str) -> str:
    """The version proposed: the row's newest, or the exact version that was asked for."""
    exact = condition.removeprefix("==").strip()
    return exact if condition.startswith("==") and exact[:1].isdigit() and "*" not in exact else row.version


@functools.lru_cache(maxsize=256)
def _newest_first(package: str, facts: Facts) -> tuple[list[CompanionPackageWheel], list[CompanionSource]]:
    def rows(table: Iterable[_Some]) -> list[_Some]:
        return sorted((row for row in table if row.package == package), key=lambda row: key(row.version), reverse=True)

    return rows(facts.packages.wheel), rows(facts.packages.source)


def _first_fitting(
    rows: Sequence[_Some], at: TorchSurroundings, facts: Facts, version: str, refused: list[RefusedRow]
) -> _Some | None:
    for row in rows:
        if not (nos := refusals(row, at, facts, version)):
            return row
        refused.append((row, nos))
    return None


def _is_dropped(chosen: Bounds, refused: Sequence[RefusedRow]) -> bool:
    """Newer versions exist, and it is the machine, not a choice, that forbids every one of them. Builds for another
    maker's cards are not newer versions of this one."""
    newer = [nos for row, nos in refused if compare(row.version, chosen.version) > 0]
    ours = [nos for nos in newer if all(no.axis != "backend" for no in nos)]
    return bool(ours) and all(any(no.axis not in CHOICES for no in nos) for nos in ours)


def _main_refusals(refused: Sequence[RefusedRow]) -> tuple[No, ...]:
    """The strongest reason against the newest row, and the one against the row that came nearest."""
    if not refused:
        return ()
    # A version nobody asked for is no obstacle worth telling, unless there is no other.
    asked = [nos for _, nos in refused if all(no.axis != "version" for no in nos)] or [nos for _, nos in refused]

    def weakness(no: No) -> int:
        return _STRENGTH.index(no.axis)

    strongest = [min(nos, key=weakness) for nos in asked]
    return tuple(dict.fromkeys((strongest[0], max(strongest, key=weakness))))


def refusals(row: Bounds, at: TorchSurroundings, facts: Facts, version: str = "") -> tuple[No, ...]:
    """All reasons why this row does not do, none hidden by another."""
    source = row.source[0]
    who, platform = f"{row.package} {row.version}", PLATFORM_NAMES[at.platform].exact
    nos: list[No] = []

    def no(axis: Axis, text: str) -> None:
        nos.append(No(axis, text, source))

    if version and not _in_span(row, version):
        no("version", f"{who} is not {version}.")
    if at.backend not in row.backends:
        serves = " and ".join(_CARDS[name] for name in row.backends)
        no("backend", f"{who} is made for {serves}, not for {_CARDS[at.backend]}.")
    else:
        nos += _card_refusals(row, at, facts, who, source)
    if isinstance(row, CompanionPackageWheel):
        if (pythons := row.pythons.get(at.platform)) is None:
            no("platform", row.lacks.get(at.platform) or f"{who} has no wheel for {platform}.")
        elif at.python and "any" not in pythons and at.python.removesuffix("t") not in pythons:
            no("python", f"{who} has no wheel for Python {at.python} (it has {pythons[0]} to {pythons[-1]}).")
        if (floor := row.glibc.get(at.platform)) and at.glibc and compare(at.glibc, floor) < 0:
            no("libc", f"{who} needs glibc {floor} or newer, and this system has {at.glibc}.")
    elif isinstance(row, CompanionSource | CompanionFork) and row.platforms and at.platform not in row.platforms:
        no("platform", f"{who} is not known to work on {platform}.")
    if row.python and at.python and not matches(at.python.removesuffix("t"), row.python):
        no("python", f"{who} wants Python {row.python}.")
    if row.cuda and at.backend == "cuda" and at.cuda and not any(same_prefix(at.cuda, cuda) for cuda in row.cuda):
        no("cuda", f"{who} goes with a torch for CUDA {' or '.join(row.cuda)}, and this one is for CUDA {at.cuda}.")
    if row.rocm and at.backend == "rocm" and at.rocm and not any(same_prefix(at.rocm, rocm) for rocm in row.rocm):
        no("cuda", f"{who} goes with a torch for ROCm {' or '.join(row.rocm)}, and this one is for ROCm {at.rocm}.")
    if row.torch and at.torch is None:
        no("torch", f"{who} wants torch {row.torch}, and there is none for this machine.")
    elif row.torch and at.torch and not matches(at.torch.partition("+")[0], row.torch):
        no("torch", f"{who} was made for torch {row.torch}, not for {at.torch.partition('+')[0]}.")
    oldest = row.cuda_min if isinstance(row, CompanionSource) and at.backend == "cuda" else None
    if oldest and at.cuda and compare(at.cuda, oldest) < 0:
        no("cuda", f"{who} compiles with CUDA {oldest} or newer, and torch's is {at.cuda}.")
    return tuple(nos)


def _in_span(row: Bounds, version: str) -> bool:
    if version.startswith("=="):
        exact = version.removeprefix("==")
        return compare(exact, row.since or row.version) >= 0 and compare(exact, row.version) <= 0
    return matches(row.version, version)


def _card_refusals(row: Bounds, at: TorchSurroundings, facts: Facts, who: str, source: str) -> Iterable[No]:
    targets = row.targets.get(at.platform, row.targets.get("any", ()))
    for card in at.cards:
        if isinstance(card, Sm):
            if row.sm_min is not None and card < row.sm_min:
                yield No("card", f"{who} needs {row.sm_min} or newer, and this card is {card}.", source)
                return
            if row.sm_max is not None and row.sm_max < card:
                yield No("card", f"{who} ends at {row.sm_max}, and this card is {card}.", source)
                return
            code = GpuCode(targets, row.toolkit)
        elif isinstance(card, Gfx):
            code = GpuCode(tuple(str(gfx) for gfx in row.gfx), rocm=at.rocm)
        else:
            continue
        coverage = covers(code, card, at.system, facts)
        if code.targets and coverage.kind in ("none", "unknown"):
            is_known = coverage.kind == "none"
            yield No("card" if is_known else "unknown", f"{who}{'' if is_known else ':'} {coverage.text}.", source)
            return
    sms = tuple(card for card in at.cards if isinstance(card, Sm))
    if row.toolkit and sms:
        driver = driver_runs(at.driver, row.toolkit, sms, at.side, facts)
        if driver.kind == "no":
            yield No("card", f"{who} brings CUDA {row.toolkit}. {driver.text}", driver.source or source)


def _notes(row: Bounds, at: TorchSurroundings, facts: Facts) -> Iterable[str]:
    """What does not work on these cards though the package does, and variables an override needs."""
    for limit, text in row.limits.items():
        if limit in (at.backend, at.platform, at.system) or any(_is_limited(card, limit) for card in at.cards):
            yield text
    targets = row.targets.get(at.platform, row.targets.get("any", ()))
    for card in at.cards:
        names = targets if isinstance(card, Sm) else tuple(str(gfx) for gfx in row.gfx)
        if names:
            coverage = covers(GpuCode(names, row.toolkit, rocm=at.rocm), card, at.system, facts)
            if coverage.kind in ("jit", "override"):
                yield f"It {coverage.text}."


def accepted_arch(sm: Sm, row: CompanionSource, facts: Facts) -> Sm:
    """The architecture to name for a card: its own, or the one its code comes from where a build knows only a few."""
    targets = row.targets.get("any", ())
    target = covers(GpuCode(targets), sm, None, facts).target if targets else None
    return parse_sm(target) if target else sm


def _is_limited(card: GpuArch, limit: str) -> bool:
    """``sm_75`` limits what is older, ``gfx803`` only itself."""
    if limit.startswith("sm_"):
        return isinstance(card, Sm) and card < parse_sm(limit)
    return isinstance(card, Gfx) and card.name == limit
