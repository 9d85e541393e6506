"""Single probes on small made-up machines: the corners that no whole capture shows."""

from __future__ import annotations

import pytest

from rekindle.compat.cpu_names import match_microarchitecture
from rekindle.doctor.amd import find_amd, gfx_of
from rekindle.doctor.cpu import probe_cpu, tidy_name
from rekindle.doctor.nvidia import find_nvidia
from rekindle.doctor.pci import find_cards
from rekindle.doctor.pythons import probe_pythons
from rekindle.doctor.system import probe_memory, probe_os
from rekindle.facts import load_facts
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed, Memory, RegistryKey
from rekindle.toolkits.compilers import cl_version, find_msvc, list_compilers, read_vcvars
from rekindle.toolkits.cuda import find_cuda
from rekindle.toolkits.libraries import packaged_cuda
from rekindle.toolkits.rocm import find_rocm

GIB = 1 << 30


def asking(**answers: object) -> Asking:
    record = Record(**{"machine": "x86_64", **answers})  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test", deadline=float("inf"))


def said(out: str = "", *argv: str, code: int = 0, err: str = "") -> Completed:
    return Completed(argv=argv, code=code, out=out, err=err)


MEMINFO = b"MemTotal:       65970688 kB\nSwapTotal:       2097152 kB\n"


@pytest.mark.parametrize(
    ("files", "gib", "by"),
    [
        ({}, 62.9, None),
        # No limit is a word in v2 and a very large number in v1.
        ({"/proc/self/cgroup": b"0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": b"max\n"}, 62.9, None),
        (
            {
                "/proc/self/cgroup": b"4:memory:/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": b"9223372036854771712\n",
            },
            62.9,
            None,
        ),
        # The limit of a parent counts, though the process's own group has none.
        (
            {
                "/proc/self/cgroup": b"0::/user.slice/job\n",
                "/sys/fs/cgroup/user.slice/job/memory.max": b"max\n",
                "/sys/fs/cgroup/user.slice/memory.max": b"8589934592\n",
            },
            8.0,
            "cgroup v2",
        ),
        # memory.high slows a process down long before memory.max would kill it: the lower one counts.
        (
            {
                "/proc/self/cgroup": b"0::/job\n",
                "/sys/fs/cgroup/job/memory.max": b"8589934592\n",
                "/sys/fs/cgroup/job/memory.high": b"4294967296\n",
            },
            4.0,
            "cgroup v2",
        ),
        # A limit above what the machine has limits nothing.
        ({"/proc/self/cgroup": b"0::/\n", "/sys/fs/cgroup/memory.max": b"999999999999\n"}, 62.9, None),
        # Hybrid: the unified tree has no memory controller, the old one has.
        (
            {
                "/proc/self/cgroup": b"4:memory:/box\n0::/\n",
                "/proc/self/mountinfo": b"37 33 0:34 / /mnt/cg/memory rw - cgroup cgroup rw,memory\n",
                "/mnt/cg/memory/box/memory.limit_in_bytes": b"4294967296\n",
            },
            4.0,
            "cgroup v1",
        ),
        # Inside a container the path is the host's: only the mounted root can be read.
        (
            {
                "/proc/self/cgroup": b"0::/../../outside\n",
                "/sys/fs/cgroup/memory.max": b"2147483648\n",
            },
            2.0,
            "cgroup v2",
        ),
    ],
)
def test_memory_is_the_smallest_limit(files: dict[str, bytes], gib: float, by: str | None) -> None:
    limits = probe_memory(asking(files={"/proc/meminfo": MEMINFO, **files}))
    assert limits.usable is not None
    assert (round(limits.usable / GIB, 1), limits.limited_by) == (gib, by)


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({}, None),
        ({"/proc/self/cgroup": b"0::/\n", "/sys/fs/cgroup/cpu.max": b"max 100000\n"}, None),
        ({"/proc/self/cgroup": b"0::/\n", "/sys/fs/cgroup/cpu.max": b"250000 100000\n"}, 2.5),
        (
            {
                "/proc/self/cgroup": b"3:cpu,cpuacct:/box\n",
                "/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": b"400000\n",
                "/sys/fs/cgroup/cpu/box/cpu.cfs_period_us": b"100000\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": b"-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": b"100000\n",
            },
            4.0,
        ),
        ({"/proc/self/status": b"Name:\tpython\nCpus_allowed_list:\t0-1,6\n"}, 3.0),
        ({"/proc/self/status": b"Cpus_allowed_list:\t0-7\n"}, None),
    ],
)
def test_processors_one_may_use(files: dict[str, bytes], allowed: float | None) -> None:
    eight = "\n\n".join(f"processor\t: {n}\nflags\t: sse2" for n in range(8)).encode()
    assert probe_cpu(asking(files={"/proc/cpuinfo": eight, **files})).allowed == allowed


