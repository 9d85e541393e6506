"""The Pythons of the machine, what pip brought into them, and their torches: one probe, each follows from the last. A
torch is read without importing it, and it is said why it does or does not work here. Its ``version.py`` says what it
was built for. Whether it loads is tried in its own Python: by default the native libraries only (a fraction of a
second), with ``try_it`` a real import and a kernel on the card."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from rekindle.compat import BACKENDS
from rekindle.compat.backends import find_flavour, platform_of
from rekindle.compat.hazards import ever_supported
from rekindle.compat.images import GpuCode, covers, flavour_code
from rekindle.compat.toolkit import cudnn_covers
from rekindle.facts import load_facts
from rekindle.host.asking import Asking, ask_each
from rekindle.host.text import read_answer, text_of, version_key
from rekindle.interpreters.search import candidate_paths, distinct_paths, identity_of, started_directly
from rekindle.model.arch import parse_sm
from rekindle.model.interpreter import Interpreter, read_interpreter
from rekindle.model.machine import Gpu, InstalledTorch, Machine, Python, Toolkit
from rekindle.readiness.cuda import driver_misfit
from rekindle.toolkits.libraries import pip_pieces

_MAX_PYTHONS = 24
_AT_ONCE = 4


class Installations(msgspec.Struct, frozen=True, kw_only=True):
    """The Pythons, the toolkits that pip installed into them, and the torches they have."""

    pythons: tuple[Python, ...] = ()
    pieces: tuple[Toolkit, ...] = ()
    torches: tuple[InstalledTorch, ...] = ()


def probe_installations(host: Asking, *, try_torch: bool) -> Installations:
    """``try_torch`` imports each torch and uses the card."""
    pythons, answers = probe_pythons(host)
    torches = find_torches(host, answers, try_it=try_torch)
    return Installations(pythons=pythons, pieces=pip_pieces(answers), torches=torches)


def probe_pythons(host: Asking) -> tuple[tuple[Python, ...], Mapping[str, Interpreter]]:
    """The Pythons, and what each said about itself by its path."""
    distinct = distinct_paths(host, candidate_paths(host))
    paths = distinct[:_MAX_PYTHONS]
    if len(distinct) > _MAX_PYTHONS:
        host.gap("some Pythons", f"only the first {_MAX_PYTHONS} of {len(distinct)} were asked")

    answers = ask_each(
        host, paths, lambda path: read_interpreter(path, host.python(path, timeout=host.left(4))), at_once=_AT_ONCE
    )
    unique: dict[str, Interpreter] = {}
    for path in paths:
        answer = answers.get(path, "it did not answer in time")
        if isinstance(answer, str):
            host.gap(f"Python {path}", answer)
        else:
            unique.setdefault(identity_of(host, answer), started_directly(host, answer))
    pythons = []
    for python in sorted(unique.values(), key=lambda answer: version_key(answer.version), reverse=True):
        note = None if python.headers else "no headers (Python.h)"
        note = "32 bit: no torch is published for it" if python.bits == 32 else note
        pythons.append(Python(version=python.version, path=python.path, abi=python.abi, kind=python.kind, note=note))
    return tuple(pythons), {answer.path: answer for answer in unique.values()}


_MAX_TRIED = 3
# The switches a user asks about; the others are the build system's own business.
_SWITCHES = {"mkl", "mkldnn", "mkldnn_acl", "openmp", "lapack", "nnpack", "cudnn", "magma", "cusparselt", "kleidiai"}
_SWITCH = re.compile(r"^#define AT_(?:BUILD_WITH_|PARALLEL_)?(\w+?)(?:_ENABLED)?(?:\(\))? 1\s*$", re.MULTILINE)
# A process killed by a signal ends with its negative number (Linux), or an NTSTATUS (Windows).
_ENDINGS = (
    ((-4, 0xC000001D, -1073741795), "illegal instruction: it was built for a newer processor"),
    ((-11, 0xC0000005, -1073741819), "it crashes while loading"),
    ((-9,), "it was killed while loading (out of memory?)"),
)


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True):
    works: bool | None = None
    gpu_works: bool | None = None
    gpu_error: str | None = None
    arch_list: tuple[str, ...] = ()
    error: str | None = None
    exit_code: int | None = None
    timed_out: bool = False


def find_torches(host: Asking, answers: Mapping[str, Interpreter], *, try_it: bool) -> tuple[InstalledTorch, ...]:
    """Every torch of these interpreters; the first few are tried as well."""
    torches: dict[str, InstalledTorch] = {}
    for python, answer in answers.items():
        package = answer.packages.get("torch")
        if package is not None and package.path not in torches:
            torch = _read_torch(host, python, package.path, package.version)
            torches[package.path] = _try_torch(host, torch, deep=try_it) if len(torches) < _MAX_TRIED else torch
    return tuple(torches.values())


def _read_torch(host: Asking, python: str, place: str, version: str) -> InstalledTorch:
    slash = "\\" if "\\" in place else "/"
    path = f"{place}{slash}torch"
    text = text_of(host.read(f"{path}{slash}version.py"))
    # The build's switches stand in the headers it installs: #define AT_MKL_ENABLED() 1
    files = (("Config.h",), ("cuda", "CUDAConfig.h"))
    headers = "".join(text_of(host.read(slash.join((path, "include", "ATen", *file)))) for file in files)
    switches = {name.lower() for name in _SWITCH.findall(headers)}

    def value(name: str) -> str | None:
        match = re.search(rf"^{name}(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
        return match[1] if match else None

    return InstalledTorch(
        version=value("__version__") or version,
        python=python,
        path=path,
        cuda=value("cuda"),
        rocm=value("hip"),
        built_with=tuple(sorted(switches & _SWITCHES)),
    )


def _try_torch(host: Asking, torch: InstalledTorch, *, deep: bool) -> InstalledTorch:
    if (raw := host.torch(torch.python, deep=deep, timeout=host.left(50 if deep else 4))) is None:
        return torch
    answer = read_answer(raw, TrialAnswer)
    if answer.timed_out:
        host.gap(f"torch {torch.version}", "it did not load in time")
        return torch
    works, why = answer.works, answer.error or answer.gpu_error
    if works is None and (code := answer.exit_code) is not None:
        other = f"loading it ends with exit code {code}: {why}"
        works, why = False, next((reason for codes, reason in _ENDINGS if code in codes), other)
    return replace(torch, works=works, gpu_works=answer.gpu_works, archs=answer.arch_list, why=why)


def torch_with_verdict(machine: Machine, torch: InstalledTorch) -> InstalledTorch:
    """The same torch with its targets from the tables where it was not imported, and the reason if it fails."""
    code = code_of(machine, torch)
    if torch.works is False or torch.gpu_works is True:
        return replace(torch, archs=code.targets)
    reason = torch.why or _why_gpu_fails(machine, torch, code)
    # The tables say it cannot: that is knowledge, too. That it can is only known after trying.
    gpu_works = False if reason and machine.gpus and torch.gpu_works is None else torch.gpu_works
    return replace(torch, archs=code.targets, why=reason, gpu_works=gpu_works)


def code_of(machine: Machine, torch: InstalledTorch) -> GpuCode:
    """Its GPU code: as it says itself, else as the published wheel of that name has it."""
    flavour = find_flavour(torch.version, load_facts(), cuda=torch.cuda, rocm=torch.rocm)
    platform = platform_of(machine.os)
    if flavour is None or platform is None:
        return GpuCode(torch.archs, cuda=torch.cuda, rocm=torch.rocm)
    published = flavour_code(flavour, platform)
    targets = published.targets
    if flavour.sm:
        # As torch.cuda.get_arch_list() spells them: 8.6+PTX is sm_86 and compute_86.
        sms = [(parse_sm(target), target.endswith("+PTX")) for target in targets]
        targets = tuple(dict.fromkeys(name for sm, ptx in sms for name in (str(sm), *((sm.compute,) if ptx else ()))))
    cuda, rocm = torch.cuda or flavour.cuda, torch.rocm or flavour.rocm
    return published._replace(targets=torch.archs or targets, cuda=cuda, rocm=rocm)


def _why_gpu_fails(machine: Machine, torch: InstalledTorch, code: GpuCode) -> str | None:
    facts = load_facts()
    meant = [gpu for gpu in machine.gpus if gpu.vendor != "intel" or ever_supported(gpu, facts).kind == "yes"]
    if not meant:
        return None  # graphics that no torch drives
    if not (torch.cuda or torch.rocm):
        return _why_cpu_only(machine, torch, meant)
    vendor = "nvidia" if torch.cuda else "amd"
    if not (ours := [gpu for gpu in machine.gpus if gpu.vendor == vendor]):
        return f"it is built for {'CUDA' if torch.cuda else 'ROCm'}, and there is no such card"
    answers = [(gpu, covers(code, gpu.arch, machine.os.system, facts)) for gpu in ours]
    for gpu, answer in answers:
        if answer.kind == "none" and answer.code != "gpu-math-library":
            return f"it has no code for {gpu.arch} ({gpu.name}), only for {', '.join(code.targets)}"
        if answer.kind in ("none", "override"):
            return f"it {answer.text}"
    ptx = any(answer.kind == "jit" for _, answer in answers)
    if torch.cuda and (wrong := driver_misfit(machine, torch.cuda, ptx=ptx)):
        return wrong
    cudnn = (cudnn_covers(code.cudnn, code.cuda, gpu.arch, facts) for gpu in ours)
    return next((f"its {answer.text}" for answer in cudnn if answer.kind == "partly"), None)


def _why_cpu_only(machine: Machine, torch: InstalledTorch, cards: Sequence[Gpu]) -> str | None:
    """A CPU build uses no card; one for Intel's GPUs drives those that its release knows."""
    facts, platform = load_facts(), platform_of(machine.os)
    flavour = find_flavour(torch.version, facts)
    if flavour is None or not flavour.xpu or platform is None:
        return "it is a CPU build, so it cannot use the GPU"
    coverages = [BACKENDS["xpu"].covers(flavour, platform, gpu, facts) for gpu in cards if gpu.vendor == "intel"]
    if not coverages:
        return "it is built for Intel's GPUs, and there is no such card"
    return next((f"it {coverage.text}" for coverage in coverages if coverage.kind == "none"), None)
