"""Where sources come from: our table of upstream addresses and Debian packages, and torch's pins for the others; and a
Debian source package's files, through the machine's own apt and its own mirrors.

Nothing of the system is changed: apt gets a private directory for its lists, and sources made from the machine's
entries with "deb" turned into "deb-src" and the suite we need. apt checks signatures and hashes.
"""

import os
import re
import shutil
from collections import deque
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from rekindle.errors import BadInput, CommandFailed, MissingTool, StageFailed
from rekindle.host.download import download
from rekindle.host.files import sha256_of, text_at, write_atomically
from rekindle.host.process import run_long
from rekindle.model.document import Part
from rekindle.model.progress import Progress
from rekindle.model.toml import read_beside
from rekindle.model.version import matches
from rekindle.source.archive import unpack

_COMMIT = re.compile(r"[0-9a-f]{40}\b")
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")


class Upstream(Part, frozen=True, kw_only=True):
    """A project's own address. ``pins`` are files of a torch tree that name the matching commit of this project."""

    git: str
    tag: str
    source: str
    date: str
    tarball: str | None = None
    pins: tuple[str, ...] = ()


class DebianSource(Part, frozen=True, kw_only=True):
    """A source package. Where no suite lists it any more, ``pool`` and ``sha256`` (by file name) still find it."""

    project: str
    package: str
    release: str
    source: str
    date: str
    suite: str | None = None
    pool: str | None = None
    sha256: dict[str, str] = {}


class DebianPackage(DebianSource, frozen=True, kw_only=True):
    """The original tarball of one release of a project; ``stripped`` of its submodules or not."""

    version: str
    stripped: bool = False


class Supplement(DebianSource, frozen=True, kw_only=True):
    """Packaging that keeps third parties beside the tree: ``folders`` by the name of the third party."""

    torch: str
    folders: dict[str, str]


class Origins(Part, frozen=True, kw_only=True):
    schema: int
    project: dict[str, Upstream]
    debian: tuple[DebianPackage, ...] = ()
    supplement: tuple[Supplement, ...] = ()


def load_origins() -> Origins:
    return read_beside(__file__, "origins.toml", Origins)


def upstream(project: str) -> Upstream:
    """Where a project itself is to be had."""
    known = load_origins().project
    if project not in known:
        raise BadInput(f"there is no source address for {project!r}", remedy=f"known: {', '.join(known)}")
    return known[project]


def debian_package(project: str, version: str) -> DebianPackage:
    """Debian's package of that very release."""
    rows = {row.version: row for row in load_origins().debian if row.project == project}
    if version in rows:
        return rows[version]
    have = ", ".join(rows) or "none"
    remedy = "leave out --from debian"
    raise BadInput(f"Debian has no {project} {version} that we know of (known: {have})", remedy=remedy)


def supplement_for(project: str, version: str) -> Supplement | None:
    """The packaging that holds what has no package of its own, for this release."""
    rows = load_origins().supplement
    return next((row for row in rows if row.project == project and matches(version, row.torch)), None)


def pinned_commit(torch_tree: Path, project: str) -> str | None:
    """The commit of ``project`` a torch tree was tested with, where the tree says so."""
    texts = (text_at(torch_tree / name)[:4096] for name in upstream(project).pins)
    return next((match[0] for text in texts if (match := _COMMIT.search(text))), None)


def source_entries(apt: Path, suite: str) -> list[str]:
    """deb-src stanzas for ``suite`` on every archive the machine uses; updates and security are left out."""
    readers = {".sources": _from_stanzas, ".list": _from_lines}
    files = sorted([apt / "sources.list", *(apt / "sources.list.d").glob("*")])
    known = ((file, readers[file.suffix]) for file in files if file.suffix in readers and file.is_file())
    entries = (each for file, read in known for each in read(file.read_text("utf-8", "replace"), suite))
    return list(dict.fromkeys(entries))


