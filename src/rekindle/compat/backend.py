"""What the planner asks a backend; mypy holds every one of ``BACKENDS`` to it."""

from __future__ import annotations

from typing import Literal, Protocol

from rekindle.compat.coverage import Coverage
from rekindle.facts import Facts
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu

Name = Literal["cpu", "cuda", "rocm"]


class Backend(Protocol):
    """One way to make torch fast."""

    @property
    def name(self) -> Name:
        """How facts and plans call it."""

    @property
    def vendor(self) -> str | None:
        """Whose cards it drives; None for no card."""

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
