"""Which operating system this is, what it runs inside (WSL, a container, a virtual machine), and how much memory, how
many processors and how much disk this process may really use. The smallest of the machine, its container and its job
counts. A container's limits are files: cgroup v2 ``memory.max`` and ``memory.high``, cgroup v1
``memory.limit_in_bytes``, at every level from the process's own group up to the root that is mounted here."""

import csv
import itertools
import re

import msgspec

from rekindle.host.asking import Asking
from rekindle.host.memory import groups_of, memory_limit
from rekindle.host.text import key_values, memory_sizes, text_of
from rekindle.model.machine import Os, Volume
from rekindle.model.spoken import gib
from rekindle.model.toml import read_beside
from rekindle.toolkits.libraries import find_libc

# The first build that calls itself Windows 11; the registry's ProductName still says 10 there.
_WINDOWS_11_BUILD = 22000
_MAX_HOLDERS = 5


def _hypervisors() -> dict[str, dict[str, str]]:
    return read_beside(__file__, "hypervisors.toml", dict[str, dict[str, str]])


def probe_os(host: Asking) -> Os:
    """The system, and what it runs inside."""
    if host.system == "windows":
        return _read_windows(host)
    if host.system == "macos":
        version = host.run(["sw_vers", "-productVersion"], timeout=host.left(2)).out.strip()
        return Os(system="macos", distro=f"macos {version}".strip(), arch=host.machine)
    release = key_values(text_of(host.read("/etc/os-release") or host.read("/usr/lib/os-release")))
    name = " ".join(part for part in (release.get("ID"), release.get("VERSION_ID")) if part) or None
    if name is None:
        host.gap("distribution", "there is no /etc/os-release")
    kernel = text_of(host.read("/proc/sys/kernel/osrelease")).strip() or None
    wsl = "microsoft" in (kernel or "").lower()
    libc, glibc = find_libc(host, host.left(1))
    return Os(
        system="linux",
        distro=name,
        glibc=glibc,
        libc=libc,
        arch=host.machine,
        kernel=kernel,
        wsl=wsl,
        container=_find_container(host),
        virtual_machine=_find_hypervisor(host, wsl),
        # The board's own name, where the firmware gives one by device tree (Jetson and other ARM boards).
        model=text_of(host.read("/proc/device-tree/model")).strip("\0 \n") or None,
    )


def _find_container(host: Asking) -> str | None:
    if named := text_of(host.read("/run/systemd/container")).strip():
        return named
    by_file = (name for path, name in _hypervisors()["file"].items() if host.read(path) is not None)
    by_variable = (name for variable, name in _hypervisors()["variable"].items() if host.env.get(variable))
    if container := next(itertools.chain(by_file, by_variable), None):
        return container
    words = _hypervisors()["control_group"]
    lines = text_of(host.read("/proc/1/cgroup")).splitlines()
    return next((words[word] for line in lines for word in words if f"/{word}" in line), None)


def _find_hypervisor(host: Asking, wsl: bool) -> str | None:
    if wsl:
        return "wsl"
    cpuid = host.cpuid()
    if cpuid and (leaf := cpuid.leaves.get((0x40000000, 0))):
        raw = b"".join(register.to_bytes(4, "little") for register in leaf[1:])
        signature = raw.decode("ascii", "replace").rstrip("\0")
        return _hypervisors()["cpuid"].get(signature, signature.strip() or "unknown hypervisor")
    if text_of(host.read("/sys/hypervisor/type")).strip() == "xen":
        return "xen"
    files = ("sys_vendor", "product_name")
    if hypervisor := _by_firmware(" ".join(text_of(host.read(f"/sys/class/dmi/id/{name}")) for name in files)):
        return hypervisor
    if " hypervisor" in text_of(host.read("/proc/cpuinfo")):
        return "unknown hypervisor"
    # The board that QEMU, Firecracker and others give an ARM guest.
    dummy = "linux,dummy-virt" in text_of(host.read("/proc/device-tree/compatible")).split("\0")
    return "unknown hypervisor" if dummy else None


def _by_firmware(firmware: str) -> str | None:
    """The virtual machine that the firmware's names of maker and product give away."""
    words = " ".join(firmware.lower().split())
    return next((name for mark, name in _hypervisors()["firmware"].items() if mark in words), None)


