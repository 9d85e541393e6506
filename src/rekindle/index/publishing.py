"""A wheelhouse's public files copied elsewhere: wheels first, then the pages that name them, the way in last.

Whoever reads the target meanwhile finds the old pages or the new ones, and every wheel they name. Each file appears
whole: by a rename in a directory, by the store itself in a store. A run that was cut short goes on where it stopped:
what is there with the right digest stays. The target holds plain files and no links, so that anything can serve it.
"""

import contextlib
import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from rekindle.compat.proofs import LIST
from rekindle.errors import BadInput, tell_os_errors
from rekindle.host.files import sha256_of, whole_file, write_atomically
from rekindle.host.object_store import ObjectStore
from rekindle.index.pages.simple import content_type
from rekindle.index.wheelhouse.listing import LIST_FILE
from rekindle.index.wheelhouse.store import RECORDS, Wheelhouse, copy_whole
from rekindle.model.document import load, load_kept
from rekindle.model.progress import Progress, Silent
from rekindle.model.wheelhouse import Synced, WheelCatalogue

MEMORY = ".rekindle-sync.json"
PAGES = ("wheel", "simple", "variant")


def send_house(house: Wheelhouse, target: "FolderTarget | StoreTarget", progress: Progress) -> Synced:
    """Bring a target up to date with the built site of ``house``."""
    if not (house.root / "simple" / "index.html").is_file():
        raise BadInput(f"{house.root} has no site yet", remedy=f"rekindle index build --root {house.root}")
    sent = kept = bytes_sent = 0
    remedy = "make room or check the permissions; the same command goes on where this one stopped"
    try:
        with tell_os_errors(f"cannot bring {target} up to date", remedy=remedy), house.lock("index sync"):
            target.open()
            files = _public_files(house)
            for number, (name, sha256) in enumerate(files.items()):
                progress.step(number, len(files), name)
                stored = target.put(name, sha256)
                sent, kept = sent + bool(stored), kept + (not stored)
                bytes_sent += stored
            # Pages of what is gone. Wheels stay: somebody may have posted their link.
            removed = target.remove_stale(files.keys())
    finally:
        # Also after an interruption: it saves reading what is there already.
        with contextlib.suppress(OSError):
            target.close()
    counts = {"sent": sent, "kept": kept, "bytes": bytes_sent}
    return Synced(root=str(house.root), target=str(target), removed=tuple(removed), **counts)


