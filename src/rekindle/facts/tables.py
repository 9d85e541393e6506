"""The facts files: the shape of each, and from TOML to typed rows: strict, cached, one file at a time.

A plan by architecture never reads the GPU names. A parsed table is kept in the user's cache, since reading TOML is most
of what a cold ``plan`` costs; it is named by the SHA-256 of the TOML it was made from, so it can never be stale, and is
as strictly checked afterwards as the TOML itself. Without a writable cache everything works, only slower.

An overlay directory (``REKINDLE_FACTS`` or :func:`load_facts`) may hold files of the same names: its named rows replace
ours, its listed rows come before ours, so that a newer fact can be used before it is shipped."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec

from rekindle.errors import BadInput
from rekindle.facts.cpus import archspec_rows
from rekindle.model import companion, facts, graft, machine, supply
from rekindle.model.arch import GpuArch, Sm
from rekindle.model.document import Part, _from_json, read_bounded
from rekindle.model.version import compare, key, minor

HERE = Path(__file__).parent
MAX_FILE_BYTES = 4 * 1024 * 1024
T = TypeVar("T")


class FactsFile(Part, frozen=True, kw_only=True):
    """What every file has; the shape of each follows."""

    schema: int


class _CudaFile(FactsFile, frozen=True, kw_only=True):
    toolkit: dict[str, facts.CudaToolkit]
    sm_alone: tuple[facts.SmAlone, ...]
    sm_same: tuple[facts.SmSame, ...]
    sm_feature: tuple[facts.SmFeature, ...]
    driver_end: tuple[facts.DriverEnd, ...]
    source_end: tuple[facts.SourceEnd, ...]


class _CudnnFile(FactsFile, frozen=True, kw_only=True):
    cudnn: dict[str, facts.Cudnn]
    package: tuple[facts.CudnnPackage, ...]


class _TorchFile(FactsFile, frozen=True, kw_only=True):
    release: dict[str, facts.Release]
    era: tuple[facts.SourceEra, ...]


class _SourcesFile(FactsFile, frozen=True, kw_only=True):
    syntax: tuple[facts.ArchSyntax, ...]
    front: tuple[facts.FrontEndRow, ...]
    evidence: tuple[facts.BuildEvidence, ...]


class _ProbesFile(FactsFile, frozen=True, kw_only=True):
    probe: tuple[facts.Probe, ...] = ()


class _WheelsFile(FactsFile, frozen=True, kw_only=True):
    flavour: tuple[facts.Flavour, ...]


class _CompanionsFile(FactsFile, frozen=True, kw_only=True):
    companion: tuple[facts.CompanionWheel, ...]


class CompanionPackagesFile(FactsFile, frozen=True, kw_only=True):
    """``packages.toml``: what is known to run beside torch."""

    package: dict[str, companion.CompanionPackage]
    wheel: tuple[companion.CompanionPackageWheel, ...]
    source: tuple[companion.CompanionSource, ...]
    fork: tuple[companion.CompanionFork, ...]


class _RocmFile(FactsFile, frozen=True, kw_only=True):
    release: dict[str, facts.Rocm]
    math_gap: tuple[facts.MathGap, ...]
    override: tuple[facts.GfxOverride, ...]
    span: tuple[facts.RocmSpan, ...]
    generic: dict[str, facts.GfxRow]
    switch: tuple[facts.GfxSwitch, ...]
    integrated: tuple[facts.GfxRow, ...]


class _ChipsFile(FactsFile, frozen=True, kw_only=True):
    chip: dict[str, facts.ChipRow]


class _NvidiaFile(_ChipsFile, frozen=True, kw_only=True):
    jetson: tuple[facts.Jetson, ...]
    jetpack: tuple[facts.JetPack, ...]
    superchip: tuple[facts.Superchip, ...]


class _IntelFile(_ChipsFile, frozen=True, kw_only=True):
    generation: tuple[facts.XeGeneration, ...]


class _CpuFile(FactsFile, frozen=True, kw_only=True):
    microarchitecture: dict[str, machine.Microarchitecture]
    name: tuple[machine.CpuName, ...]
    run: tuple[machine.CpuRun, ...]


class _DistrosFile(FactsFile, frozen=True, kw_only=True):
    distro: tuple[facts.Distro, ...]
    manylinux: dict[str, facts.Manylinux]


class _HazardsFile(FactsFile, frozen=True, kw_only=True):
    hazard: tuple[facts.Hazard, ...]


class _CostsFile(FactsFile, frozen=True, kw_only=True):
    use: dict[str, supply.UseCost]
    build: tuple[supply.BuildCost, ...]
    disk: tuple[supply.DiskCost, ...] = ()
    graft: tuple[graft.GraftCost, ...] = ()


class _MachinesFile(FactsFile, frozen=True, kw_only=True):
    machine: dict[str, facts.Profile]


class _SupplyFile(FactsFile, frozen=True, kw_only=True):
    manager: tuple[supply.Manager, ...]
    rocm: tuple[supply.RocmPackages, ...]
    need: tuple[supply.SupplyNeed, ...]
    companion: tuple[supply.CompanionNeed, ...] = ()
    switches: tuple[supply.CompanionSwitches, ...] = ()
    download: tuple[supply.CompanionDownload, ...] = ()
    part: tuple[supply.ThirdParty, ...]


class _GraftRecipesFile(FactsFile, frozen=True, kw_only=True):
    recipe: tuple[graft.GraftRecipe, ...]
    package: tuple[graft.HeaderPackage, ...] = ()
    library: tuple[graft.ClosedLibrary, ...] = ()
    twin: tuple[graft.ChipTwins, ...] = ()
    chip_files: tuple[graft.ChipFiles, ...] = ()


class _ImagesFile(FactsFile, frozen=True, kw_only=True):
    image: dict[str, supply.ContainerImage]
    digest: dict[str, supply.ImageDigest]
    runner: dict[str, supply.HostedRunner]


class _AppsFile(FactsFile, frozen=True, kw_only=True):
    torch: tuple[companion.AppTorch, ...]
    app: dict[str, companion.App]


def parse_toml(raw: bytes, name: str) -> dict[str, Any]:
    """What ``tomllib`` makes of ``raw``, from the cache where it is there."""
    path = _cache_folder() / f"{name}-{hashlib.sha256(raw).hexdigest()[:32]}.msgpack"
    with contextlib.suppress(OSError, msgspec.DecodeError, ValueError):
        cached = msgspec.msgpack.decode(path.read_bytes())
        if isinstance(cached, dict):
            return cached
    parsed = tomllib.loads(raw.decode("utf-8"))
    with contextlib.suppress(OSError, OverflowError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(msgspec.msgpack.encode(parsed))
        part.replace(path)
        for older in path.parent.glob(f"{name}-*.msgpack"):
            if older != path:
                older.unlink()
    return parsed


def _cache_folder() -> Path:
    """As platformdirs would say, without its 5 ms."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "rekindle/Cache/facts"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle/facts"