@pytest.mark.parametrize(
    ("memory", "gib", "by"),
    [
        (Memory(total=32 * GIB, commit_limit=40 * GIB), 32, None),
        (Memory(total=32 * GIB, commit_limit=40 * GIB, job_limit=6 * GIB), 6, "job object"),
        (Memory(total=32 * GIB, commit_limit=20 * GIB), 20, "commit limit"),
    ],
)
def test_memory_on_windows(memory: Memory, gib: int, by: str | None) -> None:
    limits = probe_memory(asking(system="windows", memory=memory))
    assert (limits.usable, limits.limited_by) == (gib * GIB, by)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (90006, "gfx906"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (80003, "gfx803"),
        (100301, "gfx1031"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
    ],
)
def test_kfd_numbers_are_targets(number: int, name: str) -> None:
    assert str(gfx_of(number)) == name


def test_the_processor_of_the_system_is_no_card() -> None:
    assert gfx_of(0) is None


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("Intel(R) Xeon(R) CPU E5-2690 v2 @ 3.00GHz", "Intel Xeon E5-2690 v2"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "AMD Ryzen 9 7950X"),
        ("Intel(R) Core(TM) i7-5960X CPU @ 3.00GHz", "Intel Core i7-5960X"),
        ("Intel(R) Xeon(R) Processor", "Intel Xeon"),
        ("AMD FX(tm)-8350 Eight-Core Processor", "AMD FX-8350 Eight-Core"),
    ],
)
def test_names_are_what_people_say(raw: str, name: str) -> None:
    assert tidy_name(raw) == name


def test_the_process_beats_the_file() -> None:
    """Under emulation /proc/cpuinfo is of the machine underneath; the capability words are the process's own."""
    host = asking(
        machine="aarch64", files={"/proc/cpuinfo": b"processor\t: 0\nflags\t: avx2 fma\n"}, hwcap=(0b10000011, 1 << 14)
    )
    assert set(probe_cpu(host).features) == {"fp", "asimd", "crc32", "bf16"}


def test_words_with_unknown_bits_alone_are_an_answer_too() -> None:
    files = {"/proc/cpuinfo": b"processor\t: 0\nFeatures\t: fp asimd\n"}
    assert probe_cpu(asking(machine="aarch64", files=files, hwcap=(1 << 63, 0))).features == ()
    assert set(probe_cpu(asking(machine="aarch64", files=files, hwcap=(0, 0))).features) == {"fp", "asimd"}


def test_midr_names_the_core_where_the_file_does_not() -> None:
    midr = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
    host = asking(
        machine="aarch64", files={"/proc/cpuinfo": b"processor\t: 0\n", midr: b"0x00000000413fd0c1\n"}, hwcap=(3, 0)
    )
    assert probe_cpu(host).name == "ARM Neoverse-N1"


def test_unknown_features_are_no_microarchitecture() -> None:
    assert match_microarchitecture(load_facts(), "x86_64", "GenuineIntel", set()) is None
    assert match_microarchitecture(load_facts(), "riscv64", None, {"a"}) is None


@pytest.mark.parametrize(
    ("toolset", "version"),
    [
        ("14.40.33807", "19.40.33807"),
        ("14.29.30133", "19.29.30133"),
        ("14.00.24210", "19.00.24210"),
        ("tools", None),
        ("15.1.2", None),
    ],
)
def test_toolsets_are_compiler_versions(toolset: str, version: str | None) -> None:
    assert cl_version(toolset) == version


VSWHERE = r"C:\Program Files (x86)\Microsoft Visual Studio\Installer\vswhere.exe"
ASK = (VSWHERE, "-all", "-products", "*", "-format", "json", "-utf8")


@pytest.mark.parametrize("out", ["", "Error 0x57", "[", "{}", "[1, null]", "[{}]"])
def test_vswhere_that_makes_no_sense_is_no_compiler(out: str) -> None:
    host = asking(system="windows", paths={VSWHERE: None}, runs=[said(out, *ASK)])
    assert find_msvc(host) == ()


def test_a_studio_without_cpp_is_named() -> None:
    out = '[{"installationPath": "C:\\\\VS", "displayName": "Visual Studio Community 2022", "isComplete": true}]'
    host = asking(system="windows", paths={VSWHERE: None}, runs=[said(out, *ASK)])
    assert find_msvc(host) == ()
    assert "Desktop development with C++" in host.gaps[0].why