def fetch_file(
    package: DebianSource, folder: Path, ending: str, *, progress: Progress, apt: Path = Path("/etc/apt")
) -> Path:
    """Download one file of a source package (``.orig.tar.*``, ``.debian.tar.*``); one that is there is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    if file := _find_file(package, folder, ending):
        return file
    if shutil.which("apt-get") is None:
        raise MissingTool("there is no apt-get here, so no Debian source package", remedy="fetch with git instead")
    if package.suite is None:
        return _from_pool(package, folder, ending, apt, progress)
    if not (entries := source_entries(apt, package.suite)):
        message = f"none of this machine's apt sources is a Debian archive that may have {package.suite}"
        raise StageFailed(message, remedy="fetch with git instead")
    options = _apt_options(folder / "apt" / package.suite, entries)
    progress.stage("apt", f"source index of {package.suite}")
    _apt(["apt-get", *options, "-q", "update"], folder, progress)
    progress.stage("apt", f"{package.package} {package.release}")
    pinned = f"{package.package}={package.release}"
    only = "--tar-only" if ending.startswith(".orig") else "--diff-only"
    try:
        _apt(["apt-get", *options, "-q", "source", only, "--download-only", pinned], folder, progress)
    except CommandFailed:
        # Another file of the package may be gone from the mirror; this one is all we want.
        if _find_file(package, folder, ending) is None:
            raise
    if file := _find_file(package, folder, ending):
        return file
    raise StageFailed(f"apt brought no {ending.removesuffix('.*')} of {pinned}")


def _from_pool(package: DebianSource, folder: Path, ending: str, apt: Path, progress: Progress) -> Path:
    """A file no suite lists any more, from the same archives; its SHA-256 is in our table."""
    prefix = f"{package.package}_{_version(package, ending)}{ending.removesuffix('*')}"
    name, digest = next(((n, d) for n, d in package.sha256.items() if n.startswith(prefix)), (None, None))
    places = [line.split()[1] for entry in source_entries(apt, "sid") for line in entry.splitlines() if "URIs:" in line]
    if name is None or not places:
        raise StageFailed(f"{package.package} {package.release} cannot be had from this machine's apt sources")
    progress.stage("download", name)
    for place in dict.fromkeys(places):
        try:
            return download(f"{place.rstrip('/')}/{package.pool}/{name}", folder / name, sha256=digest)
        except (StageFailed, BadInput) as error:
            last = error
    raise last


def _find_file(package: DebianSource, folder: Path, ending: str) -> Path | None:
    files = folder.glob(f"{package.package}_{_version(package, ending)}{ending}")
    return next((path for path in files if path.suffix not in (".asc", ".part", ".json")), None)


def _version(package: DebianSource, ending: str) -> str:
    """The original tarball is named without the packaging's own number."""
    return package.release.rsplit("-", 1)[0] if ending.startswith(".orig") else package.release


def _apt_options(root: Path, entries: list[str]) -> list[str]:
    for name in ("lists/partial", "cache/archives/partial", "sources"):
        (root / name).mkdir(parents=True, exist_ok=True)
    write_atomically(root / "sources" / "rekindle.sources", "\n\n".join(entries) + "\n")
    settings = read_beside(__file__, "apt.toml", dict[str, str])
    lines = (f"{name}={value.replace('{root}', str(root))}" for name, value in settings.items())
    return [word for line in lines for word in ("-o", line)]


def _apt(argv: list[str], folder: Path, progress: Progress) -> None:
    lines: deque[str] = deque(maxlen=20)

    def on_line(line: str) -> None:
        lines.append(line)
        if line.startswith("Get:"):
            progress.step(len(lines), None, line[4:])

    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    if code := run_long(argv, cwd=folder, env=environment, on_line=on_line):
        errors = [line for line in lines if line.startswith(("E:", "W:"))]
        raise CommandFailed(("apt-get", *argv[-3:]), code, errors or list(lines))


def _from_lines(text: str, suite: str) -> Iterator[str]:
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#")[0].strip())
        if match and _is_main(match["uri"], match["suite"], match["components"]):
            options = dict(word.partition("=")[::2] for word in (match["options"] or "").split())
            yield _stanza(match["uri"], suite, options.get("signed-by"))


def _from_stanzas(text: str, suite: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.strip().splitlines() if not line.startswith("#")]
        fields = HeaderParser().parsestr("\n".join(lines))
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        for uri in fields.get("uris", "").split():
            if any(_is_main(uri, name, fields.get("components", "")) for name in fields.get("suites", "").split()):
                yield _stanza(uri, suite, fields.get("signed-by"))


def _is_main(uri: str, suite: str, components: str) -> bool:
    """The main archive of a Debian: not security, updates or backports, and with the component main."""
    return "main" in components.split() and not re.search(r"[-/]", suite) and "security" not in uri


def _stanza(uri: str, suite: str, signed_by: str | None) -> str:
    lines = ["Types: deb-src", f"URIs: {uri}", f"Suites: {suite}", "Components: main"]
    return "\n".join([*lines, f"Signed-By: {signed_by}"] if signed_by else lines)


def find_packaged(
    release: str, cache: Path, progress: Progress, name: str, archive: Path | None = None
) -> tuple[Path, str]:
    """Where the headers of ``name`` lie, and where they are from: Debian's packaging of that torch, fetched once and
    kept in the cache; ``archive`` is a packaging tarball that is there already."""
    if (row := supplement_for("torch", release)) is None or name not in row.folders:
        raise BadInput(f"no package is known that holds {name} for torch {release}", remedy="fetch with git")
    archive = archive or fetch_file(row, cache / "debian", ".debian.tar.*", progress=progress)
    root = cache / "packaging" / sha256_of(archive)[:16]
    if not root.is_dir():
        unpack(archive, root, progress=progress)
    headers = (root / row.folders[name]).resolve()
    if not headers.is_dir() or not headers.is_relative_to(root.resolve()):
        raise BadInput(f"{archive.name} has no {row.folders[name]}", remedy="fetch with git")
    return headers, f"Debian {archive.name}: {row.folders[name]}"
