"""What pip would install, asked before anything is: every package with its version, place, digest and size.

The plan names a build (``2.13.0+cpu``). pip takes ``==2.13.0`` for any build of that release, so each request is pinned
to the build itself; an index that lacks it refuses. No wheel is fetched for it: an index that tells no metadata is read
by ranges. What is found so must have a digest, as what pip fetches whole has; else it is asked again.
"""

import contextlib
import functools
import json
import re
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from packaging.utils import canonicalize_name

from rekindle.api.explain_log import advice_on, remedy_for
from rekindle.errors import CommandFailed, StageFailed
from rekindle.formats.ranges import NO_ANSWER
from rekindle.host.protocol import Completed, Host
from rekindle.host.redact import without_password
from rekindle.interpreters.installer import Installer, our_pip_without_programs, pip_by_metadata, pip_of
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.model.journey import Package
from rekindle.model.plan import Request
from rekindle.model.progress import Progress, Silent, tell_while
from rekindle.model.spoken import spoken_bytes

RESOLVE_SECONDS = 3600.0
HEAD_SECONDS = 10.0
# A petabyte; a server that tells more is not believed.
_LENGTH_DIGITS = 15
# What a refusal is about when the index was reached and lacks something.
_ABOUT_VERSIONS = ("python-unsupported", "index-lacks-version", "dependency-conflict", "wrong-package-name")
_RESOLVING = ("install", "--dry-run", "--quiet", "--disable-pip-version-check", "--no-input")
_CANNOT_TELL = ("no such option: --report", "no such option: --dry-run", "No module named pip")


def exact(request: Request, *, plain: bool = False) -> str:
    """The request as pip must be asked for it. ``===`` compares as text, so ``2.13.0`` is not ``2.13.0+cu130``."""
    if request.url or request.version is None:
        return request.requirement
    extras = f"[{','.join(request.extras)}]" if request.extras else ""
    version = request.version.partition("+")[0] if plain else request.version
    return f"{request.name}{extras}{'==' if '+' in version else '==='}{version}"


def groups_of(requests: Sequence[Request]) -> list[list[Request]]:
    """Requests that go to pip together: one index or page of files; limits (``numpy<2``) apart."""
    groups: dict[tuple[str | None, str | None, bool], list[Request]] = {}
    for request in requests:
        groups.setdefault((request.index, request.links, request.version is None), []).append(request)
    return list(groups.values())


