"""CPU names into emulator models, and the instruction sets such a CPU must and must not have."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from rekindle.errors import BadInput

# The instruction sets the emulated CPU is asked for and probed with, in archspec's words. What is not in this list
# (rdrand, xsave, …) no compiler emits by itself for arithmetic.
PROBED = (
    "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "aes", "avx", "f16c", "fma", "bmi1", "bmi2", "movbe",
    "avx2", "avx512f",
)  # fmt: skip
_ARCHSPEC = {"sse3": ("sse3", "pni")}


@dataclass(frozen=True, kw_only=True)
class EmulatedCpu:
    """``has`` and ``lacks`` are None where only the emulator knows the model, and then nothing is compared."""

    name: str
    model: str
    has: frozenset[str] | None = None
    lacks: frozenset[str] | None = None


@functools.cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("cpus.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def known_names() -> tuple[str, ...]:
    return tuple(_table()["models"])


def find_cpu(name: str, models: tuple[str, ...] = ()) -> EmulatedCpu:
    """The CPU a user means; ``models`` are those the emulator itself knows."""
    table = _table()
    plain = re.sub(r"\s+", " ", name.strip().lower())
    plain = table["aliases"].get(plain, plain).replace("-", "_")
    if plain in table["models"]:
        has = _features(plain)
        return EmulatedCpu(
            name=plain,
            model=table["models"][plain],
            has=has,
            lacks=frozenset(PROBED) - has,
        )
    for model in models:
        if model.lower() == name.strip().lower():
            return EmulatedCpu(name=model, model=model)
    import difflib

    near = difflib.get_close_matches(plain, known_names(), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise BadInput(f"no CPU {name!r} is known", remedy=f"{hint}known: {', '.join(known_names())}")


def _features(name: str) -> frozenset[str]:
    import archspec.cpu

    target = archspec.cpu.TARGETS[name]
    return frozenset(
        feature for feature in PROBED if any(word in target.features for word in _ARCHSPEC.get(feature, (feature,)))
    )
