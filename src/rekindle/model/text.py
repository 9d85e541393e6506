"""Kinds of text in documents that strangers may have written. A document with any other text is not read.

They count where JSON becomes a value (``model.document.decode``), so no verb has to check again: a version is a
version, a name is a name, and nothing has control characters, which end lines in scripts and colour terminals.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

# Control characters, lone surrogates, the line and paragraph separators that YAML takes for line ends, and the marks
# that make text read in another order than it is written (CVE-2021-42574).
_PLAIN = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_WORDS: dict[str, str] = {}


def _kind(words: str, pattern: str, max_length: int) -> Meta:
    _WORDS[pattern] = words
    return Meta(pattern=pattern, max_length=max_length)


def in_words(message: str) -> str:
    """msgspec's complaint about a pattern, for people."""
    for pattern, words in _WORDS.items():
        message = message.replace(f"Expected `str` matching regex {pattern!r}", f"expected {words}")
    return message


Line = Annotated[str, _kind("one line of text without control characters", rf"\A{_PLAIN}*\Z", 20_000)]
Name = Annotated[str, _kind("a name (letters, digits, dots, dashes)", r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", 100)]
VersionText = Annotated[str, _kind("a version", r"\Av?[0-9][A-Za-z0-9.+!_-]*\Z", 64)]
# ``cu128``, ``rocm6.2``, ``cpu``, ``sm_86``, ``12.0+PTX``, ``gfx90a:xnack-``
Tag = Annotated[str, _kind("a short tag such as cu128 or 9.0", r"\A[A-Za-z0-9][A-Za-z0-9.+:_-]*\Z", 64)]
EnvName = Annotated[str, _kind("the name of a variable", r"\A[A-Za-z_][A-Za-z0-9_]*\Z", 200)]
CMakeName = Annotated[str, _kind("the name of a CMake setting", r"\A[A-Za-z0-9_./+-]+\Z", 200)]
# What may follow a package's name: nothing, a version, or conditions of PEP 440. No address, no option, no marker.
_CONDITION = r"(?:===?|~=|!=|<=?|>=?) *[A-Za-z0-9.*+!_-]+"
Specifier = Annotated[
    str,
    _kind("versions such as >=1.26,<2", rf"\A(?:[0-9][A-Za-z0-9.*+!_-]*|{_CONDITION}(?: *, *{_CONDITION})*)?\Z", 200),
]
Digest = Annotated[str, _kind("a SHA-256 digest", r"\A[0-9a-f]{64}\Z", 64)]
Address = Annotated[str, _kind("an address (https://…)", rf"\A(?:https?|file)://(?:(?!\s){_PLAIN})+\Z", 2000)]
# Where a file lies: an address or a path, never something that a program would take for an option.
Place = Annotated[str, _kind("an address or a path", rf"\A(?!-){_PLAIN}+\Z", 5000)]
