"""Without an index: are the wheels at hand that a built torch needs when it is installed? Asked before it is built."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import read_head
from rekindle.host.protocol import Host
from rekindle.interpreters.installer import Installer, pip_of
from rekindle.interpreters.pip_errors import telling_lines
from rekindle.scripts.quoting import paste_line

_MAX_BYTES = 4 << 20
_SECONDS = 120.0
_LACKING = ("that satisfies the requirement", "No matching distribution")


def refuse_missing_wheels(host: Host, installer: Installer, python: str, root: Path) -> None:
    """Raise where pip cannot bring what setup.py will ask for in the wheel: before the hours of compiling."""
    wanted = installed_beside(root)
    if not wanted:
        return
    pip = pip_of(host, python)
    with tempfile.TemporaryDirectory(prefix="rekindle-wheels-") as folder:
        words = ("download", "--disable-pip-version-check", "--no-input", "--dest", folder)
        said = host.run([*pip, *words, *installer.places, *wanted], timeout=_SECONDS)
    # Only pip's own no counts: no pip, one that knows no such option, or no time is no answer.
    lacking = next((line for line in telling_lines(said.err) if any(word in line for word in _LACKING)), None)
    if said.ok or lacking is None:
        return
    line = paste_line(wanted, windows=host.system == "windows")
    raise BadInput(
        f"--offline, and the wheels at hand lack what this torch needs beside it: {lacking}",
        remedy=f"where there is a network: pip download -d wheels {line}",
    )


def installed_beside(root: Path) -> tuple[str, ...]:
    """The requirements that setup.py names for the installed package: literal words alone, nothing is run."""
    try:
        tree = ast.parse(read_head(root / "setup.py", _MAX_BYTES).decode("utf-8", "replace"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[str] = []
    for node in ast.walk(tree):
        named = isinstance(node, ast.Assign) and any(_is_named(target) for target in node.targets)
        given = isinstance(node, ast.keyword) and node.arg == "install_requires"
        value = getattr(node, "value", None) if named or given else None
        if isinstance(value, ast.List | ast.Tuple):
            found += [one.value for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    # A word with an address would be fetched from there, index or not.
    return tuple(dict.fromkeys(word for word in found if word and not word.startswith("-") and "@" not in word))


def _is_named(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "install_requires"
