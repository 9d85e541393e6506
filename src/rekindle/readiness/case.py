"""What is asked about: a machine that the doctor has examined, or a build that is planned on this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rekindle.host.protocol import Host
from rekindle.model.machine import Check, CheckStatus, Drivers, Gap, Gpu, Machine, Purpose
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.model.supply import DiskPhase
from rekindle.readiness.fixes import fix_for

_TO_BUILD: tuple[Purpose, ...] = ("build",)


class Cards(msgspec.Struct, frozen=True, kw_only=True):
    """One vendor's cards, its driver, and what is wrong with it in one sentence."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    l4t: str | None = None
    trouble: str | None = None


_NO_CARDS = Cards()


class Graphics(msgspec.Struct, frozen=True, kw_only=True):
    """The cards of every vendor."""

    nvidia: Cards = _NO_CARDS
    amd: Cards = _NO_CARDS

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All of them."""
        return self.nvidia.gpus + self.amd.gpus

    @property
    def drivers(self) -> Drivers:
        """The drivers' versions."""
        return Drivers(nvidia=self.nvidia.driver, amdgpu=self.amd.driver, l4t=self.nvidia.l4t)


class ExaminedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A finished machine, its cards with their troubles, and how this system installs things."""

    machine: Machine
    graphics: Graphics
    managers: tuple[str, ...]
    workspace: str
    torch_users: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def fix(self, topic: str) -> str | None:
        """The command that fixes it on this system."""
        return fix_for(topic, self.managers)

    @property
    def windows(self) -> bool:
        """Is it Windows?"""
        return self.machine.os.system == "windows"


@dataclass(frozen=True, kw_only=True)
class PlannedBuild:
    """What is to be built. ``tree`` is None before there is one; ``place`` is where it will lie. ``packages`` are what
    pip must bring where other things come first (in ``build`` making the environment is the first thing, so nothing is
    asked). ``workspace`` is where all but the build tree goes (default: there as well), ``places`` where phases after
    the build write."""

    plan: Plan
    python: str
    place: Path
    tree: SourceTree | None = None
    cmake: str | None = None
    ninja: str | None = None
    packages: tuple[str, ...] = ()
    workspace: Path | None = None
    places: Mapping[DiskPhase, Path] = field(default_factory=dict)

    @property
    def recipe(self) -> BuildRecipe:
        """How it is built; only plans that build are asked about."""
        assert self.plan.build is not None
        return self.plan.build

    @property
    def settings(self) -> dict[str, str]:
        """What the plan tells CMake and the environment."""
        return {**self.recipe.cmake, **self.recipe.env}

    @property
    def release(self) -> str | None:
        """The torch release, without its local part."""
        return self.plan.torch.split("+")[0] if self.plan.torch else None


def build_check(
    name: str, status: CheckStatus, found: str | None = None, *, want: str | None = None, fix: str | None = None
) -> Check:
    """One answer to what a build asks."""
    return Check(id=name, status=status, needed_for=_TO_BUILD, found=found, want=want, fix=fix)


Checks = Iterator[Check]
# What the doctor asks of a machine, and what a build asks of this one; nothing where the question does not arise.
MachineRule = Callable[[ExaminedMachine], Checks]
BuildRule = Callable[[Host, PlannedBuild], Checks]
