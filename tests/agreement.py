"""Every verb's own answer to the same question, in one vocabulary, so that they can be compared.

``python tests/agreement.py`` prints how many questions were asked and where answers differ.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rekindle.compat import flavour_backend
from rekindle.doctor.pythons import torch_with_verdict
from rekindle.explain.events import Reading
from rekindle.explain.scene import Scene, carries
from rekindle.facts import Facts, load_facts
from rekindle.index.pages.grid import architectures
from rekindle.index.pages.page import cell
from rekindle.index.wheelhouse.search import WantedWheel
from rekindle.index.wheelhouse.search import verdict_for as search_verdict
from rekindle.inspect.verdict import verdict_for
from rekindle.inspect.verdict_gpu import driver_verdicts, gpu_verdicts
from rekindle.model.arch import Gfx, GpuArch, Sm, parse_gpu_arch
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Drivers, Gpu, InstalledTorch, Machine, Os
from rekindle.model.plan import Wish
from rekindle.model.version import minor
from rekindle.model.wheel import ArchSet, Kernels, LibraryGpu, Verdict, WheelCpu, WheelGpu, WheelReport
from rekindle.model.wheelhouse import WheelRow
from rekindle.plan import assess  # the rules register themselves
from rekindle.plan.candidates import Candidate
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import Question
from rekindle.plan.rules import RULES
from rekindle.readiness.cuda import driver_misfit

PLATFORMS: dict[Platform, tuple[str, str]] = {
    "linux_x86_64": ("linux", "x86_64"), "linux_aarch64": ("linux", "aarch64"), "windows": ("windows", "x86_64"),
}  # fmt: skip
TAGS = {"linux_x86_64": "linux_x86_64", "linux_aarch64": "linux_aarch64", "windows": "win_amd64"}
# Around every floor and every end of a branch.
DRIVERS = (
    "390.157", "418.39", "450.51.05", "450.80.02", "470.256.02", "474.44", "495.29", "520.61.05", "525.60.13", "527.41",
    "528.33", "535.54.03", "570.26", "580.65.06", "582.28", "590.44.01", "610.43.02", "470", "580",
)  # fmt: skip


class Case(NamedTuple):
    """A published wheel, the release that stands for it, a place and a card."""

    flavour: Flavour
    torch: str
    platform: Platform
    card: GpuArch

    @property
    def name(self) -> str:
        return f"{self.torch}+{self.flavour.name} on {self.card} ({self.platform})"

    @property
    def machine(self) -> Machine:
        system, arch = PLATFORMS[self.platform]
        vendor = "amd" if isinstance(self.card, Gfx) else "nvidia"
        return Machine(os=Os(system=system, arch=arch), gpus=(Gpu(vendor=vendor, name="it", arch=self.card),))  # type: ignore[arg-type]

    @property
    def version(self) -> str:
        return f"{self.torch}+{self.flavour.name}"


def cases(facts: Facts) -> Iterator[Case]:
    """Every published wheel of a GPU kind, with every card of its maker, wherever it is published."""
    cards = [parse_gpu_arch(name) for name in architectures(facts) if name != "none"]
    for flavour in facts.wheels.flavour:
        if flavour_backend(flavour) == "cpu":
            continue
        torch = next(v for v in facts.releases if minor(v) == flavour.torch and (not flavour.only or v in flavour.only))
        for platform, card in itertools.product(PLATFORMS, cards):
            if platform in (flavour.sm if isinstance(card, Sm) else flavour.gfx):
                yield Case(flavour, torch, platform, card)


def targets(case: Case) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """(sass, ptx, gfx) as a reader of the wheel would find them."""
    codes = case.flavour.sm.get(case.platform, ())
    sms = [parse_gpu_arch(code.removesuffix("+PTX")) for code in codes]
    ptx = [sm.compute for sm, code in zip(sms, codes, strict=True) if isinstance(sm, Sm) and code.endswith("+PTX")]
    return tuple(map(str, sms)), tuple(ptx), tuple(str(gfx) for gfx in case.flavour.gfx.get(case.platform, ()))


def by_plan(case: Case, facts: Facts) -> str:
    question = Question(case.machine, Wish(), facts)
    if not question.gpus:
        return "none"  # set aside: nothing of torch can use it
    flavour = case.flavour
    backend = flavour_backend(flavour)
    candidate = Candidate(
        answer="install", torch=case.torch, backend=backend, flavour=flavour, cuda=flavour.cuda, rocm=flavour.rocm
    )
    refused = {r.code for name in ("R101", "R103") for r in RULES[name].check(candidate, question)}
    words = {"gpu-not-in-wheel": "none", "gpu-only-ptx": "jit", "cudnn-lacks-arch": "no-cudnn"}
    for code, word in words.items():
        if code in refused:
            return word if code != "gpu-only-ptx" or "cudnn-lacks-arch" not in refused else "no-cudnn"
    covered = assess.assess(candidate, question).covered
    return "override" if any(found.kind == "override" for _, found in covered) else "native"


def report_of(case: Case, *, read: bool) -> WheelReport:
    sass, ptx, gfx = targets(case)
    names = (*sass, *ptx, *gfx)
    gpu = WheelGpu(declared=names)
    if read:
        library = LibraryGpu(
            file="torch/lib/x.so", sass=sass, ptx=ptx, gfx=gfx, sets=(ArchSet(archs=names, count=9, origin="own"),)
        )
        gpu = WheelGpu(declared=names, libraries=(library,), torch_kernels=Kernels(sass=sass, ptx=ptx, gfx=gfx))
    return WheelReport(
        name="torch", version=case.version, tags=(f"cp311-cp311-{TAGS[case.platform]}",), cuda=case.flavour.cuda,
        rocm=case.flavour.rocm, gpu=gpu,
    )  # fmt: skip


def by_inspect(case: Case, *, read: bool) -> str:
    found = {one.code: one.runs for one in gpu_verdicts(report_of(case, read=read), case.machine)}
    if "no" in found.values():
        return "none"
    for code, word in (("cudnn-lacks-arch", "no-cudnn"), ("gpu-override", "override"), ("gpu-jit", "jit")):
        if code in found:
            return word
    return "unknown" if "unknown" in found.values() else "native"


def by_doctor(case: Case) -> str:
    flavour = case.flavour
    torch = InstalledTorch(version=case.version, python="python", cuda=flavour.cuda, rocm=flavour.rocm, works=True)
    why = torch_with_verdict(case.machine, torch).why
    if why is None:
        return "runs"
    return "override" if "HSA_OVERRIDE" in why else "no-cudnn" if "cuDNN" in why else "none"


def row_of(case: Case) -> WheelRow:
    sass, ptx, gfx = targets(case)
    system, arch = PLATFORMS[case.platform]
    return WheelRow(
        file=f"torch-{case.version}-cp311-cp311-{TAGS[case.platform]}.whl", url="x", project="torch",
        version=case.version, bytes=1, sha256="0", metadata_sha256="0", systems=(system,), machines=(arch,), added="",
        inspected=True, sass=sass, ptx=ptx, gfx=gfx, cuda=case.flavour.cuda, rocm=case.flavour.rocm,
    )  # fmt: skip


def by_search(case: Case) -> str:
    found: Verdict = search_verdict(
        row_of(case), WantedWheel(gpus=(case.card,), system=PLATFORMS[case.platform][0]), "it"
    )
    if found.runs is not True:
        return "none" if found.runs is False else "unknown"
    codes = {reason.code for reason in found.because}
    return "override" if "gpu-override" in codes else "no-cudnn" if "cudnn-lacks-arch" in codes else "runs"


def by_page(case: Case, facts: Facts) -> str:
    letter = cell(case.flavour, case.platform, case.card, facts)
    return {"h": "native", "s": "native", "j": "jit", "o": "override", "c": "no-cudnn", "u": "unknown", "-": "none"}[
        letter
    ]


def by_explain(case: Case) -> str:
    assert isinstance(case.card, Sm)
    scene = Scene(reading=Reading(), machine=case.machine)
    return "carried" if carries(case.flavour, case.card, scene) else "none"


# A coarser word stands for several finer ones.
MEANS = {"runs": {"native", "jit", "unknown"}, "carried": {"native", "jit", "no-cudnn"}}


def answers(case: Case, facts: Facts) -> dict[str, str]:
    """What each verb says."""
    found = {
        "plan": by_plan(case, facts),
        "inspect, as declared": by_inspect(case, read=False),
        "inspect, as read": by_inspect(case, read=True),
        "doctor": by_doctor(case),
        "index search": by_search(case),
        "page": by_page(case, facts),
    }
    if isinstance(case.card, Sm):
        found["explain"] = by_explain(case)
    return found


def agree(found: dict[str, str]) -> bool:
    """Is there one fine word that every answer can mean?"""
    meant = [MEANS.get(word, {word}) for word in found.values()]
    return bool(set.intersection(*meant))


class DriverCase(NamedTuple):
    """A toolkit, a card, a system, a driver."""

    cuda: str
    card: Sm
    system: str
    driver: str

    @property
    def machine(self) -> Machine:
        gpu = Gpu(vendor="nvidia", name="it", arch=self.card)
        return Machine(os=Os(system=self.system, arch="x86_64"), gpus=(gpu,), drivers=Drivers(nvidia=self.driver))  # type: ignore[arg-type]


def driver_cases(facts: Facts) -> Iterator[DriverCase]:
    used = sorted({flavour.cuda for flavour in facts.wheels.flavour if flavour.cuda})
    cards = [card for name in architectures(facts) if isinstance(card := parse_gpu_arch_or_none(name), Sm)]
    for cuda, card, system, driver in itertools.product(used, cards, ("linux", "windows"), DRIVERS):
        yield DriverCase(cuda, card, system, driver)


def parse_gpu_arch_or_none(name: str) -> GpuArch | None:
    return None if name == "none" else parse_gpu_arch(name)


def driver_answers(case: DriverCase, facts: Facts) -> dict[str, str] | None:
    """Plan, inspect and doctor on the driver alone; None where the planner sets the card aside."""
    question = Question(case.machine, Wish(), facts)
    if not question.gpus:
        return None
    candidate = Candidate(answer="build", torch="2.7.1", backend="cuda", cuda=case.cuda)
    plan = any(True for _ in RULES["R102"].check(candidate, question))
    report = WheelReport(name="torch", cuda=case.cuda)
    inspect = [one.runs for one in driver_verdicts(report, case.machine)]
    doctor = driver_misfit(case.machine, case.cuda)
    return {
        "plan": "no" if plan else "yes",
        "inspect": "no" if "no" in inspect else "yes",
        "doctor": "no" if doctor else "yes",
    }


def libc_answers(torch: str, os: Os, facts: Facts) -> dict[str, str]:
    """Plan, inspect and the index on the C library; the wheel is the CPU wheel of a release."""
    flavour = next(row for row in facts.flavours(torch) if row.name == "cpu")
    release = facts.release(torch)
    assert release is not None
    need = flavour.glibc or release.glibc["linux_x86_64"]
    tag = f"cp311-cp311-manylinux_{need.replace('.', '_')}_x86_64"
    candidate = Candidate(answer="install", torch=torch, backend="cpu", flavour=flavour)
    refused = list(RULES["R401"].check(candidate, Question(Machine(os=os), Wish(), facts)))
    report = WheelReport(name="torch", version=torch, tags=(tag,), quick=True)
    judged = [one for one in verdict_for(report, Machine(os=os), "it").axes if one.axis == "libc"]
    found = {
        "plan": "no" if refused else "yes",
        "inspect": "no" if any(one.runs == "no" for one in judged) else "yes",
    }
    if os.glibc:
        row = WheelRow(
            file=f"torch-{torch}-{tag}.whl", url="x", project="torch", version=torch, bytes=1, sha256="0",
            metadata_sha256="0", systems=("linux",), machines=("x86_64",), added="",
        )  # fmt: skip
        found["index search"] = "no" if search_verdict(row, WantedWheel(glibc=os.glibc), "it").runs is False else "yes"
    return found


def arm_cpu_answers(torch: str, cpu: str, facts: Facts) -> dict[str, str]:
    """Plan and inspect on an Arm CPU; the wheel is the CPU wheel of a release, in which LSE atomics were found: the one
    of PyTorch's index, and the one of PyPI, whose file names no flavour and whose code may be all that is known."""
    flavour = next(row for row in facts.flavours(torch) if row.name == "cpu")
    candidate = Candidate(answer="install", torch=torch, backend="cpu", flavour=flavour)
    machine = machine_from_flags(facts, cpu=cpu, arch="aarch64")
    refused = list(RULES["R204"].check(candidate, Question(machine, Wish(), facts)))
    code = WheelCpu(functions=9, arch="aarch64", required=("lse",))
    found = {"plan": "no" if refused else "yes"}
    for version, tag in ((f"{torch}+cpu", "linux_aarch64"), (torch, "manylinux_2_28_aarch64")):
        report = WheelReport(name="torch", version=version, tags=(f"cp311-cp311-{tag}",), cpu=code)
        judged = [axis for axis in verdict_for(report, machine, "it").axes if axis.axis == "cpu"]
        found[f"inspect {version}"] = "no" if any(axis.runs == "no" for axis in judged) else "yes"
    return found


def main() -> int:
    """Ask everything and print the count."""
    facts = load_facts()
    words: Counter[str] = Counter()
    different = []
    for case in cases(facts):
        found = answers(case, facts)
        words[found["page"]] += 1
        if not agree(found):
            different.append((case.name, found))
    print(f"code on cards: {words.total()} questions, {len(different)} with two answers; {dict(words)}")
    for name, found in different[:20]:
        print(" ", name, found)
    asked = split = 0
    for driver_case in driver_cases(facts):
        said = driver_answers(driver_case, facts)
        asked += said is not None
        split += said is not None and len(set(said.values())) > 1
    print(f"drivers: {asked} questions, {split} with two answers")
    return 1 if different or split else 0


if __name__ == "__main__":
    sys.exit(main())
