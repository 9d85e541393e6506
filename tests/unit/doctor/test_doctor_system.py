"""The system, what it runs inside, and how much of the machine this process may use."""

from __future__ import annotations

import pytest

from rekindle.doctor.system import allowed_processors, probe_disks, probe_holders, probe_memory, probe_os
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey

GIB = 1 << 30
WINDOWS = r"HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion"
FIRMWARE = r"HKLM\HARDWARE\DESCRIPTION\System\BIOS"
PATHS = r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem"


def asking(**answers: object) -> Asking:
    record = Record(**{"machine": "x86_64", **answers})  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test")


def windows(values: dict[str, str | int] | None = None, **keys: dict[str, str | int]) -> Asking:
    """A Windows whose registry has these values at the places named."""
    places = {WINDOWS: values or {}, **{{"firmware": FIRMWARE, "paths": PATHS}[name]: keys[name] for name in keys}}
    return asking(system="windows", registry={place: RegistryKey(values=told) for place, told in places.items()})


@pytest.mark.parametrize(
    ("values", "distro", "kernel"),
    [
        # Windows 11 is told by its number alone: the product's name still says 10.
        ({"CurrentBuildNumber": "21999", "ProductName": "Windows 10 Pro"}, "windows 10", "10.0.21999"),
        ({"CurrentBuildNumber": "22000", "ProductName": "Windows 10 Pro"}, "windows 11", "10.0.22000"),
        (
            {"CurrentBuildNumber": "26100", "DisplayVersion": "24H2", "ReleaseId": "2009", "UBR": 0},
            "windows 11 24H2",
            "10.0.26100.0",
        ),
        ({"CurrentBuild": "17763", "ReleaseId": "1809", "UBR": 737}, "windows 10 1809", "10.0.17763.737"),
        ({"CurrentBuildNumber": "unknown"}, "windows 10", "10.0.unknown"),
        (
            {"CurrentBuildNumber": "20348", "ProductName": "Windows Server 2022 Standard", "DisplayVersion": "21H2"},
            "windows server 2022 standard",
            "10.0.20348",
        ),
    ],
)
def test_which_windows_it_is(values: dict[str, str | int], distro: str, kernel: str) -> None:
    host = windows(values)
    found = probe_os(host)
    assert (found.system, found.distro, found.kernel, found.wsl) == ("windows", distro, kernel, False)
    assert host.gaps == []


def test_a_windows_whose_registry_is_silent() -> None:
    host = asking(system="windows")
    found = probe_os(host)
    assert (found.distro, found.kernel, found.virtual_machine, found.long_paths) == (None, None, None, None)
    assert [gap.what for gap in host.gaps] == ["Windows version"]


@pytest.mark.parametrize(
    ("values", "long"), [({"LongPathsEnabled": 1}, True), ({"LongPathsEnabled": 0}, False), ({}, False)]
)
def test_long_paths_are_off_unless_switched_on(values: dict[str, str | int], long: bool) -> None:
    assert probe_os(windows(paths=values)).long_paths is long


@pytest.mark.parametrize(
    ("maker", "product", "inside"),
    [
        ("Microsoft Corporation", "Virtual Machine", "hyper-v"),
        # A notebook of the same maker is no virtual machine.
        ("Microsoft Corporation", "Surface Laptop 5", None),
        ("VMware, Inc.", "VMware20,1", "vmware"),
        ("Dell Inc.", "Precision 7920", None),
    ],
)
def test_a_virtual_machine_by_the_words_of_its_firmware(maker: str, product: str, inside: str | None) -> None:
    of_windows = windows(firmware={"SystemManufacturer": maker, "SystemProductName": product})
    assert probe_os(of_windows).virtual_machine == inside
    dmi = "/sys/class/dmi/id"
    files = {f"{dmi}/sys_vendor": f"{maker}\n".encode(), f"{dmi}/product_name": f"{product}\n".encode()}
    assert probe_os(asking(files=files)).virtual_machine == inside


def hypervisor_leaf(signature: bytes) -> Cpuid:
    words = [int.from_bytes(signature[place : place + 4], "little") for place in (0, 4, 8)]
    return Cpuid(leaves={(0x40000000, 0): (0x40000001, *words)})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("signature", "inside"),
    [
        (b"KVMKVMKVM\0\0\0", "kvm"),
        (b"Microsoft Hv", "hyper-v"),
        (b"bhyve bhyve ", "bhyve"),
        (b"NewVisor 1  ", "NewVisor 1"),
        (b"\0" * 12, "unknown hypervisor"),
    ],
)
def test_a_virtual_machine_by_the_processor_s_word(signature: bytes, inside: str) -> None:
    assert probe_os(asking(cpuid=hypervisor_leaf(signature))).virtual_machine == inside


