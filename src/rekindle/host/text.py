"""Reading what files and tools say, whatever bytes they say it in."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def joined(system: str, *parts: str) -> str:
    """A path of that system, which need not be ours: ``C:\\CUDA\\bin``, ``/usr/local/cuda/bin``."""
    return ("\\" if system == "windows" else "/").join(parts)


def text_of(raw: bytes | None) -> str:
    """Whatever can be read of it; nothing of nothing."""
    return raw.decode("utf-8", "replace") if raw else ""


def last_line(text: str, otherwise: str = "") -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), otherwise)


def key_values(text: str, separator: str = "=") -> dict[str, str]:
    """``KEY=value`` lines, quotes taken off; the first of several wins."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.partition(separator)
        if mark and key.strip() and not key.lstrip().startswith("#"):
            values.setdefault(key.strip(), value.strip().strip("\"'"))
    return values


def memory_sizes(meminfo: bytes | None) -> dict[str, int]:
    """Bytes by name, as ``/proc/meminfo`` lists them."""
    parts = {name: value.split() for name, value in key_values(text_of(meminfo), ":").items()}
    return {
        name: int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
        for name, words in parts.items()
        if words and words[0].isdigit()
    }


def version_in(text: str) -> str | None:
    """The first dotted number."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return match[0] if match else None


def version_key(version: str | None) -> tuple[int, ...]:
    """Numbers for comparing: ``11.4.4`` before ``11.10``; what is no number counts as nothing."""
    return tuple(int(part) for part in re.findall(r"\d+", version or "")[:4])


def read_answer(raw: Mapping[str, Any] | None, kind: type[T]) -> T:
    """A question script's answer with types; nonsense becomes an answer whose ``error`` says so."""
    try:
        return msgspec.convert(dict(raw or {}), kind)
    except msgspec.ValidationError as error:
        return kind(error=f"its answer makes no sense ({error})")
