"""Runs the commands of docs/guides and writes what they say under them, so that the pages cannot drift.

A block that begins with ```console N shows the first N lines of the output; one without a number is only read by the
command line's own parser. Usage: python tools/make_guides.py [--check]
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

from rekindle.cli.main import main as rekindle

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
_BLOCK = re.compile(r"```console (\d+)\n\$ (rekindle [^\n]*)\n.*?```", re.DOTALL)


def output_of(command: str) -> list[str]:
    """What a command prints, as it would into a pipe."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = rekindle(shlex.split(command, comments=True)[1:])
    if code not in (0, 1):
        raise SystemExit(f"{command}: ended with {code}")
    return out.getvalue().splitlines()


def refreshed(text: str) -> str:
    def fill(match: re.Match[str]) -> str:
        count, command = int(match[1]), match[2]
        lines = output_of(command)
        shown = [line.rstrip() for line in lines[:count]]
        more = ["…"] if len(lines) > count else []
        return "\n".join([f"```console {count}", f"$ {command}", *shown, *more, "```"])

    return _BLOCK.sub(fill, text)


def main() -> None:
    stale = []
    for path in sorted(GUIDES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        fresh = refreshed(text)
        if fresh != text:
            stale.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(fresh, encoding="utf-8")
    if "--check" in sys.argv[1:] and stale:
        raise SystemExit(f"{', '.join(stale)}: stale; run python tools/make_guides.py")


if __name__ == "__main__":
    main()