BATCH = r"C:\Program Files\VS\VC\Auxiliary\Build\vcvars64.bat"
SETTINGS = ("cmd", "/d", "/c", "call", BATCH, ">nul", "&&", "set")


def test_vcvars_gives_what_a_compiler_needs() -> None:
    out = "Path=C:\\a;C:\\b\nINCLUDE=C:\\inc\nlib=C:\\lib\nSECRET_TOKEN=x\nWindowsSDKVersion=10.0.22621.0\\\n"
    host = asking(system="windows", runs=[said(out, *SETTINGS)])
    assert read_vcvars(host, BATCH) == {
        "PATH": "C:\\a;C:\\b", "INCLUDE": "C:\\inc", "LIB": "C:\\lib", "WindowsSDKVersion": "10.0.22621.0\\",
    }  # fmt: skip


def test_vcvars_that_is_forbidden_says_so() -> None:
    words = "This program is blocked by group policy. For more information, contact your system administrator.\n"
    host = asking(system="windows", runs=[said("", *SETTINGS, code=1, err=words)])
    assert read_vcvars(host, BATCH) == words.strip()


def test_a_card_without_any_driver_on_windows() -> None:
    enum = r"HKLM\SYSTEM\CurrentControlSet\Enum\PCI"
    display = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
    card, sound = "VEN_10DE&DEV_2F04&SUBSYS_205B10DE&REV_A1", "VEN_10DE&DEV_2F80&SUBSYS_205B10DE&REV_A1"
    basic = {"DriverDesc": "Microsoft Basic Display Adapter", "MatchingDeviceId": "pci\\cc_0300"}
    registry = {
        display: RegistryKey(keys=("0000",)),
        rf"{display}\0000": RegistryKey(values=basic),
        enum: RegistryKey(keys=(card, sound, "VEN_8086&DEV_A370&SUBSYS_0&REV_0")),
        rf"{enum}\{card}": RegistryKey(keys=("4&1",)),
        rf"{enum}\{card}\4&1": RegistryKey(values={"CompatibleIDs": "PCI\\VEN_10DE&CC_030000\nPCI\\CC_0300"}),
        rf"{enum}\{sound}": RegistryKey(keys=("4&2",)),
        rf"{enum}\{sound}\4&2": RegistryKey(values={"CompatibleIDs": "PCI\\CC_0403"}),
    }
    host = asking(system="windows", registry=registry)
    cards = find_nvidia(host, find_cards(host))
    assert [(gpu.name, str(gpu.arch), gpu.how) for gpu in cards.gpus] == [("GeForce RTX 5070", "sm_120", "pci")]
    assert cards.trouble == "no NVIDIA driver is loaded"


UEVENT = b"DRIVER=%s\nPCI_CLASS=30000\nPCI_ID=10DE:2204\nPCI_SUBSYS_ID=1043:87D7\nPCI_SLOT_NAME=0000:21:00.0\n"
SLOT = "/sys/bus/pci/devices/0000:21:00.0/uevent"


@pytest.mark.parametrize(
    ("driver", "nvml", "words"),
    [
        (b"nouveau", {"missing": True}, "nouveau"),
        (b"vfio-pci", {"missing": True}, "virtual machine"),
        (b"nvidia", {"missing": True}, "without its GPUs"),
        (b"nvidia", {"error": "Insufficient Permissions", "code": 4}, "may not use /dev/nvidiactl"),
        (b"nvidia", {"error": "Driver/library version mismatch", "code": 18}, "not restarted"),
        (b"nvidia", {"error": "no answer within 5.0 s", "timed_out": True}, "no answer within"),
        (b"nvidia", {"devices": "nonsense"}, "makes no sense"),
    ],
)
def test_what_is_wrong_with_the_driver_is_said(driver: bytes, nvml: dict[str, object], words: str) -> None:
    host = asking(files={SLOT: UEVENT % driver}, nvml=nvml)
    cards = find_nvidia(host, find_cards(host))
    assert [(gpu.name, gpu.how) for gpu in cards.gpus] == [("GeForce RTX 3090", "pci")]
    assert words in (cards.trouble or "")