@pytest.mark.parametrize(
    ("files", "inside"),
    [
        ({"/sys/hypervisor/type": b"xen\n"}, "xen"),
        ({"/sys/hypervisor/type": b"none\n"}, None),
        ({"/proc/cpuinfo": b"flags\t\t: fpu sse2 hypervisor lm\n"}, "unknown hypervisor"),
        ({"/proc/cpuinfo": b"flags\t\t: fpu sse2 lm\n"}, None),
        ({"/proc/device-tree/compatible": b"linux,dummy-virt\0"}, "unknown hypervisor"),
        ({"/proc/device-tree/compatible": b"raspberrypi,5-model-b\0brcm,bcm2712\0"}, None),
        ({"/proc/sys/kernel/osrelease": b"5.15.167.4-microsoft-standard-WSL2\n"}, "wsl"),
        ({}, None),
    ],
)
def test_a_virtual_machine_by_what_linux_shows(files: dict[str, bytes], inside: str | None) -> None:
    found = probe_os(asking(files=files))
    assert found.virtual_machine == inside
    assert found.wsl is (inside == "wsl")


def test_a_processor_without_that_word_is_no_virtual_machine() -> None:
    assert probe_os(asking(cpuid=Cpuid(leaves={(0, 0): (13, 1, 2, 3)}))).virtual_machine is None


@pytest.mark.parametrize(
    ("files", "distro"),
    [
        ({"/etc/os-release": b'ID=debian\nVERSION_ID="12"\n'}, "debian 12"),
        ({"/usr/lib/os-release": b"ID=fedora\nVERSION_ID=41\n"}, "fedora 41"),
        ({"/etc/os-release": b"ID=arch\n"}, "arch"),
    ],
)
def test_the_distribution_by_its_file(files: dict[str, bytes], distro: str) -> None:
    host = asking(files=files)
    assert probe_os(host).distro == distro and host.gaps == []


def test_no_distribution_is_a_gap() -> None:
    host = asking()
    found = probe_os(host)
    assert (found.distro, found.kernel, found.model) == (None, None, None)
    assert [gap.what for gap in host.gaps] == ["distribution"]


@pytest.mark.parametrize(("out", "distro"), [("15.3.1\n", "macos 15.3.1"), ("", "macos")])
def test_which_macos_it_is(out: str, distro: str) -> None:
    done = Completed(argv=("sw_vers", "-productVersion"), code=0, out=out)
    found = probe_os(asking(system="macos", machine="aarch64", runs=[done]))
    assert (found.system, found.distro, found.arch) == ("macos", distro, "aarch64")


@pytest.mark.parametrize(
    ("lines", "allowed"),
    [
        ("Cpus_allowed_list:\t3\n", 1.0),
        ("Cpus_allowed_list:\t0-1\n", 2.0),
        ("Cpus_allowed_list:\t0-1,4-7,9\n", 7.0),
        # What is no list of processors says nothing.
        ("Cpus_allowed_list:\t0-1-2\n", None),
        ("Cpus_allowed_list:\t-\n", None),
        ("Cpus_allowed_list:\t5-4\n", None),
        ("Cpus_allowed:\tff\n", None),
    ],
)
def test_processors_that_affinity_leaves(lines: str, allowed: float | None) -> None:
    assert allowed_processors(asking(files={"/proc/self/status": f"Name:\tpython\n{lines}".encode()})) == allowed


@pytest.mark.parametrize(
    ("told", "allowed"),
    [
        (b"150000 100000\n", 1.5),
        (b"100000 300000\n", 0.33),
        (b"50000 1\n", 50000.0),
        (b"max 100000\n", None),
        (b"100000 0\n", None),
        (b"100000\n", None),
        (b"100000 100000 100000\n", None),
        (b"", None),
    ],
)
def test_processors_that_a_quota_leaves(told: bytes, allowed: float | None) -> None:
    files = {"/proc/self/cgroup": b"0::/\n", "/sys/fs/cgroup/cpu.max": told}
    assert allowed_processors(asking(files=files)) == allowed


