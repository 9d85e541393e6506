"""Lines for people to paste: quoted as their own shell reads them. On Windows cmd and PowerShell must both agree."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping

_PLAIN = frozenset("-_./\\:=+,@")


def pasted(text: str, *, windows: bool | None = None) -> str:
    r"""One word.

    >>> pasted("a b", windows=False), pasted(r"C:\a b", windows=True), pasted(r"C:\a", windows=True)
    ("'a b'", '"C:\\a b"', 'C:\\a')
    """
    if not _windows(windows):
        return shlex.quote(text)
    plain = bool(text) and all(letter.isalnum() or letter in _PLAIN for letter in text)
    if plain:
        return text
    # Neither shell would pass on a quote inside; no path and no version has one. A backslash at the end would take the
    # closing quote's meaning.
    inner = text.replace('"', "")
    ending = len(inner) - len(inner.rstrip("\\"))
    return '"' + inner + "\\" * ending + '"'


def paste_line(words: Iterable[str], *, windows: bool | None = None) -> str:
    """A command. PowerShell starts a program whose name is quoted only after an ampersand, which cmd would not take;
    such a name is rare, and cmd is what the line is for.
    """
    return " ".join(pasted(word, windows=windows) for word in words)


def paste_with(variables: Mapping[str, str], line: str, *, windows: bool | None = None) -> str:
    """The line with variables set for it.

    >>> paste_with({"A": "1"}, "x", windows=True), paste_with({"A": "1"}, "x", windows=False)
    ('set "A=1" && x', 'A=1 x')
    """
    if _windows(windows):
        return "".join(f'set "{name}={value}" && ' for name, value in variables.items()) + line
    return "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items()) + line


def _windows(given: bool | None) -> bool:
    return os.name == "nt" if given is None else given
