"""The part of ``inspect`` that tells what a wheel needs of the system, as text: a Dockerfile carries it along, because
nothing of rekindle is installed where it builds.
"""

from __future__ import annotations

from importlib import resources

from rekindle.scripts.quoting import Quoted

FILES = (
    "__init__.py", "errors.py", "formats/__init__.py", "formats/view.py", "formats/elf.py", "inspect/__init__.py",
    "inspect/packages.py", "inspect/packages.toml", "inspect/outside.py", "inspect/debian.py",
)  # fmt: skip
PROGRAM = "rekindle.inspect.debian"


INSPECT = "inspect"
SCRIPT = "build.sh"


def inspector() -> tuple[tuple[Quoted, Quoted], ...]:
    """(path, text) of each file; a here-document carries them as they are."""
    root = resources.files("rekindle")
    return tuple(
        (Quoted(f"rekindle/{name}"), Quoted(root.joinpath(name).read_text(encoding="utf-8"))) for name in FILES
    )


def files_beside(script: str) -> dict[str, str]:
    """What a Dockerfile copies from a folder beside it instead of carrying it along: path in the folder, text."""
    return {SCRIPT: script, **{f"{INSPECT}/{path}": text for path, text in inspector()}}
