"""The processor: its name, what it can execute, and its microarchitecture by archspec's names. On x86 the instruction
``cpuid`` is asked before ``/proc/cpuinfo``, because under emulation the file describes the machine underneath. Features
carry the names of ``/proc/cpuinfo`` on every system."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from rekindle.compat.cpu_names import find_cpu, match_microarchitecture
from rekindle.doctor.system import allowed_processors
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.cpus import arm_vendor, read_archspec
from rekindle.host.asking import Asking
from rekindle.host.protocol import Cpuid
from rekindle.host.text import key_values, text_of
from rekindle.model.machine import Cpu
from rekindle.model.toml import read_beside

# XCR0 bits and what needs them: AVX state (XMM, YMM), AVX-512 state (opmask, upper ZMM, ZMM16-31), AMX tiles.
_YMM = r"(?:avx2?|fma4?|f16c|xop|vaes|vpclmulqdq|avx_vnni(?:_int8)?)$"
_STATES = ((0b110, _YMM), (0b11100110, "avx512"), (0x60000, "amx"))


def probe_cpu(host: Asking) -> Cpu:
    """The processor, and how much of it this process may use."""
    raw = text_of(host.read("/proc/cpuinfo", limit=4 << 20)) if host.system == "linux" else ""
    cores, threads = _count_cores(host, raw)
    allowed = allowed_processors(host)
    # Said only where it is less than the machine has.
    limited = allowed is not None and (threads is None or allowed < threads)
    cpu = Cpu()
    if host.machine == "x86_64" and (cpuid := host.cpuid()) is not None:
        vendor = _registers_text(cpuid, (0, 0), order=(1, 3, 2))
        name = "".join(_registers_text(cpuid, (0x80000002 + i, 0), order=(0, 1, 2, 3)) for i in range(3))
        cpu = _known_cpu("x86_64", tidy_name(name), vendor, features_of(cpuid))
    elif raw:
        cpu = _read_proc(host, raw)
    elif host.system == "windows":
        cpu = _read_registry(host)
    else:
        host.gap("processor", "neither cpuid nor /proc/cpuinfo answered")
    return replace(cpu, cores=cores, threads=threads, allowed=allowed if limited else None)


def _known_cpu(machine: str, name: str, vendor: str | None, features: set[str], part: str = "") -> Cpu:
    kind = match_microarchitecture(load_facts(), machine, vendor, features, part)
    return Cpu(name=name or None, vendor=vendor or None, microarchitecture=kind, features=tuple(sorted(features)))


def _registers_text(cpuid: Cpuid, leaf: tuple[int, int], order: tuple[int, ...]) -> str:
    registers = cpuid.leaves.get(leaf, ())
    raw = b"".join(registers[i].to_bytes(4, "little") for i in order if registers)
    return raw.decode("ascii", "replace").strip("\0")


def features_of(cpuid: Cpuid) -> set[str]:
    """Feature names set in the leaves, less those whose registers the operating system does not save."""
    features: set[str] = set()
    bits = read_archspec("cpuid")
    for call in (*bits["flags"], *bits["extension-flags"]):
        if (registers := cpuid.leaves.get((call["input"]["eax"], call["input"]["ecx"]))) is None:
            continue
        by_name = dict(zip(("eax", "ebx", "ecx", "edx"), registers, strict=True))
        features.update(bit["name"] for bit in call["bits"] if by_name[bit["register"]] >> bit["bit"] & 1)
    for needed, pattern in _STATES:
        if cpuid.xcr0 is None or cpuid.xcr0 & needed != needed:
            features = {name for name in features if not re.match(pattern, name)}
    return features


def _read_proc(host: Asking, raw: str) -> Cpu:
    first = key_values(raw.split("\n\n")[0], ":")
    name = tidy_name(first.get("model name") or first.get("Model") or "")
    if host.machine == "aarch64":
        implementer, part, features = _read_arm(host, first)
        vendor = arm_vendor(implementer)
        # "ARMv8 Processor rev 1 (v8l)" names no processor; the part number does.
        models = _arm_parts().get(implementer, {})
        name = f"{models['vendor']} {models[part]}" if part in models else "" if name.startswith("ARMv") else name
    else:
        vendor, part, features = first.get("vendor_id"), "", set(first.get("flags", "").split())
    return _known_cpu(host.machine, name, vendor, features, part)


def _read_arm(host: Asking, first: Mapping[str, str]) -> tuple[str, str, set[str]]:
    """Implementer, part and features: the process's own capability words before the file, as on x86."""
    words, features = host.hwcap(), set(first.get("Features", "").split())
    if words is not None and any(words):
        known = zip(words, ("hwcap", "hwcap2"), strict=True)
        features = {name for word, names in known for bit, name in enumerate(_arm_parts()[names]) if word >> bit & 1}
    implementer, part = first.get("CPU implementer", ""), first.get("CPU part", "")
    midr = text_of(host.read("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1")).strip()
    if not part and re.fullmatch(r"0x[0-9a-f]+", midr):
        implementer, part = f"{int(midr, 16) >> 24 & 0xFF:#04x}", f"{int(midr, 16) >> 4 & 0xFFF:#05x}"
    return implementer, part, features


def _arm_parts() -> dict[str, Any]:
    return read_beside(__file__, "arm_parts.toml", dict[str, Any])


def _read_registry(host: Asking) -> Cpu:
    if (key := host.registry(r"HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor\0")) is None:
        host.gap("processor", "neither cpuid nor the registry answered")
        return Cpu()
    host.gap("processor features", "cpuid could not be executed here")
    name, microarchitecture = tidy_name(str(key.values.get("ProcessorNameString", ""))), None
    with contextlib.suppress(BadInput):  # the product's name, where nothing better can be asked
        microarchitecture = find_cpu(name, load_facts()) if name else None
    vendor = str(key.values.get("VendorIdentifier", "")) or None
    return Cpu(name=name or None, vendor=vendor, microarchitecture=microarchitecture)


def tidy_name(name: str) -> str:
    """``Intel(R) Xeon(R) CPU E5-2690 v2 @ 3.00GHz`` → ``Intel Xeon E5-2690 v2``."""
    name = re.sub(r"\((?:R|TM|r|tm)\)(?=-)", "", name)  # "FX(tm)-8350"
    name = re.sub(r"\((R|TM|r|tm)\)|\bCPU\b|@.*$|\bProcessor\b$|\b\d+-Core\b", " ", name)
    return " ".join(name.split())


def _count_cores(host: Asking, raw: str) -> tuple[int | None, int | None]:
    if host.system == "windows":
        key = host.registry(r"HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor")
        count = host.env.get("NUMBER_OF_PROCESSORS", "")
        return host.cores(), (len(key.keys) if key else 0) or (int(count) if count.isdigit() else None)
    threads = len(re.findall(r"^processor\s*:", raw, re.MULTILINE)) or None
    blocks = [key_values(block, ":") for block in raw.split("\n\n")]
    pairs = {(block.get("physical id", "0"), block["core id"]) for block in blocks if block.get("core id")}
    if pairs:
        return len(pairs), threads
    lists = host.glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
    return len({text_of(host.read(path)).strip() for path in lists} - {""}) or None, threads
