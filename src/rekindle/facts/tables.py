"""The shape of each facts file: which tables it holds and the rows in them."""

from __future__ import annotations

from rekindle.model.beside import BesideFork, BesidePackage, BesideSource, BesideWheel
from rekindle.model.document import Part
from rekindle.model.facts import (
    ArchSyntax,
    BuildEvidence,
    Chip,
    CompanionWheel,
    CpuName,
    CpuRun,
    CudaToolkit,
    Cudnn,
    CudnnPackage,
    Distro,
    DriverEnd,
    Flavour,
    FrontEnd,
    GenericTarget,
    GfxOverride,
    GfxSwitch,
    Hazard,
    JetPack,
    Jetson,
    Manylinux,
    MathGap,
    Microarchitecture,
    Probe,
    Profile,
    Release,
    Rocm,
    RocmSpan,
    SmAlone,
    SmFeature,
    SmSame,
    SourceEnd,
    SourceEra,
    Superchip,
)
from rekindle.model.graft import GraftRecipe, HeaderPackage
from rekindle.model.supply import (
    BuildCost,
    CompanionDownload,
    CompanionNeed,
    ContainerImage,
    DiskCost,
    HostedRunner,
    ImageDigest,
    Manager,
    Need,
    RocmPackages,
    ThirdParty,
    UseCost,
)


class FactsFile(Part, frozen=True, kw_only=True):
    schema: int


class CudaFile(FactsFile, frozen=True, kw_only=True):
    toolkit: dict[str, CudaToolkit]
    sm_alone: tuple[SmAlone, ...]
    sm_same: tuple[SmSame, ...]
    sm_feature: tuple[SmFeature, ...]
    driver_end: tuple[DriverEnd, ...]
    source_end: tuple[SourceEnd, ...]


class CudnnFile(FactsFile, frozen=True, kw_only=True):
    cudnn: dict[str, Cudnn]
    package: tuple[CudnnPackage, ...]


class TorchFile(FactsFile, frozen=True, kw_only=True):
    release: dict[str, Release]
    era: tuple[SourceEra, ...]


class SourcesFile(FactsFile, frozen=True, kw_only=True):
    syntax: tuple[ArchSyntax, ...]
    front: tuple[FrontEnd, ...]
    evidence: tuple[BuildEvidence, ...]


class ProbesFile(FactsFile, frozen=True, kw_only=True):
    probe: tuple[Probe, ...] = ()


class WheelsFile(FactsFile, frozen=True, kw_only=True):
    flavour: tuple[Flavour, ...]


class CompanionsFile(FactsFile, frozen=True, kw_only=True):
    companion: tuple[CompanionWheel, ...]


class BesideFile(FactsFile, frozen=True, kw_only=True):
    package: dict[str, BesidePackage]
    wheel: tuple[BesideWheel, ...]
    source: tuple[BesideSource, ...]
    fork: tuple[BesideFork, ...]


class RocmFile(FactsFile, frozen=True, kw_only=True):
    release: dict[str, Rocm]
    math_gap: tuple[MathGap, ...]
    override: tuple[GfxOverride, ...]
    span: tuple[RocmSpan, ...]
    generic: dict[str, GenericTarget]
    switch: tuple[GfxSwitch, ...]


class NvidiaFile(FactsFile, frozen=True, kw_only=True):
    chip: dict[str, Chip]
    jetson: tuple[Jetson, ...]
    jetpack: tuple[JetPack, ...]
    superchip: tuple[Superchip, ...]


class AmdFile(FactsFile, frozen=True, kw_only=True):
    chip: dict[str, Chip]


class CpuFile(FactsFile, frozen=True, kw_only=True):
    microarchitecture: dict[str, Microarchitecture]
    name: tuple[CpuName, ...]
    run: tuple[CpuRun, ...]


class DistrosFile(FactsFile, frozen=True, kw_only=True):
    distro: tuple[Distro, ...]
    manylinux: dict[str, Manylinux]


class HazardsFile(FactsFile, frozen=True, kw_only=True):
    hazard: tuple[Hazard, ...]


class CostsFile(FactsFile, frozen=True, kw_only=True):
    use: dict[str, UseCost]
    build: tuple[BuildCost, ...]
    disk: tuple[DiskCost, ...] = ()


class MachinesFile(FactsFile, frozen=True, kw_only=True):
    machine: dict[str, Profile]


class SupplyFile(FactsFile, frozen=True, kw_only=True):
    manager: tuple[Manager, ...]
    rocm: tuple[RocmPackages, ...]
    need: tuple[Need, ...]
    companion: tuple[CompanionNeed, ...] = ()
    download: tuple[CompanionDownload, ...] = ()
    part: tuple[ThirdParty, ...]


class GraftRecipesFile(FactsFile, frozen=True, kw_only=True):
    recipe: tuple[GraftRecipe, ...]
    package: tuple[HeaderPackage, ...] = ()


class ImagesFile(FactsFile, frozen=True, kw_only=True):
    image: dict[str, ContainerImage]
    digest: dict[str, ImageDigest]
    runner: dict[str, HostedRunner]


# file name -> its shape; `facts show` and the tests walk this
FILES: dict[str, type[FactsFile]] = {
    "cuda": CudaFile,
    "cudnn": CudnnFile,
    "torch": TorchFile,
    "sources": SourcesFile,
    "probes": ProbesFile,
    "wheels": WheelsFile,
    "companions": CompanionsFile,
    "beside": BesideFile,
    "rocm": RocmFile,
    "nvidia": NvidiaFile,
    "amd": AmdFile,
    "cpu": CpuFile,
    "distros": DistrosFile,
    "hazards": HazardsFile,
    "costs": CostsFile,
    "machines": MachinesFile,
    "supply": SupplyFile,
    "images": ImagesFile,
    "graft": GraftRecipesFile,
}
