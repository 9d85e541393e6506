"""C++ symbols as people read them, as far as a few lines can: the qualified name, without its arguments."""

from __future__ import annotations

import re

_PIECE = re.compile(r"L?(\d+)")
# ?FindMinMax@fbgemm@@YAX…: innermost name first; ??0 is a constructor; ?$Name@… a template, of which the name is kept.
_MICROSOFT = re.compile(r"\?(\?0)?(\w+(?:@\w+)*)(?:@@|@\?\$(\w+)@)")
_SUFFIX = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv|localalias|resolver)(?:\.\d+)?)+$")


def readable(symbol: str) -> str:
    """``_ZN6fbgemm10FindMinMaxEPKfPfS2_l`` → ``fbgemm::FindMinMax``; what is not understood stays as it is."""
    if microsoft := _MICROSOFT.match(symbol):
        names = [microsoft[3] + "<…>"] if microsoft[3] else []
        names += reversed(microsoft[2].split("@"))
        return "::".join([*names, names[-1]] if microsoft[1] else names)
    text = _SUFFIX.sub("", symbol)
    match = re.match(r"_Z(N?)(K?)", text)
    if match is None:
        return symbol
    rest, pieces = text[match.end() :], []
    if rest.startswith("St"):
        pieces.append("std")
        rest = rest[2:]
    while found := _PIECE.match(rest):
        size = int(found[1])
        name, rest = rest[found.end() : found.end() + size], rest[found.end() + size :]
        if len(name) < size:
            return symbol
        pieces.append("(anonymous)" if name.startswith("_GLOBAL__N") else name)
        if not match[1]:
            break
    if not pieces:
        return symbol
    if rest[:2] in ("C1", "C2"):
        pieces.append(pieces[-1])
    elif rest[:2] in ("D0", "D1", "D2"):
        pieces.append("~" + pieces[-1])
    return "::".join(pieces) + ("<…>" if rest.startswith("I") else "")
