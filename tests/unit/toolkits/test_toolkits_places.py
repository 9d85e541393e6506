"""Toolkits where they really lie: NVIDIA's own, Debian's spread over several places, conda's, Windows'; every way in
which a CUDA or a ROCm says its version; and the programs in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import MissingTool
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.toolkits.cuda import CUDA_VARIABLES, ask_release, cuda_home, find_cuda, find_nvcc, is_release
from rekindle.toolkits.programs import (
    bring_lacking,
    bring_packages,
    find_below,
    is_root,
    manager_here,
    places_of,
    probe_program,
    probe_programs,
    program_in,
)
from rekindle.toolkits.rocm import find_hip_clang, find_hipcc, find_rocm, hip_release, rocm_home

CUDA_H = b"#define CUDA_VERSION 11080\n"
NVCC = "Cuda compilation tools, release 12.4, V12.4.131\n"


def machine(files: Mapping[str, bytes] | None = None, runs: Mapping[str, str] | None = None, **record: Any) -> Asking:
    """Files with what is in them; what programs say to --version, by their paths, which are there too."""
    files, runs = dict(files or {}), dict(runs or {})
    done = [Completed(argv=(path, "--version"), code=0, out=said) for path, said in runs.items()]
    paths = dict.fromkeys((*files, *runs, *record.pop("paths", ())))
    return Asking(RecordedHost(Record(files={**files}, runs=done, paths=paths, **{"machine": "x86_64", **record})))


def rows(toolkits: Any) -> list[tuple[str | None, str | None, str | None]]:
    return [(kit.version, kit.path, kit.note) for kit in toolkits]


ALONE = "no nvcc in it: libraries only"


@pytest.mark.parametrize(
    ("files", "runs", "version"),
    [
        ({"version.json": b'{"cuda": {"name": "CUDA SDK", "version": "12.4.20240521"}}'}, {}, "12.4.20240521"),
        ({"version.json": b'{"cuda": {}}', "version.txt": b"CUDA Version 10.2.89\n"}, {}, "10.2.89"),
        ({"version.json": b"[]", "version.txt": b"CUDA Version 9.0\n"}, {}, "9.0"),
        ({"version.json": b"{", "include/cuda.h": CUDA_H}, {}, "11.8"),
        ({"version.txt": b"nothing", "include/cuda.h": CUDA_H}, {"bin/nvcc": NVCC}, "12.4.131"),
        ({"include/cuda.h": CUDA_H}, {"bin/nvcc": "who knows"}, "11.8"),
        ({"include/cuda.h": b"#define CUDA_VERSION 9020\n"}, {}, "9.2"),
        ({"include/cuda.h": b"// " * 30000 + CUDA_H}, {}, None),
        ({"include/cuda.h": b"nothing"}, {}, None),
    ],
)
def test_a_toolkit_says_its_version_in_one_of_four_ways(
    files: dict[str, bytes], runs: dict[str, str], version: str | None
) -> None:
    root = "/usr/local/cuda-x"
    host = machine(
        {f"{root}/{name}": text for name, text in files.items()},
        {f"{root}/{name}": said for name, said in runs.items()},
    )
    assert rows(find_cuda(host)) == ([(version, root, None if runs else ALONE)] if version else [])
    assert [gap.what for gap in host.gaps] == (
        [f"CUDA toolkit {root}"] if files.get("version.json", b"").strip() in (b'{"cuda": {}}', b"[]", b"{") else []
    )


def test_debian_s_toolkit_is_one() -> None:
    """Spread over /usr, /usr/lib/cuda and /usr/lib/nvidia-cuda-toolkit, and no other is lost beside it."""
    header = "/usr/include/cuda.h"
    files = {
        header: CUDA_H,
        "/usr/lib/cuda/include/cuda.h": CUDA_H,
        "/usr/lib/cuda/version.txt": b"CUDA Version 11.8.0\n",
        "/usr/lib/nvidia-cuda-toolkit/version.txt": b"CUDA Version 11.8.0\n",
        "/usr/local/cuda-12.4/version.txt": b"CUDA Version 12.4.1\n",
        "/usr/local/cuda-12.4/include/cuda.h": CUDA_H,
    }
    programs, links = {"nvcc": ("/usr/bin/nvcc",)}, {"/usr/lib/cuda/include/cuda.h": header}
    nvcc = {"/usr/bin/nvcc": "release 11.8, V11.8.89"}
    host = machine(files, nvcc, programs=programs, links=links)
    assert rows(find_cuda(host)) == [("12.4.1", "/usr/local/cuda-12.4", ALONE), ("11.8.89", "/usr", None)]
    # Without the package these are places like any other.
    assert len(find_cuda(machine(files, links=links))) == 3


def test_a_wrapper_on_path_is_no_toolkit_and_conda_s_is_one() -> None:
    wrapper = machine({}, {"/usr/local/bin/nvcc": NVCC}, programs={"nvcc": ("/usr/local/bin/nvcc",)})
    assert find_cuda(wrapper) == ()
    for mark in ("include/cuda.h", "version.json", "targets/x86_64-linux/include/cuda.h"):
        files = {f"/opt/conda/{mark}": CUDA_H}
        host = machine(files, {"/opt/conda/bin/nvcc": NVCC}, programs={"nvcc": ("/opt/conda/bin/nvcc",)})
        assert rows(find_cuda(host)) == [("12.4.131", "/opt/conda", None)], mark


def test_a_toolkit_counts_once_under_all_its_names() -> None:
    files = {f"/usr/local/{name}/version.txt": b"CUDA Version 12.4.1" for name in ("cuda", "cuda-12.4")}
    files["/usr/local/cuda-9.2/version.txt"] = b"CUDA Version 9.2.148"
    env = {"CUDA_HOME": "/usr/local/cuda-12.4/", "CUDA_PATH": "", "CUDA_ROOT": "/nowhere"}
    host = machine(files, links={"/usr/local/cuda": "/usr/local/cuda-12.4"}, env=env)
    assert rows(find_cuda(host)) == [
        ("12.4.1", "/usr/local/cuda-12.4", ALONE),
        ("9.2.148", "/usr/local/cuda-9.2", ALONE),
    ], "newest first by number, by the name that the shell gives it"


def test_a_toolkit_of_windows() -> None:
    root = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v11.4"
    nvcc = rf"{root}\bin\nvcc.exe"
    host = machine({}, {nvcc: "release 11.4, V11.4.152"}, system="windows", programs={"nvcc": (nvcc,)})
    assert rows(find_cuda(host)) == [("11.4.152", root, None)]
    own = r"D:\own"
    files = {rf"{own}\version.json": b'{"cuda": {"version": "12.1.0"}}'}
    asked = machine(files, {rf"{own}\bin\nvcc.exe": ""}, system="windows", programs={"nvcc": (rf"{own}\bin\nvcc.exe",)})
    assert rows(find_cuda(asked)) == [("12.1.0", own, None)]


def test_programs_of_windows_have_other_endings() -> None:
    for ending in (".exe", ".bat", ""):
        path = rf"C:\kit\bin\tool{ending}"
        assert program_in(machine(paths=(path,), system="windows"), "C:\\kit\\", "tool") == path
    assert program_in(machine(paths=("/kit/bin/tool",)), "/kit/", "tool") == "/kit/bin/tool"
    assert program_in(machine(paths=("/kit/bin/tool.exe",)), "/kit", "tool") is None


@pytest.mark.parametrize(
    ("release", "planned", "fits"),
    [("12.4", "12.4", True), ("12.4", "12.4.1", True), ("12.4", "12.40", False), ("12.4", "12.5", False)],
)
def test_a_release_is_what_a_plan_means(release: str, planned: str, fits: bool) -> None:
    assert is_release(release, planned) == fits and not is_release(None, planned)


@needs.posix()
def test_the_nvcc_that_the_settings_name_is_taken_as_it_is() -> None:
    host = machine(paths=("/usr/local/cuda/bin/nvcc", "/a/bin/nvcc"))
    assert find_nvcc(host, {}) == "/usr/local/cuda/bin/nvcc"
    assert find_nvcc(host, {"CUDACXX": "/b/nvcc"}) == "/b/nvcc"
    assert find_nvcc(host, {"CUDACXX": "/b/nvcc", "CMAKE_CUDA_COMPILER": "/c/nvcc"}) == "/c/nvcc"
    assert find_nvcc(host, {"CUDA_HOME": "/a"}) == "/a/bin/nvcc"
    assert find_nvcc(host, {"CUDA_HOME": "/a"}, "9.9") == "/a/bin/nvcc", "whatever its release"
    assert find_nvcc(BareHost(), {}) is None and cuda_home(BareHost(), {}) is None


@needs.posix()
@pytest.mark.parametrize("variable", CUDA_VARIABLES)
def test_a_place_that_the_plan_names_and_that_has_nothing_is_told(variable: str) -> None:
    host = machine(paths=("/usr/local/cuda/bin/nvcc", "/shell/bin/nvcc"), env={"CUDA_PATH": "/shell"})
    with pytest.raises(MissingTool, match=f"the plan says {variable}=/gone, but there is no nvcc in /gone/bin"):
        find_nvcc(host, {variable: "/gone"})
    # The shell's word counts where the plan has none; one that is wrong is passed over.
    found = find_below(host, "nvcc", {}, CUDA_VARIABLES, "/usr/local/cuda")
    assert found == "/shell/bin/nvcc"
    elsewhere = machine(paths=("/usr/local/cuda/bin/nvcc",), env={variable: "/gone"})
    assert find_below(elsewhere, "nvcc", {}, CUDA_VARIABLES, "/usr/local/cuda") == "/usr/local/cuda/bin/nvcc"


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({".info/version": b"6.2.4-120\n"}, "6.2.4"),
        ({".info/version": b"none", ".info/version-dev": b"5.7.1-98\n"}, "5.7.1"),
        ({".info/version-hip-libraries": b"5.2.3-109\n"}, "5.2.3"),
        (
            {
                "include/rocm-core/rocm_version.h": b"#define ROCM_VERSION_MAJOR   7\n#define ROCM_VERSION_MINOR 0\n"
                b"#define ROCM_VERSION_PATCH 2\n"
            },
            "7.0.2",
        ),
        ({"include/rocm-core/rocm_version.h": b"#define ROCM_VERSION_MAJOR 7\n"}, "6.1"),
        ({"bin/.hipVersion": b"HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR=2\nHIP_VERSION_PATCH=21153\n"}, "5.2"),
        ({"share/hip/version": b"HIP_VERSION_MAJOR=6\nHIP_VERSION_MINOR=4\n"}, "6.4"),
        ({"share/hip/version": b"HIP_VERSION_MAJOR=6\n"}, "6.1"),
        ({"bin/hipcc": b""}, "6.1"),
    ],
)
def test_a_rocm_says_its_version_in_one_of_five_ways(files: dict[str, bytes], version: str) -> None:
    host = machine({f"/opt/rocm-6.1/{name}": text for name, text in files.items()})
    note = None if "bin/hipcc" in files else "no hipcc in it: libraries only"
    assert rows(find_rocm(host)) == [(version, "/opt/rocm-6.1", note)]
    # A folder's name alone counts only where it is a version.
    unnamed = machine({f"/opt/rocm-next/{name}": text for name, text in files.items()})
    assert [kit.version for kit in find_rocm(unnamed)] == ([version] if version != "6.1" else [])


@needs.posix()
def test_a_rocm_of_a_distribution_is_found_by_its_hipcc() -> None:
    files = {"/usr/share/hip/version": b"HIP_VERSION_MAJOR=5\nHIP_VERSION_MINOR=2\n"}
    host = machine(files, {"/usr/bin/hipcc": "HIP version: 5.2.21153-0\n"}, programs={"hipcc": ("/usr/bin/hipcc",)})
    assert rows(find_rocm(host)) == [("5.2", "/usr", None)]
    assert find_hipcc(host, {}) == "/usr/bin/hipcc" and rocm_home(host, {}) == "/usr"
    assert hip_release(host, "/usr/bin/hipcc") == "5.2" and hip_release(BareHost(), "/usr/bin/hipcc") is None
    linked = {"/usr/bin/hipcc": "/opt/rocm-4.5.2/hip/bin/hipcc"}
    old = machine(paths=("/usr/bin/hipcc", "/opt/rocm-4.5.2"), programs={"hipcc": ("/usr/bin/hipcc",)}, links=linked)
    assert [kit.path for kit in find_rocm(old)] == ["/opt/rocm-4.5.2"]
    named = machine({"/my/rocm/.info/version": b"6.2.4-1"}, {"/my/rocm/bin/hipcc": ""}, env={"ROCM_PATH": "/my/rocm/"})
    assert rows(find_rocm(named)) == [("6.2.4", "/my/rocm", None)]
    assert rocm_home(named, {}) == "/my/rocm" and rocm_home(BareHost(), {}) is None


def test_a_rocm_of_windows() -> None:
    root = r"C:\Program Files\AMD\ROCm\6.2"
    assert rows(find_rocm(machine(paths=(rf"{root}\bin\hipcc.bat",), system="windows"))) == [("6.2", root, None)]
    linux = machine(paths=(r"C:\Program Files\AMD\ROCm\6.2",))
    assert find_rocm(linux) == ()


def test_where_hip_keeps_its_clang() -> None:
    def host(said: str, *paths: str, code: int = 0) -> Asking:
        done = Completed(argv=("/usr/bin/hipconfig", "--hipclangpath"), code=code, out=said)
        return Asking(RecordedHost(Record(runs=[done], paths=dict.fromkeys(paths))))

    assert (
        find_hip_clang(host("/usr/lib/llvm-15/bin\n", "/usr/lib/llvm-15/bin/clang++"), "/usr") == "/usr/lib/llvm-15/bin"
    )
    for said, paths, code in (
        ("/usr/lib/llvm-15/bin\n", (), 0),
        ("/usr/lib/llvm-15/bin\n", ("/usr/lib/llvm-15/bin/clang++",), 1),
        ("\n", ("clang++",), 0),
        ("/usr/lib/llvm-15/bin\n", ("/usr/llvm/bin/clang++", "/usr/lib/llvm-15/bin/clang++"), 0),
    ):
        assert find_hip_clang(host(said, *paths, code=code), "/usr") is None


@pytest.mark.parametrize(
    ("env", "root"),
    [({"HOME": "/root"}, True), ({"USER": "root"}, True), ({"HOME": "/home/me", "USER": "me"}, False), ({}, False)],
)
def test_root_needs_no_sudo(env: dict[str, str], root: bool) -> None:
    host = machine(env=env, programs={"dnf": ("/usr/bin/dnf",)})
    manager = manager_here(host)
    assert manager is not None and manager.name == "dnf" and is_root(host) == root
    assert bring_packages(host, ["a", "b"], manager) == ("" if root else "sudo ") + "dnf install -y a b"
    assert manager_here(BareHost()) is None and bring_lacking(host, []) is None


def test_a_program_that_does_not_answer_is_none() -> None:
    host = machine({}, {"/bin/x": "x 1.2.3 (of 2024)\n", "/bin/y": "no number\n"})
    tool = probe_program(host, "x", "/bin/x")
    assert tool is not None and (tool.version, tool.release, tool.kind) == ("1.2.3", (1, 2, 3), None)
    unsaid = probe_program(host, "y", "/bin/y")
    assert unsaid is not None and (unsaid.version, unsaid.release) == ("unknown", ())
    assert probe_program(host, "z", "/bin/z") is None
    assert ask_release(host, "/bin/x") is None


def test_a_program_may_have_another_name() -> None:
    host = machine(programs={"ninja-build": ("/usr/bin/ninja-build",), "ld.lld": ("/usr/bin/ld.lld",)})
    assert places_of(host, "lld") == ("/usr/bin/ld.lld",) and places_of(host, "ninja")[-1] == "/usr/bin/ninja-build"
    assert places_of(host, "git") == ()


def test_programs_are_asked_in_their_own_way_and_told_where_they_do_not_answer() -> None:
    def done(path: str, code: int | None = 0, out: str = "", err: str = "", timed_out: bool = False) -> Completed:
        return Completed(argv=(path, "--version"), code=code, out=out, err=err, timed_out=timed_out)

    seven = Completed(argv=("/bin/7z", "i"), code=0, out="7-Zip 23.01\n")
    runs = [
        done("/bin/git", out="git version 2.39.2\n"),
        done("/bin/distcc", code=0, err="distcc 3.4 x86_64\n"),
        done("/bin/ccache", code=1, err="x" * 500),
        done("/bin/icecc", code=0, out="icecc\n"),
        done("/bin/mold", code=None, timed_out=True),
        seven,
    ]
    names = ("git", "distcc", "ccache", "icecc", "mold", "7z")
    programs: dict[str, tuple[str, ...]] = {name: (f"/bin/{name}",) for name in names}
    host = Asking(RecordedHost(Record(runs=runs, programs=programs)))
    found = probe_programs(host)
    assert {name: found[name] for name in names[:5]} == {
        "git": "2.39.2", "distcc": "3.4", "ccache": "?", "icecc": "?", "mold": "?",
    }  # fmt: skip
    assert found["uv"] is None and "7z" not in found and "make" in found
    assert {gap.what: gap.why for gap in host.gaps} == {
        "version of ccache": f"exit code 1: {'x' * 200}",
        "version of icecc": "exit code 0, no version in what it said",
        "version of mold": "it did not answer in time",
    }
    windows = probe_programs(Asking(RecordedHost(Record(system="windows", runs=runs, programs=programs))))
    assert windows["7z"] == "23.01" and "mold" not in windows and "make" not in windows


@pytest.mark.parametrize(("beyond", "version"), [(0, "11.8"), (1, None)])
def test_the_header_of_a_toolkit_is_read_to_a_bound(beyond: int, version: str | None) -> None:
    """The version is at its beginning. Of a number across the bound only the part before it is read."""
    sign = b"#define CUDA_VERSION 1108"
    text = b" " * ((64 << 10) + beyond - len(sign) - 1) + sign + b"0"
    found = find_cuda(machine({"/usr/local/cuda/include/cuda.h": text}))
    assert [kit.version for kit in found] == ([version] if version else ["1.10"])


@needs.posix()
def test_a_single_nvcc_is_taken_unasked() -> None:
    class Silent(BareHost):
        def glob(self, pattern: str) -> tuple[str, ...]:
            return (pattern,) if pattern == "/usr/local/cuda/bin/nvcc" else ()

        def run(self, argv: Any, *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
            raise AssertionError("there is nothing to choose")

    assert find_nvcc(Silent(), {}, "12.4") == "/usr/local/cuda/bin/nvcc"
