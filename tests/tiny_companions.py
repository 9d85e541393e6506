"""A made-up companion called tiny, and machines to ask about it."""

from __future__ import annotations

from typing import Any

from rekindle.compat.companions import TorchSurroundings
from rekindle.facts import Facts
from rekindle.facts.tables import CompanionPackagesFile
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.companion import Bounds, CompanionFork, CompanionPackage, CompanionPackageWheel, CompanionSource

KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-16", "how": "measured"}
ABOUT = CompanionPackage(title="t", kind="extension", module="tiny", first="1", last="3", **KNOWN)


def at(*cards: str, **changes: Any) -> TorchSurroundings:
    backend = "rocm" if cards and cards[0].startswith("gfx") else "cuda" if cards else "cpu"
    base = TorchSurroundings(
        torch="2.6.0",
        cuda="12.4" if backend == "cuda" else None,
        rocm="6.2" if backend == "rocm" else None,
        python="3.11",
        platform="linux_x86_64",
        system="linux",
        glibc="2.31",
        backend=backend,
        cards=tuple(parse_gpu_arch(card) for card in cards),
    )
    return base._replace(**changes)


def wheel(version: str = "3", **fields: Any) -> CompanionPackageWheel:
    return CompanionPackageWheel(
        **{"package": "tiny", "version": version, "pythons": {"linux_x86_64": ("3.10", "3.11")}, **fields}, **KNOWN
    )


def tables(*rows: Bounds) -> Facts:
    class Made(Facts):
        packages = CompanionPackagesFile(
            schema=1,
            package={"tiny": ABOUT},
            wheel=tuple(row for row in rows if isinstance(row, CompanionPackageWheel)),
            source=tuple(row for row in rows if isinstance(row, CompanionSource)),
            fork=tuple(row for row in rows if isinstance(row, CompanionFork)),
        )

    return Made()
