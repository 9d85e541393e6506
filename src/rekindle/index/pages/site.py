"""The static site, switched in one step: readers see the old one or the new one, whole.

Two copies lie side by side in ``.site/a`` and ``.site/b``; ``.site/current`` points at the one that is read, and
``simple`` and ``catalogue.json`` in the root lead through it. A build brings the *other* copy up to date and moves the
pointer with one rename. A copy that was being changed when a build died has no manifest and is made anew next time.
Where the file system has no symbolic links, files are replaced one by one, each of them atomically.
"""

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rekindle.compat.proofs import LIST
from rekindle.errors import tell_os_errors
from rekindle.facts import Facts
from rekindle.host.files import write_atomically
from rekindle.host.keys import PrivateKey
from rekindle.index.pages import simple
from rekindle.index.pages.wheel_pages import assets, edition, project_page, projects_page, wheel_page
from rekindle.index.wheelhouse.catalogue import load_grafts
from rekindle.index.wheelhouse.rows import Piece, load_pieces, nest_links, piece_of, piece_of_file, rows_of
from rekindle.index.wheelhouse.store import RECORDS, Wheelhouse
from rekindle.model.document import SCHEMA, load_kept
from rekindle.model.graft import GraftRow
from rekindle.model.progress import Progress
from rekindle.model.wheelhouse import SiteBuilt, VariantRow

PUBLIC = ("simple", "catalogue.json", "variant", "wheel")
_Write = Callable[[Path, bytes], None]


def build_site(
    house: Wheelhouse,
    *,
    variants: Facts | None = None,
    signer: PrivateKey | None = None,
    progress: Progress,
    then: Callable[[list[Piece]], object] = lambda pieces: None,
) -> SiteBuilt:
    """Write ``simple/`` and ``catalogue.json`` for every wheel of the house; with facts, variant wheels too, which
    ``signer`` signs. ``then`` gets what was listed, while nobody else may change the house."""
    progress.stage("index", str(house.root))
    remedy = "the site that was there is unchanged; make room or check the directory's permissions"
    with tell_os_errors(f"cannot write the site in {house.root}", remedy=remedy), house.lock("index build"):
        pieces, grafts = load_pieces(house), load_grafts(str(house.root))
        projects = {key: list(group) for key, group in itertools.groupby(pieces, key=lambda piece: piece.project)}
        chosen, variant_rows, left_out = (
            _choose_variants(house, projects, variants, signer, progress) if variants else ({}, [], [])
        )
        hidden = _HiddenCopy() if _links_work(house) else None
        target, current = house.root, house.site / "current"
        if hidden:
            # The name itself, not a resolved path.
            is_a = current.is_symlink() and os.readlink(current) == "a"  # noqa: PTH115
            target = house.site / ("b" if is_a else "a")
        write = hidden or write_atomically
        written = _refresh_pages(target, projects, write, progress)
        _show_wheels(target, projects, write, grafts)
        if chosen:
            _refresh_pages(target / "variant", chosen, write, progress)
        if hidden:
            hidden.flush()
            _point_link(current, target.name)
            for name in PUBLIC:
                if not (house.root / name).is_symlink():
                    _point_link(house.root / name, f".site/current/{name}")
        # All that people shared about the wheels of the house, for ``plan --proofs``.
        if records := sorted(house.wheels.glob(f"*/*{RECORDS}")):
            write_atomically(house.root / LIST, b"".join(path.read_bytes() for path in records))
        then(pieces)
    return SiteBuilt(
        root=str(house.root),
        simple=str(house.root / "simple"),
        catalogue=str(house.root / "catalogue.json"),
        wheels=len(pieces),
        projects=len(projects),
        grafts=len(grafts),
        pages_written=written,
        pages_kept=len(projects) - written,
        variants=tuple(variant_rows),
        left_out=tuple(left_out),
    )


def _choose_variants(
    house: Wheelhouse, projects: dict[str, list[Piece]], facts: Facts, signer: PrivateKey | None, progress: Progress
) -> tuple[dict[str, list[Piece]], list[VariantRow], list[str]]:
    """An index of its own, ``variant/simple``: for every installer a local version such as ``+cu118`` is newer than the
    plain one, so beside such wheels no variant would be chosen. Other projects are listed as they are."""
    from rekindle.index.variants import FOLDER, build_variants, release_files

    pieces = (piece for group in projects.values() for piece in group)
    rows, left_out = build_variants(house, rows_of(pieces), facts, progress, signer)
    having = {row.project for row in rows}
    chosen = {name: [nest_links(piece) for piece in group] for name, group in projects.items() if name not in having}
    for row in rows:
        chosen.setdefault(row.project, []).append(nest_links(piece_of(row)))
    for (project, version), (name, body) in release_files(rows).items():
        url = f"{FOLDER}/{project}/{name}"
        write_atomically(house.root / url, body)
        chosen[project].append(nest_links(piece_of_file(project, version, name, url, body)))
    return dict(sorted(chosen.items())), rows, left_out


