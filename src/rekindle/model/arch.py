"""GPU architectures as types, so that 8.9 can never stand for a 12.0 card. ``Sm`` is an NVIDIA target (``sm_35``,
``sm_90a``, ``sm_120f``), ``Gfx`` an AMD one (``gfx90a:xnack+``), ``Xe`` a generation of Intel's GPUs (``xe_bmg``). The
dotted form (``3.5``) appears only at the border to ``TORCH_CUDA_ARCH_LIST``."""

import functools
import re
import sys
from typing import Any

from rekindle.errors import BadInput

_SM = re.compile(r"(?:sm_|compute_)(\d{2,3})([af]?)")
_DOTTED = re.compile(r"(\d{1,2})\.(\d)([af]?)(?:\+PTX)?")
# What hipcc calls code that the driver compiles for whatever card there is.
SPIRV = "amdgcnspirv"
_GFX = re.compile(r"(gfx\d{1,2}[0-9a-f]{2})((?::[a-z0-9]+[+-])*)")
_XE = re.compile(r"xe_([a-z][a-z0-9]{1,7})")
_GFX_CODE = re.compile(rf"(gfx\d{{1,2}}(?:[0-9a-f]{{2}}|(?:-\d)?-generic)|{SPIRV})((?::[a-z0-9]+[+-])*)")


class NotAnArch(BadInput, ValueError):
    """A text that names no architecture, be it in a wish, a table or a file."""


@functools.total_ordering
class GpuArch:
    """An :class:`Sm`, a :class:`Gfx` or an :class:`Xe`. No dataclasses: msgspec would write those as objects."""

    __slots__ = ("_key",)
    _key: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        if self is other:  # parsed once, shared by all tables
            return True
        return isinstance(other, type(self)) and self._key == other._key

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"<{self}>"


class Sm(GpuArch):
    """An NVIDIA compute capability, with ``a`` (this chip only) or ``f`` (this family only) if specific."""

    __slots__ = ("major", "minor", "suffix")

    def __init__(self, major: int, minor: int, suffix: str = "") -> None:
        self.major = major
        self.minor = minor
        self.suffix = suffix
        self._key = major, minor, suffix

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}{self.suffix}"

    @property
    def dotted(self) -> str:
        """The spelling of ``TORCH_CUDA_ARCH_LIST``: ``3.5``, ``9.0a``."""
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def compute(self) -> str:
        """The PTX spelling: ``compute_35``."""
        return f"compute_{self.major}{self.minor}{self.suffix}"

    @property
    def lto(self) -> str:
        """Code that is linked and compiled at run time: ``lto_75``."""
        return f"lto_{self.major}{self.minor}{self.suffix}"

    @property
    def number(self) -> int:
        """The integer fat binaries store: 35, 120."""
        return self.major * 10 + self.minor

    @classmethod
    def from_number(cls, number: int, suffix: str = "") -> "Sm":
        """From the integer of fat binaries: 35 is sm_35, 120 is sm_120."""
        return cls(number // 10, number % 10, suffix)


class Gfx(GpuArch):
    """An AMD target; ``name`` is without features, ``features`` keeps e.g. ``xnack+``. Code (never a card) may also be
    for a *generic* target, ``gfx11-generic``, or be :data:`SPIRV`."""

    __slots__ = ("features", "name")

    def __init__(self, name: str, features: tuple[str, ...] = ()) -> None:
        self.name = name
        self.features = features
        self._key = self.order, features

    def __str__(self) -> str:
        return ":".join((self.name, *self.features))

    @property
    def order(self) -> tuple[int, str]:
        """gfx906 sorts before gfx1030: the last two characters are minor and stepping (hexadecimal). Generic targets
        come after the chips of their generation, SPIR-V last."""
        if self.name == SPIRV:
            return sys.maxsize, ""
        if self.generic:
            return int(self.name[3:].split("-")[0]), "~" + self.name
        return int(self.name[3:-2]), self.name

    @property
    def generic(self) -> bool:
        """A name that stands for several chips, such as gfx11-generic."""
        return self.name.endswith("-generic")


class Xe(GpuArch):
    """A generation of Intel's GPUs by the short name that its compiler gives it: ``dg2``, ``bmg``, ``pvc``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = (name,)

    def __str__(self) -> str:
        return f"xe_{self.name}"


@functools.lru_cache(maxsize=1024)
def parse_sm(text: str) -> Sm:
    """``sm_35``, ``compute_90``, ``12.0`` or ``9.0a``; anything else is a ValueError."""
    if match := _SM.fullmatch(text):
        return Sm.from_number(int(match[1]), match[2])
    if match := _DOTTED.fullmatch(text):
        return Sm(int(match[1]), int(match[2]), match[3])
    raise NotAnArch(f"{text!r} is no NVIDIA architecture (write sm_86 or 8.6)")


@functools.lru_cache(maxsize=1024)
def parse_gfx(text: str) -> Gfx:
    """``gfx1100`` or ``gfx90a:sramecc+:xnack-``; anything else is a ValueError."""
    if match := _GFX.fullmatch(text):
        return Gfx(match[1], tuple(match[2].split(":")[1:]))
    raise NotAnArch(f"{text!r} is no AMD architecture (write gfx1030)")


def parse_gfx_code(text: str) -> Gfx:
    """What AMD code can be for: a chip as :func:`parse_gfx` reads it, a generic target, or SPIR-V."""
    if match := _GFX_CODE.fullmatch(text):
        return Gfx(match[1], tuple(match[2].split(":")[1:]))
    raise NotAnArch(f"{text!r} is no target of AMD code")


def parse_gpu_arch(text: Any) -> GpuArch:
    """``sm_35``, ``3.5``, ``gfx1030``, ``xe_bmg``; ValueError for anything else."""
    if not isinstance(text, str):
        raise NotAnArch(f"an architecture is a string, not {type(text).__name__}")
    if text.startswith("xe_"):
        if match := _XE.fullmatch(text):
            return Xe(match[1])
        raise NotAnArch(f"{text!r} is no generation of Intel GPUs (write xe_bmg)")
    return parse_gfx(text) if text.startswith("gfx") else parse_sm(text)
