"""The closed libraries a torch wheel calls (cuBLAS, cuDNN, NCCL …): what each does on a card.

A library of a package of its own may be exchanged for another version of the same package with the same soname (its
first number). What nothing serves is switched off where torch has a switch for it; otherwise the operators that will
not work are named. A library linked into the wheel stays as it is.
"""

from collections.abc import Iterable, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from rekindle.compat.answer import Coverage
from rekindle.compat.images import GpuCode, covers
from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.graft import ClosedLibrary, LibraryBeside

_BETTER = ("native", "jit", "override", "unknown", "none")


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
            source=row.source,
            date=row.date,
            how=row.how,
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
