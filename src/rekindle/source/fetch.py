"""Gets a source tree: from git, a release archive, a local tree or a Debian package, and says what it got.

However a tree arrives, it is recognised, compared with what was wanted, and its submodules are named where
they are missing. Its record (``.rekindle/tree.json``) keeps where it came from.
"""

import functools
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.host.download import download
from rekindle.host.files import sha256_of
from rekindle.host.git import Git
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import FetchOptions, SourceTree
from rekindle.model.supply import TreePart
from rekindle.source import journal
from rekindle.source.archive import unpack
from rekindle.source.checkout import check_out, check_place, parse_mirror
from rekindle.source.origins import debian_package, fetch_file, find_packaged, upstream
from rekindle.source.patches import status
from rekindle.source.supply import Headers, fill, with_parts
from rekindle.source.tree import check_wanted, recognise, tree_version

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")


@dataclass(frozen=True, kw_only=True)
class Filling:
    """How a tree without its submodules is filled: what will be built (cpu, cuda, rocm; None: not known), with which
    toolkit ``cuda``, and where files of the package index are looked for besides it, or instead of it."""

    backend: str | None = None
    cuda: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False


def fetch(
    wanted: FetchOptions,
    target: Path,
    *,
    cache: Path,
    windows: bool,
    filling: Filling | None = None,
    progress: Progress | None = None,
) -> SourceTree:
    """Bring the wanted tree to ``target``; what is there already is continued or kept. A tree that is unpacked or
    copied gets its place only once its third parties are filled in, so that after a kill there is a whole tree or
    none."""
    listener, filling = progress or Silent(), filling or Filling()
    place = wanted.place or default_place(wanted.project, wanted.release, wanted.revision, LiveHost())
    mirrors = [parse_mirror(mirror) for mirror in wanted.mirrors]
    # git and apt run with other working directories than ours.
    target, cache = target.resolve(), cache.resolve()
    filled: tuple[TreePart, ...] = ()
    if journal.folder(target).is_dir() and not (target / ".git").exists():
        # The same command again is no error, another wish is. What is not filled yet is tried again.
        _refuse_other(wanted, target, target, journal.read_record(target).version)
        filled = _fill(target, cache, listener, filling) if wanted.submodules else ()
        return msgspec.structs.replace(with_parts(status(target), filled), notes=("the tree was there already",))
    if place == "git" or place.endswith(".git"):
        notes: Sequence[str] = check_place(target, windows=windows)
        url = upstream(wanted.project).git if place == "git" else place
        revision, reference, submodules = wanted.revision or _tag(wanted), wanted.reference, wanted.submodules
        head = check_out(
            url, target, revision, mirrors=mirrors, reference=reference, submodules=submodules, progress=listener
        )
        _note_origin(wanted, place, target, f"{url} {revision}", head)
        return msgspec.structs.replace(with_parts(status(target)), notes=tuple(notes))
    if target.exists() and any(target.iterdir()):
        raise BadInput(f"{target} exists and is not empty", remedy="give another place, or remove it")
    room = target.with_name(f".{target.name}.fetching")
    shutil.rmtree(room, ignore_errors=True)
    try:
        origin, notes = _bring(wanted, place, room, cache, listener)
        _note_origin(wanted, place, room, origin, Git(room).head() if Git(room).present else None)
        if wanted.submodules:
            filled = _fill(room, cache, listener, filling)
        if target.exists():
            target.rmdir()
        room.rename(target)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return msgspec.structs.replace(with_parts(status(target), filled), notes=tuple(notes))


def default_place(project: str, release: str | None, revision: str | None, host: Host) -> str:
    """git; without it the archive of a release, where the project publishes one that is complete (Windows has no git
    unless somebody installed it)."""
    whole = release and not revision and upstream(project).tarball is not None
    return "tarball" if whole and host.which("git") is None else "git"


def _bring(wanted: FetchOptions, place: str, room: Path, cache: Path, progress: Progress) -> tuple[str, Sequence[str]]:
    """Unpack or copy what is wanted into ``room``: where it came from, and what to say about it."""
    if place == "debian":
        package = debian_package(wanted.project, wanted.release or "")
        archive = fetch_file(package, cache / "debian", ".orig.tar.*", progress=progress)
        notes = _unpack(archive, room, progress)
        return f"Debian {package.suite or 'pool'} {archive.name} sha256:{sha256_of(archive)}", notes
    if place.endswith(_ARCHIVES) or place == "tarball":
        archive = _archive(wanted, place, cache, progress)
        notes = _unpack(archive, room, progress)
        if wanted.sha256 is None and ("://" in place or place == "tarball"):
            notes += (f"nothing said what the archive must be; next time: --sha256 {sha256_of(archive)}",)
        return f"{place} sha256:{sha256_of(archive)}", notes
    return _copy(Path(place), room), ()


