"""What the world allows, as sourced tables.

``load_facts()`` gives the :class:`Facts` of this installation; each table is read when it is first asked for.
Lookups by GPU name and PCI id are in :mod:`rekindle.facts.gpus`; CPU names in :mod:`rekindle.compat.cpu_names`.
"""

from __future__ import annotations

import functools
from pathlib import Path

from rekindle.facts.load import overlay_from_environment, read_table
from rekindle.facts.tables import (
    AmdFile,
    BesideFile,
    CompanionsFile,
    CostsFile,
    CpuFile,
    CudaFile,
    CudnnFile,
    DistrosFile,
    HazardsFile,
    ImagesFile,
    MachinesFile,
    NvidiaFile,
    ProbesFile,
    RocmFile,
    SourcesFile,
    SupplyFile,
    TorchFile,
    WheelsFile,
)
from rekindle.model.arch import Sm
from rekindle.model.costs import BuildCost
from rekindle.model.facts import CudaToolkit, Flavour, Hazard, Platform, Release, SourceEra
from rekindle.model.gfx_rule import GfxRule
from rekindle.model.version import compare, key, minor

__all__ = ["Facts", "load_facts"]


class Facts:
    """All tables, each read once and only when needed. Immutable from the outside."""

    def __init__(self, overlay: Path | None = None) -> None:
        self._overlay = overlay

    @functools.cached_property
    def cuda(self) -> CudaFile:
        return read_table("cuda", CudaFile, self._overlay)

    @functools.cached_property
    def cudnn(self) -> CudnnFile:
        return read_table("cudnn", CudnnFile, self._overlay)

    @functools.cached_property
    def torch(self) -> TorchFile:
        return read_table("torch", TorchFile, self._overlay)

    @functools.cached_property
    def sources(self) -> SourcesFile:
        return read_table("sources", SourcesFile, self._overlay)

    @functools.cached_property
    def probes(self) -> ProbesFile:
        return read_table("probes", ProbesFile, self._overlay)

    @functools.cached_property
    def wheels(self) -> WheelsFile:
        return read_table("wheels", WheelsFile, self._overlay)

    @functools.cached_property
    def companions(self) -> CompanionsFile:
        return read_table("companions", CompanionsFile, self._overlay)

    @functools.cached_property
    def beside(self) -> BesideFile:
        return read_table("beside", BesideFile, self._overlay)

    @functools.cached_property
    def rocm(self) -> RocmFile:
        return read_table("rocm", RocmFile, self._overlay)

    @functools.cached_property
    def nvidia(self) -> NvidiaFile:
        return read_table("nvidia", NvidiaFile, self._overlay)

    @functools.cached_property
    def amd(self) -> AmdFile:
        return read_table("amd", AmdFile, self._overlay)

    @functools.cached_property
    def cpu(self) -> CpuFile:
        return read_table("cpu", CpuFile, self._overlay)

    @functools.cached_property
    def distros(self) -> DistrosFile:
        return read_table("distros", DistrosFile, self._overlay)

    @functools.cached_property
    def hazards(self) -> HazardsFile:
        return read_table("hazards", HazardsFile, self._overlay)

    @functools.cached_property
    def costs(self) -> CostsFile:
        return read_table("costs", CostsFile, self._overlay)

    def build_cost(self, torch: str, *, gpu: bool) -> BuildCost:
        """The newest row that counts for this release."""
        rows = [row for row in self.costs.build if (row.backend == "gpu") == gpu and compare(torch, row.since) >= 0]
        return max(rows, key=lambda row: key(row.since))

    @functools.cached_property
    def machines(self) -> MachinesFile:
        return read_table("machines", MachinesFile, self._overlay)

    @functools.cached_property
    def supply(self) -> SupplyFile:
        return read_table("supply", SupplyFile, self._overlay)

    @functools.cached_property
    def images(self) -> ImagesFile:
        return read_table("images", ImagesFile, self._overlay)

    # --- derived views, made once

    @functools.cached_property
    def gfx_rule(self) -> GfxRule:
        """Which AMD code runs on which AMD card."""
        return GfxRule(self.rocm.generic, self.rocm.switch)

    @functools.cached_property
    def _tegra(self) -> frozenset[tuple[int, int]]:
        sms = [row.sm for row in self.cuda.sm_alone] + [sm for row in self.cuda.sm_same for sm in row.sm]
        return frozenset((sm.major, sm.minor) for sm in sms)

    def is_tegra(self, sm: Sm) -> bool:
        """Is this an architecture that exists only in Tegra chips?"""
        return (sm.major, sm.minor) in self._tegra

    @functools.cached_property
    def releases(self) -> tuple[str, ...]:
        """Every known torch release, newest first."""
        return tuple(sorted(self.torch.release, key=key, reverse=True))

    @functools.cached_property
    def toolkits(self) -> tuple[str, ...]:
        """Every known CUDA toolkit, newest first."""
        return tuple(sorted(self.cuda.toolkit, key=key, reverse=True))

    @functools.cached_property
    def python_hazards(self) -> tuple[Hazard, ...]:
        """The hazards that depend on the Python; few, and asked for often."""
        return tuple(row for row in self.hazards.hazard if row.python)

    @functools.cached_property
    def minors(self) -> dict[str, int]:
        """Every minor release with its place in time: 1.13 stands right before 2.0."""
        order = sorted({minor(version) for version in self.torch.release}, key=key)
        return {name: place for place, name in enumerate(order)}

    def is_pypi_default(self, version: str, flavour: str, platform: Platform, python: str | None = None) -> bool:
        """Does a plain ``pip install torch`` give this flavour there (to this Python)?"""
        row = self.release(version)
        if row is None or row.pypi.get(platform) != flavour:
            return False
        return python is None or python in row.pythons.get(platform, ())

    @functools.cached_property
    def _flavours(self) -> dict[str, tuple[Flavour, ...]]:
        table: dict[str, list[Flavour]] = {}
        for flavour in self.wheels.flavour:
            table.setdefault(flavour.torch, []).append(flavour)
        return {torch: tuple(rows) for torch, rows in table.items()}

    def release(self, version: str) -> Release | None:
        return self.torch.release.get(version)

    def flavours(self, version: str) -> tuple[Flavour, ...]:
        """The published flavours of one release (``2.7.1`` → those of 2.7)."""
        rows = self._flavours.get(minor(version), ())
        return tuple(row for row in rows if not row.only or version in row.only)

    @functools.cached_property
    def _eras(self) -> dict[str, SourceEra]:
        return {version: self._era_of(version) for version in self.torch.release}

    def _era_of(self, version: str) -> SourceEra:
        best = self.torch.era[0]
        for era in self.torch.era:
            if compare(era.since, version) <= 0 and compare(era.since, best.since) >= 0:
                best = era
        return best

    def era(self, version: str) -> SourceEra:
        """What the sources of a release want."""
        return self._eras.get(version) or self._era_of(version)

    def toolkit(self, version: str) -> CudaToolkit | None:
        """The row of a toolkit; 11.4.4 is found as 11.4, and 12 means the newest 12.x."""
        found = self.cuda.toolkit.get(version) or self.cuda.toolkit.get(minor(version))
        if found is None and version.isdigit():
            newest = next((kit for kit in self.toolkits if key(kit)[0] == int(version)), None)
            return self.cuda.toolkit[newest] if newest else None
        return found


@functools.lru_cache(maxsize=4)
def _cached(overlay: Path | None) -> Facts:
    return Facts(overlay)


def load_facts(overlay: Path | None = None) -> Facts:
    """The facts, with the overlay directory of ``REKINDLE_FACTS`` unless another is given."""
    return _cached(overlay or overlay_from_environment())
