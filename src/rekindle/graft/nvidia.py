"""NVIDIA's cards: the two ways to machine code that a wheel left out.

*PTX*, which the driver would compile at each first start: ptxas compiles it once, with the options that the wheel's
makers gave, which stand beside it. *Source*: the device code of a release's own kernel files. Which file a container
comes from stands in its symbols (the module id), and so do the architectures that the release was compiled for, where a
template carries them in its name. Headers come from the wheel itself, then from the tree, then from packages of the
index; flags from the wheel, then from the release's recipe (``facts/graft.toml``). No host code is compiled or linked.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rekindle.compat.graft import unit_seconds
from rekindle.compat.toolkit import emits_for, ptx_runs, sass_runs
from rekindle.facts import Facts
from rekindle.formats.cubin import ModuleId, machine_code
from rekindle.formats.fatbin import Entry
from rekindle.graft.compile import CACHED, MODULE_ID, Job
from rekindle.graft.library import GpuLibrary, GraftCandidate, Way
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.graft import GraftRecipe, HeaderPackage, UnitOutcome, UnitProof, WayKind
from rekindle.model.toml import read_beside

# Folders of torch's tree that hold kernel files of the library itself, not of tests or other programs.
_KERNEL_FOLDERS = ("aten/src", "torch/csrc", "c10", "caffe2", "third_party")
_NOT_KERNELS = ("test", "tests", "benchmark", "benchmarks", "examples")
_GLOBAL = re.compile(r"__global__[^;{()]*?(?:__launch_bounds__\s*\([^)]*\)[^;{()]*?)?\b(\w+)\s*\(")
# The namespace in which thrust and cub keep what depends on the list of architectures.
_ARCH_LIST = re.compile(r"_(?:SM_)?((?:\d{3,4}_)+)NS")
_TAKEN_FLAGS = re.compile(r"-D\w+(?:=[\w.]*)?|--expt-(?:relaxed-constexpr|extended-lambda)")
_FLAGS_MARK = b"--expt-relaxed-constexpr"
_MOST_FLAGS = 1 << 14


@dataclass(frozen=True)
class PtxUnit(GraftCandidate):
    """A container that has PTX for the card: the ``entry`` to compile."""

    entry: Entry

    @property
    def like(self) -> Sm:
        """Code from the very same PTX."""
        return self.entry.arch


@dataclass(frozen=True, kw_only=True)
class PtxWay(Way):
    """Code from the wheel's own PTX for ``card``, as ``arch``."""

    card: Sm
    arch: Sm
    ptxas: str
    facts: Facts
    kind: ClassVar[WayKind] = "ptx"

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"ptxas -arch={self.arch}",)

    def judge(self, library: GpuLibrary) -> Iterator[GraftCandidate | UnitOutcome]:
        for unit in library.units:
            module, _ = library.module(unit)
            name = module.source if module else None
            runs = [entry for entry in unit.sass if sass_runs(entry.arch, self.card, None, self.facts) is not False]
            ptx = [entry for entry in unit.ptx if ptx_runs(entry.arch, self.card)]
            if runs or any(entry.arch == self.arch for entry in unit.sass):
                yield library.outcome(unit, "has", f"{runs[-1].name if runs else self.arch} runs there", name)
            elif not unit.targets:
                yield library.outcome(unit, "has", "it is empty", name)
            elif not ptx:
                have = ", ".join(dict.fromkeys(unit.targets))
                yield library.outcome(unit, "left-out", f"it has {have} and no PTX that {self.card} can use", name)
            else:
                entry = max(ptx, key=lambda entry: entry.arch)
                yield PtxUnit(library.name, unit, name, self.arch, f"its {entry.name} PTX", entry)

    def jobs(self, folder: Path, number: int, library: GpuLibrary, units: Sequence[PtxUnit]) -> list[Job]:
        """The PTX of ``units`` is written as files."""
        jobs: list[Job] = []
        for each in units:
            ptx, cubin = f"ptx/{number}-{each.unit.number}.ptx", each.output(number)
            write_if_changed(folder / ptx, library.image(each.entry) + b"\n")
            options = ptxas_options(library.options(each.entry))
            first = (self.ptxas, f"-arch={each.arch}", "-m64", *options, ptx, "-o", cubin)
            title = f"object {cubin} ({each.name or 'unnamed unit'})"
            jobs.append(Job(output=cubin, command=first, inputs=(ptx,), title=title))
        return jobs


def ptxas_options(options: Sequence[str]) -> tuple[str, ...]:
    """The wheel's own options for ptxas, without those that are ours to say and those nobody knows."""
    taken = read_beside(__file__, "ptxas_options.toml", dict[str, frozenset[str]])["taken"]
    return tuple(word for word in options if word.split("=", 1)[0] in taken)