def read_table(name: str, kind: type[T], overlay: Path | None = None) -> T:
    """The file ``name.toml`` as a typed value; a mistake in it names the file and the place."""
    path = HERE / f"{name}.toml"
    raw = _read_toml(path)
    if overlay is not None:
        extra = overlay / f"{name}.toml"
        if extra.is_file():
            raw = _merge_tables(raw, _read_toml(extra))
            path = extra
    if name == "cpu":
        raw = _lay_over_archspec(raw)
    try:
        return msgspec.convert(raw, kind, dec_hook=_from_json)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadInput(f"{path.name} breaks the schema of the facts: {error}") from error


def read_own(module: str, name: str, kind: type[T]) -> T:
    """The table ``name`` in the folder of a ``module`` (its ``__file__``), for what every plan begins with."""
    path = Path(module).parent / name
    return msgspec.convert(parse_toml(path.read_bytes(), f"{path.parent.name}-{path.stem}"), kind)


def _read_toml(path: Path) -> dict[str, Any]:
    raw = read_bounded(path, MAX_FILE_BYTES, "facts file")
    try:
        return parse_toml(raw, path.stem)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is not valid TOML: {error}") from error


def _merge_tables(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    merged = ours | theirs
    for name in ours.keys() & theirs.keys():
        mine, value = ours[name], theirs[name]
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[name] = mine | value
        elif isinstance(mine, list) and isinstance(value, list):
            merged[name] = value + mine
    return merged


def _lay_over_archspec(raw: dict[str, Any]) -> dict[str, Any]:
    """Our rows of CPUs laid over archspec's, field by field."""
    ours = raw.get("microarchitecture", {})
    if not isinstance(ours, dict) or not all(isinstance(row, dict) for row in ours.values()):
        return raw  # the schema says what is wrong
    theirs = archspec_rows()
    names = dict.fromkeys([*theirs, *ours])
    return {**raw, "microarchitecture": {name: {**theirs.get(name, {}), **ours.get(name, {})} for name in names}}


class Facts:
    """All tables, each read when it is first asked for and kept from then on. Immutable from the outside."""

    cuda: _CudaFile
    cudnn: _CudnnFile
    torch: _TorchFile
    sources: _SourcesFile
    probes: _ProbesFile
    wheels: _WheelsFile
    companions: _CompanionsFile
    packages: CompanionPackagesFile
    rocm: _RocmFile
    nvidia: _NvidiaFile
    amd: _ChipsFile
    intel: _IntelFile
    cpu: _CpuFile
    distros: _DistrosFile
    hazards: _HazardsFile
    costs: _CostsFile
    machines: _MachinesFile
    supply: _SupplyFile
    images: _ImagesFile
    graft: _GraftRecipesFile
    apps: _AppsFile

    def __init__(self, overlay: Path | None = None) -> None:
        self.overlay = overlay

    if not TYPE_CHECKING:  # a name that is no table is a mistake that the type checker sees

        def __getattr__(self, name: str) -> FactsFile:
            if name not in FILES:
                raise AttributeError(f"there is no table {name!r}")
            return vars(self).setdefault(name, read_table(name, FILES[name], self.overlay))

    def is_tegra(self, sm: Sm) -> bool:
        """Is this an architecture that exists only in Tegra chips?"""
        tegras = [row.sm for row in self.cuda.sm_alone] + [each for row in self.cuda.sm_same for each in row.sm]
        return any((sm.major, sm.minor) == (each.major, each.minor) for each in tegras)

    def xe_generation(self, arch: GpuArch | None) -> facts.XeGeneration | None:
        """The row of an Intel GPU's generation; None where the tables have none."""
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
    def python_hazards(self) -> tuple[facts.Hazard, ...]:
        """The hazards that depend on the Python; few, and asked for often."""
        return tuple(row for row in self.hazards.hazard if row.python)

    @functools.cached_property
    def minors(self) -> dict[str, int]:
        """Every minor release with its place in time: 1.13 stands right before 2.0."""
        order = sorted({minor(version) for version in self.torch.release}, key=key)
        return {name: place for place, name in enumerate(order)}

    def is_pypi_default(self, version: str, flavour: str, platform: facts.Platform, python: str | None = None) -> bool:
        """Does a plain ``pip install torch`` give this flavour there (to this Python)?"""
        row = self.release(version)
        listed = row.pythons.get(platform, ()) if row and row.pypi.get(platform) == flavour else None
        return listed is not None and (python is None or python in listed)

    def release(self, version: str) -> facts.Release | None:
        """The row of exactly this release; None for one that the tables do not know."""
        return self.torch.release.get(version)

    def companion_release(self, project: str, torch: str | None) -> str | None:
        """The torchvision or torchaudio release that belongs to a release of torch (its flavour does not matter)."""
        return getattr(self.release((torch or "").partition("+")[0]), project, None)

    @functools.lru_cache(maxsize=256)  # noqa: B019 (there are four Facts at the most, and they stay)
    def flavours(self, version: str) -> tuple[facts.Flavour, ...]:
        """The published flavours of one release (``2.7.1`` → those of 2.7)."""
        rows = [row for row in self.wheels.flavour if row.torch == minor(version)]
        return tuple(row for row in rows if not row.only or version in row.only)

    @functools.lru_cache(maxsize=256)  # noqa: B019
    def era(self, version: str) -> facts.SourceEra:
        """What the sources of a release want: the newest row that is not newer than it, else the first."""
        eras = [era for era in self.torch.era if compare(era.since, version) <= 0]
        return max(eras, key=lambda era: key(era.since), default=self.torch.era[0])

    def toolkit(self, version: str) -> facts.CudaToolkit | None:
        """The row of a toolkit; 11.4.4 is found as 11.4, and 12 means the newest 12.x."""
        rows = self.cuda.toolkit
        newest = (rows[kit] for kit in self.toolkits if version.isdigit() and key(kit)[0] == int(version))
        return rows.get(version) or rows.get(minor(version)) or next(newest, None)


# The names of the files with their shapes; `facts show` and the tests walk this.
FILES: dict[str, type[FactsFile]] = get_type_hints(Facts)
