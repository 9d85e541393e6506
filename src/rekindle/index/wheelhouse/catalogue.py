"""What a wheelhouse offers, from a directory or from a URL, in bounded time and memory: its wheels, its graft files.

A graft file belongs to an official wheel, by its digest, and holds only the new code, so a house may carry it where it
may not carry the wheel. The list of them is written last: a graft exists for readers exactly when it is listed.
"""

import contextlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from packaging.utils import canonicalize_name

from rekindle.errors import BadInput, StageFailed
from rekindle.formats.ranges import Unreachable, read_page
from rekindle.host.files import write_atomically
from rekindle.index.wheelhouse.reading import MAX_NAME
from rekindle.index.wheelhouse.rows import load_pieces, rows_of
from rekindle.index.wheelhouse.store import Wheelhouse, copied_in, disk_errors
from rekindle.model.document import Document, decode, encode, load, shared_fields
from rekindle.model.graft import GraftFile, GraftRow
from rekindle.model.progress import Progress
from rekindle.model.wheelhouse import AddedWheel, GraftList, WheelCatalogue, WheelRow

DocumentT = TypeVar("DocumentT", bound=Document)
MAX_BYTES = 256 << 20
# What a server says of a file that it has not, or does not show.
GONE = (403, 404, 410)
TIMEOUT_SECONDS = 20.0
FOLDER = "grafts"
LIST = f"{FOLDER}/index.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.graft")


def is_url(place: str) -> bool:
    """An address rather than a directory?"""
    return place.startswith(("http://", "https://"))


def load_wheels(place: str) -> tuple[WheelRow, ...]:
    """All wheels of a wheelhouse: a directory is read itself (built or not), a URL through its catalogue."""
    if is_url(place):
        catalogue = fetch_document(house_address(place) + "catalogue.json", WheelCatalogue)
        if catalogue is None:
            raise BadInput(f"{place} has no catalogue", remedy="is the wheelhouse served and built there?")
        return catalogue.wheels
    house = Wheelhouse(Path(place))
    if not house.exists():
        raise BadInput(f"{place} is no wheelhouse", remedy=f"rekindle index add WHEEL --root {place}")
    return tuple(rows_of(load_pieces(house)))


def location(place: str, row: WheelRow) -> str:
    """What pip takes to install exactly this wheel."""
    if is_url(place):
        return f"{row.project} @ {house_address(place)}{row.url}#sha256={row.sha256}"
    return str(Path(place).resolve() / row.url)


def house_address(place: str) -> str:
    """The address of a house, whichever of its pages was named."""
    return place.removesuffix("catalogue.json").removesuffix("simple/").removesuffix("simple").rstrip("/") + "/"


def fetch_document(url: str, kind: type[DocumentT]) -> DocumentT | None:
    """A document of a served house; None where it has none of that name."""
    if not urlsplit(url).hostname:
        raise BadInput(f"{url} names no host")
    try:
        raw = read_page(url, timeout=TIMEOUT_SECONDS, most=MAX_BYTES)
    except Unreachable as error:
        if error.status in GONE:
            return None
        raise BadInput(error.message, remedy="is the wheelhouse served and built there?") from error
    return decode(raw, kind, origin=url)


def receive_graft(
    house: Wheelhouse, source: Path, progress: Progress
) -> contextlib.AbstractContextManager[tuple[Path, str, int]]:
    """A copy of a graft file inside the wheelhouse, its digest and its size."""
    if len(source.name) > MAX_NAME or not _NAME.fullmatch(source.name):
        raise BadInput(f"{ascii(source.name)[:120]} is no graft file's name", remedy="rekindle graft make writes them")
    return copied_in(house, source, progress)


def admit_graft(house: Wheelhouse, copy: Path, sha256: str, graft: GraftFile) -> AddedWheel:
    """Make a received and checked graft file part of the wheelhouse."""
    project = canonicalize_name(graft.name)
    row = GraftRow(
        **shared_fields(graft, GraftRow),
        file=copy.name,
        url=f"{FOLDER}/{project}/{copy.name}",
        project=project,
        archs=graft.made.archs,
        bytes=copy.stat().st_size,
        sha256=sha256,
        added=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    with house.lock(f"index add {copy.name}"), disk_errors(house.root):
        rows = {old.url: old for old in load_grafts(str(house.root))}
        old, target = rows.get(row.url), house.root / row.url
        if old is not None and old.sha256 != sha256:
            known = f"the wheelhouse already has another {copy.name} (sha256 {old.sha256[:12]}…)"
            raise StageFailed(known, remedy="give the new one another name")
        state = "already" if old is not None and target.is_file() else "added"
        if state == "added":
            target.parent.mkdir(parents=True, exist_ok=True)
            copy.replace(target)
            rows[row.url] = row
            write_atomically(house.root / LIST, encode(GraftList(grafts=tuple(rows[url] for url in sorted(rows)))))
    return AddedWheel(file=row.file, state=state, sha256=sha256, bytes=row.bytes)


def load_grafts(place: str) -> tuple[GraftRow, ...]:
    """The graft files that a wheelhouse (a directory or an address) lists; none where it has no such list."""
    if is_url(place):
        listing = fetch_document(house_address(place) + LIST, GraftList)
        return listing.grafts if listing is not None else ()
    path = Path(place) / LIST
    return load(path, GraftList).grafts if path.is_file() else ()


def graft_location(place: str, row: GraftRow) -> str:
    """What ``graft apply`` takes: a path, or an address with the digest that the file must have."""
    if is_url(place):
        return f"{house_address(place)}{quote(row.url)}#sha256={row.sha256}"
    return str(Path(place).resolve() / row.url)