@dataclass(frozen=True)
class SourceUnit(GraftCandidate):
    """A container and the ``file`` it is compiled from; ``arch_list`` is what its release was compiled for."""

    module: ModuleId
    file: Path
    arch_list: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where everything lies: the release's ``tree``, the wheel's ``include`` folder, ``headers`` from packages, files
    that the release's generator wrote, the wrapped ``nvcc``, the host compiler whose preprocessor and headers it uses
    (``preprocessor``; None: what nvcc finds), a compiler cache's ``launcher`` and the wheel's own ``flags``."""

    tree: Path
    include: Path
    recipe: GraftRecipe
    nvcc: Path
    preprocessor: str | None = None
    launcher: str | None = None
    headers: tuple[Path, ...] = ()
    generated: Path | None = None
    flags: tuple[str, ...] = ()

    @property
    def common_flags(self) -> tuple[str, ...]:
        """What nvcc is told of every file."""
        include = [self.tree / folder for folder in self.recipe.include]
        include += [self.include, self.include / "torch/csrc/api/include", *self.headers]
        # The wheel's own flags come last: they win over the recipe's.
        defines = (f"-D{define}" for define in self.recipe.defines)
        options = dict.fromkeys((*defines, *self.recipe.options, *self.flags))
        return (*(f"-I{path}" for path in include), *options, f"-std={self.recipe.standard}", "-w")

    def part_flags(self, file: Path) -> Iterator[str]:
        """What it is told of a file besides."""
        for part in self.recipe.parts:
            if file.is_relative_to(self.tree / part.folder):
                yield from (f"-I{self.tree / folder}" for folder in part.include)
                yield from (f"-D{define}" for define in part.defines)


@dataclass(frozen=True, kw_only=True)
class SourceWay(Way):
    """Code from the release's own kernel files for ``card``, as ``arch``. ``gather`` gives them when they are needed: a
    wheel whose PTX serves needs none. ``unseen``: what would be compiled is told without them; then every named unit is
    taken to have its file. ``proving``: for an architecture the wheel has (to compare), whatever runs on the card."""

    card: Sm
    arch: Sm
    facts: Facts
    recipe: GraftRecipe
    gather: Callable[[], Sources]
    toolkit: str
    unseen: bool = False
    proving: bool = False
    kind: ClassVar[WayKind] = "source"

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(flag for flag in self.gather().common_flags if not flag.startswith("-I"))

    def judge(self, library: GpuLibrary) -> Iterator[GraftCandidate | UnitOutcome]:
        files = None if self.unseen else kernel_files(self.gather())
        for unit in library.units:
            runs = [entry for entry in unit.sass if sass_runs(entry.arch, self.card, None, self.facts) is not False]
            module, names = library.module(unit)
            name, file = module.source if module else "", None
            if runs and not self.proving:
                yield library.outcome(unit, "has", f"{runs[-1].name} runs there", name or None)
                continue
            if module is not None:
                unseen = Path(f"{name.removesuffix('_cu')}.cu")
                file = unseen if files is None else choose_file(files.get(name, []), names)
            if module is None or file is None:
                yield library.outcome(unit, "left-out", _why_without(module, files or {}), name or None)
                continue
            extra = self.recipe.extra_archs.get(module.source, {}).get(str(self.arch).removeprefix("sm_"))
            more = (parse_sm(f"sm_{extra}"),) if extra and not self.proving else ()
            archs = _arch_list(names, unit.sass)
            for arch in (self.arch, *more):
                yield SourceUnit(library.name, unit, module.source, arch, file.name, module, file, archs)

    def jobs(self, folder: Path, number: int, library: GpuLibrary, units: Sequence[SourceUnit]) -> list[Job]:
        """Those that take longest first: as measured, then with code of one chip (343 s against 200), then large."""
        row = next((row for row in self.facts.costs.graft if row.torch == self.recipe.releases), None)

        def rank(each: SourceUnit) -> tuple[float, bool, int]:
            seconds = unit_seconds(each.name, each.arch, row) if row else 0.0
            return -seconds, not each.arch.suffix, -each.unit.container.size

        sources = self.gather()
        compiler, phase = [str(sources.nvcc)], "--cubin"
        if sources.launcher:
            compiler, phase = [sources.launcher, str(sources.nvcc.parent / CACHED)], "-c"
        compiler += ["-ccbin", sources.preprocessor] if sources.preprocessor else []
        common, jobs = sources.common_flags, []
        for each in sorted(units, key=rank):
            cubin, first = each.output(number), f"first/{number}-{each.unit.number}.h"
            # A compiler cache sees what is preprocessed: the id must stand in it, or two wheels' units are one.
            numbers = ",".join(map(str, each.arch_list))
            header = (
                f"#undef __CUDA_ARCH_LIST__\n#define __CUDA_ARCH_LIST__ {numbers}\n"
                f'static_assert(true, "{each.module.text}");\n'
            )
            write_if_changed(folder / first, header.encode())
            short = str(each.arch).removeprefix("sm_")
            command = (
                *("env", f"{MODULE_ID}={each.module.text}", *compiler),
                *("-gencode", f"arch=compute_{short},code=sm_{short}", phase, str(each.file), "-o", cubin),
                *(*common, *sources.part_flags(each.file), "-include", first),
            )
            title = f"object {cubin} ({each.name})"
            jobs.append(Job(output=cubin, command=command, inputs=(str(each.file), first), title=title))
        return jobs

    def proofs(self, library: GpuLibrary, count: int) -> list[SourceUnit]:
        """``count`` units for an architecture that the wheel has and the toolkit compiles for, of every size."""
        had = {entry.arch for unit in library.units for entry in unit.sass if not entry.suffix}
        able = [arch for arch in sorted(had) if emits_for(self.toolkit, arch, self.facts) == arch]
        if not able or count < 1:
            return []
        arch = min(able, key=lambda each: abs(each.major * 10 + each.minor - self.arch.major * 10 - self.arch.minor))
        units, _ = replace(self, card=arch, arch=arch, unseen=False, proving=True).survey(library)
        units = [unit for unit in units if any(entry.arch == arch for entry in unit.unit.sass)]
        units.sort(key=lambda each: each.unit.container.size)
        return units[:: max(1, len(units) // count)][:count]


def find_packages(torch: str, facts: Facts) -> tuple[HeaderPackage, ...]:
    """The packages whose headers a release needs where the toolkit does not have them."""
    release = Version(torch.split("+")[0])
    return tuple(package for package in facts.graft.package if release in SpecifierSet(package.torch))


class FlagSearch:
    """Finds the flags a release compiled its kernels with while libtorch_cpu.so passes by, piece by piece."""

    def __init__(self) -> None:
        self._rest = b""
        self.flags: tuple[str, ...] = ()

    def __call__(self, piece: bytes) -> None:
        if self.flags:
            return
        data = self._rest + piece
        before, mark, behind = data.partition(_FLAGS_MARK)
        rest, end, _ = behind.partition(b"\0")
        if mark and (end or len(rest) > _MOST_FLAGS):
            text = (before.rpartition(b"\0")[2] + mark + rest).decode("ascii", "replace")
            self.flags = tuple(dict.fromkeys(word for word in text.split() if _TAKEN_FLAGS.fullmatch(word)))
        self._rest = data[-2 * _MOST_FLAGS :]


def unit_name(path: Path) -> str:
    """The compiler's name for a file."""
    return re.sub(r"\W", "_", path.name)


