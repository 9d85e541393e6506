"""The GPU axes: does each container have an image the card can load, and is the driver right?

What runs where is asked of :mod:`rekindle.compat`. All of torch's kernels are compiled for one list of targets, so each
must run on the card. Other packages are asked library by library: they bring several builds to choose from
(``_cuda118.so``, ``_cuda130.so``), libraries for single families of cards, or thousands of images to pick from (cuFFT).

*builds*   libraries whose names differ only in the toolkit's version: one that runs is enough
*picking*  a vendor's library, or images for one target each: the share that runs is held against the best card's
*plain*    everything in the library must run
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rekindle.compat import BACKENDS
from rekindle.compat.answer import Coverage
from rekindle.compat.backends import find_flavour, platform_of
from rekindle.compat.driver import driver_runs, driver_side, is_board
from rekindle.compat.graft import graft_hint
from rekindle.compat.images import GpuCode, covers, split_targets
from rekindle.compat.toolkit import cudnn_covers
from rekindle.facts import Facts, load_facts
from rekindle.inspect.packages import is_vendor
from rekindle.model.arch import Gfx, GpuArch, Sm
from rekindle.model.machine import Gpu, Machine
from rekindle.model.version import minor
from rekindle.model.wheel import ArchSet, Axis, AxisVerdict, LibraryGpu, Runs, WheelReport

_CUDNN = re.compile(r"nvidia-cudnn(?:-cu\d+)?\s*\(?==\s*(\d[\d.]*)")


def code_of(report: WheelReport, archs: Sequence[str], facts: Facts) -> GpuCode:
    """Targets of this wheel, with what is known of their making."""
    flavour = find_flavour(report.version, facts, cuda=report.cuda, rocm=report.rocm) if _is_torch(report) else None
    pinned = next((match[1] for line in report.requires if (match := _CUDNN.match(line))), None)
    cudnn = pinned or (flavour.cudnn if flavour else None)
    # Where the kernel files of the math libraries were read, they speak for themselves.
    publisher = flavour.publisher if flavour and not report.gpu.data_files else None
    return GpuCode(tuple(archs), cuda=report.cuda, rocm=report.rocm, cudnn=cudnn, publisher=publisher)


def _is_torch(report: WheelReport) -> bool:
    return report.name in (None, "torch")


def gpu_verdicts(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    """One verdict per card, and one more where cuDNN leaves it out."""
    if not machine.gpus:
        return []
    if not report.gpu.libraries and not report.gpu.declared:
        native = not _is_torch(report) and any(not tag.endswith("-any") for tag in report.tags)
        if report.quick and (native or report.cuda or report.rocm or (report.version or "").endswith("+xpu")):
            return [gpu_verdict("unknown", "gpu-not-read", "the GPU code was not read (quick)", "leave out --quick")]
        if not _is_torch(report):
            return [gpu_verdict("yes", "cpu-only", "no GPU code of its own: any GPU will do, or none")]
        text = "the wheel has no GPU code: it runs on the CPU and leaves the GPU unused"
        return [gpu_verdict("partly", "cpu-only", text, "take a CUDA, ROCm or XPU wheel: rekindle plan")]
    facts = load_facts()
    out: list[AxisVerdict] = []
    for gpu in machine.gpus:
        name = f"{gpu.name or gpu.vendor}" + (f" ({gpu.arch})" if gpu.arch else "")
        if gpu.vendor == "intel":
            out.append(_judge_intel(report, gpu, name, machine, facts))
            continue
        if not any(library.sets for library in report.gpu.libraries) and not report.gpu.declared:
            text = f"SYCL code only, which runs on Intel's GPUs and CPUs: it leaves {name} unused"
            out.append(gpu_verdict("partly", "gpu-sycl", text))
            continue
        if gpu.arch is None:
            out.append(gpu_verdict("unknown", "gpu-arch-not-told", f"the architecture of {name} is not known"))
            continue
        threads = machine.cpu.threads or machine.cpu.cores
        found = _Card(report, gpu.arch, name, machine.os.system, facts, threads).verdict()
        out.append(found)
        if not _is_torch(report):
            continue
        cuda = minor(report.cuda) if report.cuda else None
        missing = cudnn_covers(code_of(report, (), facts).cudnn, cuda, gpu.arch, facts)
        if found.runs == "yes" and missing.kind == "partly":
            plan = f"a wheel with cuDNN {missing.want} or older: rekindle plan --gpu {gpu.arch}"
            text = f"{name}: {missing.text}"
            out.append(gpu_verdict("partly", missing.code, text, plan if missing.want else None))
    # A card of another maker takes nothing from the one that is served: it is left unused.
    served = any(axis.runs in ("yes", "partly") for axis in out)
    return [replace(axis, runs="partly") if served and axis.code == "gpu-vendor" else axis for axis in out]


def _judge_intel(report: WheelReport, gpu: Gpu, name: str, machine: Machine, facts: Facts) -> AxisVerdict:
    """SYCL code: made for the GPU beforehand, or SPIR-V, which Intel's driver compiles for what it drives."""
    if not (kinds := {kind for library in report.gpu.libraries for kind in library.sycl}):
        text = f"the wheel has no code for Intel's GPUs and leaves {name} unused"
        return gpu_verdict("no", "gpu-vendor", text, "take an XPU wheel" if _is_torch(report) else None)
    row, platform = facts.xe_generation(gpu.arch), platform_of(machine.os)
    if row is None:
        text = f"SYCL code (SPIR-V), which Intel's runtime compiles at first use; whether for {name} is not told"
        return gpu_verdict("unknown", "gpu-sycl", text)
    flavour = find_flavour(report.version, facts) if _is_torch(report) else None
    if flavour and flavour.xpu and platform:
        coverage = BACKENDS["xpu"].covers(flavour, platform, gpu, facts)
        text = f"{name}: the wheel {coverage.text}"
        if coverage.kind == "native":
            return gpu_verdict("yes", coverage.code, text)
        return gpu_verdict("no", coverage.code, text, f"rekindle plan --gpu {row.arch}")
    devices = sorted({device for library in report.gpu.libraries for device in library.ahead if device in row.devices})
    if devices:
        return gpu_verdict("yes", "gpu-native", f"code for {name} ({', '.join(devices)}), made beforehand")
    if "spir64" not in kinds:
        return gpu_verdict("no", "gpu-no-kernels", f"code for other GPUs of Intel's alone, and no SPIR-V for {name}")
    if row.torch is None:
        return gpu_verdict("unknown", "gpu-sycl", f"SPIR-V; whether a driver for {name} compiles it is not known")
    return gpu_verdict("yes", "gpu-spirv", f"SPIR-V, which Intel's driver compiles for {name} at first use")


