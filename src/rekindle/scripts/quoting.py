"""One value into one word, for each language we write; what a language cannot say is refused. And steps of a plan into
lines for a shell, settings into code for CMake. Each function gives the source text of a single word that means exactly
its text, as :class:`Quoted`; templates write nothing else (:func:`only_quoted`), so no value can be forgotten. Control
characters are refused everywhere: no sensible value has them, and in a batch file or a workflow they end the line.
A line to paste on Windows may be given to cmd or to PowerShell: :func:`pasted` spells what both read alike."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from rekindle.errors import BadInput
from rekindle.facts.tables import read_own
from rekindle.model.plan import HERE, Step

# In cmd these end or join commands outside quotes; a caret takes their meaning away.
_BATCH_SPECIAL = set('&|<>^()"')
# What cmd or a program's own reader of arguments would not take as a part of a bare word.
_CMD_NOT_BARE = _BATCH_SPECIAL | set(" \t%!,;='`")
# What cmd and PowerShell both take as a part of a bare word (a comma makes a list in PowerShell, an @ splats).
_BARE_IN_BOTH = frozenset("-_./\\:=+")
# Control characters, lone surrogates, line and paragraph separators (YAML ends lines there).
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


class Quoted(str):
    """Text that may stand in a script as it is."""

    __slots__ = ()


def only_quoted(value: object) -> object:
    """What a template is about to write; text that no quoting function made is our mistake, not the plan's."""
    if isinstance(value, (Quoted, int)):
        return value
    raise TypeError(f"a template would write {str(value)[:40]!r} unquoted")


def plain_word(text: str) -> Quoted:
    """A word that means the same in every language we write: letters, digits and ``._+-``, not first a dash."""
    if not re.fullmatch(r"[A-Za-z0-9._+][A-Za-z0-9._+-]*", text):
        raise BadInput(f"{ascii(text)[:80]} cannot stand in a script; a name or version was expected there")
    return Quoted(text)


def sh_word(text: str) -> Quoted:
    return Quoted(shlex.quote(plain_text(text)))


def sh_words(texts: Iterable[str]) -> Quoted:
    return Quoted(" ".join(map(sh_word, texts)))


def batch_set(name: str, value: str) -> Quoted:
    """A whole ``set`` line for cmd, with delayed expansion off. ``set "NAME=value"`` keeps everything literally but
    percent signs, which are doubled. A value with a double quote in it would end that quoting, so it is written with
    carets instead."""
    value = plain_text(value).replace("%", "%%")
    if '"' not in value:
        return Quoted(f'set "{variable_name(name)}={value}"')
    if value != value.rstrip():
        raise BadInput(f"{name} ends in a space and has a quote in it, which a batch file cannot say")
    return Quoted(f"set {variable_name(name)}=" + "".join(f"^{c}" if c in _BATCH_SPECIAL else c for c in value))


def cmd_word(text: str) -> Quoted:
    """One argument at cmd's prompt, as the C runtime of the called program reads it."""
    return Quoted(text if text and not set(text) & _CMD_NOT_BARE else _double_quoted(text))


def batch_word(text: str) -> Quoted:
    """One argument on a command line in a batch file, where cmd reads percent signs once more."""
    if '"' in plain_text(text):
        raise BadInput(f"{text!r} has a double quote in it, which cmd and programs read differently")
    return Quoted(cmd_word(text).replace("%", "%%"))


def cmd_echo(text: str) -> Quoted:
    """What ``echo`` is to write at cmd's prompt: outside of double quotes special characters get a caret."""
    inside, letters = False, []
    for letter in plain_text(text):
        inside ^= letter == '"'
        letters.append(f"^{letter}" if letter in "&|<>^" and not inside else letter)
    return Quoted("".join(letters))


def _double_quoted(text: str) -> str:
    """A backslash at the end would take the closing quote's meaning, so it is doubled."""
    return '"' + text + "\\" * (len(text) - len(text.rstrip("\\"))) + '"'


def batch_remark(text: str) -> Quoted:
    """Text after ``rem``: one line, whatever was in it; cmd looks for percent signs and carets even there."""
    return Quoted(comment(text).replace("%", "%%").replace("^", "^^").rstrip("^"))


def ps_word(text: str) -> Quoted:
    """A literal string for PowerShell, which takes typographic single quotes for plain ones."""
    return Quoted("'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", plain_text(text)) + "'")


def ps_argument(text: str) -> Quoted:
    """One argument of a command in PowerShell: bare where that reads the same."""
    bare = text and all(letter.isalnum() or letter in _BARE_IN_BOTH for letter in text)
    return Quoted(text) if bare else ps_word(text)


