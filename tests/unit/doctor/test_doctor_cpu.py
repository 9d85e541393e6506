"""The processor: by the instruction cpuid, by /proc/cpuinfo, by the registry, and how many cores it has."""

from __future__ import annotations

import pytest

from rekindle.doctor.cpu import features_of, probe_cpu
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Cpuid, RegistryKey

Registers = tuple[int, int, int, int]
# What an operating system saves of the registers: nothing but SSE; AVX, too; AVX-512, too; AMX, too.
SSE, AVX, AVX512, AMX = 0b11, 0b111, 0b11100111, 0b11100111 | 0x60000
# cpuid's bits: fma and avx; avx2, avx512f and amx_tile.
LEAVES: dict[tuple[int, int], Registers] = {
    (1, 0): (0, 0, 1 << 12 | 1 << 28 | 1 << 19, 1 << 26),
    (7, 0): (0, 1 << 5 | 1 << 16, 0, 1 << 24),
}


def asking(**answers: object) -> Asking:
    record = Record(**{"machine": "x86_64", **answers})  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test")


def words(text: bytes) -> list[int]:
    return [int.from_bytes(text[place : place + 4], "little") for place in range(0, len(text), 4)]


@pytest.mark.parametrize(
    ("saved", "features"),
    [
        (None, {"sse2", "sse4_1"}),
        (SSE, {"sse2", "sse4_1"}),
        (0b101, {"sse2", "sse4_1"}),
        (AVX, {"sse2", "sse4_1", "avx", "avx2", "fma"}),
        (0b01100111, {"sse2", "sse4_1", "avx", "avx2", "fma"}),
        (AVX512, {"sse2", "sse4_1", "avx", "avx2", "fma", "avx512f"}),
        (AVX | 0x60000, {"sse2", "sse4_1", "avx", "avx2", "fma", "amx_tile"}),
        (AVX512 | 0x40000, {"sse2", "sse4_1", "avx", "avx2", "fma", "avx512f"}),
        # The bit of the x87 registers is always set, and nobody asks for it.
        (AMX & ~1, {"sse2", "sse4_1", "avx", "avx2", "fma", "avx512f", "amx_tile"}),
        (AMX, {"sse2", "sse4_1", "avx", "avx2", "fma", "avx512f", "amx_tile"}),
    ],
)
def test_features_count_where_the_system_saves_their_registers(saved: int | None, features: set[str]) -> None:
    assert features_of(Cpuid(leaves=LEAVES, xcr0=saved)) == features


def test_cpuid_names_maker_and_product() -> None:
    name = b"AMD Ryzen 7 3700X 8-Core Processor".ljust(48, b"\0")
    maker = words(b"AuthenticAMD")
    leaves = {(0, 0): (13, maker[0], maker[2], maker[1]), **LEAVES}
    for leaf in range(3):
        one, two, three, four = words(name[16 * leaf : 16 * leaf + 16])
        leaves[0x80000002 + leaf, 0] = (one, two, three, four)
    # What comes behind the name are the caches.
    leaves[0x80000005, 0] = (0x41414141, 0, 0, 0)
    # Under emulation the file is of the machine underneath.
    files = {"/proc/cpuinfo": b"processor\t: 0\nmodel name\t: another\nflags\t: avx512f\n"}
    found = probe_cpu(asking(cpuid=Cpuid(leaves=leaves, xcr0=AVX), files=files))
    assert (found.name, found.vendor) == ("AMD Ryzen 7 3700X", "AuthenticAMD")
    assert found.features == ("avx", "avx2", "fma", "sse2", "sse4_1")
    assert found.threads == 1


def test_a_cpuid_that_tells_no_name() -> None:
    found = probe_cpu(asking(cpuid=Cpuid(leaves=LEAVES, xcr0=SSE)))
    assert (found.name, found.vendor, found.features) == (None, None, ("sse2", "sse4_1"))


CPUINFO = (
    b"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7402 24-Core Processor\nflags\t: avx2 sse2\n"
)


def test_the_file_tells_where_cpuid_cannot_be_asked() -> None:
    found = probe_cpu(asking(files={"/proc/cpuinfo": CPUINFO}))
    assert (found.name, found.vendor, found.features) == ("AMD EPYC 7402", "AuthenticAMD", ("avx2", "sse2"))


def test_a_processor_of_which_nobody_says_anything_is_a_gap() -> None:
    host = asking()
    found = probe_cpu(host)
    assert (found.name, found.features, found.cores, found.threads, found.allowed) == (None, (), None, None, None)
    assert [gap.what for gap in host.gaps] == ["processor"]


def test_cpuid_is_no_question_for_an_arm_processor() -> None:
    files = {"/proc/cpuinfo": b"processor\t: 0\nFeatures\t: fp asimd\n"}
    found = probe_cpu(asking(machine="aarch64", cpuid=Cpuid(leaves=LEAVES, xcr0=AVX), files=files))
    assert set(found.features) == {"fp", "asimd"}


def arm(text: str, **answers: object) -> tuple[str | None, str | None]:
    host = asking(machine="aarch64", files={"/proc/cpuinfo": text.encode(), **answers}, hwcap=(3, 0))
    found = probe_cpu(host)
    return found.name, found.vendor