# What runs somehow: it cannot be told, under an override, compiled by the driver at first use, as it is.
_WORST_FIRST = ("unknown", "override", "jit", "native")


class _Card:
    """One card against all containers of a wheel."""

    def __init__(
        self, report: WheelReport, card: GpuArch, name: str, system: str, facts: Facts, threads: int | None = None
    ) -> None:
        self.report, self.card, self.name, self.system, self.facts = report, card, name, system, facts
        self.threads = threads
        libraries = ((library.file.rpartition("/")[2], library.sets) for library in report.gpu.libraries)
        self.sets = [(file, group) for file, sets in libraries for group in sets]

    @property
    def remedy(self) -> str:
        """A plan for the card, and a graft of this very wheel where there is a recipe for it."""
        version = self.report.version if self.report.name == "torch" and self.system == "linux" else None
        graft = graft_hint(version, self.report.cuda, self.card, self.threads, self.facts)
        return f"rekindle plan --gpu {self.card}" + (f"; or {graft}" if graft else "")

    def runs(self, archs: Sequence[str]) -> Coverage:
        return covers(code_of(self.report, archs, self.facts), self.card, self.system, self.facts)

    def verdict(self) -> AxisVerdict:
        if not self.report.gpu.libraries:
            return self._judge_declared()
        if not (mine := [(file, group) for file, group in self.sets if self._same_maker(group.archs)]):
            is_amd = isinstance(self.card, Gfx)
            maker, other, kind = ("NVIDIA", "AMD", "a ROCm") if is_amd else ("AMD", "NVIDIA", "a CUDA")
            text = f"the wheel has {maker} code only; {self.name} is {other}"
            return gpu_verdict("no", "gpu-vendor", text, f"take {kind} wheel" if _is_torch(self.report) else None)
        if by_library(self.report):
            return self._offer_graft(judge_libraries(self.report, self.name, self.runs, self._same_maker))
        judged = [(file, group, self.runs(group.archs)) for file, group in mine]
        general = [row for row in judged if isinstance(self.card, Gfx) or row[1].origin in ("own", "other", None)]
        lost = [row for row in general if row[2].kind == "none"]
        inside = [row for row in judged if row[1].origin == "static"]
        if general and len(lost) == len(general):
            kernels = self.report.gpu.kernels
            have = " ".join((kernels.gfx if isinstance(self.card, Gfx) else kernels.sass) or general[0][1].archs)
            near = [file for file, _, coverage in inside if coverage.kind != "none"]
            also = f" (only static libraries inside have it: {near[0]})" if near else ""
            text = f"the kernels are for {have}: no image for {self.name}{also}"
            return gpu_verdict("no", "gpu-no-kernels", text, self.remedy)
        lost += [row for row in inside if row not in general and row[2].kind == "none"]
        if lost:
            count, total = sum(group.count for _, group, _ in lost), sum(group.count for _, group in mine)
            rows = set()
            for file, group, _ in lost:
                owners = f" ({', '.join(group.kernels)})" if group.kernels else ""
                rows.add(f"{file}: {group.count} for {' '.join(group.archs)} only{owners}")
            text = f"{count} of {total} containers have no image for {self.name}: {'; '.join(sorted(rows))}"
            return gpu_verdict("partly", "gpu-some-kernels", text, self.remedy)
        if wrong := self._math_library():
            return wrong
        worst = min(general, key=lambda row: _WORST_FIRST.index(row[2].kind), default=None)
        if worst and worst[2].kind != "native":
            return self._verdict_on(worst[2], worst[0])
        return gpu_verdict("yes", "gpu-native", f"machine code for {self.name} in every kernel that needs it")

    def _offer_graft(self, found: AxisVerdict) -> AxisVerdict:
        """Where the driver compiles PTX at first use, a graft can compile it once for all."""
        has_ptx = any(split_targets(group.archs).ptx for _, group in self.sets)
        if found.code != "gpu-jit" or self.report.name is None or self.system != "linux" or not has_ptx:
            return found
        wheel = f"{self.report.name}=={self.report.version}"
        return replace(found, remedy=f"rekindle graft {wheel} --gpu {self.card} compiles it once for all")

    def _same_maker(self, archs: Sequence[str]) -> bool:
        split = split_targets(tuple(archs))
        return bool(split.gfx) if isinstance(self.card, Gfx) else bool(split.sass or split.ptx or split.lto)

    def _judge_declared(self) -> AxisVerdict:
        coverage = self.runs(self.report.gpu.declared)
        listed = " ".join(self.report.gpu.declared)
        if coverage.kind == "none":
            why = f"built for {listed}: nothing for {self.name}"
            code = coverage.code if coverage.code in ("gpu-math-library", "gpu-vendor") else "gpu-declared"
            return gpu_verdict("no", code, coverage.text if code == "gpu-math-library" else why, self.remedy)
        if coverage.kind == "unknown":
            return gpu_verdict("unknown", coverage.code, f"built for {listed}: it {coverage.text}")
        if coverage.kind == "native":
            text = f"declared for {listed}, which includes {self.name}; libraries were not read"
            return gpu_verdict("yes", "gpu-declared", text)
        return self._verdict_on(coverage)

    def _math_library(self) -> AxisVerdict | None:
        for data in self.report.gpu.data_files if isinstance(self.card, Gfx) else ():
            if data.library in ("rocBLAS", "hipBLASLt") and self.runs(data.gfx).kind == "none":
                runs: Runs = "no" if data.library == "rocBLAS" else "partly"
                text = f"{data.library} has no kernel files for {self.name} (it has {' '.join(data.gfx)})"
                return gpu_verdict(runs, "gpu-math-library", text, f"rekindle plan --gpu {self.card}")
        return None

    def _verdict_on(self, coverage: Coverage, file: str = "the wheel") -> AxisVerdict:
        if coverage.kind == "jit":
            text = f"runs on {self.name} through PTX, which the driver compiles at first use"
            return self._offer_graft(gpu_verdict("yes", "gpu-jit", text))
        if coverage.kind == "override":
            setting = " ".join(f"{name}={value}" for name, value in coverage.env)
            remedy = f"set {setting} before starting Python"
            return gpu_verdict("partly", "gpu-override", f"{file} {coverage.text}", remedy)
        remedy = "run it there: rekindle verify"
        if coverage.code == "gpu-switch":
            remedy = "rocminfo shows it; HSA_XNACK=1 or 0 sets xnack on cards that allow it"
        return gpu_verdict("unknown", coverage.code, f"{file} {coverage.text}", remedy)


