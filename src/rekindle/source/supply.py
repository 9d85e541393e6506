"""Puts something in the place of every third party a tree lacks, and says what each is and where from.

A folder is filled whole or left alone, so a run that was cut short simply goes on. Folders with content are never
touched: a tree with its submodules stays as it is. Headers, sources and libraries that a package of the package index
holds are fetched by pip, known by their checksum and kept in the cache.
"""

import contextlib
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.compat.resources import parts_for, takes_from_index
from rekindle.errors import BadInput, RekindleError, StageFailed
from rekindle.host.download import download
from rekindle.host.files import sha256_of, whole_file, write_atomically
from rekindle.host.protocol import Host
from rekindle.interpreters.installer import telling_lines
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree
from rekindle.model.supply import FromIndex, ThirdParty, TreePart
from rekindle.source import journal
from rekindle.source.archive import unpack
from rekindle.source.paths import check_relative, inside
from rekindle.source.tree import find_submodules, is_empty, is_ours, listed_by_setup, missing_submodules
from rekindle.toolkits.libraries import find_lacks
from rekindle.toolkits.programs import bring_lacking

_STANDINS = Path(__file__).parent / "standins"
_BY_GIT = "git submodule update --init --recursive"
# Where the headers of a third party lie, and where they are from; None: there is no such place.
Packaging = Callable[[str], tuple[Path, str]] | None
_LARGE = 1 << 20
_SECONDS = 1800.0
_NO_PIP = "No module named pip"


def survey(root: Path, release: str) -> tuple[TreePart, ...]:
    """Every third party of a torch tree: what it is there, or that it is missing."""
    supplied = {part.path: part for part in journal.read_record(root).supply}
    rows = {row.folder: row for row in parts_for(release)}
    if not (listed := find_submodules(root)):
        # A tarball without the list: what setup.py looks for, and what we know of this release.
        folders = rows if (root / "cmake/Dependencies.cmake").is_file() else ()
        listed = dict.fromkeys((*folders, *listed_by_setup(root)))
    return tuple(_look_at(root, path, url, rows.get(path), supplied.get(path)) for path, url in sorted(listed.items()))


def _look_at(root: Path, path: str, url: str | None, row: ThirdParty | None, supplied: TreePart | None) -> TreePart:
    part = functools.partial(TreePart, name=row.name if row else path.removeprefix("third_party/"), path=path)
    if not (ours := is_ours(root, path)) and is_empty(root / path):
        return part(way="submodule", ready=False, detail="not there")
    if supplied and (ours or supplied.way in ("copy", "index")):
        return supplied
    if ours:
        return part(way=row.way if row and row.index is None else "off")
    return part(way="submodule", origin=url)


def fill(
    root: Path,
    release: str,
    *,
    host: Host,
    packaging: Packaging,
    progress: Progress,
    headers: "Headers | None" = None,
    backend: str | None = None,
    cuda: str | None = None,
) -> tuple[TreePart, ...]:
    """Fill what is empty by the rows of this release; parts that cannot be filled come back with the reason.
    ``backend`` (cpu, cuda, rocm) is what will be built, with the toolkit ``cuda``. Where that is not known, what only
    one of them needs is fetched if it can be had, and otherwise left out with the reason."""
    rows = {row.folder: row for row in parts_for(release, cuda=cuda, processor=host.machine)}
    filled: dict[str, TreePart] = {}
    for part in survey(root, release):
        row = rows.get(part.path)
        # What this build takes from the index is put in place of a stand-in, or of another file of it.
        is_other = part.way == "index" and row and part.origin != _index_origin(row)
        if part.ready and not (
            row and takes_from_index(row, backend) and (is_other or part.way in ("off", "stand-in"))
        ):
            continue
        progress.step(len(filled), None, part.name)
        with journal.writing(root):
            if row and row.index is not None:
                filled[part.path] = _from_index(root, row, headers, backend)
            else:
                filled[part.path] = _fill_one(root, part, row, host, packaging)
    if filled:
        record = journal.read_record(root)
        old = tuple(part for part in record.supply if part.path not in filled)
        new = tuple(part for part in filled.values() if part.ready)
        journal.write_record(root, msgspec.structs.replace(record, supply=(*old, *new)))
    return tuple(filled.get(part.path, part) for part in survey(root, release))


