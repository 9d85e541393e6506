"""The GPU axes: does each container have an image the card can load, and is the driver right?

What runs where is asked of :mod:`rekindle.compat`; here the answers for all containers are put together. All of torch's
kernels are compiled for one list of targets, so each must run on the card. Other packages are asked library by library:
they bring several builds to choose from (``_cuda118.so``, ``_cuda130.so``), libraries for single families of cards, or
thousands of images among which the library itself picks (cuFFT, cuBLASLt, files of kernels).

*builds*   libraries whose names differ only in the toolkit's version: one that runs is enough
*picking*  a vendor's library, or images for one target each: the share that runs is held against the best card's
*plain*    everything in the library must run
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from rekindle.model.wheel import ArchSet, AxisVerdict, LibraryGpu, Runs, WheelReport

_CUDNN = re.compile(r"nvidia-cudnn(?:-cu\d+)?\s*\(?==\s*(\d[\d.]*)")


def code_of(report: WheelReport, archs: Sequence[str], facts: Facts) -> GpuCode:
    """Targets of this wheel, with what is known of their making."""
    flavour = find_flavour(report.version, facts, cuda=report.cuda, rocm=report.rocm) if _is_torch(report) else None
    pinned = next((match[1] for line in report.requires if (match := _CUDNN.match(line))), None)
    return GpuCode(
        tuple(archs),
        cuda=report.cuda,
        rocm=report.rocm,
        cudnn=pinned or (flavour.cudnn if flavour else None),
        # Where the kernel files of the math libraries were read, they speak for themselves.
        publisher=flavour.publisher if flavour and not report.gpu.data_files else None,
    )


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
            out.append(_intel(report, gpu, name, machine, facts))
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
        missing = cudnn_covers(code_of(report, (), facts).cudnn, _short(report.cuda), gpu.arch, facts)
        if found.runs == "yes" and missing.kind == "partly":
            remedy = f"a wheel with cuDNN {missing.want} or older: {_plan(gpu.arch)}" if missing.want else None
            out.append(gpu_verdict("partly", missing.code, f"{name}: {missing.text}", remedy))
    # A card of another maker takes nothing from the one that is served: it is left unused.
    served = any(one.runs in ("yes", "partly") for one in out)
    return [replace(one, runs="partly") if served and one.code == "gpu-vendor" else one for one in out]


def _intel(report: WheelReport, gpu: Gpu, name: str, machine: Machine, facts: Facts) -> AxisVerdict:
    """SYCL code: made for the GPU beforehand, or SPIR-V, which Intel's driver compiles for what it drives."""
    kinds = {kind for library in report.gpu.libraries for kind in library.sycl}
    if not kinds:
        text = f"the wheel has no code for Intel's GPUs and leaves {name} unused"
        return gpu_verdict("no", "gpu-vendor", text, "take an XPU wheel" if _is_torch(report) else None)
    row, platform = facts.xe_generation(gpu.arch), platform_of(machine.os)
    if row is None:
        text = f"SYCL code (SPIR-V), which Intel's runtime compiles at first use; whether for {name} is not told"
        return gpu_verdict("unknown", "gpu-sycl", text)
    flavour = find_flavour(report.version, facts) if _is_torch(report) else None
    if flavour and flavour.xpu and platform:
        found = BACKENDS["xpu"].covers(flavour, platform, gpu, facts)
        runs: Runs = "yes" if found.kind == "native" else "no"
        return gpu_verdict(
            runs, found.code, f"{name}: the wheel {found.text}", None if runs == "yes" else _plan(row.arch)
        )
    mine = sorted({one for library in report.gpu.libraries for one in library.ahead if one in row.devices})
    if mine:
        return gpu_verdict("yes", "gpu-native", f"code for {name} ({', '.join(mine)}), made beforehand")
    if "spir64" not in kinds:
        return gpu_verdict("no", "gpu-no-kernels", f"code for other GPUs of Intel's alone, and no SPIR-V for {name}")
    if row.torch is None:
        return gpu_verdict("unknown", "gpu-sycl", f"SPIR-V; whether a driver for {name} compiles it is not known")
    return gpu_verdict("yes", "gpu-spirv", f"SPIR-V, which Intel's driver compiles for {name} at first use")