def resolve(
    host: Host,
    python: str,
    group: Sequence[Request],
    *,
    fresh: bool,
    substituted: bool,
    installer: Installer = Installer(),  # noqa: B008 (frozen)
    elsewhere: OtherMachine | None = None,
    limits: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[Package, ...] | None:
    """The packages that would come; None where this Python's pip is too old to tell, or missing.

    ``fresh`` asks for an empty environment. ``substituted``: the index is not the plan's own. An index of one flavour
    may leave the local part out of its names; of any other index only the exact build is taken. ``elsewhere`` asks for
    another machine's Python; ``limits`` are requirements that bind whatever comes (pip's constraints).
    """
    rest = [*(["--ignore-installed"] if fresh else []), *place_words(group[0], installer)]
    asking = functools.partial(_ask_pip, host, python, limits=limits, elsewhere=elsewhere)
    names = ", ".join(f"{request.name} {request.version or request.specifier or ''}".strip() for request in group)
    with tell_while(progress or Silent(), f"looking up {names} and all they need: {_asked_place(group[0], installer)}"):
        words, quick = [*map(exact, group), *rest], elsewhere is None and not installer.offline
        done, report = asking(words, by_metadata=quick)
        if quick and not _is_enough(done, report):
            done, report = asking(words)
        if not done.ok and not substituted and group[0].index and "No matching distribution" in done.err:
            again, other = asking([*(exact(request, plain=True) for request in group), *rest])
            done, report = (again, other) if again.ok else (done, report)
    if any(words in done.err for words in _CANNOT_TELL):
        return None
    if not done.ok:
        raise _refusal(group, done.err, python, installer)
    try:
        packages = tuple(map(_read_package, json.loads(report)["install"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CommandFailed([python], 0, [f"pip's report cannot be read: {error}"]) from error
    return tuple(replace(package, bytes=size_of(package.url)) for package in packages)


def _is_enough(done: Completed, report: bytes) -> bool:
    """Does an answer by metadata stand? A refusal of the version does; what else went wrong is asked again whole."""
    if not done.ok:
        return any(words in done.err for words in ("No matching distribution", "ResolutionImpossible", *_CANNOT_TELL))
    return b'"install": []' in report or report.count(b'"sha256"') >= report.count(b'"download_info"')


def _asked_place(where: Request, installer: Installer) -> str:
    place = without_password(where.index or where.links or "pip's own index")
    return "the wheels that are here" if installer.offline else place


def place_words(where: Request, installer: Installer) -> list[str]:
    """Where pip and uv are to look for a group of requests."""
    index = ("--index-url", where.index) if where.index and not installer.offline else ()
    page = ("-f", where.links) if where.links else ()
    return [*index, *page, *installer.places]


def _ask_pip(
    host: Host,
    python: str,
    words: Sequence[str],
    *,
    limits: Sequence[str],
    elsewhere: OtherMachine | None,
    by_metadata: bool = False,
) -> tuple[Completed, bytes]:
    """pip's own resolver, and its report; the report of a CUDA torch with all its packages has megabytes."""
    with tempfile.TemporaryDirectory(prefix="rekindle-resolve-") as folder:
        report, limiting = Path(folder) / "report.json", Path(folder) / "limits.txt"
        argv = [*_RESOLVING, *(["--use-feature=fast-deps"] if by_metadata else []), "--report", str(report), *words]
        if limits:
            limiting.write_text("".join(f"{line}\n" for line in limits), encoding="utf-8")
            argv += ["-c", str(limiting)]
        if elsewhere is not None:
            argv += ["--use-feature", "fast-deps", *elsewhere.pip_words(Path(folder) / "nothing")]
            pip = our_pip_without_programs(elsewhere.markers)
        else:
            pip = pip_by_metadata(python) if by_metadata else [python, "-m", "pip"]
        done = host.run([*pip, *argv], timeout=RESOLVE_SECONDS)
        if "No module named pip" in done.err and (other := pip_of(host, python))[0] != python:
            done = host.run([*other, *argv], timeout=RESOLVE_SECONDS)
        return done, report.read_bytes() if report.is_file() else b""


def _read_package(row: dict[str, Any]) -> Package:
    source = row["download_info"]
    digest = ((source.get("archive_info") or {}).get("hashes") or {}).get("sha256")
    # It becomes a line that pip reads: a digest or a refusal, never more words.
    if not (digest is None or (isinstance(digest, str) and re.fullmatch(r"[0-9a-fA-F]{64}", digest))):
        raise ValueError(f"{str(digest)[:80]!r} is no SHA-256")
    return Package(
        name=str(canonicalize_name(row["metadata"]["name"])),
        version=str(row["metadata"]["version"]),
        url=str(source["url"]),
        sha256=digest,
        asked=bool(row.get("requested")),
    )


def _refusal(group: Sequence[Request], stderr: str, python: str, installer: Installer) -> StageFailed:
    where = _asked_place(group[0], installer)
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    # Where the index was never reached (no name, no proxy, no trust) pip also says that it has no such version.
    advice = advice_on(stderr)
    if advice and advice.id not in _ABOUT_VERSIONS:
        remedy = f"{advice.title}: {advice.fix[0]}" if advice.fix else advice.title
        return CommandFailed([f"{python} -m pip"], 1, [*lines, advice.evidence], remedy=remedy)
    for request in group:
        wanted, name = exact(request), request.name
        if any(wanted in line and "No matching distribution" in line for line in lines):
            offered = next((line.partition("(from versions: ")[2].rstrip(")") for line in lines if wanted in line), "")
            others = ", ".join([word for word in offered.split(", ") if word and word != "none"][-6:])
            version = request.version or request.specifier
            if installer.offline:
                has = f" ({name} {others} is)" if others else ""
                remedy = "name their folder with --find-links DIR, or what is there with --torch and --python"
                return StageFailed(f"{name} {version} is not among the wheels that are here{has}", remedy=remedy)
            has = f"; it has {others}" if others else ""
            return StageFailed(
                f"{where} has no {name} {version}{has}",
                remedy="another build of the same release is not what was planned: leave --index out, or plan what "
                "this index has with --torch and --variant",
            )
    errors = [line for line in lines if "error" in line.lower()] or lines
    return CommandFailed([f"{python} -m pip"], 1, errors[:1], remedy=remedy_for(stderr))


def size_of(url: str) -> int | None:
    """How large a download is, asked without fetching it; None where nobody tells."""
    with contextlib.suppress(*NO_ANSWER):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            return Path(urllib.request.url2pathname(parts.path)).stat().st_size
        if parts.scheme in ("http", "https"):
            request = urllib.request.Request(url, method="HEAD")  # noqa: S310 (the scheme is checked above)
            with urllib.request.urlopen(request, timeout=HEAD_SECONDS) as answer:  # noqa: S310
                length = answer.headers.get("Content-Length") or ""
                return int(length) if length.isdecimal() and len(length) <= _LENGTH_DIGITS else None
    return None


def spoken_packages(packages: Sequence[Package]) -> str:
    """One line for people: how many, how much, and the large ones by name."""
    if not packages:
        return "nothing new is needed"
    sizes, names = [package.bytes for package in packages if package.bytes is not None], largest(packages)
    size, unknown = "of unknown size", len(packages) - len(sizes)
    if sizes:
        size = spoken_bytes(sum(sizes)) + (f" and {unknown} {size}" if unknown else "")
    more = f" and {len(packages) - len(names)} smaller" if len(packages) > len(names) else ""
    return f"{len(packages)} packages, {size} to fetch: {', '.join(names)}{more}"


def largest(packages: Sequence[Package]) -> tuple[str, ...]:
    """The four largest by name, with their sizes where they are known."""
    rows = sorted(packages, key=lambda row: -(row.bytes or 0))[:4]
    return tuple(f"{row.name} {row.version}" + (f" ({spoken_bytes(row.bytes)})" if row.bytes else "") for row in rows)


def lock_lines(packages: Sequence[Package], *, same: str = "===") -> str:
    """A requirements file that names each package by its digest: what is installed is what was told."""
    return "".join(f"{package.name}{same}{package.version} --hash=sha256:{package.sha256}\n" for package in packages)
