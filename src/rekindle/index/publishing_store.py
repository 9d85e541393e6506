"""A wheelhouse's public files in an S3-like store: what is there already, what is sent, what goes.

What was sent is remembered beside the wheelhouse, with the store's own mark (ETag) of it; a listing then says in a few
requests what is still there. What nobody remembers is asked for by its digest. Pages that stand for a folder are put
under the folder's name too, since a plain store has no index pages.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.object_store import ObjectStore
from rekindle.index.pages.simple import content_type
from rekindle.index.publishing import Item, is_page, other_content
from rekindle.model.document import load_kept


class _SentFiles(msgspec.Struct):
    """``sent``: name -> (sha256, ETag, bytes); ``begun``: name -> (sha256, upload) of what was cut short."""

    sent: dict[str, tuple[str, str, int]] = {}
    begun: dict[str, tuple[str, str]] = {}


class StoreTarget:
    """Satisfies :class:`rekindle.index.publishing.PublishingTarget`."""

    def __init__(self, store: ObjectStore, memory: Path) -> None:
        self._store = store
        self._path = memory
        self._memory = load_kept(memory, _SentFiles) or _SentFiles()
        self._there: dict[str, tuple[str, int]] = {}

    def open(self) -> None:
        """Ask what is there."""
        self._there = self._store.objects()

    def put(self, item: Item) -> int:
        """Send one file under each of its names, unless it is there."""
        wanted = item.sha256 or sha256_of(item.path)
        return sum(self._put(name, item, wanted) for name in names_of(item.name))

    def _put(self, name: str, item: Item, wanted: str) -> int:
        there, known = self._there.get(name), self._memory.sent.get(name)
        size = item.path.stat().st_size
        if there is not None and there[1] == size:
            if known == (wanted, *there):
                return 0
            if known is None and self._store.digest(name) == wanted:
                self._memory.sent[name] = (wanted, *there)
                return 0
        if item.sha256 and (found := sha256_of(item.path)) != wanted:
            raise other_content(item, found, wanted)
        begun = self._memory.begun.get(name)
        tag = self._store.put(
            name,
            item.path,
            wanted,
            headers_of(name),
            begun=begun[1] if begun and begun[0] == wanted else None,
            began=lambda upload: self._begin(name, wanted, upload),
        )
        self._memory.sent[name] = (wanted, tag, size)
        self._memory.begun.pop(name, None)
        return size

    def _begin(self, name: str, wanted: str, upload: str) -> None:
        # At once: a kill leaves gigabytes in the store that only this id finds again.
        self._memory.begun[name] = (wanted, upload)
        self._keep()

    def remove_stale(self, wanted: set[str]) -> list[str]:
        """Pages of what is gone. Wheels stay: somebody may have posted their link."""
        names = {name for one in wanted for name in names_of(one)}
        gone = sorted(name for name in self._there if is_page(name) and name not in names)
        for name in gone:
            self._store.remove(name)
            self._memory.sent.pop(name, None)
        return gone

    def close(self) -> None:
        """Keep what is remembered, give the connections back."""
        self._keep()
        self._store.close()

    def _keep(self) -> None:
        write_atomically(self._path, msgspec.json.encode(self._memory))


def names_of(name: str) -> tuple[str, ...]:
    """``simple/torch/index.html`` is also what a reader of ``simple/torch/`` gets."""
    folder, _, last = name.rpartition("/")
    return (name, f"{folder}/") if last == "index.html" and folder else (name,)


def headers_of(name: str) -> dict[str, str]:
    """A wheel under its name never changes; a page is asked for again each time."""
    fresh = "no-cache" if is_page(name) or "/" not in name else "public, max-age=31536000, immutable"
    return {"content-type": content_type("index.html" if name.endswith("/") else name), "cache-control": fresh}


def memory_path(site: Path, place: str, endpoint: str) -> Path:
    """Where is kept what was sent to this store."""
    digest = hashlib.sha256(f"{endpoint} {place}".encode()).hexdigest()
    return site / f"sync-{digest[:16]}.json"
