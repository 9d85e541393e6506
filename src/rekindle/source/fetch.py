"""Gets a source tree: from git, a release archive, a local tree or a Debian package, and says what it got.

However a tree arrives, it is recognised, compared with what was wanted, and its submodules are named where
they are missing. Its record (``.rekindle/tree.json``) keeps where it came from.
"""

from __future__ import annotations

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
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SourceTree
from rekindle.source import journal
from rekindle.source.archive import unpack
from rekindle.source.checkout import Mirror, check_out, check_place
from rekindle.source.debian import fetch_tarball
from rekindle.source.origins import debian_package, upstream
from rekindle.source.patches import status
from rekindle.source.prepare import check_wanted
from rekindle.source.submodules import with_submodules
from rekindle.source.tree import recognise

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to fetch. ``revision`` (a commit) wins over the tag of ``version``; ``place`` is where from."""

    project: str = "torch"
    version: str | None = None
    revision: str | None = None
    place: str = "git"
    sha256: str | None = None
    mirrors: tuple[Mirror, ...] = ()
    reference: Path | None = None
    submodules: bool = True


def fetch(wanted: Wanted, target: Path, *, cache: Path, windows: bool, progress: Progress | None = None) -> SourceTree:
    """Bring the wanted tree to ``target``; what is there already is continued or kept."""
    listener = progress or Silent()
    # git and apt run with other working directories than ours.
    target, cache = target.resolve(), cache.resolve()
    if journal.folder(target).is_dir() and not (target / ".git").exists():
        return _kept(wanted, target)
    notes: tuple[str, ...] = ()
    commit: str | None = None
    if wanted.place == "git" or wanted.place.endswith(".git"):
        notes = tuple(check_place(target, windows=windows))
        url = upstream(wanted.project).git if wanted.place == "git" else wanted.place
        commit = check_out(
            url,
            target,
            wanted.revision or _tag(wanted),
            mirrors=wanted.mirrors,
            reference=wanted.reference,
            submodules=wanted.submodules,
            progress=listener,
        )
        origin = f"{url} {wanted.revision or _tag(wanted)}"
    elif wanted.place == "debian":
        package = debian_package(wanted.project, wanted.version or "")
        archive = fetch_tarball(package, cache / "debian", progress=listener)
        listener.stage("unpack", archive.name)
        notes = _unpacked(unpack(archive, target, progress=listener))
        if package.stripped:
            notes += (
                "Debian takes third_party out of this tarball: build with its system libraries, or fetch from git",
            )
        origin = f"Debian {package.suite} {archive.name} sha256:{sha256_of(archive)}"
    elif wanted.place.endswith(_ARCHIVES) or wanted.place == "tarball":
        archive = _archive(wanted, cache, listener)
        listener.stage("unpack", archive.name)
        notes = _unpacked(unpack(archive, target, progress=listener))
        if wanted.sha256 is None and ("://" in wanted.place or wanted.place == "tarball"):
            notes += (f"nothing said what the archive must be; next time: --sha256 {sha256_of(archive)}",)
        origin = f"{wanted.place} sha256:{sha256_of(archive)}"
    else:
        origin = _copy(Path(wanted.place), target)
        commit = Git(target).head() if Git(target).present else None
    return _finish(wanted, target, origin, commit, notes)


def _finish(wanted: Wanted, target: Path, origin: str, commit: str | None, notes: Sequence[str]) -> SourceTree:
    project, version = recognise(target)
    if project != wanted.project:
        raise BadInput(f"{target} is a tree of {project}, and {wanted.project} was wanted")
    check_wanted(target, version, wanted.version)
    record = journal.read_record(target)
    exact = wanted.version if wanted.version and not wanted.revision else None
    journal.write_record(
        target,
        msgspec.structs.replace(record, project=project, version=exact, commit=commit, origin=record.origin or origin),
    )
    return msgspec.structs.replace(with_submodules(status(target)), notes=tuple(notes))


def _kept(wanted: Wanted, target: Path) -> SourceTree:
    """The tree is there: the same command again is no error, another wish is."""
    project, version = recognise(target)
    if project != wanted.project:
        raise BadInput(f"{target} is a tree of {project}, and {wanted.project} was wanted")
    check_wanted(target, journal.read_record(target).version or version, wanted.version)
    tree = with_submodules(status(target))
    return msgspec.structs.replace(tree, notes=("the tree was there already",))


def _unpacked(left_out: int) -> tuple[str, ...]:
    if not left_out:
        return ()
    return (f"{left_out} files of a .git in the archive were left out: git would run what its settings name",)


def _tag(wanted: Wanted) -> str:
    if not wanted.version:
        raise BadInput("which release?", remedy="give --release 2.6.0, --plan FILE or --revision COMMIT")
    return upstream(wanted.project).tag.format(version=wanted.version.split("+")[0])


def _archive(wanted: Wanted, cache: Path, progress: Progress) -> Path:
    place = wanted.place
    if place == "tarball":
        pattern = upstream(wanted.project).tarball
        if pattern is None:
            raise BadInput(f"{wanted.project} publishes no source archive with submodules", remedy="leave out --from")
        _tag(wanted)
        place = pattern.format(version=wanted.version)
    if "://" not in place:
        path = Path(place)
        if wanted.sha256 and path.is_file() and (got := sha256_of(path)) != wanted.sha256.lower():
            raise BadInput(f"{path} has SHA-256 {got}, not {wanted.sha256.lower()}")
        return path
    progress.stage("download", place)
    # The address is part of the name: two servers' files of one name must not be taken for each other.
    folder = cache / "downloads" / hashlib.sha256(place.encode()).hexdigest()[:12]
    return download(place, folder / place.rsplit("/", 1)[1], sha256=wanted.sha256, progress=progress)


def _copy(origin: Path, target: Path) -> str:
    """A local tree, copied; build outputs stay behind."""
    if not origin.is_dir():
        raise BadInput(
            f"{origin} is no directory and no archive", remedy="--from git, tarball, debian, a directory or an archive"
        )
    recognise(origin)
    if (origin / ".git").exists():
        # Copied, the tree would be ours and trusted: git is asked while it still is the other user's.
        Git(origin).head()
    if target.exists() and any(target.iterdir()):
        raise BadInput(f"{target} exists and is not empty", remedy="give another place, or remove it")
    if origin.resolve() == target.resolve() or origin.resolve() in target.resolve().parents:
        raise BadInput(f"{target} lies inside {origin}; a tree cannot be copied into itself")
    room = target.with_name(f".{target.name}.copying")
    shutil.rmtree(room, ignore_errors=True)
    skip = shutil.ignore_patterns("__pycache__", journal.FOLDER)

    def left_out(folder: str, names: list[str]) -> set[str]:
        top = {"build", "dist"} if Path(folder) == origin else set()
        return {*skip(folder, names), *(name for name in names if name in top)}

    try:
        shutil.copytree(origin, room, symlinks=True, ignore=left_out)
        if target.exists():
            target.rmdir()
        room.rename(target)
    except (OSError, shutil.Error) as error:
        raise BadInput(f"cannot copy {origin}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return str(origin.resolve())