def _plan(device: object) -> str:
    return f"rekindle plan --gpu {device}"


def _short(version: str | None) -> str | None:
    return ".".join(version.split(".")[:2]) if version else None


class _Card:
    """One card against all containers of a wheel."""

    def __init__(
        self, report: WheelReport, card: GpuArch, name: str, system: str, facts: Facts, threads: int | None = None
    ) -> None:
        self.report, self.card, self.name, self.system, self.facts = report, card, name, system, facts
        self.threads = threads

    @property
    def remedy(self) -> str:
        """A plan for the card, and a graft of this very wheel where there is a recipe for it."""
        version = self.report.version if self.report.name == "torch" and self.system == "linux" else None
        graft = graft_hint(version, self.report.cuda, self.card, self.threads, self.facts)
        return f"{_plan(self.card)}; or {graft}" if graft else _plan(self.card)

    def runs(self, archs: Sequence[str]) -> Coverage:
        return covers(code_of(self.report, archs, self.facts), self.card, self.system, self.facts)

    def verdict(self) -> AxisVerdict:
        if not self.report.gpu.libraries:
            return self._declared()
        sets = [(library.file.rsplit("/", 1)[-1], one) for library in self.report.gpu.libraries for one in library.sets]
        mine = [(file, one) for file, one in sets if self._same_maker(one.archs)]
        if not mine:
            maker, other = ("NVIDIA", "AMD") if isinstance(self.card, Gfx) else ("AMD", "NVIDIA")
            kind = "a ROCm" if isinstance(self.card, Gfx) else "a CUDA"
            text = f"the wheel has {maker} code only; {self.name} is {other}"
            return gpu_verdict("no", "gpu-vendor", text, f"take {kind} wheel" if _is_torch(self.report) else None)
        if by_library(self.report):
            return self._compiled_once(judge_libraries(self.report, self.name, self.runs, self._same_maker))
        judged = [(file, one, self.runs(one.archs)) for file, one in mine]
        general = [row for row in judged if isinstance(self.card, Gfx) or row[1].origin in ("own", "other", None)]
        lost = [row for row in general if row[2].kind == "none"]
        if general and len(lost) == len(general):
            return self._no_kernels(general, judged)
        static = [row for row in judged if row not in general and row[1].origin == "static" and row[2].kind == "none"]
        if lost or static:
            return self._some_kernels([*lost, *static], sum(one.count for _, one in mine))
        return self._math_library() or self._as_a_whole(general)

    def _compiled_once(self, found: AxisVerdict) -> AxisVerdict:
        """What the driver compiles at first use can be compiled once for all, where it is PTX."""
        name, sets = self.report.name, [one for library in self.report.gpu.libraries for one in library.sets]
        if found.code != "gpu-jit" or name is None or self.system != "linux":
            return found
        if not any(split_targets(one.archs).ptx for one in sets):
            return found
        graft = f"rekindle graft {name}=={self.report.version} --gpu {self.card} compiles it once for all"
        return replace(found, remedy=graft)

    def _same_maker(self, archs: Sequence[str]) -> bool:
        split = split_targets(tuple(archs))
        return bool(split.gfx) if isinstance(self.card, Gfx) else bool(split.sass or split.ptx or split.lto)

    def _declared(self) -> AxisVerdict:
        found = self.runs(self.report.gpu.declared)
        listed = " ".join(self.report.gpu.declared)
        if found.kind == "none":
            why = found.text if found.code == "gpu-math-library" else f"built for {listed}: nothing for {self.name}"
            code = found.code if found.code in ("gpu-math-library", "gpu-vendor") else "gpu-declared"
            return gpu_verdict("no", code, why, self.remedy)
        if found.kind == "unknown":
            return gpu_verdict("unknown", found.code, f"built for {listed}: it {found.text}")
        if found.kind == "native":
            text = f"declared for {listed}, which includes {self.name}; libraries were not read"
            return gpu_verdict("yes", "gpu-declared", text)
        return self._way(found)

    def _no_kernels(
        self, general: list[tuple[str, ArchSet, Coverage]], judged: list[tuple[str, ArchSet, Coverage]]
    ) -> AxisVerdict:
        kernels = self.report.gpu.kernels
        have = " ".join((kernels.gfx if isinstance(self.card, Gfx) else kernels.sass) or general[0][1].archs)
        near = [file for file, one, found in judged if one.origin == "static" and found.kind != "none"]
        also = f" (only static libraries inside have it: {near[0]})" if near else ""
        text = f"the kernels are for {have}: no image for {self.name}{also}"
        return gpu_verdict("no", "gpu-no-kernels", text, self.remedy)

    def _some_kernels(self, missing: list[tuple[str, ArchSet, Coverage]], total: int) -> AxisVerdict:
        count = sum(one.count for _, one, _ in missing)
        where = "; ".join(sorted({f"{file}: {_brief(one)}" for file, one, _ in missing}))
        text = f"{count} of {total} containers have no image for {self.name}: {where}"
        return gpu_verdict("partly", "gpu-some-kernels", text, self.remedy)

    def _math_library(self) -> AxisVerdict | None:
        if not isinstance(self.card, Gfx):
            return None
        for data in self.report.gpu.data_files:
            if data.library in ("rocBLAS", "hipBLASLt") and self.runs(data.gfx).kind == "none":
                runs: Runs = "no" if data.library == "rocBLAS" else "partly"
                text = f"{data.library} has no kernel files for {self.name} (it has {' '.join(data.gfx)})"
                return gpu_verdict(runs, "gpu-math-library", text, _plan(self.card))
        return None

    def _as_a_whole(self, general: list[tuple[str, ArchSet, Coverage]]) -> AxisVerdict:
        """The worst of what is left: not told, under an override, compiled by the driver, as it is."""
        for kind in ("unknown", "override", "jit"):
            for file, _, found in general:
                if found.kind == kind:
                    return self._way(found, file)
        return gpu_verdict("yes", "gpu-native", f"machine code for {self.name} in every kernel that needs it")

    def _way(self, found: Coverage, file: str = "the wheel") -> AxisVerdict:
        if found.kind == "jit":
            text = f"runs on {self.name} through PTX, which the driver compiles at first use"
            return self._compiled_once(gpu_verdict("yes", "gpu-jit", text))
        if found.kind == "override":
            setting = " ".join(f"{name}={value}" for name, value in found.env)
            return gpu_verdict(
                "partly", "gpu-override", f"{file} {found.text}", f"set {setting} before starting Python"
            )
        remedy = "run it there: rekindle verify"
        if found.code == "gpu-switch":
            remedy = "rocminfo shows it; HSA_XNACK=1 or 0 sets xnack on cards that allow it"
        return gpu_verdict("unknown", found.code, f"{file} {found.text}", remedy)


