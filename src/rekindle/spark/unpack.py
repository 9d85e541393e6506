"""Puts the miniature tree into a directory, whole or not at all."""

from __future__ import annotations

import hashlib
import shutil
from importlib import resources
from pathlib import Path

VERSION_FILE = "version.txt"


def tree_files() -> dict[str, bytes]:
    """Every file of the tree, by its path inside it."""
    files: dict[str, bytes] = {}
    top = resources.files("rekindle.spark").joinpath("tree")
    pending = [("", top)]
    while pending:
        prefix, folder = pending.pop()
        for entry in folder.iterdir():
            name = f"{prefix}{entry.name}"
            if entry.is_dir():
                if entry.name != "__pycache__":
                    pending.append((f"{name}/", entry))
            else:
                files[name] = entry.read_bytes()
    return files


def tree_version() -> str:
    return tree_files()[VERSION_FILE].decode("ascii").strip()


def tree_digest() -> str:
    total = hashlib.sha256()
    for name, content in sorted(tree_files().items()):
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def unpack(target: Path) -> None:
    """Write the tree to ``target``, in the place of what is there."""
    part = target.with_name(f"{target.name}.part")
    for there in (part, target):
        if there.exists():
            shutil.rmtree(there)
    for name, content in tree_files().items():
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    part.rename(target)