def driver_verdicts(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    """Floor and ceiling: new enough for the toolkit, and not too new for the card."""
    cards = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]
    if not report.cuda or not cards:
        return []
    facts = load_facts()
    sms = tuple(gpu.arch for gpu in cards if isinstance(gpu.arch, Sm))
    if is_board(machine.os, sms, facts):
        return []
    known = [gpu.arch for gpu in cards if gpu.arch is not None] if report.gpu.libraries or report.gpu.declared else []
    system, side, driver = machine.os.system, driver_side(machine.os), machine.drivers.nvidia
    ptx = any(_Card(report, arch, "", system, facts).verdict().code == "gpu-jit" for arch in known)
    names = tuple(f"{gpu.name or gpu.vendor} ({gpu.arch})" for gpu in cards if isinstance(gpu.arch, Sm))
    answer = driver_runs(driver, minor(report.cuda), sms, side, facts, ptx=ptx, names=names)
    remedy = f"install driver {answer.want}" if answer.kind == "no" and answer.want else None
    return [verdict("driver", answer.kind, answer.code, answer.text, remedy)]


# Where nearly all containers have one target, nobody expects each of them to run on every card.
MOSTLY_SINGLE = 0.9
# A card with less than this part of what the best-served card has is an afterthought of the library.
FAIR_SHARE = 0.5
# With less than this it has odds and ends only: 2 of 351 containers of cuSPARSELt run on a V100 (not supported).
LEAST_SHARE = 0.1
MOST_NAMED = 4
_BUILD = re.compile(r"(?i)((?:^|[_.-])(?:cuda|cu|rocm|hip))[_-]?\d+(?=[_.-]|$)")
# Whether images for these targets run on the card in question.
CoverageOf = Callable[[Sequence[str]], Coverage]


