"""The program that installs: the target's own pip, another pip that serves it, or uv."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass

from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Host


@dataclass(frozen=True, kw_only=True)
class Installer:
    """``uv`` is its path where uv is to install; ``links`` are pages and folders of files looked through besides;
    ``offline`` asks no index at all."""

    uv: str | None = None
    links: tuple[str, ...] = ()
    offline: bool = False

    @property
    def name(self) -> str:
        """What a person calls it."""
        return "uv" if self.uv else "pip"

    @property
    def places(self) -> list[str]:
        """The words about where to look that every call gets."""
        return [*(["--no-index"] if self.offline else []), *(word for one in self.links for word in ("-f", one))]

    def install(self, host: Host, python: str, words: list[str]) -> list[str]:
        """The command that installs ``words`` into ``python``."""
        if self.uv:
            return [self.uv, "pip", "install", "--no-progress", "--python", python, *words]
        return [*pip_of(host, python), "install", "--disable-pip-version-check", "--no-input", *words]

    def make_environment(self, python: str, folder: str) -> list[str]:
        """The command that makes an environment of ``python`` in ``folder``."""
        if self.uv:
            return [self.uv, "venv", "--no-progress", "--python", python, folder]
        return [python, "-m", "venv", folder]


def pip_of(host: Host, python: str) -> list[str]:
    """The pip that serves an interpreter. An environment of uv's has none of its own: then ours does it."""
    own = [python, "-m", "pip"]
    if host.run([*own, "--version"], timeout=60.0).ok:
        return own
    if host.run([sys.executable, "-m", "pip", "--python", python, "--version"], timeout=60.0).ok:
        return [sys.executable, "-m", "pip", "--python", python]
    return own


def choose_installer(asked: str | None, *, links: tuple[str, ...] = (), offline: bool = False) -> Installer:
    """``pip`` unless uv was asked for."""
    if asked not in (None, "pip", "uv"):
        raise BadInput(f"--installer {asked}: there is no such installer here", remedy="pip or uv")
    uv = None
    if asked == "uv" and (uv := shutil.which("uv")) is None:
        raise MissingTool("uv is not on PATH", remedy="pip install uv, or leave --installer uv out")
    return Installer(uv=uv, links=links, offline=offline)
