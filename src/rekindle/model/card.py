"""The card that ``up`` shows before its question."""

from __future__ import annotations

from rekindle.model.document import Part


class Card(Part, frozen=True, kw_only=True):
    """What a yes means, told before the question: what comes, from where, how much of it, where to, and what not to
    expect. Unknown is None.

    ``download_bytes`` counts what is known, ``download_unknown`` how many packages nobody told the size of.
    ``into`` is the interpreter or folder that gets torch; ``new`` says that it is made for this. ``network`` is why a
    place cannot be reached. ``wont`` is what will not work there, ``others`` are the other choices.
    """

    what: tuple[str, ...]
    places: tuple[str, ...] = ()
    packages: int | None = None
    download_bytes: int | None = None
    download_unknown: int = 0
    largest: tuple[str, ...] = ()
    disk_gib: float | None = None
    disk_free_gib: float | None = None
    memory_gib: float | None = None
    minutes: tuple[float, float] | None = None
    into: str = ""
    new: bool = False
    python: str | None = None
    installer: str = "pip"
    network: str | None = None
    wont: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
