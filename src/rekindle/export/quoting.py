"""One value into one word, for each language we export to; what a language cannot say is refused.

Every function takes text and gives the source text of a single word that means exactly it. Control
characters are refused everywhere: no sensible path, flag or version has them, and in a batch file or a
workflow they end the line.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import unicodedata

from rekindle.errors import BadInput

# In cmd these end or join commands outside quotes; a caret takes their meaning away.
_BATCH_SPECIAL = set('&|<>^()"')


def sh_word(text: str) -> str:
    """For a POSIX shell."""
    return shlex.quote(_plain(text))


def batch_set(name: str, value: str) -> str:
    """A whole ``set`` line for cmd, with delayed expansion off.

    ``set "NAME=value"`` keeps everything literally but percent signs, which are doubled. A value with a
    double quote in it would end that quoting, so it is written with carets instead.
    """
    value = _plain(value).replace("%", "%%")
    if '"' not in value:
        return f'set "{batch_name(name)}={value}"'
    if value != value.rstrip():
        raise BadInput(f"{name} ends in a space and has a quote in it, which a batch file cannot say")
    return f"set {batch_name(name)}=" + "".join(f"^{c}" if c in _BATCH_SPECIAL else c for c in value)


def batch_word(text: str) -> str:
    """One argument on a command line in a batch file, as the C runtime of the called program reads it."""
    text = _plain(text)
    if '"' in text:
        raise BadInput(f"{text!r} has a double quote in it, which cmd and programs read differently")
    word = subprocess.list2cmdline([text])
    # list2cmdline quotes for spaces only; cmd also needs quotes around its own special characters.
    if word == text and set(text) & (_BATCH_SPECIAL | set(",;=!'`")):
        word = f'"{text}"' if not text.endswith("\\") else f'"{text}\\"'
    return word.replace("%", "%%")


def batch_echo(text: str) -> str:
    """Text after ``echo`` outside of any block."""
    return "".join(f"^{c}" if c in _BATCH_SPECIAL else c for c in _plain(text)).replace("%", "%%")


def batch_remark(text: str) -> str:
    """Text after ``rem``: cmd looks for percent signs and carets even there."""
    return _plain(text).replace("%", "%%").replace("^", "^^").rstrip("^")


def batch_name(name: str) -> str:
    return _variable(name)


def sh_name(name: str) -> str:
    return _variable(name)


def docker_word(text: str) -> str:
    """A value after ``ENV NAME=`` or ``ARG NAME=`` in a Dockerfile."""
    escaped = _plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def yaml_word(text: str) -> str:
    """A YAML scalar in a GitHub workflow: JSON is YAML, and ``${{`` must not start an expression."""
    return json.dumps(_plain(text).replace("${{", "${{ '${{' }}"), ensure_ascii=True)


def comment(text: str) -> str:
    """Text after ``#``: one line, whatever was in it."""
    return " ".join("".join(c if _harmless(c) else " " for c in text).split())


def _plain(text: str) -> str:
    bad = next((c for c in text if not _harmless(c)), None)
    if bad is not None:
        raise BadInput(f"{ascii(text)[:80]} has a control character in it, which no script can carry safely")
    return text


def _harmless(character: str) -> bool:
    # Cc control, Cs lone surrogates, Zl/Zp line and paragraph separators (YAML ends lines there).
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")


def _variable(name: str) -> str:
    if not name.isascii() or not name.replace("_", "a").isalnum() or name[:1].isdigit():
        raise BadInput(f"{name!r} is no name for an environment variable")
    return name
