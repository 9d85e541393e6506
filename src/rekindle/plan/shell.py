"""Steps spelled for a shell. Nothing is decided here: the same steps for bash, cmd and PowerShell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Literal

from rekindle.model.plan import Step

Shell = Literal["sh", "cmd", "powershell"]
_CMD_SPECIAL = set(" &|<>^()%!,;=")


def spell(steps: Iterable[Step], shell: Shell) -> tuple[str, ...]:
    """One line per command and per variable; lines that can be pasted one after the other."""
    return tuple(line for step in steps for line in _lines(step, shell))


def _lines(step: Step, shell: Shell) -> list[str]:
    if step.kind == "set":
        return [_set(name, value, shell) for name, value in step.env.items()]
    if step.kind == "keep":
        return [_keep(name, value, shell) for name, value in step.env.items()]
    if step.kind == "cd":
        return [f"cd {_word(step.folder or '.', shell)}"]
    if step.kind == "activate":
        folder = step.folder or ".venv"
        if shell == "sh":
            return [f". {_word(folder, shell)}/bin/activate"]
        script = "activate.bat" if shell == "cmd" else "Activate.ps1"
        return [f"{'call ' if shell == 'cmd' else ''}{folder}\\Scripts\\{script}"]
    words = " ".join(_word(word, shell) for word in step.argv)
    if step.kind == "call":
        return [_call(words, shell)]
    return [words]


def _call(words: str, shell: Shell) -> str:
    """A batch file for its variables. PowerShell cannot take them over by itself: cmd prints them, it reads them."""
    if shell == "cmd":
        return f"call {words}"
    if shell == "sh":
        return f". {words}"
    taken = "if ($_ -match '^([^=]+)=(.*)$') { Set-Item \"env:$($matches[1])\" $matches[2] }"
    return f"cmd /c '{words.replace(chr(39), chr(34))} >nul && set' | ForEach-Object {{ {taken} }}"


def _set(name: str, value: str, shell: Shell) -> str:
    if shell == "sh":
        return f"export {name}={shlex.quote(value)}"
    if shell == "cmd":
        return f'set "{name}={value}"'
    return f"$env:{name} = '{value.replace(chr(39), chr(39) * 2)}'"


def _keep(name: str, value: str, shell: Shell) -> str:
    """For good on Windows (a new window sees it); in a POSIX shell the profile is the user's own business."""
    return _set(name, value, "sh") if shell == "sh" else f"setx {name} {_word(value, shell)}"


def _word(text: str, shell: Shell) -> str:
    if shell == "sh":
        return shlex.quote(text)
    if shell == "cmd":
        return f'"{text}"' if set(text) & _CMD_SPECIAL else text
    safe = text and all(letter.isalnum() or letter in "-_./\\:=+" for letter in text)
    return text if safe else f"'{text.replace(chr(39), chr(39) * 2)}'"
