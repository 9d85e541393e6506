"""A wheel's line in its project's list, and where it stands there: made once when the wheel changes, then joined.

Sorting 10,000 versions by their meaning costs a second in each new process; a text that sorts the same costs nothing.
"""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from packaging.version import InvalidVersion, Version

from rekindle.index.fields import Line, seen
from rekindle.model.wheelhouse import Row

# Numbers in versions are below this (a date is 20261116); longer ones sort as text among themselves.
_DIGITS = 12
_PRE = {"a": "1", "b": "2", "rc": "3"}


def version_order(text: str) -> str:
    """A text that sorts as the version does (PEP 440); what is no version sorts below all."""
    try:
        version = Version(text)
    except InvalidVersion:
        return f"0{text}"
    release = list(version.release)
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    parts = ["1", _number(version.epoch), *(f".{_number(part)}" for part in release), "!"]
    if version.pre is not None:
        parts.append(_PRE[version.pre[0]] + _number(version.pre[1]))
    elif version.post is None and version.dev is not None:
        parts.append("0")  # 1.0.dev1 comes before 1.0a1
    else:
        parts.append("4")
    parts.append("0" if version.post is None else f"1{_number(version.post)}")
    parts.append("1" if version.dev is None else f"0{_number(version.dev)}")
    for part in (version.local or "").split(".") if version.local else ():
        parts.append(f".1{_number(int(part))}" if part.isdigit() else f".0{part}")
    return "".join(parts)


def _number(value: int) -> str:
    return str(value).rjust(_DIGITS, "0")


def is_proven(row: Row | Line) -> bool:
    return any(proof.passed and not proof.failed for proof in row.proofs)


def file_line(row: Row | Line) -> str:
    """One row of a table, escaped."""
    gone = ' <span class="pill bad">withdrawn</span>' if row.yanked is not None else ""
    link = f'<a class="mono" href="{escape(quote(row.file))}.html">{escape(row.file)}</a>'
    return f'<tr><td>{link}{gone}</td><td class="n">{spoken_size(row.bytes)}</td><td>{_proof(row)}</td></tr>'


def _proof(row: Row | Line) -> str:
    if not row.proofs:
        return "untried" if row.inspected else "not read"
    good = [proof for proof in row.proofs if proof.passed and not proof.failed]
    if not good:
        return '<span class="bad">failed</span>'
    cards = sorted({name for proof in good for name in seen(proof.environment) if name.startswith(("sm_", "gfx"))})
    return f'<span class="good">proven</span>{" " + escape(" ".join(cards)) if cards else ""}'


def spoken_size(count: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
