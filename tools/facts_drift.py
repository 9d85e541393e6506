"""Compares what was measured now with what the tables say. Pure: measuring is somebody else's business."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rekindle.facts import Facts
from rekindle.model.arch import parse_sm
from rekindle.model.companion import CompanionPackageWheel
from rekindle.model.facts import CheckOutcome, Compared, FactsCheck, Platform, Row
from rekindle.model.version import compare, key, minor


def _held(what: str, row: Row, then: str | None, now: str | None, same: bool | None = None) -> Compared:
    """A row against what was found; ``same`` where equal is not equal word for word."""
    outcome: CheckOutcome = "agrees" if (then == now if same is None else same) else "drift"
    return Compared(what=what, outcome=outcome, facts=then, found=now, source=row.source[0])


def releases(facts: Facts, on_index: Iterable[str]) -> list[Compared]:
    """Releases that exist on an index and not in the table are new; the rest must agree."""
    found = sorted(set(on_index), key=key)
    unknown = [version for version in found if facts.release(version) is None]
    rows = [
        Compared(what=f"torch {version}", outcome="new", found="on the index", note="the tables do not know it yet")
        for version in unknown
    ]
    if found and not unknown:
        rows.append(Compared(what="torch releases", outcome="agrees", facts=facts.releases[0], found=found[-1]))
    return rows


def pythons(facts: Facts, version: str, platform: Platform, found: Iterable[str]) -> Compared | None:
    """The Pythons of a release on a platform."""
    row = facts.release(version)
    if row is None:
        return None
    now = sorted(set(found), key=lambda text: (key(text), text))
    then = sorted(row.pythons.get(platform, ()), key=lambda text: (key(text), text))
    return _held(f"torch {version} {platform} Pythons", row, " ".join(then), " ".join(now))


def companions(facts: Facts, package: str, found: Mapping[tuple[str, Platform], set[str]]) -> list[Compared]:
    """The Pythons of each torchvision or torchaudio on PyPI; a version with wheels that no row names is new."""
    rows = {row.version: row for row in facts.companions.companion if row.package == package}
    compared = []
    for version in sorted({version for version, _ in found}, key=key):
        row = rows.get(version)
        if row is None:
            if rows and compare(version, max(rows, key=key)) > 0:
                compared.append(Compared(what=f"{package} {version}", outcome="new", found="on the index"))
            continue
        for platform in sorted({each for name, each in found if name == version} | set(row.pypi)):
            now, then = found.get((version, platform), set()), set(row.pypi.get(platform, ()))
            same = bool(then) if now == {"any"} else now == then
            known = " ".join(sorted(then, key=lambda text: (key(text), text)))
            compared.append(_held(f"{package} {version} {platform} Pythons", row, known, " ".join(sorted(now)), same))
    return compared


def image(facts: Facts, name: str, found: str) -> Compared:
    """What a tag stands for now against the digest exports pin."""
    row = facts.images.digest.get(name)
    if row is None:
        return Compared(what=f"image {name}", outcome="new", found=found, note="exports do not pin it")
    return _held(f"image {name}", row, row.sha256, found)


def architectures(facts: Facts, version: str, platform: Platform, found: Iterable[str]) -> Compared:
    """The list compiled into a wheel (``sm_75 sm_80 …``) against the flavour PyPI hands out."""
    row = facts.release(version)
    name = row.pypi.get(platform) if row else None
    flavour = next((each for each in facts.flavours(version) if each.name == name), None)
    now = sorted({parse_sm(text) for text in found if text.startswith("sm_")})
    if flavour is None or platform not in flavour.sm:
        return Compared(what=f"torch {version} {platform} architectures", outcome="new", found=" ".join(map(str, now)))
    then = sorted({parse_sm(text) for text in flavour.sm[platform]})
    what = f"torch {version}+{flavour.name} {platform} architectures"
    return _held(what, flavour, " ".join(map(str, then)), " ".join(map(str, now)))


def metadata(facts: Facts, version: str, requires_python: str | None) -> Compared | None:
    row = facts.release(version)
    if row is None or requires_python is None:
        return None
    return _held(f"torch {version} Requires-Python", row, row.requires_python, requires_python)


def toolkits(facts: Facts, on_index: Iterable[str]) -> list[Compared]:
    """CUDA versions for which a compiler is published; ``13.4.92`` counts as 13.4."""
    minors = sorted({minor(version) for version in on_index}, key=key)
    unknown = [version for version in minors if facts.toolkit(version) is None and compare(version, "11") >= 0]
    rows = [Compared(what=f"CUDA {version}", outcome="new", found="on the index") for version in unknown]
    if minors and not unknown:
        rows.append(Compared(what="CUDA toolkits", outcome="agrees", facts=facts.toolkits[0], found=minors[-1]))
    return rows


def targets(facts: Facts, toolkit: str, found: Iterable[str]) -> Compared:
    """What ptxas of a toolkit says it compiles for."""
    now = sorted({parse_sm(text) for text in found})
    row = facts.toolkit(toolkit)
    then = sorted(row.sass) if row else []
    return Compared(
        what=f"CUDA {toolkit} targets (ptxas --help)",
        outcome="new" if row is None else "agrees" if now == then else "drift",
        facts=" ".join(map(str, then)) or None,
        found=" ".join(map(str, now)),
        source=row.source[0] if row else None,
    )


def cudnns(facts: Facts, newest: Mapping[str, str]) -> list[Compared]:
    """The newest cuDNN per package against the newest row."""
    known = max(facts.cudnn.cudnn, key=key)
    return [
        Compared(
            what=f"{package} newest",
            outcome="new" if compare(".".join(version.split(".")[:3]), known) > 0 else "agrees",
            facts=known,
            found=version,
        )
        for package, version in newest.items()
    ]


def summary(rows: Iterable[Compared]) -> FactsCheck:
    compared = tuple(rows)
    count = {name: sum(row.outcome == name for row in compared) for name in ("agrees", "drift", "new", "skipped")}
    return FactsCheck(compared=compared, **count)


def newest(facts: Facts, package: str, on_index: Iterable[str]) -> Compared:
    """The last version of a companion on the index against the row of the package."""
    row = facts.packages.package[package]
    found = sorted(set(on_index), key=key)
    if not found:
        return Compared(what=f"{package} newest", outcome="skipped", facts=row.last, note="no index has it")
    later = compare(found[-1], row.last) > 0
    if row.how != "measured" and not later:
        why = "the versions that count are upstream's own, not the index's"
        return Compared(what=f"{package} newest", outcome="skipped", facts=row.last, found=found[-1], note=why)
    note = "the tables do not know it yet" if later else None
    here = row.last in found
    return Compared(
        what=f"{package} newest",
        outcome="new" if later else "agrees" if here else "drift",
        facts=row.last,
        found=found[-1],
        note=note,
        source=row.source[0],
    )


def torch_pin(row: CompanionPackageWheel, requires: Iterable[str]) -> Compared:
    """What a wheel itself says about torch, against its row."""
    from packaging.requirements import InvalidRequirement, Requirement

    now = ""
    for text in requires:
        try:
            wish = Requirement(text)
        except InvalidRequirement:
            continue
        if wish.name == "torch" and "extra" not in str(wish.marker or ""):
            now = str(wish.specifier)
    name = f"{row.name or row.package} {row.version} torch"
    if not now:
        note = "its metadata names no versions of torch: the row is from its documentation"
        return Compared(what=name, outcome="skipped", facts=row.torch or None, note=note)
    return _held(name, row, row.torch, now, _same(now, row.torch))


def _same(left: str, right: str) -> bool:
    try:
        return SpecifierSet(left) == SpecifierSet(right)
    except InvalidSpecifier:
        return left == right


def code(row: CompanionPackageWheel, platform: str, found: Iterable[str]) -> Compared:
    """The GPU code inside a wheel against its row."""
    now = sorted(set(found))
    then = sorted(set(row.targets.get(platform, row.targets.get("any", ()))))
    return Compared(
        what=f"{row.name or row.package} {row.version} {platform} code",
        outcome="agrees" if now == then else "drift" if then else "new",
        facts=" ".join(then) or None,
        found=" ".join(now),
        source=row.source[0],
    )


def abi(row: CompanionPackageWheel, found: str | None) -> Compared:
    """How the wheel's C++ spells strings, against its row."""
    return Compared(
        what=f"{row.name or row.package} {row.version} C++ ABI",
        outcome="agrees" if found == row.abi else "drift" if row.abi else "new",
        facts=row.abi,
        found=found,
        source=row.source[0],
    )