def kernel_files(sources: Sources) -> dict[str, list[Path]]:
    """Every kernel file of a release by the compiler's name for it."""
    roots = [sources.tree / folder for folder in sources.recipe.folders or _KERNEL_FOLDERS]
    return find_files([*roots, *([sources.generated] if sources.generated else [])], ("*.cu",))


def find_files(roots: Iterable[Path], patterns: Sequence[str]) -> dict[str, list[Path]]:
    """Files below folders that are not for tests, by the compiler's name for them."""
    by_name: dict[str, list[Path]] = {}
    for root in filter(Path.is_dir, roots):
        for path in sorted(path for pattern in patterns for path in root.rglob(pattern)):
            if not set(path.relative_to(root).parts[:-1]) & set(_NOT_KERNELS):
                by_name.setdefault(unit_name(path), []).append(path)
    return by_name


def _why_without(module: ModuleId | None, files: Mapping[str, list[Path]]) -> str:
    if module is None:
        return "no name in its code tells which file it was compiled from"
    if module.source not in files:
        return f"the source tree has no {module.source.removesuffix('_cu')}.cu (a submodule that is not there?)"
    return f"several files are called {module.source.removesuffix('_cu')}.cu, and its kernels do not tell which it is"


def choose_file(candidates: Sequence[Path], names: Sequence[str], *, certain: bool = False) -> Path | None:
    """The file of several whose kernels are in the container; ``certain``: one alone must define some of them, too."""
    if len(candidates) < 2 and not certain:
        return candidates[0] if candidates else None
    text = "\n".join(names)
    scores = []
    for path in candidates:
        kernels = set(_GLOBAL.findall(path.read_text(encoding="utf-8", errors="replace")))
        scores.append((sum(f"{len(kernel)}{kernel}" in text for kernel in kernels), path))
    scores.sort(key=lambda row: row[0], reverse=True)
    (best, file), (second, _), *_ = [*scores, (0, None), (0, None)]
    return file if best > second else None


def _arch_list(names: Iterable[str], entries: Sequence[Entry]) -> tuple[int, ...]:
    """The architectures the unit was compiled for at its release: as a name in it tells, else what it holds."""
    for name in names:
        if match := _ARCH_LIST.search(name):
            return tuple(int(number) for number in match[1].rstrip("_").split("_"))
    return tuple(sorted({entry.number * 10 for entry in entries}))


def compare_code(unit: SourceUnit, image: bytes, official: bytes) -> UnitProof:
    """Hold new machine code against the wheel's own, function by function."""
    ours, theirs = machine_code(image), machine_code(official)
    named = len(theirs.keys() & ours.keys())
    same = sum(ours.get(name) == code for name, code in theirs.items())
    why = f"{named - same} of {named} functions were compiled to other instructions" if same < named else None
    if named < len(theirs):
        why = f"{len(theirs) - named} of {len(theirs)} functions have another name"
    name, arch = unit.module.source, str(unit.arch)
    return UnitProof(unit=name, arch=arch, functions=len(theirs), named=named, same=same, why=why)
