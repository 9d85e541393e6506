"""The facts files: the shape of each, and from TOML to typed rows: strict, cached, one file at a time.

A plan by architecture never reads the GPU names. A parsed table is kept in the user's cache, since reading TOML is most
of what a cold ``plan`` costs; it is named by the SHA-256 of the TOML it was made from, so it can never be stale, and is
as strictly checked afterwards as the TOML itself. Without a writable cache everything works, only slower.

An overlay directory (``REKINDLE_FACTS`` or :func:`load_facts`) may hold files of the same names: its named rows replace
ours, its listed rows come before ours, so that a newer fact can be used before it is shipped."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rekindle.errors import BadInput
from rekindle.facts.cpus import archspec_rows
from rekindle.model import companion, facts, graft, machine, supply
from rekindle.model.document import Part, _from_json, read_bounded


class FactsFile(Part, frozen=True, kw_only=True):
    schema: int


class CudaFile(FactsFile, frozen=True, kw_only=True):
    toolkit: dict[str, facts.CudaToolkit]
    sm_alone: tuple[facts.SmAlone, ...]
    sm_same: tuple[facts.SmSame, ...]
    sm_feature: tuple[facts.SmFeature, ...]
    driver_end: tuple[facts.DriverEnd, ...]
    source_end: tuple[facts.SourceEnd, ...]


class CudnnFile(FactsFile, frozen=True, kw_only=True):
    cudnn: dict[str, facts.Cudnn]
    package: tuple[facts.CudnnPackage, ...]


class TorchFile(FactsFile, frozen=True, kw_only=True):
    release: dict[str, facts.Release]
    era: tuple[facts.SourceEra, ...]


class SourcesFile(FactsFile, frozen=True, kw_only=True):
    syntax: tuple[facts.ArchSyntax, ...]
    front: tuple[facts.FrontEndRow, ...]
    evidence: tuple[facts.BuildEvidence, ...]


class ProbesFile(FactsFile, frozen=True, kw_only=True):
    probe: tuple[facts.Probe, ...] = ()


class WheelsFile(FactsFile, frozen=True, kw_only=True):
    flavour: tuple[facts.Flavour, ...]


class CompanionsFile(FactsFile, frozen=True, kw_only=True):
    companion: tuple[facts.CompanionWheel, ...]


class CompanionPackagesFile(FactsFile, frozen=True, kw_only=True):
    package: dict[str, companion.CompanionPackage]
    wheel: tuple[companion.CompanionPackageWheel, ...]
    source: tuple[companion.CompanionSource, ...]
    fork: tuple[companion.CompanionFork, ...]


class RocmFile(FactsFile, frozen=True, kw_only=True):
    release: dict[str, facts.Rocm]
    math_gap: tuple[facts.MathGap, ...]
    override: tuple[facts.GfxOverride, ...]
    span: tuple[facts.RocmSpan, ...]
    generic: dict[str, facts.GfxRow]
    switch: tuple[facts.GfxSwitch, ...]
    integrated: tuple[facts.GfxRow, ...]


class NvidiaFile(FactsFile, frozen=True, kw_only=True):
    chip: dict[str, facts.ChipRow]
    jetson: tuple[facts.Jetson, ...]
    jetpack: tuple[facts.JetPack, ...]
    superchip: tuple[facts.Superchip, ...]


class AmdFile(FactsFile, frozen=True, kw_only=True):
    chip: dict[str, facts.ChipRow]


class IntelFile(FactsFile, frozen=True, kw_only=True):
    chip: dict[str, facts.ChipRow]
    generation: tuple[facts.XeGeneration, ...]


class CpuFile(FactsFile, frozen=True, kw_only=True):
    microarchitecture: dict[str, machine.Microarchitecture]
    name: tuple[machine.CpuName, ...]
    run: tuple[machine.CpuRun, ...]


class DistrosFile(FactsFile, frozen=True, kw_only=True):
    distro: tuple[facts.Distro, ...]
    manylinux: dict[str, facts.Manylinux]


class HazardsFile(FactsFile, frozen=True, kw_only=True):
    hazard: tuple[facts.Hazard, ...]


class CostsFile(FactsFile, frozen=True, kw_only=True):
    use: dict[str, supply.UseCost]
    build: tuple[supply.BuildCost, ...]
    disk: tuple[supply.DiskCost, ...] = ()
    graft: tuple[graft.GraftCost, ...] = ()


class MachinesFile(FactsFile, frozen=True, kw_only=True):
    machine: dict[str, facts.Profile]


class SupplyFile(FactsFile, frozen=True, kw_only=True):
    manager: tuple[supply.Manager, ...]
    rocm: tuple[supply.RocmPackages, ...]
    need: tuple[supply.SupplyNeed, ...]
    companion: tuple[supply.CompanionNeed, ...] = ()
    switches: tuple[supply.CompanionSwitches, ...] = ()
    download: tuple[supply.CompanionDownload, ...] = ()
    part: tuple[supply.ThirdParty, ...]


class GraftRecipesFile(FactsFile, frozen=True, kw_only=True):
    recipe: tuple[graft.GraftRecipe, ...]
    package: tuple[graft.HeaderPackage, ...] = ()
    library: tuple[graft.ClosedLibrary, ...] = ()
    twin: tuple[graft.ChipTwins, ...] = ()
    chip_files: tuple[graft.ChipFiles, ...] = ()


class ImagesFile(FactsFile, frozen=True, kw_only=True):
    image: dict[str, supply.ContainerImage]
    digest: dict[str, supply.ImageDigest]
    runner: dict[str, supply.HostedRunner]


class AppsFile(FactsFile, frozen=True, kw_only=True):
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
                older.unlink(missing_ok=True)
    return parsed


def _cache_folder() -> Path:
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


def _lay_over_archspec(raw: dict[str, Any]) -> dict[str, Any]:
    """Our rows of CPUs laid over archspec's, field by field."""
    ours = raw.get("microarchitecture", {})
    if not isinstance(ours, dict) or not all(isinstance(row, dict) for row in ours.values()):
        return raw  # the schema says what is wrong
    theirs = archspec_rows()
    names = dict.fromkeys([*theirs, *ours])
    return {**raw, "microarchitecture": {name: {**theirs.get(name, {}), **ours.get(name, {})} for name in names}}
