"""A wheelhouse's catalogue, from a directory or from a URL, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from rekindle.errors import BadInput
from rekindle.formats.ranges import Unreachable, read_page
from rekindle.index.wheelhouse.rows import load_rows
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import decode
from rekindle.model.wheelhouse import WheelCatalogue, WheelRow

MAX_BYTES = 256 << 20
TIMEOUT_SECONDS = 20.0


def is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def load_wheels(place: str) -> tuple[WheelRow, ...]:
    """All wheels of a wheelhouse: a directory is read itself (built or not), a URL through its catalogue."""
    if is_url(place):
        return _fetch(place).wheels
    house = Wheelhouse(Path(place))
    if not house.exists():
        raise BadInput(f"{place} is no wheelhouse", remedy=f"rekindle index add WHEEL --root {place}")
    return tuple(load_rows(house))


def location(place: str, row: WheelRow) -> str:
    """What pip takes to install exactly this wheel."""
    if is_url(place):
        return f"{row.project} @ {_base(place)}{row.url}#sha256={row.sha256}"
    return str(Path(place).resolve() / row.url)


def _base(place: str) -> str:
    return place.removesuffix("catalogue.json").removesuffix("simple/").removesuffix("simple").rstrip("/") + "/"


def _fetch(place: str) -> WheelCatalogue:
    url = _base(place) + "catalogue.json"
    if not urlsplit(url).hostname:
        raise BadInput(f"{place} names no host")
    try:
        raw = read_page(url, timeout=TIMEOUT_SECONDS, most=MAX_BYTES)
    except Unreachable as error:
        raise BadInput(error.message, remedy="is the wheelhouse served and built there?") from error
    return decode(raw, WheelCatalogue, origin=url)
