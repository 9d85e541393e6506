"""Parsed tables kept in the user's cache: reading TOML is most of what a cold ``plan`` costs.

A kept table is named by the SHA-256 of the TOML it was made from, so it can never be stale; it is as strictly
checked afterwards as the TOML itself. Without a writable cache everything works as before, only slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec


def parse_toml(raw: bytes, name: str) -> dict[str, Any]:
    """What ``tomllib`` makes of ``raw``, from the cache where it is there."""
    kept = _folder() / f"{name}-{hashlib.sha256(raw).hexdigest()[:32]}.msgpack"
    with contextlib.suppress(OSError, msgspec.DecodeError, ValueError):
        found = msgspec.msgpack.decode(kept.read_bytes())
        if isinstance(found, dict):
            return found
    parsed = tomllib.loads(raw.decode("utf-8"))
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.msgpack.encode(parsed))
        part.replace(kept)
        _forget_older(kept, name)
    return parsed


def _forget_older(kept: Path, name: str) -> None:
    for path in kept.parent.glob(f"{name}-*.msgpack"):
        if path != kept:
            path.unlink(missing_ok=True)


def _folder() -> Path:
    """As platformdirs would say, without its 5 ms."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "rekindle/Cache/facts"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle/facts"