def test_the_smaller_of_quota_and_affinity_counts() -> None:
    files = {"/proc/self/cgroup": b"0::/\n", "/sys/fs/cgroup/cpu.max": b"300000 100000\n"}
    assert allowed_processors(asking(files={**files, "/proc/self/status": b"Cpus_allowed_list:\t0-7\n"})) == 3.0
    assert allowed_processors(asking(files={**files, "/proc/self/status": b"Cpus_allowed_list:\t0-1\n"})) == 2.0


def test_only_linux_says_how_many_processors_one_may_use() -> None:
    files = {"/proc/self/status": b"Cpus_allowed_list:\t0-1\n"}
    assert allowed_processors(asking(system="windows", files=files)) is None


def test_memory_that_nobody_tells_is_a_gap() -> None:
    host = asking()
    limits = probe_memory(host)
    assert (limits.usable, limits.physical, limits.swap, limits.limited_by) == (None, None, None, None)
    assert [gap.what for gap in host.gaps] == ["memory"]


def test_the_system_s_own_call_tells_memory_where_there_is_no_file() -> None:
    host = asking(system="macos", memory=Memory(total=16 * GIB, swap=2 * GIB))
    limits = probe_memory(host)
    assert (limits.usable, limits.physical, limits.swap, limits.limited_by) == (16 * GIB, 16 * GIB, 2 * GIB, None)
    assert host.gaps == []


def test_linux_tells_memory_and_swap_in_a_file() -> None:
    meminfo = b"MemTotal:       4194304 kB\nSwapTotal:      1048576 kB\n"
    host = asking(files={"/proc/meminfo": meminfo}, memory=Memory(total=GIB))
    limits = probe_memory(host)
    assert (limits.usable, limits.physical, limits.swap) == (4 * GIB, 4 * GIB, GIB)
    assert host.gaps == []


def holders(count: int) -> tuple[str, ...]:
    rows = "".join(f'"python{number}.exe","{1000 + number}","torch_cpu.dll"\n' for number in range(count))
    words = "INFO: No tasks are running which match the specified criteria.\n"
    argv = ("tasklist", "/m", "torch_cpu.dll", "/fo", "csv", "/nh")
    return probe_holders(asking(system="windows", runs=[Completed(argv=argv, code=0, out=rows or words)]))


def test_programs_that_hold_torch_are_named_with_their_numbers() -> None:
    assert holders(2) == ("python0.exe (process 1000)", "python1.exe (process 1001)")
    assert holders(0) == ()


def test_no_more_than_five_programs_are_named() -> None:
    assert len(holders(5)) == 5
    assert holders(6) == holders(5)


def test_lines_of_tasklist_that_are_no_program_are_left_out() -> None:
    argv = ("tasklist", "/m", "torch_cpu.dll", "/fo", "csv", "/nh")
    out = '"Image Name","PID","Modules"\n"python.exe","7","a.dll","b.dll"\n"python.exe","8"\n"python.exe","9","a.dll"\n'
    done = Completed(argv=argv, code=0, out=out)
    assert probe_holders(asking(system="windows", runs=[done])) == ("python.exe (process 9)",)
    assert probe_holders(asking(system="linux", runs=[done])) == ()


@pytest.mark.parametrize(
    ("system", "env", "temporary"),
    [
        ("linux", {}, "/tmp"),
        ("linux", {"TMPDIR": "/scratch", "TEMP": "/other"}, "/scratch"),
        ("windows", {}, r"C:\Windows\Temp"),
        ("windows", {"TEMP": r"D:\Temp", "TMPDIR": r"D:\other"}, r"D:\Temp"),
    ],
)
def test_free_space_of_workspace_and_temporary_files(system: str, env: dict[str, str], temporary: str) -> None:
    disks = {"/work": Disk(total=100 * GIB, free=50 * GIB), temporary: Disk(total=10 * GIB, free=0)}
    host = asking(system=system, env=env, disks=disks)
    volumes = probe_disks(host, workspace="/work")
    assert [(volume.purpose, volume.path, volume.free_gib) for volume in volumes] == [
        ("workspace", "/work", 50.0), ("temporary files", temporary, 0.0),
    ]  # fmt: skip
    assert host.gaps == []


def test_a_disk_that_does_not_answer_is_a_gap() -> None:
    host = asking()
    assert probe_disks(host, workspace="/work") == ()
    assert [(gap.what, gap.why) for gap in host.gaps] == [
        ("disk space for workspace", "/work did not answer"),
        ("disk space for temporary files", "/tmp did not answer"),
    ]
