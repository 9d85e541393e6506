"""What can make torch fast: one module per backend, each satisfying :class:`Backend`, all in ``BACKENDS``.

A new backend is one module, one line in the dict, one table of facts.
"""

from __future__ import annotations

from typing import Literal, Protocol, cast

from rekindle.compat import cpu, cuda, rocm
from rekindle.compat.coverage import Coverage
from rekindle.facts import Facts
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu

__all__ = ["BACKENDS", "Backend", "Coverage", "backend_of", "flavour_backend"]

Name = Literal["cpu", "cuda", "rocm"]


class Backend(Protocol):
    """What the planner asks a backend."""

    NAME: Name
    VENDOR: str | None

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """Does a published flavour hold code this card runs?"""

    def platforms(self, flavour: Flavour) -> tuple[Platform, ...]:
        """Where wheels of this flavour exist."""

    def arch_list(self, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
        """The architectures to compile for, in the spelling the build wants."""

    def build_environment(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """The variables that switch this backend on, and the others off."""

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """What the CMake cache must say after configuring."""


BACKENDS: dict[Name, Backend] = {
    "cpu": cast(Backend, cpu),
    "cuda": cast(Backend, cuda),
    "rocm": cast(Backend, rocm),
}


def flavour_backend(flavour: Flavour) -> Name:
    return "cuda" if flavour.cuda else "rocm" if flavour.rocm else "cpu"


def backend_of(vendor: str) -> Name | None:
    """The backend that drives a vendor's cards, if there is one."""
    return next((name for name, backend in BACKENDS.items() if vendor == backend.VENDOR), None)