@pytest.mark.parametrize(
    ("access", "words"),
    [({}, "no /dev/kfd"), ({"/dev/kfd": False}, "group render"), ({"/dev/kfd": True}, None)],
)
def test_an_amd_card_one_may_not_use(access: dict[str, bool], words: str | None) -> None:
    node = "/sys/class/kfd/kfd/topology/nodes/1/properties"
    values = b"gfx_target_version 110000\nvendor_id 4098\ndevice_id 29772\nlocation_id 768\ndomain 0\n"
    cards = find_amd(asking(files={node: values}, access=access), ())
    assert str(cards.gpus[0].arch) == "gfx1100"
    assert cards.trouble is None if words is None else words in (cards.trouble or "")


def test_every_toolkit_once_whatever_leads_there() -> None:
    host = asking(
        env={"CUDA_HOME": "/usr/local/cuda"},
        files={
            "/usr/local/cuda-10.0/version.txt": b"CUDA Version 10.0.130\n",
            "/usr/local/cuda-11.2/include/cuda.h": b"/* */\n#define CUDA_VERSION 11020\n",
            "/usr/local/cuda-12.8/version.json": b'{"cuda": {"version": "12.8.1"}}',
            "/usr/local/cuda-9.9/version.json": b"not json",
        },
        paths=dict.fromkeys(["/usr/local/cuda", "/usr/local/cuda-10.0/bin/nvcc", "/usr/local/cuda-12.8/bin/nvcc"]),
        links={"/usr/local/cuda": "/usr/local/cuda-12.8"},
    )
    found = find_cuda(host)
    assert [(t.version, t.note) for t in found] == [
        ("12.8.1", None), ("11.2", "no nvcc in it: libraries only"), ("10.0.130", None),
    ]  # fmt: skip
    assert [gap.what for gap in host.gaps] == ["CUDA toolkit /usr/local/cuda-9.9"]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ("libcudnn8\t8.7.0.84-1+cuda11.8\n", {"8.7.0": "11.8"}),
        ("libcudnn9-dev-cuda-12\t9.3.0.75-1\n", {"9.3.0": "12"}),
        ("libnccl-dev\t2.16.5-1+cuda11.8\nlibcudnn8\t\n", {"2.16.5": "11.8"}),
        ("dpkg-query: no packages found matching libcudnn*\n", {}),
    ],
)
def test_packages_tell_which_cuda(out: str, expected: dict[str, str]) -> None:
    ask = ("dpkg-query", "-W", "libcudnn*", "cudnn*", "libnccl*")
    host = asking(programs={"dpkg-query": ("/usr/bin/dpkg-query",)}, runs=[said(out, *ask)])
    assert packaged_cuda(host) == expected


def test_compilers_are_named_by_what_they_say() -> None:
    host = asking(
        programs={"gcc": ("/usr/bin/gcc", "/opt/x/gcc"), "clang": ("/usr/bin/clang",)},
        paths=dict.fromkeys(["/usr/bin/g++", "/usr/bin/gcc-12", "/opt/x/g++", "/usr/bin/clang++"]),
        links={"/usr/bin/gcc": "/usr/bin/gcc-12"},
        runs=[
            said("gcc (SUSE Linux) 7.5.0\n", "/usr/bin/gcc", "--version"),
            # macOS and some clusters put clang behind the name gcc.
            said("clang version 17.0.6 (Fedora 17.0.6-2.fc39)\n", "/opt/x/gcc", "--version"),
            said("Kommando nicht gefunden\n", "/usr/bin/clang", "--version"),
        ],
    )
    assert [(c.kind, c.version, c.path) for c in list_compilers(host)] == [
        ("gcc", "7.5.0", "/usr/bin/gcc"), ("clang", "17.0.6", "/opt/x/gcc"),
    ]  # fmt: skip
    assert [gap.what for gap in host.gaps] == ["compiler /usr/bin/clang"]


def test_the_stores_empty_python_is_not_asked() -> None:
    stub = r"C:\Users\user\AppData\Local\Microsoft\WindowsApps\python.exe"
    real = stub.replace("python.exe", "python3.exe")
    target = r"C:\Program Files\WindowsApps\PythonSoftwareFoundation.Python.3.12_qbz5n2kfra8p0\python3.12.exe"
    answer = {
        "version": "3.12.4",
        "implementation": "CPython",
        "executable": real,
        "prefix": target[:-16],
        "base_prefix": target[:-16],
    }
    host = asking(
        system="windows", programs={"python": (stub,), "python3": (real,)}, links={real: target}, pythons={real: answer}
    )
    pythons, _ = probe_pythons(host)
    assert [(p.version, p.kind, p.abi) for p in pythons] == [("3.12.4", "store", "cp312")]
    assert not host.gaps