class _HiddenCopy:
    """Writes into the copy nobody is pointed at, and brings it to disk before the pointer moves."""

    def __init__(self) -> None:
        self.written: list[Path] = []

    def __call__(self, path: Path, content: bytes) -> None:
        # A new file, not new bytes: a slow reader may still hold the old one.
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        self.written.append(path)

    def flush(self) -> None:
        if len(self.written) > 100 and hasattr(os, "sync"):
            os.sync()  # for many files one sync is cheaper than many
            return
        for path in self.written:
            with path.open("rb+") as file:
                os.fsync(file.fileno())


@contextlib.contextmanager
def _pages_noted(folder: Path, note: Path, write: _Write) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """What the pages in ``folder`` were made of, and (to be filled in) are made of now. A kill leaves no note: then all
    are made anew."""
    old, now = load_kept(note, dict[str, str]) or {}, dict[str, str]()
    if not old and folder.exists():
        shutil.rmtree(folder)
    note.unlink(missing_ok=True)
    yield old, now
    write(note, msgspec.json.encode(now))


def _refresh_pages(target: Path, projects: dict[str, list[Piece]], write: _Write, progress: Progress) -> int:
    pages, written = target / "simple", 0
    with _pages_noted(pages, target / "manifest.json", write) as (old, now):
        for number, (name, group) in enumerate(projects.items()):
            now[name] = hashlib.sha256(b"".join(piece.digest for piece in group)).hexdigest()
            if old.get(name) == now[name]:
                continue
            wheels = [(piece.version, piece.link, piece.simple) for piece in group]
            for form, content in simple.project_pages(name, wheels).items():
                write(pages / name / form, content)
            written += 1
            progress.step(number, len(projects), name)
        for form, content in simple.root_pages(projects).items():
            write(pages / form, content)
        for name in old.keys() - now.keys():
            shutil.rmtree(pages / name, ignore_errors=True)
        # A :class:`WheelCatalogue`, joined from what each piece already holds.
        generated = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        rows = b",".join(piece.row for group in projects.values() for piece in group if piece.row)
        head = f'{{"schema":{SCHEMA},"generated":"{generated}","wheels":['
        write(target / "catalogue.json", head.encode() + rows + b"]}\n")
    return written


def _show_wheels(target: Path, projects: dict[str, list[Piece]], write: _Write, grafts: Sequence[GraftRow]) -> None:
    """``wheel/``: a page per wheel, a list per project, one of all and ``grafts``; only what changed is written."""
    folder = target / "wheel"
    with _pages_noted(folder, target / "shown.json", write) as (old, now):
        now[""] = edition()
        same_look = old.get("") == now[""]
        changed: set[str] = set()
        for name, group in projects.items():
            for piece in group:
                page = f"{name}/{piece.file}.html"
                now[page] = piece.digest.hex()
                if not same_look or old.get(page) != now[page]:
                    write(folder / page, wheel_page(*rows_of([piece])))
                    changed.add(name)
        for page in old.keys() - now.keys():
            (folder / page).unlink(missing_ok=True)
            changed.add(page.split("/")[0])
        for name in changed - projects.keys():
            shutil.rmtree(folder / name, ignore_errors=True)
        for name in changed & projects.keys():
            write(folder / name / "index.html", project_page(name, projects[name]))
        write(folder / "index.html", projects_page({name: len(group) for name, group in projects.items()}, grafts))
        for name, content in () if same_look else assets().items():
            write(folder / name, content)


def _links_work(house: Wheelhouse) -> bool:
    """Try one; what lies in the root may also be real directories from a place without links."""
    house.site.mkdir(parents=True, exist_ok=True)
    probe = house.site / ".probe"
    try:
        probe.unlink(missing_ok=True)
        probe.symlink_to("a")
        probe.unlink()
    except (OSError, NotImplementedError):
        return False
    return all((house.root / name).is_symlink() or not (house.root / name).exists() for name in PUBLIC)


def _point_link(link: Path, target: str) -> None:
    temporary = link.with_name(f".{link.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
    with contextlib.suppress(OSError):
        handle = os.open(link.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