def _brief(one: ArchSet) -> str:
    who = f" ({', '.join(one.kernels)})" if one.kernels else ""
    return f"{one.count} for {' '.join(one.archs)} only{who}"


def driver_verdicts(report: WheelReport, machine: Machine) -> list[AxisVerdict]:
    """Floor and ceiling: new enough for the toolkit, and not too new for the card."""
    cards = [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]
    cuda = _short(report.cuda)
    if cuda is None or not cards:
        return []
    facts = load_facts()
    sms = [gpu.arch for gpu in cards if isinstance(gpu.arch, Sm)]
    if is_board(machine.os, sms, facts):
        return []
    found = driver_runs(
        machine.drivers.nvidia,
        cuda,
        sms,
        driver_side(machine.os),
        facts,
        ptx=any(_is_jit(report, gpu, machine, facts) for gpu in cards),
        names=[f"{gpu.name or gpu.vendor} ({gpu.arch})" for gpu in cards if isinstance(gpu.arch, Sm)],
    )
    remedy = f"install driver {found.want}" if found.kind == "no" and found.want else None
    return [AxisVerdict(axis="driver", runs=found.kind, code=found.code, text=found.text, remedy=remedy)]


def _is_jit(report: WheelReport, gpu: Gpu, machine: Machine, facts: Facts) -> bool:
    if gpu.arch is None or not (report.gpu.libraries or report.gpu.declared):
        return False
    return _Card(report, gpu.arch, "", machine.os.system, facts).verdict().code == "gpu-jit"