def with_parts(tree: SourceTree, tried: Sequence[TreePart] = ()) -> SourceTree:
    """The tree with every third party named, and those that nothing fills listed as missing. ``tried`` are parts as
    filling left them: why one is missing, and what helps, is known there alone."""
    root = Path(tree.root)
    missing = missing_submodules(root)
    if tree.project != "torch":
        return msgspec.structs.replace(tree, missing_submodules=missing)
    failed = {part.path: part for part in tried if not part.ready}
    parts = tuple(failed.get(part.path, part) for part in survey(root, tree.version))
    named = {name.partition(" (")[0]: name for name in missing}
    named |= {path: f"{path} ({part.detail})" for path, part in failed.items()}
    also = {part.path: f"{part.path} ({part.detail})" for part in parts if not part.ready and part.path not in named}
    return msgspec.structs.replace(tree, missing_submodules=tuple((named | also).values()), parts=parts)


def without_submodules(parts: Sequence[TreePart], rows: Sequence[ThirdParty]) -> tuple[ThirdParty, ...]:
    """The ``rows`` of a release that count for a tree: those of the parts that are no submodules there."""
    others = {part.path for part in parts if part.way != "submodule" or not part.ready}
    return tuple(row for row in rows if row.folder in others)


def _fill_one(root: Path, part: TreePart, row: ThirdParty | None, host: Host, packaging: Packaging) -> TreePart:
    if row is None:
        _write_absent(root, part.path, "nothing in the planned build uses it")
        return TreePart(name=part.name, path=part.path, way="off", origin="not used")
    done = TreePart(name=row.name, path=row.folder, way=row.way)
    if row.way == "copy":
        return _copy_part(root, row, packaging)
    if row.generate is not None and (problem := _generate(root, row, host)):
        fix = bring_lacking(host, find_lacks(host, [row])) or f"install {row.generate.program}"
        return _not_ready(done, problem, fix)
    switches = ", ".join(f"{name}={value}" for name, value in (row.settings | row.gpu).items())
    off = f"switched off ({switches})" if switches else "not used"
    reason = "the system's library is used instead" if row.way == "system" else off
    for name, ours in row.files.items():
        _write(root, row.folder, name, (_STANDINS / ours).read_text(encoding="utf-8"))
    if "CMakeLists.txt" not in row.files:
        _write_absent(root, row.folder, reason)
    for inner in row.inner:
        _write_absent(root, f"{row.folder}/{inner}", reason)
    origin = {"system": "this system", "off": off, "stand-in": "rekindle"}[row.way]
    return msgspec.structs.replace(done, origin=origin)


def _index_origin(row: ThirdParty) -> str | None:
    return f"package index: {row.index.file} sha256:{row.index.sha256}" if row.index else None


def _from_index(root: Path, row: ThirdParty, headers: "Headers | None", backend: str | None) -> TreePart:
    assert row.index is not None
    done = TreePart(name=row.name, path=row.folder, way="index", origin=_index_origin(row))
    unused = msgspec.structs.replace(done, way="off", origin=f"not used without {row.index.backend}")
    if not takes_from_index(row, backend) or headers is None:
        _write_absent(root, row.folder, f"needed with {row.index.backend} alone")
        return unused
    try:
        taken = headers.folders(row.index)
        if lacks := [name for name in row.needs if not any(_holds(*each, name) for each in taken.items())]:
            raise BadInput(f"{row.index.file} has no {lacks[0]}", remedy=_BY_GIT)
    except RekindleError as error:
        if backend is not None:
            return _not_ready(done, error.message, error.remedy)
        # Nobody said that it is for a GPU: a build for the CPU must not stop here.
        _write_absent(root, row.folder, error.message)
        return msgspec.structs.replace(unused, detail=error.message, fix=error.remedy)
    _put(root, row, taken, over=True)
    return done