def test_a_free_threaded_python_has_another_abi() -> None:
    answer = {
        "version": "3.13.1",
        "implementation": "CPython",
        "gil_disabled": True,
        "prefix": "/usr",
        "base_prefix": "/usr",
    }
    host = asking(programs={"python3": ("/usr/bin/python3",)}, pythons={"/usr/bin/python3": answer})
    assert probe_pythons(host)[0][0].abi == "cp313t"


@pytest.mark.parametrize(
    ("files", "env", "container"),
    [
        ({"/run/.containerenv": b""}, {}, "podman"),
        ({"/.dockerenv": b""}, {}, "docker"),
        ({"/run/systemd/container": b"lxc\n"}, {}, "lxc"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({"/proc/1/cgroup": b"12:memory:/kubepods/besteffort/pod1\n"}, {}, "kubernetes"),
        ({"/proc/1/cgroup": b"0::/init.scope\n"}, {}, None),
    ],
)
def test_containers_are_seen(files: dict[str, bytes], env: dict[str, str], container: str | None) -> None:
    release = {"/etc/os-release": b"ID=debian\nVERSION_ID=12\n"}
    assert probe_os(asking(files={**release, **files}, env=env)).container == container


def test_musl_is_named() -> None:
    host = asking(
        files={"/etc/os-release": b"ID=alpine\nVERSION_ID=3.20.1\n"},
        runs=[said("", "ldd", "--version", code=1, err="musl libc (x86_64)\nVersion 1.2.5\n")],
    )
    found = probe_os(host)
    assert (found.distro, found.glibc, found.libc) == ("alpine 3.20.1", None, "musl")


def test_conda_environments_anywhere_are_found() -> None:
    python = "/data/envs/torch/bin/python"
    answer = {
        "version": "3.10.14",
        "implementation": "CPython",
        "prefix": "/data/envs/torch",
        "base_prefix": "/data/envs/torch",
    }
    answer |= {"compiler": "GCC 12.3.0 (conda-forge)", "executable": python}
    host = asking(
        env={"HOME": "/home/user"},
        files={"/home/user/.conda/environments.txt": b"/data/envs/torch\n\n/data/envs/gone\n"},
        paths={python: None},
        pythons={python: answer},
    )
    assert [(p.path, p.kind) for p in probe_pythons(host)[0]] == [(python, "conda")]
    assert not host.gaps


NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 11.8, V11.8.89\n"


@pytest.mark.parametrize(
    ("nvcc", "paths", "root"),
    [
        # Debian's own package: one toolkit, not two.
        ("/usr/bin/nvcc", ["/usr/include/cuda.h", "/usr/lib/nvidia-cuda-toolkit/bin/nvcc"], "/usr"),
        # conda's: the headers lie below targets/.
        ("/opt/env/bin/nvcc", ["/opt/env/targets/x86_64-linux/include/cuda.h"], "/opt/env"),
    ],
)
def test_toolkits_of_distributions_and_conda(nvcc: str, paths: list[str], root: str) -> None:
    host = asking(programs={"nvcc": (nvcc,)}, paths=dict.fromkeys([nvcc, *paths]), runs=[said(NVCC, nvcc, "--version")])
    assert [(t.version, t.path, t.note) for t in find_cuda(host)] == [("11.8.89", root, None)]


@pytest.mark.parametrize(
    ("goal", "found"),
    [
        ("/usr/include/cuda.h", [("11.8.89", "/usr")]),
        (None, [("12.4", "/usr/lib/cuda"), ("11.8.89", "/usr")]),
    ],
    ids=["Debian 13 links its headers there", "a toolkit of its own"],
)
def test_a_folder_of_links_to_usr_is_no_second_toolkit(goal: str | None, found: list[tuple[str, str]]) -> None:
    header = "/usr/lib/cuda/include/cuda.h"
    host = asking(
        programs={"nvcc": ("/usr/bin/nvcc",)},
        paths={"/usr/bin/nvcc": None, "/usr/include/cuda.h": None, "/usr/lib/cuda": None, header: None},
        links={header: goal} if goal else {},
        files={header: b"#define CUDA_VERSION 12040\n"},
        runs=[said(NVCC, "/usr/bin/nvcc", "--version")],
    )
    assert [(kit.version, kit.path) for kit in find_cuda(host)] == found


def test_rocm_of_a_distribution_is_found() -> None:
    version = b"HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR=2\nHIP_VERSION_PATCH=21153\n"
    host = asking(programs={"hipcc": ("/usr/bin/hipcc",)}, files={"/usr/share/hip/version": version})
    assert [(t.version, t.path) for t in find_rocm(host)] == [("5.2", "/usr")]