# Where nearly all containers have one target, nobody expects each of them to run on every card.
MOSTLY_SINGLE = 0.9
# A card with less than this part of what the best-served card has is an afterthought of the library.
FAIR_SHARE = 0.5
# With less than this part it has odds and ends only: 2 of 351 containers of cuSPARSELt run on a V100, which it does
# not support.
LEAST_SHARE = 0.1
MOST_NAMED = 4
_BUILD = re.compile(r"(?i)((?:^|[_.-])(?:cuda|cu|rocm|hip))[_-]?\d+(?=[_.-]|$)")


@dataclass(frozen=True)
class Judged:
    """One library, or one choice of builds: ``runs`` of ``total`` containers have an image for the card."""

    name: str
    word: Runs
    runs: int
    total: int
    late: bool = False
    picking: bool = False
    doubt: str | None = None
    setting: str | None = None


def by_library(report: WheelReport) -> bool:
    """Packages other than torch, and a vendor's library by itself."""
    if report.gpu.declared:
        return False
    if report.name is not None:
        return report.name != "torch"
    return all(is_vendor(library.file.rsplit("/", 1)[-1]) for library in report.gpu.libraries)


def picks(library: LibraryGpu) -> bool:
    """Does the library choose among its images, so that nobody expects each to run everywhere?"""
    total = sum(one.count for one in library.sets)
    single = sum(one.count for one in library.sets if len(one.archs) == 1)
    several = len({one.archs for one in library.sets}) > 1
    return is_vendor(library.file.rsplit("/", 1)[-1]) or (several and single >= MOSTLY_SINGLE * total)


def judge_libraries(
    report: WheelReport,
    card: str,
    runs: Callable[[Sequence[str]], Coverage],
    same_maker: Callable[[Sequence[str]], bool],
) -> AxisVerdict:
    """One verdict on a card of which the libraries of this maker were judged each."""
    choices: dict[str, list[Judged]] = {}
    for library in report.gpu.libraries:
        mine = [one for one in library.sets if same_maker(one.archs)]
        if mine:
            choices.setdefault(_BUILD.sub(r"\1", library.file), []).append(_judge(library, mine, runs))
    found = [_best(builds) for builds in choices.values()]
    chosen = any(len(builds) > 1 for builds in choices.values())
    return _sum_up(found, card, chosen)


def _best(builds: Sequence[Judged]) -> Judged:
    """Of several builds, one that runs is enough; all that do are named."""
    best = max(builds, key=lambda one: ("no", "unknown", "partly", "yes").index(one.word))
    same = [one.name for one in builds if one.word == best.word]
    return dataclasses.replace(best, name=", ".join(same[:MOST_NAMED]) + (" …" if len(same) > MOST_NAMED else ""))


