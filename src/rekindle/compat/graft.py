"""Can an official wheel get code for a card it lacks: by which toolkit, how long does it take, what stays without?

A graft compiles the device code of a release's own kernel files (:mod:`rekindle.graft`). The wheel's host code and the
vendor's libraries stay as they are, so nvcc must be of the wheel's CUDA major version and not older than it.

A closed library (cuBLAS, cuDNN, NCCL …) of a package of its own may be exchanged for another version of the same
package with the same soname (its first number). What nothing serves is switched off where torch has a switch for it;
otherwise the operators that will not work are named. A library linked into the wheel stays as it is."""

import functools
import heapq
from collections.abc import Iterable, Sequence

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from rekindle.compat.answer import CompatAnswer, Coverage
from rekindle.compat.images import GpuCode, covers
from rekindle.compat.toolkit import cudnn_covers, emits_for
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm, parse_sm
from rekindle.model.document import shared_fields
from rekindle.model.facts import Row
from rekindle.model.graft import ClosedLibrary, GraftCost, GraftRecipe, GraftTime, LibraryBeside
from rekindle.model.spoken import spoken_minutes
from rekindle.model.version import compare, key, minor

# Where nobody says how many there are.
_USUAL_THREADS = 8
# Everything of the official build but device code: what a graft keeps and a build of one's own rarely has.
KEPT = (
    "the official build's ABI, so that wheels made for it (torchvision, xformers …) fit",
    "its cuDNN, cuBLAS, NCCL and MKL",
)
_BETTER = ("native", "jit", "override", "unknown", "none")


@functools.lru_cache(maxsize=512)
def find_recipe(version: str, facts: Facts, package: str = "torch", *, measured: bool = False) -> GraftRecipe | None:
    """How a release compiles its device code, where that is known; ``measured``: not where it is only inferred."""
    try:
        release = Version(version.split("+")[0])
    except ValueError:  # no version, or a number of more digits than Python reads
        return None
    rows = {recipe.releases: recipe for recipe in facts.graft.recipe if recipe.package == package}
    row = next((recipe for spec, recipe in rows.items() if release in SpecifierSet(spec)), None)
    if row is None or (measured and row.how == "inferred"):
        return None
    if row.like is None:
        return row
    fields = {name: value for name, value in msgspec.structs.asdict(row).items() if value}
    return msgspec.structs.replace(rows[row.like], **fields)


@functools.lru_cache(maxsize=512)
def graft_cost(torch: str, facts: Facts) -> GraftCost | None:
    """What grafting this release took where it was measured; else what the nearest measured release took."""

    def place(text: str) -> int:
        """Of a release, or of the lowest of a specifier, among all minor releases."""
        return facts.minors.get(minor(text.split(",")[0].lstrip("<>=~ ")), len(facts.minors))

    release = torch.split("+")[0]
    same = next((row for row in facts.costs.graft if Version(release) in SpecifierSet(row.torch)), None)
    return same or min(facts.costs.graft, key=lambda row: abs(place(row.torch) - place(release)), default=None)


@functools.lru_cache(maxsize=512)
def is_proven(torch: str, sm: Sm, facts: Facts) -> bool:
    """Was a graft of this release run on a card of this architecture?"""
    row = graft_cost(torch, facts)
    return row is not None and sm in row.proven and Version(torch.split("+")[0]) in SpecifierSet(row.torch)


@functools.lru_cache(maxsize=512)
def graft_kits(cuda: str, cards: tuple[Sm, ...], facts: Facts) -> tuple[str, ...]:
    """The toolkits, oldest first, that fit a wheel of ``cuda`` and compile for every card."""
    fitting = [kit for kit in reversed(facts.toolkits) if fits_wheel(kit, cuda).kind == "yes"]
    return tuple(kit for kit in fitting if all(emits_for(kit, sm, facts) is not None for sm in cards))


def fits_wheel(kit: str, cuda: str) -> CompatAnswer:
    """May nvcc of toolkit ``kit`` compile device code for a wheel of ``cuda``?"""
    if key(kit)[0] != key(cuda)[0]:
        why = "headers, cub and runtime of another major version give other kernels"
        text = f"CUDA {kit} cannot compile for a wheel of CUDA {cuda}: {why}"
        return CompatAnswer("no", "graft-other-major", text, want=f"{key(cuda)[0]}.x")
    if compare(kit, cuda) < 0:
        text = f"CUDA {kit} is older than the wheel's CUDA {cuda}, whose headers it does not have"
        return CompatAnswer("no", "graft-older-toolkit", text, want=cuda)
    return CompatAnswer("yes", "graft-toolkit-fits", f"CUDA {kit} fits a wheel of CUDA {cuda}")


