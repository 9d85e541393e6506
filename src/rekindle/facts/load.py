"""From TOML to typed rows: strict, cached, one file at a time (a plan by architecture never reads the GPU names).

An overlay directory (``REKINDLE_FACTS`` or :func:`load_facts`) may hold files of the same names: its named rows
replace ours, its listed rows come before ours, so that a newer fact can be used before it is shipped.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rekindle.errors import BadInput
from rekindle.facts.cpus import archspec_rows
from rekindle.model.document import _from_json, read_bounded


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


HERE = Path(__file__).parent
MAX_FILE_BYTES = 4 * 1024 * 1024

T = TypeVar("T")


def read_table(name: str, kind: type[T], overlay: Path | None = None) -> T:
    """The file ``name.toml`` as a typed value; a mistake in it names the file and the place."""
    path = HERE / f"{name}.toml"
    raw = _parse(path)
    if overlay is not None:
        extra = overlay / f"{name}.toml"
        if extra.is_file():
            raw = _merged(raw, _parse(extra))
            path = extra
    if name == "cpu":
        raw = _over_archspec(raw)
    try:
        return msgspec.convert(raw, kind, dec_hook=_from_json)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadInput(f"{path.name} breaks the schema of the facts: {error}") from error


def _parse(path: Path) -> dict[str, Any]:
    raw = read_bounded(path, MAX_FILE_BYTES, "facts file")
    try:
        return parse_toml(raw, path.stem)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} is not valid TOML: {error}") from error


def _merged(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    merged = dict(ours)
    for name, value in theirs.items():
        mine = merged.get(name)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[name] = {**mine, **value}
        elif isinstance(mine, list) and isinstance(value, list):
            merged[name] = value + mine
        else:
            merged[name] = value
    return merged


def _over_archspec(raw: dict[str, Any]) -> dict[str, Any]:
    """Our rows of CPUs laid over archspec's, field by field."""
    ours, theirs = raw.get("microarchitecture", {}), archspec_rows()
    names = dict.fromkeys([*theirs, *ours])
    return {**raw, "microarchitecture": {name: {**theirs.get(name, {}), **ours.get(name, {})} for name in names}}


@functools.lru_cache(maxsize=8)
def overlay_directory(setting: str | None) -> Path | None:
    if not setting:
        return None
    path = Path(setting)
    if not path.is_dir():
        raise BadInput(f"REKINDLE_FACTS names {setting!r}, which is no directory")
    return path


def overlay_from_environment() -> Path | None:
    return overlay_directory(os.environ.get("REKINDLE_FACTS"))