def _holds(into: str, place: Path, name: str) -> bool:
    return name == into or (name.startswith(f"{into}/") and (place / name.removeprefix(f"{into}/")).is_file())


def _put(root: Path, row: ThirdParty, taken: Mapping[str, Path], *, over: bool = False) -> None:
    """Folders and files into the third party's place, which is there whole or not at all. ``over``: what lies there is
    ours (a stand-in, or another file of the index)."""
    target = inside(root, row.folder, origin="the list of third parties")
    room = target.with_name(f".{target.name}.filling")
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(parents=True)
    for name, place in taken.items():
        goal = room / name
        goal.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            shutil.copytree(place, goal, symlinks=False, dirs_exist_ok=True, copy_function=_share)
        else:
            shutil.copyfile(place, goal)
    for name, beside in row.index.links.items() if row.index else ():
        (room / name).symlink_to(beside)
    if over and target.is_dir():
        shutil.rmtree(target)
    elif target.is_dir():
        target.rmdir()
    room.rename(target)


def _share(source: str, target: str) -> None:
    """A copy; of a library, which is large and which nobody edits, only another name where the disk allows it."""
    if Path(source).stat().st_size >= _LARGE:
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def _copy_part(root: Path, row: ThirdParty, packaging: Packaging) -> TreePart:
    done = TreePart(name=row.name, path=row.folder, way=row.way)
    try:
        if packaging is None:
            raise BadInput("no package is known that holds it", remedy=_BY_GIT)
        folder, origin = packaging(row.name)
        if lacks := [name for name in row.needs if not (folder / name).is_file()]:
            raise BadInput(f"{origin} has no {lacks[0]}", remedy=_BY_GIT)
    except RekindleError as error:
        return _not_ready(done, error.message, error.remedy)
    _put(root, row, {"": folder})
    return msgspec.structs.replace(done, origin=origin)


def _not_ready(part: TreePart, detail: str, fix: str | None) -> TreePart:
    return msgspec.structs.replace(part, ready=False, detail=detail, fix=fix)


def _generate(root: Path, row: ThirdParty, host: Host) -> str | None:
    """Make a file again with the system's program; says what went wrong."""
    assert row.generate is not None
    step = row.generate
    if (program := host.which(step.program)) is None:
        return f"{step.program} is not on this machine, and {step.makes} must be made again with it"
    folder = inside(root, step.folder, origin="the list of third parties")
    done = host.run([program, "-o", str(folder), *step.arguments[:-1], str(folder / step.arguments[-1])], timeout=60.0)
    if not done.ok or not (folder / step.makes).is_file():
        return f"{step.program} failed: {(done.err or done.out).strip()[:200] or 'no message'}"
    return None


def _write(root: Path, folder: str, name: str, text: str) -> None:
    path = inside(root, f"{folder}/{name}", origin="the list of third parties")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def _write_absent(root: Path, folder: str, reason: str) -> None:
    text = (_STANDINS / "absent.cmake").read_text(encoding="utf-8")
    _write(root, folder, "CMakeLists.txt", text.replace("{path}", folder).replace("{reason}", reason))


