"""A Python as it describes itself, and the version that a person may ask for."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

_VERSION = re.compile(r"\d+(\.\d+){0,2}t?")


class InstalledPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A package that matters to torch: its version, and the folder it is installed in."""

    version: str
    path: str


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """What a Python said of itself. ``path`` starts it; where ``externally_managed``, pip may not install (PEP 668)."""

    path: str = ""
    version: str
    implementation: str | None = None
    gil_disabled: bool = False
    bits: int | None = None
    machine: str = ""
    system: str = ""
    executable: str | None = None
    prefix: str | None = None
    base_prefix: str | None = None
    compiler: str = ""
    include: str | None = None
    headers: bool = False
    externally_managed: bool = False
    packages: dict[str, InstalledPackage] = {}

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor number."""
        major, minor = [*re.findall(r"\d+", self.version), "0", "0"][:2]
        return int(major), int(minor)

    @property
    def short(self) -> str:
        """``3.10``."""
        return f"{self.release[0]}.{self.release[1]}"

    @property
    def is_environment(self) -> bool:
        """Is it a virtual environment?"""
        return self.prefix is not None and self.prefix != self.base_prefix

    @property
    def abi(self) -> str | None:
        """The tag a wheel for it must carry: cp311, cp313t, pp310; None for an implementation without wheels."""
        prefix = {"CPython": "cp", "PyPy": "pp"}.get(self.implementation or "")
        return f"{prefix}{self.release[0]}{self.release[1]}{'t' if self.gil_disabled else ''}" if prefix else None

    @property
    def tag(self) -> str:
        """:attr:`abi`, or the plain version as a tag where there is none."""
        return self.abi or f"py{self.release[0]}{self.release[1]}"

    @property
    def kind(self) -> str:
        """Where it came from: venv, conda, pyenv, uv, store, system, python.org or local."""
        paths = f"{self.path} {self.base_prefix} {self.prefix}".lower().replace("\\", "/")
        if self.is_environment:
            return "venv"
        if any(word in paths for word in ("conda", "miniforge", "mambaforge")) or "conda" in self.compiler.lower():
            return "conda"
        if "/pyenv" in paths or "/.pyenv" in paths:
            return "pyenv"
        if "/uv/python" in paths:
            return "uv"
        if "windowsapps" in paths or "pythonsoftwarefoundation" in paths:
            return "store"
        if paths.startswith(("/usr/bin", "/bin")):
            return "system"
        return "python.org" if ":/" in paths else "local"

    def is_of(self, version: str) -> bool:
        """Is it of the version asked for? ``3.13`` is one with the global lock, ``3.13t`` the one without it."""
        numbers = version.removesuffix("t")
        return self.gil_disabled == version.endswith("t") and f"{self.version}.".startswith(f"{numbers}.")


def is_version(text: str | None) -> bool:
    """``3.12`` asks for a Python of that version; anything else names an interpreter."""
    return text is not None and _VERSION.fullmatch(text) is not None


def read_interpreter(path: str, answer: Mapping[str, Any] | None) -> Interpreter | str:
    """The interpreter at ``path`` from its answer to the question ``python``; what is none is why, in words."""
    fields = dict(answer or {})
    if not fields.get("version"):
        return str(fields.get("error") or "it said nothing a Python says")
    if not re.match(r"\d{1,3}\.\d{1,6}(?!\d)", str(fields["version"])):
        return f"its answer makes no sense (version {str(fields['version'])[:40]!r})"
    try:
        return msgspec.convert({**fields, "path": path}, Interpreter)
    except msgspec.ValidationError as error:
        return f"its answer makes no sense ({error})"
