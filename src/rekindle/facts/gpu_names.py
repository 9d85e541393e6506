"""GPU product names as tokens: how two spellings of one product are told to be the same, and two products apart.

A name is cut at every change between letters and digits (``K40c`` is k, 40, c), so that a number is only ever equal
to the same number: "MI50" can never mean an MI350X. Words that say nothing of the chip are set aside in steps: makers'
names always, a line's name ("Tesla") where the other side has none, memory and form last.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from rekindle.facts import Facts
from rekindle.model.facts import Chip

Tokens = tuple[str, ...]

_CUT = re.compile(r"[a-z]+|\d+|\+")
_MARKS = re.compile(r"\((?:r|tm|nvgpu)\)|[®™]|\brev\. ?\w+\b")
_LAPTOP = re.compile(r"\b(?:laptop|notebook)\b")
_RYZEN = re.compile(r"\bryzen [3579]\b")  # the digit is a class, not a model
_MAX_Q = re.compile(r"\bmax-?q\b")
_SIZE = re.compile(r"\b\d+ ?(?:gb|gib|mib|mb)\b|\b\d{2,3} ?g\b")
_FORM = re.compile(r"\b(?:hbm\d?e?|gddr\d?x?|sxm\d?|pcie|nvl\d*|dgxs|mobile|maxq|fhhl|oem|lhr|lite hash rate|ls|es)\b")
_NOISE = frozenset(
    {
        "nvidia",
        "amd",
        "ati",
        "advanced",
        "micro",
        "devices",
        "corporation",
        "inc",
        "geforce",
        "radeon",
        "graphics",
        "gpu",
        "card",
        "series",
        "adapter",
        "edition",
        "with",
        "design",
        "tm",
        "r",
    }
)
_LINES = frozenset({"hgx", "tesla", "quadro", "instinct", "firepro", "jetson", "rx", "pro", "ryzen"})


_MAKERS = {
    "nvidia": frozenset({"nvidia", "geforce", "tesla", "quadro", "gtx", "rtx", "gt"}),
    "amd": frozenset({"amd", "ati", "radeon", "instinct", "firepro", "ryzen", "rx"}),
}


class Product(NamedTuple):
    """A product as the tables name it."""

    vendor: str
    name: str
    chip_name: str
    chip: Chip


class Spelling(NamedTuple):
    """A name as tokens: all of them, and without memory and form; ``line`` are its line words."""

    full: Tokens
    core: Tokens
    line: frozenset[str]


def spell(text: str) -> Spelling:
    """The tokens of a name."""
    lowered = _MAX_Q.sub("maxq", _LAPTOP.sub("mobile", _MARKS.sub(" ", text.lower())))
    lowered = _RYZEN.sub("ryzen", lowered)
    full = _tokens(lowered)
    core = _tokens(_FORM.sub(" ", _SIZE.sub(" ", re.sub(r"[-_/]", " ", lowered))))
    line = frozenset(full) & _LINES
    return Spelling(full, tuple(token for token in core if token not in _LINES), line)


def _tokens(text: str) -> Tokens:
    words = [word for word in re.split(r"[^a-z0-9+]+", text) if word and word not in _NOISE]
    return tuple(token for word in words for token in _CUT.findall(word))


def alternatives(name: str) -> tuple[str, ...]:
    """``Instinct MI60 / MI50`` names two products; a number alone takes the words before the first one's number."""
    first, *others = name.split(" / ")
    words = re.match(r"\D*", first)
    prefix = words[0] if words else ""
    return (first, *(f"{prefix}{other}" if other[:1].isdigit() else other for other in others))


@functools.lru_cache(maxsize=4)
def _names(facts: Facts) -> tuple[tuple[str, Product], ...]:
    found = []
    for vendor, chips in (("nvidia", facts.nvidia.chip), ("amd", facts.amd.chip)):
        for chip_name, chip in chips.items():
            for name in chip.products:
                spellings = {name, *alternatives(name)} if " / " in name else (name,)
                found += [(one, Product(vendor, name, chip_name, chip)) for one in spellings]
            found.append((chip_name, Product(vendor, chip_name, chip_name, chip)))
    return tuple(found)


@functools.lru_cache(maxsize=4)
def products(facts: Facts) -> tuple[tuple[Spelling, Product], ...]:
    """Every product and chip of both vendors, spelt."""
    return tuple((spell(name), product) for name, product in _names(facts))


def matches(text: str, facts: Facts) -> list[Product]:
    """The products a text names, by the strictest reading that finds any; empty where none is meant for sure."""
    wanted = spell(text)
    maker = maker_of(text)
    numbers = [token for token in wanted.core if token.isdigit()]
    # Every reading needs the same numbers, so only names that hold them all are spelt: most of the cost of a look-up.
    near_names = [entry for entry in _names(facts) if all(number in entry[0] for number in numbers)]
    table = [(spell(name), product) for name, product in near_names if maker in (None, product.vendor)]
    if not wanted.full:  # "Radeon Series": only as a whole
        return [product for _, product in table if product.name.lower() == text.strip().lower()]
    if exact := [product for spelling, product in table if spelling.full == wanted.full]:
        return exact
    if not any(token.isdigit() for token in wanted.core):
        return []
    near = [(s, p) for s, p in table if not s.line or not wanted.line or wanted.line <= s.line or s.line <= wanted.line]
    bare = tuple(token for token in wanted.full if token not in _LINES)
    if same := [p for s, p in near if tuple(token for token in s.full if token not in _LINES) == bare]:
        return same
    if same := [p for s, p in near if s.core == wanted.core]:
        return same
    return _one_arch(p for s, p in near if _begins(s.core, wanted.core))


def maker_of(text: str) -> str | None:
    """Whose product a text speaks of, if it says so: a Radeon 840M is no GeForce 840M."""
    words = set(re.split(r"[^a-z]+", text.lower()))
    makers = [maker for maker, own in _MAKERS.items() if words & own]
    return makers[0] if len(makers) == 1 else None


def _begins(longer: Tokens, start: Tokens) -> bool:
    """``K40`` begins ``K40c``: the same tokens, then letters only."""
    rest = longer[len(start) :]
    return longer[: len(start)] == start and not any(token.isdigit() for token in rest)


def _one_arch(found: Iterable[Product]) -> list[Product]:
    """Variants of one name count only where they agree on the architecture."""
    listed = list(found)
    return listed if len({product.chip.arch for product in listed}) == 1 else []


def suggestions(text: str, facts: Facts) -> list[str]:
    """Names close to a text that names no product."""
    import difflib

    wanted = spell(text)
    begun = [p.name for s, p in products(facts) if wanted.core and s.core[: len(wanted.core)] == wanted.core]
    if begun and any(token.isdigit() for token in wanted.core):
        return list(dict.fromkeys(begun))[:4]
    # With the line's name too ("geforcertx3060"): a misspelt "GeForse" must not hide the number behind it.
    spelt = {re.sub(r"[^a-z0-9+]+", "", product.name.lower()): product.name for _, product in products(facts)}
    spelt |= {"".join(spelling.full): product.name for spelling, product in products(facts)}
    key = re.sub(r"[^a-z0-9+]+", "", text.lower())
    near = difflib.get_close_matches(key, spelt, n=3, cutoff=0.7)
    near += difflib.get_close_matches("".join(wanted.full), spelt, n=3, cutoff=0.7)
    return list(dict.fromkeys(spelt[name] for name in near))[:4]