@pytest.mark.parametrize(
    ("text", "name", "vendor"),
    [
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "ARM Neoverse-N1", "ARM"),
        # A part that no table knows has the name the file gives, unless that names the instruction set only.
        ("model name\t: Phytium FTC663\nCPU implementer\t: 0x70\nCPU part\t: 0x663\n", "Phytium FTC663", "0x70"),
        ("model name\t: ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0x41\nCPU part\t: 0xfff\n", None, "ARM"),
        ("Model\t: Raspberry Pi 5 Model B\n", "Raspberry Pi 5 Model B", None),
        ("processor\t: 0\n", None, None),
    ],
)
def test_what_an_arm_core_is_called(text: str, name: str | None, vendor: str | None) -> None:
    assert arm(text) == (name, vendor)


def test_the_part_of_the_file_comes_before_midr_and_nonsense_is_none() -> None:
    midr = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
    told = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
    assert arm(told, **{midr: b"0x00000000413fd400\n"}) == ("ARM Neoverse-N1", "ARM")
    assert arm("processor\t: 0\n", **{midr: b"0x00000000413fd400\n"}) == ("ARM Neoverse-V1", "ARM")
    assert arm("processor\t: 0\n", **{midr: b"unknown\n"}) == (None, None)


CENTRAL = r"HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor"


def test_the_registry_names_the_processor_where_cpuid_cannot_be_asked() -> None:
    values = {"ProcessorNameString": "Intel(R) Xeon(R) CPU E5-2670 v2 @ 2.50GHz", "VendorIdentifier": "GenuineIntel"}
    registry = {CENTRAL: RegistryKey(keys=("0", "1", "2", "3")), rf"{CENTRAL}\0": RegistryKey(values=values)}
    host = asking(system="windows", registry=registry, cores=2)
    found = probe_cpu(host)
    assert (found.name, found.vendor, found.microarchitecture) == ("Intel Xeon E5-2670 v2", "GenuineIntel", "ivybridge")
    assert (found.cores, found.threads, found.features) == (2, 4, ())
    assert [gap.what for gap in host.gaps] == ["processor features"]


@pytest.mark.parametrize("values", [{}, {"ProcessorNameString": "a processor of tomorrow"}])
def test_a_name_that_no_table_knows_is_no_microarchitecture(values: dict[str, str | int]) -> None:
    host = asking(system="windows", registry={rf"{CENTRAL}\0": RegistryKey(values=values)})
    found = probe_cpu(host)
    assert (found.name, found.vendor) == (values.get("ProcessorNameString"), None)
    assert found.microarchitecture is None


@pytest.mark.parametrize(
    ("registry", "env", "threads"),
    [
        ({CENTRAL: RegistryKey(keys=("0", "1"))}, {"NUMBER_OF_PROCESSORS": "8"}, 2),
        ({CENTRAL: RegistryKey()}, {"NUMBER_OF_PROCESSORS": "8"}, 8),
        ({}, {"NUMBER_OF_PROCESSORS": "8"}, 8),
        ({}, {"NUMBER_OF_PROCESSORS": "many"}, None),
        ({}, {}, None),
    ],
)
def test_threads_of_windows(registry: dict[str, RegistryKey], env: dict[str, str], threads: int | None) -> None:
    host = asking(system="windows", registry=registry, env=env)
    assert probe_cpu(host).threads == threads
    assert [gap.why for gap in host.gaps] == ["neither cpuid nor the registry answered"]


def blocks(*rows: tuple[int, int]) -> bytes:
    """``/proc/cpuinfo`` with one block per thread: its socket and its core."""
    named = (f"processor\t: {n}\nphysical id\t: {a}\ncore id\t: {b}\nflags\t: sse2" for n, (a, b) in enumerate(rows))
    return "\n\n".join(named).encode()


def test_cores_are_counted_by_socket_and_core() -> None:
    found = probe_cpu(asking(files={"/proc/cpuinfo": blocks((0, 0), (0, 0), (0, 1), (1, 0), (1, 1))}))
    assert (found.cores, found.threads) == (4, 5)


def test_a_file_without_sockets_has_one() -> None:
    text = b"processor\t: 0\ncore id\t: 0\n\nprocessor\t: 1\ncore id\t: 1\n"
    found = probe_cpu(asking(files={"/proc/cpuinfo": text}))
    assert (found.cores, found.threads) == (2, 2)


def test_cores_are_counted_by_siblings_where_the_file_does_not_tell() -> None:
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {0: b"0,2\n", 1: b"1,3\n", 2: b"0,2\n", 3: b"1,3\n", 4: b""}
    files = {topology.format(number): raw for number, raw in siblings.items()}
    text = b"\n\n".join(b"processor\t: %d\nFeatures\t: fp" % number for number in range(5))
    found = probe_cpu(asking(machine="aarch64", files={"/proc/cpuinfo": text, **files}))
    assert (found.cores, found.threads) == (2, 5)
    assert probe_cpu(asking(machine="aarch64", files={"/proc/cpuinfo": text})).cores is None


@pytest.mark.parametrize(
    ("status", "cpuinfo", "allowed"),
    [
        (b"Cpus_allowed_list:\t0-2\n", blocks((0, 0), (0, 1), (0, 2), (0, 3)), 3.0),
        (b"Cpus_allowed_list:\t0-3\n", blocks((0, 0), (0, 1), (0, 2), (0, 3)), None),
        # Where nobody says how many there are, what is allowed is all one knows.
        (b"Cpus_allowed_list:\t0-3\n", b"", 4.0),
    ],
)
def test_what_is_allowed_is_told_where_it_is_less(status: bytes, cpuinfo: bytes, allowed: float | None) -> None:
    files = {"/proc/self/status": status, "/proc/cpuinfo": cpuinfo}
    assert probe_cpu(asking(files=files)).allowed == allowed
