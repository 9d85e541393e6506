"""Steps spelled for a shell, and settings for CMake. Nothing is decided here: the same steps for bash, cmd and
PowerShell; of settings, which of them setup.py passes on by itself, and the code that sets the others.
"""

import re
from collections.abc import Callable, Iterable
from typing import Literal

from rekindle.errors import BadInput
from rekindle.facts.tables import read_own
from rekindle.model.plan import HERE, Step
from rekindle.scripts.quoting import (
    Quoted,
    cmd_echo,
    cmd_word,
    comment,
    paste_with,
    plain_text,
    ps_argument,
    ps_word,
    sh_word,
    sh_words,
)

Shell = Literal["sh", "cmd", "powershell"]
SPELLINGS = read_own(__file__, "spellings.toml", dict[Shell, dict[str, str]])
WORD: dict[Shell, Callable[[str], Quoted]] = {"sh": sh_word, "cmd": cmd_word, "powershell": ps_argument}


def spell(steps: Iterable[Step], shell: Shell) -> tuple[str, ...]:
    """One line per command and per variable; lines that can be pasted one after the other."""
    return tuple(line for step in steps for line in _lines(step, shell))


def shell_script(steps: Iterable[Step], title: str) -> str:
    """The same lines as a POSIX script that stops at the first failure."""
    head = [
        "#!/bin/sh",
        f"# {comment(title)}",
        "# Without rekindle: a fixed number of jobs (MAX_JOBS), no check of the configuration, the wheel as it comes.",
        "set -eu",
    ]
    return "\n".join([*head, *spell(steps, "sh")]) + "\n"


def _lines(step: Step, shell: Shell) -> list[str]:
    folder = step.folder or "."
    if step.kind == "run":
        line = " ".join(map(WORD[shell], step.argv))
        return [paste_with(step.env, line, windows=False) if shell == "sh" else line]
    if step.kind == "write":
        return _write_file(folder, step.argv, shell)

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


def _write_file(name: str, lines: tuple[str, ...], shell: Shell) -> list[str]:
    if shell == "sh":
        return [f"printf '%s\\n' {sh_words(lines)} > {sh_word(name)}"]
    if shell == "cmd":
        return [f"{'>' if number == 0 else '>>'}{name} echo {cmd_echo(line)}" for number, line in enumerate(lines)]
    return [f"Set-Content -Encoding ascii {name} {', '.join(map(ps_word, lines))}"]


# What setup.py forwards as -D by itself, beside three prefixes (tools/setup_helpers/cmake.py of PyTorch).
_FORWARDED = (
    "BLAS WITH_BLAS CUDA_NVCC_EXECUTABLE CUDNN_LIBRARY CUDNN_INCLUDE_DIR CUDNN_ROOT INTEL_MKL_DIR MKL_THREADING"
    " MKLDNN_CPU_RUNTIME ONNX_ML ONNX_NAMESPACE ATEN_THREADING WERROR"
)


def is_forwarded(name: str) -> bool:
    """Whether PyTorch's setup.py hands this variable of the environment to CMake."""
    return name.startswith(("USE_", "BUILD_", "CMAKE_")) or name in _FORWARDED.split()


def cache_line(name: str, value: str) -> str:
    """A line of CMake that puts the value into the cache. A value that is no plain word stands in brackets longer than
    any in it: nothing in it is special then."""
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", name):
        raise BadInput(f"{name!r} is no name for a CMake setting")
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", plain_text(value)):
        fence = "=" * next(n for n in range(3, len(value) + 4) if f"]{'=' * n}]" not in value + "]")
        value = f"[{fence}[{value}]{fence}]"
    return f'set({name} {value} CACHE STRING "from the plan" FORCE)'