class LibraryFit(NamedTuple):
    """One library, or one choice of builds: ``runs`` of ``total`` containers have an image for the card."""

    name: str
    word: Runs
    runs: int
    total: int
    late: bool
    picking: bool = False
    doubt: str | None = None
    setting: str | None = None


def by_library(report: WheelReport) -> bool:
    """Packages other than torch, and a vendor's library by itself."""
    vendors = report.name is None and all(is_vendor(library.file) for library in report.gpu.libraries)
    return not report.gpu.declared and (vendors or report.name not in (None, "torch"))


def picks(library: LibraryGpu) -> bool:
    """Does the library choose among its images, so that nobody expects each to run everywhere?"""
    total = sum(group.count for group in library.sets)
    single = sum(group.count for group in library.sets if len(group.archs) == 1)
    several = len({group.archs for group in library.sets}) > 1
    return is_vendor(library.file) or (several and single >= MOSTLY_SINGLE * total)


def judge_libraries(
    report: WheelReport, card: str, runs: CoverageOf, same_maker: Callable[[Sequence[str]], bool]
) -> AxisVerdict:
    """One verdict on a card, from a judgement of each library with code for cards of its maker."""
    choices: dict[str, list[LibraryFit]] = {}
    for library in report.gpu.libraries:
        if mine := [group for group in library.sets if same_maker(group.archs)]:
            choices.setdefault(_BUILD.sub(r"\1", library.file), []).append(_judge_library(library, mine, runs))
    chosen = any(len(builds) > 1 for builds in choices.values())
    return _sum_up([_best_build(builds) for builds in choices.values()], card, chosen)


def _best_build(builds: Sequence[LibraryFit]) -> LibraryFit:
    """Of several builds, one that runs is enough; all that run are named."""
    best = max(builds, key=lambda build: ("no", "unknown", "partly", "yes").index(build.word))
    same = [build.name for build in builds if build.word == best.word]
    return best._replace(name=", ".join(same[:MOST_NAMED]) + (" …" if len(same) > MOST_NAMED else ""))


