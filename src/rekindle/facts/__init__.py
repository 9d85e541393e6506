"""What the world allows, as sourced tables.

``load_facts()`` gives the :class:`Facts` of this installation; each table is read when it is first asked for.
Lookups by GPU name and PCI id are in :mod:`rekindle.facts.gpus`; CPU names in :mod:`rekindle.compat.cpu_names`."""

import functools
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rekindle.errors import BadInput
from rekindle.facts import tables
from rekindle.model.arch import SPIRV, Gfx, GpuArch, Sm, parse_gfx_code
from rekindle.model.facts import (
    CompanionWheel,
    CudaToolkit,
    Flavour,
    GfxRow,
    GfxSwitch,
    Hazard,
    Platform,
    Release,
    SourceEra,
    XeGeneration,
)
from rekindle.model.spoken import capital
from rekindle.model.version import compare, key, minor


@dataclass(frozen=True)
class GfxRule:
    """Does AMD code run on an AMD card? The rule of LLVM's target ids, with three answers. Code runs on its own chip
    only, code for a generic target on the chips it covers. A feature the code names (``xnack+``) must stand so on the
    card; one it does not name may stand either way. SPIR-V is compiled on the machine itself, so nobody can tell
    beforehand. ``covers``: generic target to chips. ``switches``: how features stand where a card does not tell."""

    covers: Mapping[str, GfxRow] = field(default_factory=dict)
    switches: Sequence[GfxSwitch] = ()

    def runs(self, targets: Iterable[str], device: Gfx) -> bool | None:
        """Does one of these targets run on the card? None: it depends on what is not known here."""
        codes = [code for name in targets if (code := _find_code(name)) is not None]
        chips = {name: {chip.name for chip in row.gfx} for name, row in self.covers.items()}
        meant = [code for code in codes if device.name in chips.get(code.name, {code.name})]
        fitting = self._features_fit(meant, device)
        # SPIR-V, or a generic target newer than our table of the card's own generation.
        newer = [code for code in codes if code.generic and code.name not in chips and code.order[0] == device.order[0]]
        untold = newer or any(code.name == SPIRV for code in codes)
        return None if fitting is False and untold else fitting

    def _features_fit(self, codes: Sequence[Gfx], device: Gfx) -> bool | None:
        settings = _settings(device.features)
        usual: dict[str, str] = {}
        for switch in self.switches:
            if any(chip.name == device.name for chip in switch.gfx):
                stands = {name: sign for name, sign in _settings([switch.usual]).items() if name not in settings}
                (settings if switch.fixed else usual).update(stands)
        wanted = [_settings(code.features) for code in codes]
        unset = sorted({name for features in wanted for name in features} - set(settings))
        ways = [dict(zip(unset, signs, strict=True)) for signs in itertools.product("+-", repeat=len(unset))]
        runs = [any(features.items() <= (settings | way).items() for features in wanted) for way in ways]
        if len(set(runs)) == 1:
            return runs[0]
        # As the card usually stands, and however the switches stand of which that is not known.
        as_usual = [all(usual.get(name, sign) == sign for name, sign in way.items()) for way in ways]
        return True if all(itertools.compress(runs, as_usual)) else None


def _find_code(name: str) -> Gfx | None:
    try:
        return parse_gfx_code(name)
    except ValueError:
        return None


def _settings(features: Iterable[str]) -> dict[str, str]:
    return {feature[:-1]: feature[-1] for feature in features}


