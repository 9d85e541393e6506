"""The public files of a built wheelhouse, in the order in which a reader may meet them: wheels before pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rekindle.index.listing import LIST_FILE
from rekindle.index.store import Wheelhouse
from rekindle.model.document import load
from rekindle.model.wheelhouse import Catalogue

PAGES = ("wheel", "simple", "variant")


@dataclass(frozen=True, kw_only=True)
class Item:
    """One file. ``sha256`` is what it must have, where a record says so."""

    name: str
    path: Path
    sha256: str | None = None


def all_items(house: Wheelhouse) -> list[Item]:
    return [*_wheels(house), *_pages(house)]


def is_page(name: str) -> bool:
    return name.split("/", 1)[0] in PAGES and "/" in name


def _wheels(house: Wheelhouse) -> Iterator[Item]:
    """What the catalogue names, with what lies beside it; then the wheels that are chosen by card."""
    for row in load(house.root / "catalogue.json", Catalogue).wheels:
        place = house.root / row.url
        yield Item(name=row.url, path=place, sha256=row.sha256)
        yield Item(
            name=f"{row.url}.metadata", path=place.with_name(f"{place.name}.metadata"), sha256=row.metadata_sha256
        )
        if row.provenance:
            yield Item(name=f"{row.url}.provenance", path=place.with_name(f"{place.name}.provenance"))
    yield from below(house.root, "variants")


def _pages(house: Wheelhouse) -> Iterator[Item]:
    """Pages of single things before the lists that lead to them; the signed list and the front page last."""
    pages = [item for name in PAGES for item in below(house.root, name)]
    lists = {
        name for part in PAGES for name in (f"{part}/index.html", f"{part}/index.json", f"{part}/simple/index.html")
    }
    yield from (item for item in pages if item.name not in lists)
    yield from (item for item in pages if item.name in lists)
    for name in ("catalogue.json", LIST_FILE, "index.html"):
        if (house.root / name).is_file():
            yield Item(name=name, path=house.root / name)


def below(root: Path, name: str) -> Iterator[Item]:
    folder = root / name
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield Item(name=path.relative_to(root).as_posix(), path=path)
