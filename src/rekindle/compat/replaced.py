"""Who replaced a package: read from pip's records of each package. Pure: the caller reads those records. pip installs
dependencies before what asked for them, so the culprit is dated after the package it replaced, and its own metadata
says which versions it takes. Where that forbids the earlier version, nothing is left to guess."""

from collections.abc import Iterable, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from rekindle.model.guard import Culprit, PackageRecord, Replaced

# One run of an installer unpacks for minutes (a CUDA torch), but not for longer.
SAME_RUN_SECONDS = 1800.0


def find_replaced(
    expected: Mapping[str, str], records: Sequence[PackageRecord], contents: Mapping[str, str] | None = None
) -> tuple[Replaced, ...]:
    """The packages that are not as expected, with who replaced them; ``restore`` is left to the caller. ``contents``
    are digests of the expected files; where there is none, files are compared with the wheel's list."""
    by_name = {canonicalize_name(record.name): record for record in records}
    replaced = []
    for name, was in expected.items():
        if (now := by_name.get(canonicalize_name(name))) is None:
            replaced.append(Replaced(name=name, was=was, why=f"{name} {was} is gone: somebody uninstalled it."))
        elif not same_build(was, now.version):
            culprits = tuple(find_culprits(name, was, now, records))
            why = _explain_replaced(name, was, now, culprits)
            replaced.append(Replaced(name=name, was=was, now=now.version, culprits=culprits, why=why))
        elif change := _describe_change(now, (contents or {}).get(name, "")):
            replaced.append(Replaced(name=name, was=was, now=now.version, why=change))
    return tuple(replaced)


def same_build(was: str, now: str) -> bool:
    """The same release; and the same build of it, where the expected version names its build (``+cu126``)."""
    try:
        left, right = Version(was), Version(now)
    except ValueError:  # no version, or a number of more digits than Python reads
        return was == now
    return Version(left.public) == Version(right.public) and left.local in (None, right.local)


def _describe_change(now: PackageRecord, meant: str) -> str | None:
    """In words, where the version is the same but the files are not those with the digest ``meant``."""
    if meant == now.contents:
        return None
    if now.edited:
        first = ", ".join(now.edited[:3]) + (" …" if len(now.edited) > 3 else "")
        return f"{now.name} {now.version}: not as its wheel brought them, since changed or gone: {first}"
    by = f" (by {now.installer})" if now.installer else ""
    words = f"{now.name} {now.version} is another build than the one that was meant{by}: same version, other files."
    return words if meant else None


def find_culprits(name: str, was: str, now: PackageRecord, records: Iterable[PackageRecord]) -> list[Culprit]:
    """Packages whose own metadata forbids ``was``; without any, those asked for in the run that brought ``now``."""
    forbids, nearby = [], []
    for record in records:
        wants = _wanted_versions(record, name)
        if wants is None or canonicalize_name(record.name) == canonicalize_name(name):
            continue
        certain, wish = not _accepts(wants, was), f"{name}{wants}"
        culprit = Culprit(name=record.name, version=record.version, wants=wish, asked=record.asked, certain=certain)
        if certain:
            forbids.append((record, culprit))
        elif record.asked and 0 <= record.when - now.when <= SAME_RUN_SECONDS:
            nearby.append((record, culprit))
    # Of several that forbid it, one that came with the change did it; those before it were broken by it.
    chosen = sorted(forbids or nearby, key=lambda pair: (pair[0].when < now.when, not pair[1].asked, pair[0].when))
    return [culprit for _, culprit in chosen]


def _wanted_versions(record: PackageRecord, name: str) -> str | None:
    """The versions of ``name`` that a package takes; None where it does not ask for it."""
    for text in record.requires:
        try:
            wish = Requirement(text)
        except InvalidRequirement:
            continue
        # An extra that nobody asked for brings nothing.
        if canonicalize_name(wish.name) == canonicalize_name(name) and "extra" not in str(wish.marker or ""):
            return str(wish.specifier)
    return None


def _accepts(wants: str, version: str) -> bool:
    try:
        return SpecifierSet(wants).contains(Version(version), prereleases=True)
    except ValueError:  # no version, or a number of more digits than Python reads
        return True


def _explain_replaced(name: str, was: str, now: PackageRecord, culprits: Sequence[Culprit]) -> str:
    by = f" by {now.installer}" if now.installer else ""
    head = f"{name} {was} was replaced with {now.version}{by}."
    if now.asked and not any(culprit.certain for culprit in culprits):
        return f"{head} {name} itself was asked for by name: a command or a list of requirements said so."
    if not culprits:
        return f"{head} No package that is here now asks for it: what did it is gone again, or it came as a file."
    first = culprits[0]
    asked = "" if first.asked else " (itself brought by another package)"
    if first.certain:
        return f"{head} {first.name} {first.version}{asked} takes only {first.wants}."
    return f"{head} It came in the same run as {first.name} {first.version}{asked}, which asks for {first.wants}."
