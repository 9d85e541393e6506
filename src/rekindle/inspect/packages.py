"""Where a needed library comes from, and what a manylinux tag promises: read from ``packages.toml``."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any


@functools.cache
def _table() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("packages.toml").read_text("utf-8"))


@functools.cache
def _row_of(library: str) -> dict[str, Any]:
    for row in _table()["library"]:
        # A pattern is compiled only when it is reached: most names begin as an earlier row says.
        if re.search(row["pattern"], library) if "pattern" in row else library.startswith(tuple(row["starts"])):
            return dict(row)
    return {}


def find_provider(library: str, requires: Sequence[str]) -> tuple[str | None, bool]:
    """(package, comes with the system) for a library; the wheel's own requirement names it most exactly."""
    row = _row_of(library)
    named = (_package_name(line) for line in requires if _package_base(line) == row.get("package"))
    return next(named, row.get("package")), bool(row.get("system"))


def comes_along(library: str, requires: Sequence[str]) -> bool:
    """Does the driver, Python, or a requirement of the wheel bring it, so that no package of the system has to?"""
    row = _row_of(library)
    return "with" in row or any(_package_base(line) == row.get("package") for line in requires)


def kernel_owner(kernel: str) -> str | None:
    """The library that a GPU kernel comes from, by its name."""
    return next((row["owner"] for row in _table()["kernel"] if re.search(row["pattern"], kernel)), None)


def rocm_libraries(path: str) -> list[str]:
    """ROCm's math libraries that keep kernel files at such a place (in small letters)."""
    return [row["library"] for row in _table()["kernel_files"] if re.search(row["pattern"], path)]


def is_vendor(path: str) -> bool:
    """Is this file a library that NVIDIA or AMD publish on their own?"""
    package: str = _row_of(path.rpartition("/")[2]).get("package", "")
    return package.startswith("nvidia-") or package == "ROCm"


def _package_name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return match[0] if match else requirement


def _package_base(requirement: str) -> str:
    return re.sub(r"-cu\d+$", "", _package_name(requirement).lower())


def promised_glibc(platform: str) -> str | None:
    """The oldest glibc a platform tag promises to run on; None for tags that promise nothing (linux_x86_64)."""
    from rekindle.compat.libc import tag_libc
    from rekindle.facts import load_facts

    libc = tag_libc([platform], load_facts())
    return libc.version if libc is not None and libc.kind == "glibc" else None