def _judge_library(library: LibraryGpu, mine: Sequence[ArchSet], runs: CoverageOf) -> LibraryFit:
    name = library.file if "*" in library.file else library.file.rpartition("/")[2]
    answers = [(group, runs(group.archs)) for group in mine]
    total = sum(group.count for group in mine)
    good = [(group, coverage) for group, coverage in answers if coverage.kind in ("native", "jit")]
    count = sum(group.count for group, _ in good)
    late = bool(good) and all(coverage.kind == "jit" for _, coverage in good)
    other = next((coverage for _, coverage in answers if coverage.kind in ("unknown", "override")), None)
    if count == 0 and other is not None:
        setting = " ".join(f"{variable}={value}" for variable, value in other.env) if other.kind == "override" else None
        return LibraryFit(name, "unknown", count, total, late, picks(library), other.text, setting)
    if picks(library):
        native = sum(group.count for group, coverage in good if coverage.kind == "native")
        # The number of containers for the card that has most. Code for a single chip or family counts only where there
        # is nothing else, since other cards have no use for it.
        archs = [arch for group in mine for arch in group.archs * group.count if arch.startswith(("sm_", "gfx"))]
        counts = Counter(arch for arch in archs if not arch.endswith(("a", "f")) or arch.startswith("gfx"))
        best = max((counts or Counter(archs)).values(), default=0)
        share = (native or count) / best if best else float(count > 0)
        # PTX and LTO code run on every newer card and say nothing of who is served well.
        fair = FAIR_SHARE if native else LEAST_SHARE
        word: Runs = "yes" if share >= fair else "partly" if share >= LEAST_SHARE else "no"
        return LibraryFit(name, word, count, total, native == 0, picking=True)
    return LibraryFit(name, "yes" if count == total else "partly" if count else "no", count, total, late)


def _sum_up(rows: Sequence[LibraryFit], card: str, chosen: bool) -> AxisVerdict:
    good = [row for row in rows if row.word == "yes"]
    bad = [row for row in rows if row.word == "no"]
    unsure = [row for row in rows if row.word == "unknown"]
    if len(bad) == len(rows):
        return gpu_verdict("no", "gpu-no-kernels", f"no image for {card} in {_list_names(bad)}")
    if len(unsure) == len(rows):
        text = f"{unsure[0].name} {unsure[0].doubt}"
        if all(row.setting for row in unsure):
            return gpu_verdict("partly", "gpu-override", text, f"set {unsure[0].setting} before starting the program")
        return gpu_verdict("unknown", "gpu-not-told", text)
    if len(good) == len(rows):
        which = f" (in {_list_names(good)}; the package picks by toolkit version)" if chosen else ""
        if all(row.late for row in good):
            return gpu_verdict("yes", "gpu-jit", f"runs on {card} through code that is compiled at first use{which}")
        if all(row.picking for row in good):
            some = "; ".join(f"{row.name}: {row.runs} of {row.total} images" for row in good[:MOST_NAMED])
            return gpu_verdict("yes", "gpu-picks", f"code for {card} in {some}; the library picks by card{which}")
        return gpu_verdict("yes", "gpu-native", f"code for {card} in every library{which}")
    parts = [row for row in rows if row.word == "partly"]
    text = f"{card}: {len(good)} of {len(rows)} libraries run in full"
    if parts:
        text += "; in part: " + ", ".join(f"{row.name} ({row.runs} of {row.total})" for row in parts[:MOST_NAMED])
    if bad:
        text += f"; nothing for it in {_list_names(bad)}"
    if unsure:
        text += f"; not told for {_list_names(unsure)}"
    return gpu_verdict("partly", "gpu-some-kernels", text)


def _list_names(rows: Sequence[LibraryFit]) -> str:
    names = list(dict.fromkeys(row.name for row in rows))
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def verdict(axis: Axis, runs: Runs, code: str, text: str, remedy: str | None = None) -> AxisVerdict:
    """An answer in the order in which answers are written here."""
    return AxisVerdict(axis=axis, runs=runs, code=code, text=text, remedy=remedy)


gpu_verdict = functools.partial(verdict, "gpu")
