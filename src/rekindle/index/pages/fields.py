"""Card × torch × Python: one line for each version and Python, one field for each architecture.

A field says the best of what is known: proven on such a card, code for it read in the file, PTX that the driver
compiles, not known, or no code. What was not read is not known; it is never shown as missing.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote

from packaging.version import Version

from rekindle.compat.images import GpuCode, covers
from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.toml import read_beside
from rekindle.model.wheelhouse import WheelRow

KINDS = read_beside(__file__, "fields.toml", dict[str, tuple[str, str]])
_MOST_PRODUCTS = 6
SYSTEMS = {"linux": "Linux", "windows": "Windows", "macos": "macOS", "any": "any system"}


class Field(NamedTuple):
    """What is known of one architecture: a kind of :data:`KINDS` with its sign, in words."""

    kind: str
    sign: str
    says: str


@dataclass(frozen=True, kw_only=True)
class FieldRow:
    """``span`` is how many lines its version has, on the first of them; 0 on the others."""

    version: str
    span: int
    python: str
    wheels: tuple[tuple[str, str], ...]
    fields: tuple[Field, ...]


def columns_of(rows: Iterable[WheelRow]) -> list[str]:
    """The architectures that some wheel has code for or was proven on."""
    names = {name for row in rows for name in (*row.sass, *row.gfx)}
    on_cards = {word for row in rows for proof in row.proofs for word in archs_in(proof.environment)}
    names |= {word for word in on_cards if word.startswith(("sm_", "gfx")) and word.isascii() and " " not in word}
    return sorted(names, key=_arch_order)


def field_rows(rows: Sequence[WheelRow], columns: Sequence[str]) -> list[FieldRow]:
    """In the order of ``rows`` by version, then by Python; withdrawn wheels are left out."""
    groups: dict[str, dict[str, list[WheelRow]]] = {}
    for row in rows:
        if row.yanked is None:
            for python in row.pythons or ("",):
                groups.setdefault(row.version, {}).setdefault(python, []).append(row)
    out: list[FieldRow] = []
    for version, pythons in groups.items():
        span = len(pythons)
        for python in sorted(pythons, key=version_key):
            listed = sorted(pythons[python], key=lambda row: (_spoken_system(row), row.file))
            wheels = tuple((_spoken_system(row), row.file) for row in listed)
            fields = tuple(_make_field(listed, name) for name in columns)
            out.append(FieldRow(version=version, span=span, python=spoken_python(python), wheels=wheels, fields=fields))
            span = 0
    return out


def _make_field(wheels: Sequence[WheelRow], arch: str) -> Field:
    kinds = {row.file: standing(row, arch) for row in wheels}
    best = next(kind for kind in KINDS if kind in kinds.values())
    sign, words = KINDS[best]
    if len(set(kinds.values())) > 1:
        words += " (" + ", ".join(dict.fromkeys(_spoken_system(row) for row in wheels if kinds[row.file] == best)) + ")"
    return Field(best, sign, words)


def standing(row: WheelRow, arch: str) -> str:
    """The kind of :data:`KINDS`: by proofs on such a card, else by the code that was read in the file."""
    tried = [proof for proof in row.proofs if arch in archs_in(proof.environment)]
    if any(proof.good or proof.failed for proof in tried):
        return "h" if any(proof.good for proof in tried) else "f"
    return _judge_code(row.sass, row.ptx, row.gfx, row.cuda, arch) if row.inspected else "u"


@functools.lru_cache(maxsize=4096)
def _judge_code(sass: tuple[str, ...], ptx: tuple[str, ...], gfx: tuple[str, ...], cuda: str | None, arch: str) -> str:
    """Wheels of a house have few different contents, so this is asked seldom."""
    if arch in sass or arch in gfx:
        return "s"
    if not (sass or ptx or gfx):
        return "n"
    kind = covers(GpuCode((*sass, *ptx, *gfx), cuda=cuda), parse_gpu_arch(arch), None, load_facts()).kind
    return {"native": "s", "jit": "j", "unknown": "u"}.get(kind, "n")


def archs_in(environment: Mapping[str, str]) -> set[str]:
    """The architectures of the cards a proof saw: ``gpu0 = "NVIDIA H200, sm_90, 139.8 GiB"``."""
    cards = (value for name, value in environment.items() if name.startswith("gpu"))
    return {word.strip() for card in cards for word in card.split(",")}


def products_of(columns: Iterable[str]) -> list[tuple[str, str]]:
    """What people call the cards of each architecture."""
    facts = load_facts()
    names: dict[str, dict[str, None]] = {}
    for chip in (*facts.nvidia.chip.values(), *facts.amd.chip.values()):
        names.setdefault(str(chip.arch), {}).update(dict.fromkeys(chip.products))
    out = []
    for name in columns:
        # The first of each chip's list in turn would be fairer; what matters is that a name is recognised.
        known = list(names.get(name, ()))
        more = f" and {len(known) - _MOST_PRODUCTS} more" if len(known) > _MOST_PRODUCTS else ""
        out.append((name, ", ".join(known[:_MOST_PRODUCTS]) + more if known else "no product known"))
    return out


def spoken_python(tag: str) -> str:
    """``py3`` and ``cp38-abi3`` as people say them."""
    if tag.endswith("-abi3"):
        return f"{tag[2]}.{tag[3:].removesuffix('-abi3')} and later"
    return "any 3" if tag in ("py3", "py2.py3") else tag


def _spoken_system(row: WheelRow) -> str:
    systems = [SYSTEMS.get(name, name) for name in row.systems]
    arm = [name for name in row.machines if name not in ("any", "x86_64")]
    return " ".join([*systems, *arm]) or "any system"


def _arch_order(name: str) -> tuple[str, int, str]:
    """sm_61 before sm_120, gfx906 before gfx1030."""
    letters = name.rstrip("0123456789abcdef")
    digits = "".join(char for char in name[len(letters) :] if char.isdigit())
    return letters, int(digits or 0), name


@functools.lru_cache(maxsize=65536)
def version_key(text: str) -> tuple[bool, Any]:
    """By version, and what is none below all."""
    try:
        return True, Version(text)
    except ValueError:  # no version, or a number of more digits than Python reads
        return False, text


def file_line(row: WheelRow) -> str:
    """One row of a table, escaped."""
    gone = ' <span class="pill bad">withdrawn</span>' if row.yanked is not None else ""
    link = f'<a class="mono" href="{escape(quote(row.file))}.html">{escape(row.file)}</a>'
    return f'<tr><td>{link}{gone}</td><td class="n">{spoken_size(row.bytes)}</td><td>{_proof_cell(row)}</td></tr>'


def _proof_cell(row: WheelRow) -> str:
    if not row.proofs:
        return "untried" if row.inspected else "not read"
    good = [proof for proof in row.proofs if proof.good]
    if not good:
        return '<span class="bad">failed</span>'
    cards = sorted({name for proof in good for name in archs_in(proof.environment) if name.startswith(("sm_", "gfx"))})
    return f'<span class="good">proven</span>{" " + escape(" ".join(cards)) if cards else ""}'


def spoken_size(count: int) -> str:
    """With one digit behind the point, so that a column of them can be compared."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