def _judge(library: LibraryGpu, mine: Sequence[ArchSet], runs: Callable[[Sequence[str]], Coverage]) -> Judged:
    name = library.file if "*" in library.file else library.file.rsplit("/", 1)[-1]
    answers = [(one, runs(one.archs)) for one in mine]
    total = sum(one.count for one in mine)
    good = [(one, found) for one, found in answers if found.kind in ("native", "jit")]
    count = sum(one.count for one, _ in good)
    late = bool(good) and all(found.kind == "jit" for _, found in good)
    other = next((found for _, found in answers if found.kind in ("unknown", "override")), None)
    if count == 0 and other is not None:
        setting = " ".join(f"{variable}={value}" for variable, value in other.env) if other.kind == "override" else None
        return Judged(name, "unknown", 0, total, picking=picks(library), doubt=other.text, setting=setting)
    if picks(library):
        native = sum(one.count for one, found in good if found.kind == "native")
        best = _best_served(mine)
        share = (native or count) / best if best else float(count > 0)
        # PTX and LTO code run on every newer card and say nothing of who is served well.
        fair = FAIR_SHARE if native else LEAST_SHARE
        word: Runs = "yes" if share >= fair else "partly" if share >= LEAST_SHARE else "no"
        return Judged(name, word, count, total, native == 0, picking=True)
    if count == total:
        return Judged(name, "yes", count, total, late)
    return Judged(name, "partly" if count else "no", count, total, late)


def _best_served(sets: Sequence[ArchSet]) -> int:
    """How many containers the card has that has most; of code for one chip or family alone only where nothing else is
    there, since others have no use for it."""
    counts = Counter(arch for one in sets for arch in one.archs * one.count if arch.startswith(("sm_", "gfx")))
    plain = [count for arch, count in counts.items() if not arch.endswith(("a", "f")) or arch.startswith("gfx")]
    return max(plain or counts.values(), default=0)


def _sum_up(found: Sequence[Judged], card: str, chosen: bool) -> AxisVerdict:
    good = [one for one in found if one.word == "yes"]
    bad = [one for one in found if one.word == "no"]
    unsure = [one for one in found if one.word == "unknown"]
    if len(bad) == len(found):
        return gpu_verdict("no", "gpu-no-kernels", f"no image for {card} in {_names(bad)}")
    if len(unsure) == len(found):
        text = f"{unsure[0].name} {unsure[0].doubt}"
        if all(one.setting for one in unsure):
            return gpu_verdict("partly", "gpu-override", text, f"set {unsure[0].setting} before starting the program")
        return gpu_verdict("unknown", "gpu-not-told", text)
    if len(good) == len(found):
        which = f" (in {_names(good)}; the package picks by toolkit version)" if chosen else ""
        if all(one.late for one in good):
            return gpu_verdict("yes", "gpu-jit", f"runs on {card} through code that is compiled at first use{which}")
        if all(one.picking for one in good):
            some = "; ".join(f"{one.name}: {one.runs} of {one.total} images" for one in good[:MOST_NAMED])
            return gpu_verdict("yes", "gpu-picks", f"code for {card} in {some}; the library picks by card{which}")
        return gpu_verdict("yes", "gpu-native", f"code for {card} in every library{which}")
    parts = [one for one in found if one.word == "partly"]
    text = f"{card}: {len(good)} of {len(found)} libraries run in full"
    if parts:
        text += "; in part: " + ", ".join(f"{one.name} ({one.runs} of {one.total})" for one in parts[:MOST_NAMED])
    if bad:
        text += f"; nothing for it in {_names(bad)}"
    if unsure:
        text += f"; not told for {_names(unsure)}"
    return gpu_verdict("partly", "gpu-some-kernels", text)


def _names(rows: Sequence[Judged]) -> str:
    names = list(dict.fromkeys(one.name for one in rows))
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def gpu_verdict(runs: Runs, code: str, text: str, remedy: str | None = None) -> AxisVerdict:
    """A verdict on the GPU axis."""
    return AxisVerdict(axis="gpu", runs=runs, code=code, text=text, remedy=remedy)
