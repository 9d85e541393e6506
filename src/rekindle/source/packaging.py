"""Folders that Debian's packaging of a release keeps beside its tree: headers of third parties with no package."""

from __future__ import annotations

from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import sha256_of
from rekindle.model.progress import Progress
from rekindle.source.archive import unpack
from rekindle.source.debian import fetch_file
from rekindle.source.origins import supplement_for


class Packaging:
    """Fetched at the first question, kept in the cache; ``archive`` is a packaging tarball that is there already."""

    def __init__(self, release: str, cache: Path, progress: Progress, archive: Path | None = None) -> None:
        self._release = release
        self._cache = cache
        self._progress = progress
        self._archive = archive
        self._root: tuple[Path, str] | None = None

    def folder(self, name: str) -> tuple[Path, str]:
        """Where the headers of ``name`` lie, and where they are from."""
        row = supplement_for("torch", self._release)
        if row is None or name not in row.folders:
            raise BadInput(f"no package is known that holds {name} for torch {self._release}", remedy="fetch with git")
        if self._root is None:
            archive = self._archive or fetch_file(row, self._cache / "debian", ".debian.tar.*", progress=self._progress)
            place = self._cache / "packaging" / sha256_of(archive)[:16]
            if not place.is_dir():
                unpack(archive, place, progress=self._progress)
            self._root = place, archive.name
        root, origin = self._root
        found = (root / row.folders[name]).resolve()
        if not found.is_dir() or not found.is_relative_to(root.resolve()):
            raise BadInput(f"{origin} has no {row.folders[name]}", remedy="fetch with git")
        return found, f"Debian {origin}: {row.folders[name]}"
