"""Rows of the facts base about processors: generations, the names people give them, and wheels seen on them."""

from __future__ import annotations

from typing import Literal

from rekindle.model.facts import Row


class Microarchitecture(Row, frozen=True, kw_only=True):
    """A CPU generation: its level, features, and what it descends from; ``part`` is its number in Arm's registers."""

    vendor: str
    family: str
    level: str
    features: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    products: str | None = None
    flags: dict[str, str] = {}
    part: str | None = None


class CpuName(Row, frozen=True, kw_only=True):
    """Product names that mean a microarchitecture. First row that fits wins.

    A name is words and one model number. ``words`` must all be there, one of ``any``, none of ``without``. ``line``
    is what may stand before the number (``i7``, ``e5``; nothing if not given), ``model`` its masks (``#`` a digit,
    ``?`` a letter; ``5100-5199`` a range; ``*`` any model or none; none given: the name has no number), ``suffix``
    what may follow (anything if not given), ``version`` the ``v2`` behind (``""``: there is none).
    """

    microarchitecture: str
    words: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    suffix: tuple[str, ...] | None = None
    version: str | None = None


class CpuRun(Row, frozen=True, kw_only=True):
    """A wheel seen running (or crashing) on an emulated CPU."""

    torch: str
    cpu: str
    result: Literal["passes", "partly"]
    detail: str = ""