def find_twin(chips: Sequence[str], card: Gfx, facts: Facts) -> str | None:
    """Of the chips that a bundle has code for, one of the card's own kind."""
    kinds = [row for row in facts.graft.twin if card.name in row.serves]
    return next((chip for row in kinds for chip in row.code if chip in chips), None)


def unit_seconds(unit: str | None, arch: Sm, row: GraftCost) -> float:
    """What one unit took, or units of its release took in the mean."""
    return row.seconds.get(f"{unit}.{arch.suffix}" if arch.suffix else str(unit), row.rest_seconds)


def graft_time(seconds: Sequence[float], jobs: int, row: GraftCost) -> GraftTime:
    """The longest first, each on the core that is free first, which is how a graft starts them."""
    ends = [0.0] * max(1, jobs)
    for each in sorted(seconds, reverse=True):
        heapq.heapreplace(ends, ends[0] + each)
    total = sum(seconds)
    return GraftTime(max(ends) + row.other_seconds, total + row.other_seconds, len(seconds), max(1, jobs))


@functools.lru_cache(maxsize=512)
def planned_time(torch: str, archs: tuple[Sm, ...], jobs: int, facts: Facts) -> GraftTime | None:
    """What a graft of a release takes, before its wheel was looked into; None where nothing was measured."""
    row, recipe = graft_cost(torch, facts), find_recipe(torch, facts)
    if row is None:
        return None
    listed = [seconds for name, seconds in row.seconds.items() if "." not in name]
    every: list[float] = []
    for arch in archs:
        every += listed + [row.rest_seconds] * (row.units - len(listed))
        number = str(arch).removeprefix("sm_")
        chips = [name for name, more in (recipe.extra_archs if recipe else {}).items() if number in more]
        every += [row.seconds.get(f"{name}.a", row.rest_seconds) for name in chips]
    return graft_time(every, jobs, row)


def graft_hint(torch: str | None, cuda: str | None, card: object, threads: int | None, facts: Facts) -> str | None:
    """A sentence that offers a graft for a card without code; None where there is no recipe or no toolkit for it."""
    if torch is None or cuda is None or not isinstance(card, Sm) or find_recipe(torch, facts, measured=True) is None:
        return None
    cuda = ".".join(cuda.split(".")[:2])
    time = planned_time(torch, (card,), threads or _USUAL_THREADS, facts)
    if time is None or not graft_kits(cuda, (card,), facts):
        return None
    release = torch.split("+")[0]
    minutes = f"about {spoken_minutes(*time.minutes)} on {time.jobs} cores"
    return f"a graft gives torch {release} code for {card} in {minutes}: rekindle graft torch=={release} --gpu {card}"


@functools.lru_cache(maxsize=512)
def stays_without(torch: str, cuda: str, cudnn: str | None, card: Sm, facts: Facts) -> tuple[str, ...]:
    """What will not work on the card though the wheel was grafted: the vendor's libraries stay as they are."""
    losses: list[str] = []
    if (cudnn_fit := cudnn_covers(cudnn, cuda, card, facts)).kind == "partly":
        losses.append(cudnn_fit.text)
    inside = judge_linked_libraries(torch, card, facts)
    for row, judged in inside:
        if judged.code == "none":
            losses.append(f"{judged.why}: {', '.join(row.operators)} fail")
        elif judged.code == "jit":
            losses.append(f"{judged.why} at first use: {', '.join(row.operators)} start late")
    kit = facts.toolkit(cuda)
    if not inside and kit is not None and emits_for(cuda, card, facts) is None:
        side = "newer than" if card == min(card, *kit.sass) else "older than"
        losses.append(
            f"cuBLAS, cuFFT, cuSPARSE, cuSOLVER and NCCL of CUDA {cuda} are {side} {card}: what they have no code for"
            " fails, or their PTX is compiled at first use (matrix products, FFT, sparse and linear algebra)"
        )
    if not any(row.name == "MAGMA" for row, _ in inside):
        losses.append("MAGMA and other parts whose code names no source file stay without code for the card")
    return tuple(losses)