def _read_windows(host: Asking) -> Os:
    key = host.registry(r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion")
    distro = kernel = None
    if key is None:
        host.gap("Windows version", "the registry did not say")
    else:
        build = str(key.values.get("CurrentBuildNumber") or key.values.get("CurrentBuild") or "")
        product = str(key.values.get("ProductName", ""))
        number = "11" if build.isdigit() and int(build) >= _WINDOWS_11_BUILD else "10"
        display = key.values.get("DisplayVersion") or key.values.get("ReleaseId") or ""
        distro = product.lower() if "Server" in product else f"windows {number} {display}".strip()
        revision = key.values.get("UBR")
        kernel = f"10.0.{build}" + (f".{revision}" if revision is not None else "")
    bios = host.registry(r"HKLM\HARDWARE\DESCRIPTION\System\BIOS")
    firmware = [str(bios.values.get(name, "")) for name in ("SystemManufacturer", "SystemProductName")] if bios else []
    paths = host.registry(r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem")
    return Os(
        system="windows",
        distro=distro,
        arch=host.machine,
        kernel=kernel,
        wsl=False,
        # Windows with Hyper-V or WSL2 switched on itself runs above the hypervisor, so cpuid alone misleads here.
        virtual_machine=_by_firmware(" ".join(firmware)),
        long_paths=bool(paths.values.get("LongPathsEnabled", 0)) if paths else None,
    )


def probe_holders(host: Asking) -> tuple[str, ...]:
    """Programs that have torch's DLLs loaded (Windows), by ``tasklist /m``."""
    if host.system != "windows":
        return ()
    done = host.run(["tasklist", "/m", "torch_cpu.dll", "/fo", "csv", "/nh"], timeout=host.left(5))
    # Where nobody holds it, tasklist says so in a sentence, in the language of the system.
    rows = [row for row in csv.reader(done.out.splitlines()) if len(row) == 3 and row[1].isdigit()]
    return tuple(f"{name} (process {number})" for name, number, _ in rows[:_MAX_HOLDERS])


class MemoryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes; ``limited_by`` names what leaves less than the machine has."""

    usable: int | None = None
    physical: int | None = None
    swap: int | None = None
    limited_by: str | None = None


def probe_memory(host: Asking) -> MemoryLimits:
    """What this process may really use."""
    is_linux = host.system == "linux"
    meminfo = memory_sizes(host.read("/proc/meminfo")) if is_linux else {}
    physical, swap = meminfo.get("MemTotal"), meminfo.get("SwapTotal")
    limits: list[tuple[int | None, str | None]] = []
    if physical is None and (memory := host.memory()) is not None:
        physical, swap = memory.total, memory.swap
        limits += [(memory.job_limit, "job object"), (memory.commit_limit, "commit limit")]
    elif physical is None:
        host.gap("memory", "the system did not say")
    groups = groups_of(host.read, "memory") if is_linux else ()
    limits += [(memory_limit(host.read, version, place), f"cgroup v{version}") for version, place in groups]
    # The smallest one, and what said so where it is not the machine itself.
    known = [(size, name) for size, name in ((physical, None), *limits) if size is not None]
    usable, why = min(known, key=lambda limit: limit[0], default=(None, None))
    return MemoryLimits(usable=usable, physical=physical, swap=swap, limited_by=why)


def allowed_processors(host: Asking) -> float | None:
    """The smallest of quota and affinity; None where nothing limits or nobody says (Windows)."""
    if host.system != "linux":
        return None
    limits: list[float] = []
    for version, place in groups_of(host.read, "cpu"):
        files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(text_of(host.read(f"{place}/{name}")) for name in files).split()
        # "max" (v2) and -1 (v1) mean: no limit.
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
            limits.append(round(int(words[0]) / int(words[1]), 2))
    match = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)", text_of(host.read("/proc/self/status")), re.MULTILINE)
    spans = [part.split("-") for part in match[1].split(",")] if match else []
    affinity = sum(int(span[-1]) - int(span[0]) + 1 for span in spans if len(span) < 3 and all(map(str.isdigit, span)))
    if affinity > 0:
        limits.append(float(affinity))
    return min(limits, default=None)


def probe_disks(host: Asking, *, workspace: str) -> tuple[Volume, ...]:
    """Free space where builds happen, and where compilers put their temporary files."""
    variable, usual = ("TEMP", r"C:\Windows\Temp") if host.system == "windows" else ("TMPDIR", "/tmp")  # noqa: S108
    volumes = []
    for purpose, path in (("workspace", workspace), ("temporary files", host.env.get(variable) or usual)):
        if (disk := host.disk(path)) is None:
            host.gap(f"disk space for {purpose}", f"{path} did not answer")
        else:
            volumes.append(Volume(purpose=purpose, path=path, free_gib=gib(disk.free) or 0.0))
    return tuple(volumes)