class Facts:
    """All tables, each read when it is first asked for and kept from then on. Immutable from the outside."""

    cuda: tables.CudaFile
    cudnn: tables.CudnnFile
    torch: tables.TorchFile
    sources: tables.SourcesFile
    probes: tables.ProbesFile
    wheels: tables.WheelsFile
    companions: tables.CompanionsFile
    beside: tables.CompanionPackagesFile
    rocm: tables.RocmFile
    nvidia: tables.NvidiaFile
    amd: tables.AmdFile
    intel: tables.IntelFile
    cpu: tables.CpuFile
    distros: tables.DistrosFile
    hazards: tables.HazardsFile
    costs: tables.CostsFile
    machines: tables.MachinesFile
    supply: tables.SupplyFile
    images: tables.ImagesFile
    graft: tables.GraftRecipesFile
    apps: tables.AppsFile

    def __init__(self, overlay: Path | None = None) -> None:
        self.overlay = overlay

    if not TYPE_CHECKING:  # a name that is no table is a mistake that the type checker sees

        def __getattr__(self, name: str) -> tables.FactsFile:
            if name not in FILES:
                raise AttributeError(f"there is no table {name!r}")
            return vars(self).setdefault(name, tables.read_table(name, FILES[name], self.overlay))

    # --- derived views, made once

    @functools.cached_property
    def gfx_rule(self) -> GfxRule:
        return GfxRule(self.rocm.generic, self.rocm.switch)

    @functools.cached_property
    def _tegra_numbers(self) -> frozenset[tuple[int, int]]:
        sms = [row.sm for row in self.cuda.sm_alone] + [sm for row in self.cuda.sm_same for sm in row.sm]
        return frozenset((sm.major, sm.minor) for sm in sms)

    def is_tegra(self, sm: Sm) -> bool:
        """Is this an architecture that exists only in Tegra chips?"""
        return (sm.major, sm.minor) in self._tegra_numbers

    def xe_generation(self, arch: GpuArch | None) -> XeGeneration | None:
        return next((row for row in self.intel.generation if row.arch == arch), None)

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
    def _flavours_by_torch(self) -> dict[str, tuple[Flavour, ...]]:
        table: dict[str, list[Flavour]] = {}
        for flavour in self.wheels.flavour:
            table.setdefault(flavour.torch, []).append(flavour)
        return {torch: tuple(rows) for torch, rows in table.items()}

    def release(self, version: str) -> Release | None:
        return self.torch.release.get(version)

    def companion_release(self, project: str, torch: str | None) -> str | None:
        """The torchvision or torchaudio release that belongs to a release of torch (its flavour does not matter)."""
        return getattr(self.release((torch or "").partition("+")[0]), project, None)

    def flavours(self, version: str) -> tuple[Flavour, ...]:
        """The published flavours of one release (``2.7.1`` → those of 2.7)."""
        rows = self._flavours_by_torch.get(minor(version), ())
        return tuple(row for row in rows if not row.only or version in row.only)

    @functools.lru_cache(maxsize=256)  # noqa: B019 (there are four Facts at the most, and they stay)
    def era(self, version: str) -> SourceEra:
        """What the sources of a release want: the newest row that is not newer than it, else the first."""
        eras = [era for era in self.torch.era if compare(era.since, version) <= 0]
        return max(eras, key=lambda era: key(era.since), default=self.torch.era[0])

    def toolkit(self, version: str) -> CudaToolkit | None:
        """The row of a toolkit; 11.4.4 is found as 11.4, and 12 means the newest 12.x."""
        row = self.cuda.toolkit.get(version) or self.cuda.toolkit.get(minor(version))
        if row is None and version.isdigit():
            newest = next((kit for kit in self.toolkits if key(kit)[0] == int(version)), None)
            return self.cuda.toolkit[newest] if newest else None
        return row


# The names of the files with their shapes; `facts show` and the tests walk this.
FILES: dict[str, type[tables.FactsFile]] = dict(Facts.__annotations__)


@functools.lru_cache(maxsize=4)
def _facts_over(setting: str | None) -> Facts:
    if setting and not Path(setting).is_dir():
        raise BadInput(f"REKINDLE_FACTS names {setting!r}, which is no directory")
    return Facts(Path(setting) if setting else None)


def load_facts() -> Facts:
    """The facts, with the overlay directory of ``REKINDLE_FACTS``."""
    return _facts_over(os.environ.get("REKINDLE_FACTS"))


PAIRED_PACKAGES = ("torchvision", "torchaudio")


class PairedCompanion(NamedTuple):
    """One package beside torch. ``exists`` is None where nobody knows; ``why`` says what is missing or unknown."""

    package: str
    version: str | None
    exists: bool | None
    why: str | None
    source: tuple[str, ...]


def paired_companions(
    facts: Facts, torch: str, flavour: str, platform: Platform, python: str, *, pypi: bool = False
) -> tuple[PairedCompanion, ...]:
    """The companions of a torch wheel; ``pypi`` where the line to paste names no index."""
    pairs = []
    for package in PAIRED_PACKAGES:
        row = next((row for row in facts.companions.companion if row.package == package and torch in row.torch), None)
        if row is not None:
            exists, missing = _wheel_exists(row, flavour, platform, python, pypi=pypi)
            pairs.append(PairedCompanion(package, row.version, exists, missing, row.source))
        elif facts.release(torch) is not None:
            pairs.append(PairedCompanion(package, None, False, f"No {package} was released for torch {torch}.", ()))
        else:
            pairs.append(PairedCompanion(package, None, None, f"torch {torch} is not in the tables.", ()))
    return tuple(pairs)


def _wheel_exists(
    row: CompanionWheel, flavour: str, platform: Platform, python: str, *, pypi: bool
) -> tuple[bool | None, str | None]:
    name = f"{row.package} {row.version}"
    if flavour in row.absent:
        return False, f"{name} was never built for {flavour}."
    if not pypi and flavour not in row.indexes:
        return None, f"Whether the {flavour} index has {name} is not known."
    pythons = row.pypi.get(platform, ()) if pypi else row.pythons.get(platform) or row.pypi.get(platform, ())
    if not pythons or (not pypi and f"{flavour} {platform}" in row.lacks):
        where = "PyPI" if pypi else f"the {flavour} index"
        return False, f"{capital(where)} has no {name} for {platform.replace('_', ' ')}."
    if python not in pythons:
        return False, f"{name} has no wheel for Python {python} (it has {', '.join(pythons)})."
    return True, None