class FolderTarget:
    """A directory. What was written there (digest, size, time) is remembered in it, so that it need not be read."""

    def __init__(self, folder: Path, house: Wheelhouse) -> None:
        if house.root.resolve() in (folder.resolve(), *folder.resolve().parents):
            raise BadInput(f"{folder} lies in the wheelhouse itself", remedy="give another directory")
        self._folder, self._root = folder, house.root
        self._memory = load_kept(folder / MEMORY, dict[str, tuple[str, int, int]]) or {}

    def __str__(self) -> str:
        return str(self._folder)

    def open(self) -> None:
        """It must be there, or be made, before anything is read for it."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, sha256: str | None) -> int:
        """Copy one file, unless it is there; the bytes written."""
        source, place = self._root / name, self._folder / name
        expected = sha256 or sha256_of(source)
        with contextlib.suppress(OSError):
            state = place.stat()
            known = (expected, state.st_size, state.st_mtime_ns)
            same = self._memory.get(name) == known
            if same or (state.st_size == source.stat().st_size and sha256_of(place) == expected):
                self._memory[name] = known
                return 0
        with whole_file(place) as part:
            digest, size = copy_whole(source, part, Silent())
            if digest != expected:
                raise _other_content(source, digest, expected)
        state = place.stat()
        self._memory[name] = (expected, state.st_size, state.st_mtime_ns)
        return size

    def remove_stale(self, keep: Collection[str]) -> list[str]:
        """Remove pages that are no more; their names."""
        gone = [name for folder in PAGES for name in _files_below(self._folder, folder) if name not in keep]
        for name in gone:
            (self._folder / name).unlink(missing_ok=True)
        return gone

    def close(self) -> None:
        write_atomically(self._folder / MEMORY, msgspec.json.encode(self._memory))


def _other_content(path: Path, digest: str, expected: str) -> BadInput:
    """The error of a file that is no more what it was when it was added."""
    return BadInput(
        f"{path} is not what its record says (sha256 {digest[:12]}… against {expected[:12]}…)",
        remedy="it was damaged or changed: add it again; no page was changed in the target",
    )


def _is_page(name: str) -> bool:
    """Is it a page, which changes under its name?"""
    return name.startswith(tuple(f"{folder}/" for folder in PAGES))


def _public_files(house: Wheelhouse) -> dict[str, str | None]:
    """Every file with the digest in its record, in the order in which they may appear elsewhere: what the catalogue
    names and what lies beside it; pages of single things before the lists of them; signed list and front page last."""
    root = house.root
    wheels: dict[str, str | None] = {}
    for row in load(root / "catalogue.json", WheelCatalogue).wheels:
        wheels |= {row.url: row.sha256, f"{row.url}.metadata": row.metadata_sha256}
        wheels |= {f"{row.url}.provenance": None} if row.provenance else {}
        wheels |= {f"{row.url}{RECORDS}": None} if (root / f"{row.url}{RECORDS}").is_file() else {}
    beside = [name for folder in ("variants", "grafts") for name in _files_below(root, folder)]
    lists = {f"{part}/{name}" for part in PAGES for name in ("index.html", "index.json", "simple/index.html")}
    pages = sorted((name for folder in PAGES for name in _files_below(root, folder)), key=lambda name: name in lists)
    front = [name for name in ("catalogue.json", LIST, LIST_FILE, "index.html") if (root / name).is_file()]
    return wheels | dict.fromkeys([*beside, *pages, *front])


def _files_below(root: Path, name: str) -> Iterator[str]:
    """Every file in a folder of the root by its name, hidden ones left out."""
    for path in sorted((root / name).rglob("*")):
        place = path.relative_to(root)
        if path.is_file() and not any(part.startswith(".") for part in place.parts):
            yield place.as_posix()


class _SentFiles(msgspec.Struct):
    """``sent``: name -> (sha256, ETag, bytes); ``begun``: name -> (sha256, upload) of what was cut short."""

    sent: dict[str, tuple[str, str, int]] = {}
    begun: dict[str, tuple[str, str]] = {}


class StoreTarget:
    """An S3-like store. What was sent is remembered beside the wheelhouse, with the store's own mark (ETag) of it: one
    listing then says what is still there. What nobody remembers is asked for by its digest. Pages that stand for a
    folder are put under the folder's name too, since a plain store has no index pages."""

    def __init__(self, store: ObjectStore, house: Wheelhouse) -> None:
        self._store, self._root = store, house.root
        digest = hashlib.sha256(f"{store.place.endpoint} {store.place}".encode()).hexdigest()
        self._path = house.site / f"sync-{digest[:16]}.json"
        self._memory = load_kept(self._path, _SentFiles) or _SentFiles()
        self._there: dict[str, tuple[str, int]] = {}

    def __str__(self) -> str:
        return str(self._store.place)

    def open(self) -> None:
        """A store that refuses says so before anything is read for it."""
        self._there = self._store.objects()

    def put(self, name: str, sha256: str | None) -> int:
        """Send one file under each of its names, unless it is there."""
        expected = sha256 or sha256_of(self._root / name)
        return sum(self._send(goal, self._root / name, sha256, expected) for goal in _names_of(name))

    def _send(self, name: str, source: Path, sha256: str | None, expected: str) -> int:
        there, sent = self._there.get(name), self._memory.sent.get(name)
        size = source.stat().st_size
        if there is not None and there[1] == size:
            known = (expected, *there)
            if sent == known or (sent is None and self._store.digest(name) == expected):
                self._memory.sent[name] = known
                return 0
        if sha256 and (actual := sha256_of(source)) != expected:
            raise _other_content(source, actual, expected)
        # A wheel under its name never changes; a page is asked for again each time.
        fresh = "no-cache" if _is_page(name) or "/" not in name else "public, max-age=31536000, immutable"
        kind = content_type("index.html" if name.endswith("/") else name)
        digest, upload = self._memory.begun.get(name, ("", None))

        def note_upload(upload: str) -> None:
            # At once: a kill leaves gigabytes in the store that only this id finds again.
            self._memory.begun[name] = (expected, upload)
            self._save_memory()

        headers, begun = {"content-type": kind, "cache-control": fresh}, upload if digest == expected else None
        tag = self._store.put(name, source, expected, headers, begun=begun, began=note_upload)
        self._memory.sent[name] = (expected, tag, size)
        self._memory.begun.pop(name, None)
        return size

    def remove_stale(self, keep: Collection[str]) -> list[str]:
        """Remove pages that are no more; their names."""
        names = {goal for name in keep for goal in _names_of(name)}
        gone = sorted(name for name in self._there if _is_page(name) and name not in names)
        for name in gone:
            self._store.remove(name)
            self._memory.sent.pop(name, None)
        return gone

    def close(self) -> None:
        self._save_memory()
        self._store.close()

    def _save_memory(self) -> None:
        write_atomically(self._path, msgspec.json.encode(self._memory))


def _names_of(name: str) -> tuple[str, ...]:
    """``simple/torch/index.html`` is also what a reader of ``simple/torch/`` gets."""
    folder, _, last = name.rpartition("/")
    return (name, f"{folder}/") if last == "index.html" and folder else (name,)
