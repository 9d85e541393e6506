"""Folders of applications as their own documentation describes them: only the files by which they are known."""

from __future__ import annotations

from pathlib import Path

from rekindle.facts import load_facts


def make_app(folder: Path, name: str, *, version: str = "", inside: str = "") -> Path:
    """The folder of an application of our tables; ``inside`` is where its sources lie in it."""
    app = load_facts().apps.app[name]
    root = folder / inside
    for mark in app.marks:
        path = root / mark
        if "." in path.name:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.mkdir(parents=True, exist_ok=True)
    if version and app.version:
        (root / app.version[0]).parent.mkdir(parents=True, exist_ok=True)
        (root / app.version[0]).write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    for file in app.settings.values():
        text = "@echo off\r\n\r\nset PYTHON=\r\n\r\ncall webui.bat\r\n" if file.endswith(".bat") else "#!/bin/bash\n"
        (root / file).write_bytes(text.encode())
    return folder


def add_extension(root: Path, name: str, requirements: str, *, below: str = "custom_nodes") -> Path:
    """An extension that states requirements."""
    file = root / below / name / "requirements.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(requirements, encoding="utf-8")
    return file


def add_python(folder: Path, *, windows: bool = False) -> Path:
    """A file where an interpreter would lie."""
    python = folder / ("python.exe" if windows else "bin/python")
    python.parent.mkdir(parents=True, exist_ok=True)
    python.touch()
    return python
