"""A wheelhouse's catalogue, from a directory or from a URL, in bounded time and memory."""

from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from rekindle.errors import BadInput
from rekindle.formats.ranges import Unreachable, read_page
from rekindle.index.wheelhouse.rows import load_pieces, rows_of
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import Document, decode
from rekindle.model.wheelhouse import WheelCatalogue, WheelRow

DocumentT = TypeVar("DocumentT", bound=Document)
MAX_BYTES = 256 << 20
TIMEOUT_SECONDS = 20.0


def is_url(place: str) -> bool:
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
        if error.status in (403, 404, 410):
            return None
        raise BadInput(error.message, remedy="is the wheelhouse served and built there?") from error
    return decode(raw, kind, origin=url)
