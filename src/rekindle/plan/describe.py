"""A machine described by hand, or by the name of a profile, as the same :class:`Machine` the doctor makes."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rekindle.compat.cpu_names import find_cpu, microarchitecture
from rekindle.errors import BadInput
from rekindle.facts import Facts, load_facts
from rekindle.facts.gpus import find_gpu
from rekindle.model.machine import Compiler, Cpu, Drivers, Gpu, Machine, Os, Python, System, Toolkit, cpu_arch
from rekindle.model.plan import Wish
from rekindle.model.spoken import GIB, parse_size
from rekindle.model.version import is_version
from rekindle.plan.question import OTHER_ARCHS, check_compiler

_SYSTEMS: dict[str, System] = {"linux": "linux", "windows": "windows", "win": "windows", "macos": "macos"}
_ARM = re.compile(
    r"\b(arm|armv8|armv9|cortex|neoverse|graviton\d*|altra|ampere(?:one)?|emag|apple|snapdragon|oryon|kunpeng|phytium|thunderx\d?"
    r"|raspberry|orange|odroid|khadas|nanopi|radxa|rockpro64|rockchip|amlogic|allwinner|mediatek|genio|exynos|kirin|tegra)\b"
)
_WSL = re.compile(r"\bwsl ?2?\b")
_WINDOWS = re.compile(r"win(?:dows)?[ -]?((?:server[ -]?)?\d[\w.]*)")
_IN_PROCESSOR = re.compile(r"(?:amd )?radeon(?:\(tm\))? (?:rx )?(?:vega )?graphics")
_SEVERAL = re.compile(r"([1-9]\d?) ?[x×] (.+)", re.IGNORECASE)  # "2x K40c"
_MAKER = re.compile(r"\b(intel|xeon|amd|core|ryzen|epyc|arm|cortex|apple|celeron|pentium|athlon|opteron|cpu)\b")


def machine_from_flags(
    facts: Facts | None = None,
    *,
    gpu: Sequence[str] = (),
    cpu: str | None = None,
    os: str | None = None,
    distro: str | None = None,
    glibc: str | None = None,
    arch: str | None = None,
    driver: str | None = None,
    cuda: str | None = None,
    rocm: str | None = None,
    cudnn: str | None = None,
    compiler: str | None = None,
    python: str | None = None,
    memory: str | float | None = None,
) -> Machine:
    """A machine described by hand. Everything not given is unknown; an unknown GPU or CPU name is a
    :class:`BadInput`.

    >>> machine = machine_from_flags(gpu=["Tesla K40c"], os="windows")
    >>> [str(gpu.arch) for gpu in machine.gpus], machine.memory_gib
    (['sm_35'], None)
    """
    facts = facts or load_facts()
    system, named = _parse_system((os or "linux").lower(), facts)
    distro = distro or named
    for name, value in (("--glibc", glibc), ("--driver", driver), ("--python", python)):
        if value is not None and not is_version(value):
            raise BadInput(f"{name} wants a version number, not {value!r}")
    if system == "windows" and (glibc or (distro and not distro.lower().startswith("windows"))):
        raise BadInput("--distro and --glibc belong to Linux, and --os says windows")
    if cpu is not None and arch is None and (other := _other_arch(cpu.lower())):
        arch, cpu = other, None  # a kind of machine rather than a CPU: it decides alone
    processor = _parse_cpu(cpu, facts)
    family = microarchitecture(processor.microarchitecture or "", facts)
    by_name = family is None and cpu is not None and _ARM.search(cpu.lower()) is not None
    if arch is None and (by_name or (family is not None and family.family == "aarch64")):
        arch = "aarch64"
    if arch and family and family.family != cpu_arch(arch):
        raise BadInput(f"--cpu {cpu} is a {family.family} CPU, and --arch says {arch}")
    if arch and arch.lower() not in ("x86_64", "amd64", "aarch64", "arm64", *OTHER_ARCHS):
        raise BadInput(f"--arch {arch!r} is not known", remedy="write x86_64 or aarch64")
    if compiler:
        check_compiler(compiler)
    kind, _, version = (compiler or "").partition("-")
    toolkits = [Toolkit(kind=k, version=v) for k, v in (("cuda", cuda), ("rocm", rocm), ("cudnn", cudnn)) if v]
    cards = _parse_gpus(gpu, facts)
    boards = [card.name for card in cards if (card.name or "").startswith("Jetson")]
    if boards and system != "linux":
        raise BadInput(f"{boards[0]} is a board that runs Linux (JetPack)", remedy=f"leave --os {os} out")
    # ``wsl2-ubuntu-22.04``: the driver there is Windows'. None where nothing is said of it.
    wsl = True if system == "linux" and distro and _WSL.search(distro.lower()) else None
    return Machine(
        os=Os(system=system, distro=distro, glibc=glibc, arch=arch, wsl=wsl),
        cpu=processor,
        memory_gib=parse_size(memory) / GIB if isinstance(memory, str) else memory,
        gpus=cards,
        no_gpu=True if gpu and not cards else None,
        drivers=Drivers(nvidia=driver),
        toolkits=tuple(toolkits),
        compilers=(Compiler(kind=kind, version=version),) if compiler else (),  # type: ignore[arg-type]
        pythons=(Python(version=python),) if python else (),
    )


def _other_arch(cpu: str) -> str | None:
    """``riscv64``, ``POWER9``, ``IBM z15``: a CPU of a kind that PyTorch publishes nothing for."""
    if re.fullmatch(r"(?:ibm )?power ?\d+\+?", cpu):
        return "ppc64le"
    if re.fullmatch(r"(?:ibm )?z ?1\d", cpu):
        return "s390x"
    return cpu if cpu in OTHER_ARCHS else None


def with_hardware(
    machine: Machine, facts: Facts | None = None, *, gpu: Sequence[str] = (), cpu: str | None = None
) -> Machine:
    """The same system with other cards or another CPU than are in it: a torch is built here and will run there.

    The driver here says nothing about cards that are elsewhere.

    >>> other = with_hardware(machine_from_flags(gpu=["H200"]), gpu=["sm_35", "sm_90"], cpu="ivybridge")
    >>> [str(gpu.arch) for gpu in other.gpus], other.cpu.microarchitecture
    (['sm_35', 'sm_90'], 'ivybridge')
    """
    facts = facts or load_facts()
    if gpu:
        cards = _parse_gpus(gpu, facts)
        machine = msgspec.structs.replace(machine, gpus=cards, no_gpu=not cards or None, drivers=Drivers())
    if cpu is not None:
        other = _parse_cpu(cpu, facts)
        family = microarchitecture(other.microarchitecture or "", facts)
        arch = cpu_arch(machine.os.arch or "")
        if family is None:
            raise BadInput(f"what --cpu {cpu} can do is not known", remedy="rekindle facts show cpu")
        if arch and family.family not in (arch, "generic"):
            raise BadInput(f"--cpu {cpu} is a {family.family} CPU, and this machine builds for {arch}")
        other = msgspec.structs.replace(other, cores=machine.cpu.cores, threads=machine.cpu.threads)
        machine = msgspec.structs.replace(machine, cpu=other)
    return machine


def _parse_system(os: str, facts: Facts) -> tuple[System, str | None]:
    """``windows-11`` and ``ubuntu`` say more than was asked: the system, and which one of its kind."""
    if os in _SYSTEMS:
        return _SYSTEMS[os], None
    if match := _WINDOWS.fullmatch(os):
        return "windows", f"windows-{match[1]}"
    distros = {name for row in facts.distros.distro for name in (row.name.partition(" ")[0], *row.names)}
    if _WSL.search(os) or distros & set(re.split(r"[^a-z]+", os)):
        return "linux", os
    raise BadInput(f"--os {os!r} is not known", remedy="write linux, windows or macos")


def _parse_gpus(names: Sequence[str], facts: Facts) -> tuple[Gpu, ...]:
    if any(name.strip().lower() in ("none", "no", "cpu") for name in names):
        if len(names) > 1:
            raise BadInput("--gpu none stands alone", remedy="leave it out, or leave the others out")
        return ()
    gpus = []
    for name in names:
        if len(names) > 1 and _IN_PROCESSOR.fullmatch(name.strip().lower()):
            continue  # Windows names no chip here, and the card beside it is what counts
        several = _SEVERAL.fullmatch(name.strip())
        product = find_gpu(several[2] if several else name, facts)
        arch = product.archs[0] if product.archs else None
        card = Gpu(vendor=product.vendor, name=product.name, arch=arch, possible=product.archs[1:])
        gpus += [card] * int(several[1] if several else 1)
    return tuple(gpus)


def _parse_cpu(name: str | None, facts: Facts) -> Cpu:
    if name is None:
        return Cpu()
    try:
        kind = find_cpu(name, facts)
    except BadInput:
        if _MAKER.search(name.lower()) or _ARM.search(name.lower()):
            return Cpu(name=name)  # a real CPU that the table does not know: its features are unknown
        raise
    row = microarchitecture(kind, facts)
    features = row.features if row else ()
    # x86_64 is a kind of machine: named, so that the plan says that the CPU itself is still open.
    return Cpu(name=name if name != kind or not features else None, microarchitecture=kind, features=features)


def machine_profile(name: str, facts: Facts | None = None) -> tuple[Machine, Wish]:
    """A machine people plan for, by name, with the wish that belongs to it.

    >>> machine, wish = machine_profile("k40c-windows")
    >>> machine.os.system
    'windows'
    """
    facts = facts or load_facts()
    row = facts.machines.machine.get(name)
    if row is None:
        near = difflib.get_close_matches(name, facts.machines.machine, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "rekindle facts show machines lists them"
        raise BadInput(f"no machine profile is called {name!r}, and there is no such file", remedy=hint)
    flags = dict(row.flags)
    gpu = flags.pop("gpu", ())
    names = (gpu,) if isinstance(gpu, str) else tuple(gpu) if isinstance(gpu, tuple) else ()
    machine = machine_from_flags(facts, gpu=names, **flags)  # type: ignore[arg-type]
    named: dict[str, Any] = {name: flags[name] for name in ("python", "cuda", "rocm") if name in flags}
    return machine, Wish(torch=row.torch, **named)