def docker_word(text: str) -> Quoted:
    """A value after ``ENV NAME=`` or ``ARG NAME=`` in a Dockerfile."""
    escaped = plain_text(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return Quoted(f'"{escaped}"')


def yaml_word(text: str) -> Quoted:
    """A YAML scalar in a GitHub workflow: JSON is YAML, and ``${{`` must not start an expression."""
    return Quoted(json.dumps(plain_text(text).replace("${{", "${{ '${{' }}")))


def comment(text: str) -> Quoted:
    """Text after ``#``: one line, whatever was in it."""
    return Quoted(" ".join(_HARMFUL.sub(" ", text).split()))


def plain_text(text: str) -> str:
    """Text as it is, if it has no control characters."""
    if _HARMFUL.search(text):
        raise BadInput(f"{ascii(text)[:80]} has a control character in it, which no script can carry safely")
    return text


def variable_name(name: str) -> Quoted:
    """The name of an environment variable, in every language alike."""
    if not name.isascii() or not name.replace("_", "a").isalnum() or name[:1].isdigit():
        raise BadInput(f"{name!r} is no name for an environment variable")
    return Quoted(name)


def pasted(text: str, *, windows: bool | None = None) -> str:
    r"""One word of a line to paste, for the shell of this machine or of the one that is named.

    >>> pasted("a b", windows=False), pasted(r"C:\a b", windows=True), pasted(r"C:\a", windows=True)
    ("'a b'", '"C:\\a b"', 'C:\\a')
    """
    if not (os.name == "nt" if windows is None else windows):
        return shlex.quote(text)
    if text and all(letter.isalnum() or letter in _BARE_IN_BOTH for letter in text):
        return text
    # Neither shell would pass on a quote inside; no path and no version has one.
    return _double_quoted(text.replace('"', ""))


def paste_line(words: Iterable[str], *, windows: bool | None = None) -> str:
    """A command. (PowerShell starts a quoted program only after an ampersand, which cmd does not take.)"""
    return " ".join(pasted(word, windows=windows) for word in words)


def paste_with(variables: Mapping[str, str], line: str, *, windows: bool | None = None) -> str:
    """The line with variables set for it.

    >>> paste_with({"A": "1"}, "x", windows=True), paste_with({"A": "1"}, "x", windows=False)
    ('set "A=1" && x', 'A=1 x')
    """
    if os.name == "nt" if windows is None else windows:
        return "".join(f'set "{name}={value}" && ' for name, value in variables.items()) + line
    return "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items()) + line


Shell = Literal["sh", "cmd", "powershell"]
SPELLINGS = read_own(__file__, "spellings.toml", dict[Shell, dict[str, str]])
WORD: dict[Shell, Callable[[str], Quoted]] = {"sh": sh_word, "cmd": cmd_word, "powershell": ps_argument}


def spell(steps: Iterable[Step], shell: Shell) -> tuple[str, ...]:
    """One line per command and per variable; lines that can be pasted one after the other."""
    return tuple(line for step in steps for line in _lines(step, shell))


def shell_script(steps: Iterable[Step], title: str) -> str:
    """The same lines as a POSIX script that stops at the first failure."""
    how = "Without rekindle: a fixed number of jobs (MAX_JOBS), no check of the configuration, the wheel as it comes."
    lines = ("#!/bin/sh", f"# {comment(title)}", f"# {how}", "set -eu", *spell(steps, "sh"))
    return "\n".join(lines) + "\n"


def _lines(step: Step, shell: Shell) -> list[str]:
    folder = step.folder or "."
    if step.kind == "run":
        line = " ".join(map(WORD[shell], step.argv))
        return [paste_with(step.env, line, windows=False) if shell == "sh" else line]
    if step.kind == "write" and shell == "sh":
        return [f"printf '%s\\n' {sh_words(step.argv)} > {sh_word(folder)}"]
    if step.kind == "write" and shell == "cmd":
        return [f"{'>>' if number else '>'}{folder} echo {cmd_echo(line)}" for number, line in enumerate(step.argv)]
    if step.kind == "write":
        return [f"Set-Content -Encoding ascii {folder} {', '.join(map(ps_word, step.argv))}"]

    def say(kind: str, value: str, name: str = "") -> list[str]:
        word, rest = WORD[shell](value), value.removeprefix(HERE)
        literal = ps_word(value) if shell == "powershell" else word
        spelling = SPELLINGS[shell]["set-here" if kind == "set" and rest != value else kind]
        return spelling.format(name=name, value=value, word=word, literal=literal, rest=rest).rstrip().splitlines()

    if step.kind in ("set", "keep"):
        # To keep it for good is a matter of the user's own profile in a POSIX shell; on Windows a new window sees it.
        kind = "set" if shell == "sh" else step.kind
        return [line for name, value in step.env.items() for line in say(kind, value, name)]
    if step.kind == "vcvars":
        return say("vcvars", f" -vcvars_ver={step.argv[0]}" if step.argv[0] else "")
    return say(step.kind, folder)


# What setup.py forwards as -D by itself, beside three prefixes (tools/setup_helpers/cmake.py of PyTorch).
_FORWARDED = (
    "BLAS WITH_BLAS CUDA_NVCC_EXECUTABLE CUDNN_LIBRARY CUDNN_INCLUDE_DIR CUDNN_ROOT INTEL_MKL_DIR MKL_THREADING"
    " MKLDNN_CPU_RUNTIME ONNX_ML ONNX_NAMESPACE ATEN_THREADING WERROR"
)


def is_forwarded(name: str) -> bool:
    """Whether PyTorch's setup.py hands this variable of the environment to CMake."""
    return name.startswith(("USE_", "BUILD_", "CMAKE_")) or name in _FORWARDED.split()


def cache_line(name: str, value: str) -> str:
    """A line of CMake that puts the value into the cache, in brackets longer than any in it if it is no plain word."""
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", name):
        raise BadInput(f"{name!r} is no name for a CMake setting")
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", plain_text(value)):
        fence = "=" * next(n for n in range(3, len(value) + 4) if f"]{'=' * n}]" not in value + "]")
        value = f"[{fence}[{value}]{fence}]"
    return f'set({name} {value} CACHE STRING "from the plan" FORCE)'