def judge_closed_libraries(
    requires: Iterable[str], torch: str, cards: Sequence[Sm], facts: Facts
) -> tuple[LibraryBeside, ...]:
    """What the libraries of a torch wheel do on the cards: those it requires, and those linked into its release."""
    rows = (*facts.graft.library, *_cudnn(facts))
    pinned = _read_pins(requires)
    libraries: list[LibraryBeside] = []
    for card in cards:
        for package, version in pinned.items():
            if versions := [row for row in rows if row.package == package]:
                libraries.append(_judge_packaged(version, versions, card, facts))
        libraries += [library for _, library in judge_linked_libraries(torch, card, facts)]
    return tuple(libraries)


def judge_linked_libraries(torch: str, card: Sm, facts: Facts) -> list[tuple[ClosedLibrary, LibraryBeside]]:
    """Those that are linked into a release, each with what it does on the card."""
    release = Version(torch.split("+")[0])
    inside = [row for row in facts.graft.library if row.torch and release in SpecifierSet(row.torch)]
    return [(row, _describe_library(row, card, _judge_row(row, card, facts))) for row in inside]


def _read_pins(requires: Iterable[str]) -> dict[str, str]:
    """Packages that are required in one version."""
    pins: dict[str, str] = {}
    for text in requires:
        try:
            wish = Requirement(text)
        except InvalidRequirement:
            continue
        exact = [part.version for part in wish.specifier if part.operator == "=="]
        if len(exact) == 1:
            pins[canonicalize_name(wish.name)] = exact[0]
    return pins


def _cudnn(facts: Facts) -> list[ClosedLibrary]:
    """cuDNN's releases as the index has them, from the table of what each has code for."""
    return [
        ClosedLibrary(
            name="cuDNN",
            package=f"nvidia-cudnn-{variant}",
            version=version,
            sass=tuple(map(str, sass)),
            switch="cudnn",
            **shared_fields(row, Row),
        )
        for version, row in facts.cudnn.cudnn.items()
        for variant, sass in row.sass.items()
    ]


def _judge_row(row: ClosedLibrary, card: Sm, facts: Facts) -> Coverage:
    return covers(GpuCode((*row.sass, *row.ptx), row.cuda, source=row.source[0]), card, None, facts)


def _judge_packaged(version: str, versions: Sequence[ClosedLibrary], card: Sm, facts: Facts) -> LibraryBeside:
    """The version the wheel asks for, or the newest with better code that serves every card its own does."""
    required = next((row for row in versions if f"{version}.".startswith(f"{row.version}.")), None)
    first = versions[0]
    if required is None:
        why = f"which cards {first.package} {version} has code for is not in our tables"
        return LibraryBeside(
            name=first.name, package=first.package, version=version, arch=str(card), code="unknown", why=why
        )
    current = _judge_row(required, card, facts)
    served = [parse_sm(name) for name in required.sass]
    same = [row for row in versions if _release(row)[0] == _release(required)[0]]
    serving = [row for row in same if all(_judge_row(row, each, facts).kind != "none" for each in served)]
    fitting = [(_judge_row(row, card, facts), row) for row in serving]
    better = [(judged, row) for judged, row in fitting if _BETTER.index(judged.kind) < _BETTER.index(current.kind)]
    if not better:
        return _describe_library(required, card, current)
    judged, row = min(better, key=lambda pair: (_BETTER.index(pair[0].kind), [-n for n in _release(pair[1])]))
    exchanged = f"{row.version}.*" if len(_release(row)) == 3 else row.version
    return _describe_library(required, card, judged, exchanged=exchanged, before=current.text)


def _release(row: ClosedLibrary) -> tuple[int, ...]:
    return Version(row.version or "0").release


def _describe_library(
    row: ClosedLibrary, card: Sm, judged: Coverage, *, exchanged: str | None = None, before: str = ""
) -> LibraryBeside:
    without = judged.kind == "none"
    where = f"{row.name} {exchanged or row.version or ''}".strip() + (" inside the wheel" if row.torch else "")
    return LibraryBeside(
        name=row.name,
        package=row.package,
        version=row.version,
        arch=str(card),
        code="unknown" if judged.kind == "override" else judged.kind,
        inside=row.torch is not None,
        exchanged=exchanged,
        off=without and row.switch is not None,
        switch=row.switch,
        operators=row.operators if without and row.switch is None else (),
        why=f"{where} {judged.text}" + (f"; {row.version} {before}" if before else ""),
        source=row.source[0],
    )