@dataclass(frozen=True, kw_only=True)
class Headers:
    """``links`` are folders or pages of files looked through besides the index; ``offline`` asks no index."""

    host: Host
    cache: Path
    progress: Progress
    links: tuple[str, ...] = ()
    offline: bool = False

    def folders(self, wanted: FromIndex) -> dict[str, Path]:
        """What is to be taken, by its place in the third party's folder: folders and files, unpacked."""
        archive = self.file(wanted)
        place = self.cache / "headers" / wanted.sha256[:16]
        if not place.is_dir():
            unpack(archive, place, progress=self.progress)
        places = {}
        for target, inner in wanted.take.items():
            for path in (target, inner):
                check_relative(path, origin="the list of third parties")
            places[target] = (place / inner).resolve()
            if not places[target].exists() or not places[target].is_relative_to(place.resolve()):
                raise BadInput(f"{wanted.file} has no {inner}", remedy="fetch with git")
        return places

    def file(self, wanted: FromIndex) -> Path:
        """The file itself, from the cache, a folder at hand or the index; another content is refused."""
        check_relative(wanted.file, origin="the list of third parties")
        kept = self.cache / "index" / wanted.file
        if kept.is_file() and sha256_of(kept) == wanted.sha256:
            return kept
        kept.parent.mkdir(parents=True, exist_ok=True)
        for lies in (Path(link) / wanted.file for link in self.links):
            if lies.is_file():
                self._is_right(lies, wanted)
                with whole_file(kept) as part:
                    shutil.copyfile(lies, part)
                return kept
        if wanted.url and not self.offline:
            return download(wanted.url, kept, sha256=wanted.sha256, progress=self.progress)
        self.progress.stage("download", wanted.file)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as room:
            self._download(wanted, Path(room))
            got = Path(room, wanted.file)
            self._is_right(got, wanted)
            got.replace(kept)
        return kept

    def _download(self, wanted: FromIndex, room: Path) -> None:
        pins = room / "wanted.txt"
        write_atomically(pins, f"{wanted.pin} --hash=sha256:{wanted.sha256}\n")
        words = ["download", "--no-deps", "--only-binary=:all:", *_wheel_words(wanted.file), "--require-hashes"]
        words += ["--no-input", "-r", str(pins), "--disable-pip-version-check", "--dest", str(room)]
        words += ["--no-index"] if self.offline else []
        words += [word for link in self.links for word in ("--find-links", link)]
        done = self.host.run([sys.executable, "-m", "pip", *words], timeout=_SECONDS)
        for pip in filter(None, map(self.host.which, ("pip3", "pip"))):
            if _NO_PIP in done.err:
                done = self.host.run([pip, *words], timeout=_SECONDS)
        if done.ok and (room / wanted.file).is_file():
            return
        why = "pip brought another file" if done.ok else (telling_lines(done.err) or ["pip gave no reason"])[-1]
        if _NO_PIP in done.err:
            why = "there is no pip here to fetch it"
        elif done.timed_out:
            why = f"pip gave no answer in {_SECONDS:.0f} seconds"
        raise StageFailed(f"{wanted.file} cannot be had from the package index: {why}", remedy=how_to_get(wanted))

    def _is_right(self, file: Path, wanted: FromIndex) -> None:
        if (got := sha256_of(file)) != wanted.sha256:
            remedy = how_to_get(wanted)
            raise StageFailed(f"{file.name} in {file.parent} has SHA-256 {got}, not {wanted.sha256}", remedy=remedy)


def _wheel_words(file: str) -> list[str]:
    """What asks pip for this very wheel, whatever Python and processor pip runs on."""
    python, abi, platforms = file.removesuffix(".whl").split("-")[-3:] if file.endswith(".whl") else ("", "", "any")
    words = [] if platforms == "any" else [f"--platform={platform}" for platform in platforms.split(".")]
    if abi.startswith("cp"):
        words += [f"--python-version={python.removeprefix('cp')}", "--implementation=cp", f"--abi={abi}"]
    return words


def how_to_get(wanted: FromIndex) -> str:
    """The line for a machine that reaches an index, and how this one is told."""
    own = _wheel_words(wanted.file)
    words = ["pip download --no-deps", *["--only-binary=:all:"] * bool(own), *own, "-d wheels", wanted.pin]
    line = f"curl -L --create-dirs -o wheels/{wanted.file} {wanted.url}" if wanted.url else " ".join(words)
    return f"{line}   # where there is a network; then here the same command with --find-links wheels"