def fill_tree(
    root: Path,
    *,
    cache: Path,
    filling: Filling | None = None,
    progress: Progress | None = None,
    host: Host | None = None,
) -> SourceTree:
    """Fill in what a tree without its submodules lacks; again is harmless."""
    root = root.resolve()
    recognise(root)
    filled = _fill(root, cache.resolve(), progress or Silent(), filling or Filling(), host)
    return with_parts(status(root), filled)


def _fill(
    root: Path, cache: Path, progress: Progress, filling: Filling, host: Host | None = None
) -> tuple[TreePart, ...]:
    project, release = tree_version(root)
    if project != "torch" or Git(root).present:
        return ()
    progress.stage("third parties", "system libraries, stand-ins, what is switched off")
    host, packaging = host or LiveHost(), functools.partial(find_packaged, release, cache, progress)
    headers = Headers(host=host, cache=cache, links=filling.find_links, offline=filling.offline, progress=progress)
    built = {"backend": filling.backend, "cuda": filling.cuda}
    return fill(root, release, host=host, packaging=packaging, headers=headers, progress=progress, **built)


def _note_origin(wanted: FetchOptions, place: str, target: Path, origin: str, commit: str | None) -> None:
    """Where the tree is from, in its record."""
    _refuse_other(wanted, place, target)
    record = journal.read_record(target)
    exact = wanted.release if wanted.release and not wanted.revision else None
    known = {"project": wanted.project, "version": exact, "commit": commit, "origin": record.origin or origin}
    journal.write_record(target, msgspec.structs.replace(record, **known))


def _refuse_other(wanted: FetchOptions, place: Path | str, target: Path, noted: str | None = None) -> None:
    """The tree may be of no other project or release than the one wanted."""
    project, version = recognise(target)
    if project != wanted.project:
        raise BadInput(f"{place} is a tree of {project}, and {wanted.project} was wanted")
    check_wanted(target, noted or version, wanted.release)


def _unpack(archive: Path, room: Path, progress: Progress) -> tuple[str, ...]:
    """What is to be said about it."""
    progress.stage("unpack", archive.name)
    left_out = unpack(archive, room, progress=progress)
    note = f"{left_out} files of a .git in the archive were left out: git would run what its settings name"
    return (note,) if left_out else ()


def _tag(wanted: FetchOptions) -> str:
    if not wanted.release:
        raise BadInput("which release?", remedy="give --release 2.6.0, --plan FILE or --revision COMMIT")
    return upstream(wanted.project).tag.format(version=wanted.release.split("+")[0])


def _archive(wanted: FetchOptions, place: str, cache: Path, progress: Progress) -> Path:
    if place == "tarball":
        if (pattern := upstream(wanted.project).tarball) is None:
            raise BadInput(f"{wanted.project} publishes no source archive with submodules", remedy="leave out --from")
        _tag(wanted)
        place = pattern.format(version=wanted.release)
    if "://" not in place:
        path = Path(place)
        if wanted.sha256 and path.is_file() and (got := sha256_of(path)) != wanted.sha256.lower():
            raise BadInput(f"{path} has SHA-256 {got}, not {wanted.sha256.lower()}")
        return path
    progress.stage("download", place)
    # The address is part of the name: two servers' files of one name must not be taken for each other.
    folder = cache / "downloads" / hashlib.sha256(place.encode()).hexdigest()[:12]
    return download(place, folder / place.rpartition("/")[2], sha256=wanted.sha256, progress=progress)


def _copy(origin: Path, target: Path) -> str:
    """A local tree, copied; build outputs stay behind."""
    if not origin.is_dir():
        ways = "--from git, tarball, debian, a directory or an archive"
        raise BadInput(f"{origin} is no directory and no archive", remedy=ways)
    recognise(origin)
    if (origin / ".git").exists():
        # Copied, the tree would be ours and trusted: git is asked while it still is the other user's.
        Git(origin).head()
    if origin.resolve() == target.resolve() or origin.resolve() in target.resolve().parents:
        raise BadInput(f"{target} lies inside {origin}; a tree cannot be copied into itself")
    skip = shutil.ignore_patterns("__pycache__", journal.FOLDER)

    def left_out(folder: str, names: list[str]) -> set[str]:
        return skip(folder, names) | ({"build", "dist"} & set(names) if Path(folder) == origin else set())

    try:
        shutil.copytree(origin, target, symlinks=True, ignore=left_out)
    except (OSError, shutil.Error) as error:
        raise BadInput(f"cannot copy {origin}: {getattr(error, 'strerror', None) or error}") from error
    return str(origin.resolve())
