"""Libraries to build against: found by header, by file or by package, each once, with the CUDA they were made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Toolkit
from rekindle.model.supply import SupplyNeed, ThirdParty
from rekindle.toolkits.libraries import (
    find_blas,
    find_cudnn,
    find_lacks,
    find_libc,
    find_nccl,
    find_oneapi,
    find_toolkits,
    header_version,
    packaged_cuda,
    pip_pieces,
    system_kind,
    system_version,
)

CUDNN = b"#define CUDNN_MAJOR 8\n# define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 7\n"
NCCL = b"#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 5\n"
SOURCE: dict[str, Any] = {"source": ("https://example.invalid",), "date": "2026-01-01", "how": "documented"}


def machine(files: Mapping[str, bytes] | None = None, runs: dict[str, str] | None = None, **record: Any) -> Asking:
    files = files or {}
    done = [Completed(argv=tuple(line.split()), code=0, out=said) for line, said in (runs or {}).items()]
    known = {name: None for name in files} | record.pop("paths", {})
    record.setdefault("system", "linux")
    return Asking(RecordedHost(Record(files=dict(files), paths=known, runs=done, machine="x86_64", **record)))


def rows(toolkits: Any) -> list[tuple[str | None, str | None, str | None]]:
    return [(kit.version, kit.path, kit.note) for kit in toolkits]


def test_a_header_needs_all_three_numbers() -> None:
    assert header_version(CUDNN.decode(), "CUDNN") == "8.9.7"
    assert header_version("#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n", "CUDNN") is None
    assert header_version(NCCL.decode(), "CUDNN") is None


def test_a_cudnn_inside_a_toolkit_is_for_that_toolkit() -> None:
    host = machine({"/usr/local/cuda-11.8/include/cudnn_version.h": CUDNN, "/usr/include/cudnn_version.h": CUDNN})
    cuda = [Toolkit(kind="cuda", version="11.8.0", path="/usr/local/cuda-11.8")]
    assert rows(find_cudnn(host, cuda)) == [
        ("8.9.7", "/usr/local/cuda-11.8", "for CUDA 11.8"),
        ("8.9.7", "/usr", None),
    ]
    assert rows(find_nccl(host, cuda)) == []


def test_headers_under_two_names_count_once_and_unreadable_ones_not() -> None:
    host = machine(
        {"/usr/include/nccl.h": NCCL, "/usr/local/include/nccl.h": NCCL, "/opt/conda/include/nccl.h": b"empty"},
        links={"/usr/local/include/nccl.h": "/usr/include/nccl.h"},
        env={"CONDA_PREFIX": "/opt/conda"},
    )
    assert rows(find_nccl(host, [])) == [("2.18.5", "/usr", None)]


def test_libraries_without_headers_serve_to_use_newest_first() -> None:
    host = machine(paths=dict.fromkeys(f"/usr/lib64/libcudnn.so.{number}" for number in ("8.9.7", "8.10.1", "8")))
    assert rows(find_cudnn(host, [])) == [
        ("8.10.1", "/usr/lib64/libcudnn.so.8.10.1", "no headers"),
        ("8.9.7", "/usr/lib64/libcudnn.so.8.9.7", "no headers"),
    ]


def test_on_windows_one_cudnn_may_serve_several_cudas() -> None:
    place = r"C:\Program Files\NVIDIA\CUDNN\v9.3\include"
    host = machine({rf"{place}\12.6\cudnn_version.h": CUDNN, rf"{place}\cudnn_version.h": CUDNN}, system="windows")
    assert [(version, note) for version, _, note in rows(find_cudnn(host, []))] == [
        ("8.9.7", None),
        ("8.9.7", "for CUDA 12.6"),
    ]
    assert find_nccl(host, []) == []
    assert find_cudnn(machine(system="windows", paths={"/usr/lib64/libcudnn.so.8.9.7": None}), []) == []


DPKG = "dpkg-query -W libcudnn* cudnn* libnccl*"
RPM = "rpm -qa libcudnn* cudnn* libnccl*"


@pytest.mark.parametrize(
    ("tool", "line", "said", "known"),
    [
        ("dpkg-query", DPKG, "libcudnn8\t8.7.0.84-1+cuda11.8\n", {"8.7.0": "11.8"}),
        ("dpkg-query", DPKG, "libcudnn9-dev-cuda-12\t9.3.0.75-1\n", {"9.3.0": "12"}),
        ("rpm", RPM, "libnccl-2.18.5-1+cuda12.2.x86_64\n", {"2.18.5": "12.2"}),
    ],
)
def test_a_package_says_for_which_cuda_it_was_made(tool: str, line: str, said: str, known: dict[str, str]) -> None:
    assert packaged_cuda(machine(runs={line: said}, programs={tool: (f"/usr/bin/{tool}",)})) == known
    assert packaged_cuda(machine(runs={line: said})) == {}, "without the program nothing is asked"


def test_the_package_s_word_is_added_where_the_place_says_nothing() -> None:
    host = machine(
        {"/usr/include/cudnn_version.h": CUDNN, "/usr/include/nccl.h": NCCL},
        runs={DPKG: "libcudnn8 8.9.7.29-1+cuda12.2\n"},
        programs={"dpkg-query": ("/usr/bin/dpkg-query",)},
    )
    found = {kit.kind: kit.note for kit in find_toolkits(host)}
    assert found == {"cudnn": "for CUDA 12.2", "nccl": None}
    inside = machine(
        {
            "/usr/local/cuda-11.8/include/cudnn_version.h": CUDNN,
            "/usr/local/cuda-11.8/version.txt": b"CUDA Version 11.8.0",
        },
        runs={DPKG: "libcudnn8 8.9.7.29-1+cuda12.2\n"},
        programs={"dpkg-query": ("/usr/bin/dpkg-query",)},
        env={"CUDA_HOME": "/usr/local/cuda-11.8"},
    )
    notes = [kit.note for kit in find_toolkits(inside) if kit.kind == "cudnn"]
    assert notes in ([], ["for CUDA 11.8"]), "the place's own word stands"


@pytest.mark.parametrize(
    ("runs", "libc"),
    [
        ({"getconf GNU_LIBC_VERSION": "glibc 2.35\n"}, ("glibc", "2.35")),
        ({"ldd --version": "ldd (Ubuntu GLIBC 2.31-0ubuntu9) 2.31\n"}, ("glibc", "2.31")),
        ({"ldd --version": "musl libc (x86_64)\nVersion 1.2.4\n"}, ("musl", None)),
        ({}, (None, None)),
    ],
)
def test_the_c_library(runs: dict[str, str], libc: tuple[str | None, str | None]) -> None:
    assert find_libc(machine(runs=runs)) == libc


def test_pieces_that_pip_installed_count_once_per_place() -> None:
    packages = {
        "nvidia_cudnn_cu12": {"version": "9.19.0.56", "path": "/v"},
        "nvidia_nccl_cu11": {"version": "2.18.5", "path": "/v"},
        "mkl": {"version": "2024.0.0", "path": "/v"},
        "nvidia_cuda_cupti_cu12": {"version": "12.1", "path": "/v"},
    }
    python = msgspec.convert({"path": "/p", "version": "3.11.2", "packages": packages}, Interpreter, strict=False)
    found = pip_pieces({"a": python, "b": python})
    assert [(kit.kind, kit.version, kit.note) for kit in found] == [
        ("cudnn", "9.19.0", "pip, for CUDA 12"),
        ("nccl", "2.18.5", "pip, for CUDA 11"),
        ("mkl", "2024.0.0", "pip"),
    ]


def mkl(major: int, minor: int, update: int) -> bytes:
    return (
        f"#define __INTEL_MKL__ {major}\n#define __INTEL_MKL_MINOR__ {minor}\n#define __INTEL_MKL_UPDATE__ {update}\n"
    ).encode()


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (mkl(2020, 0, 4), "2020.0.4"),
        (mkl(2021, 0, 3), "2021.3.0"),
        (mkl(2024, 1, 0), "2024.1.0"),
        (b"#define __INTEL_MKL__ 2021\n", None),
    ],
)
def test_the_version_of_mkl_as_its_product_names_it(header: bytes, version: str | None) -> None:
    host = machine({"/m/include/mkl_version.h": header}, env={"MKLROOT": "/m"})
    assert [kit.version for kit in find_blas(host)] == ([version] if version else [])
    assert find_blas(machine({"/m/include/mkl_version.h": header})) == [], "a place that nobody names is not searched"


def test_openblas_in_a_folder_of_its_own_counts_once() -> None:
    text = b'#define OPENBLAS_VERSION " OpenBLAS 0.3.21 "\n'
    there = "/usr/include/x86_64-linux-gnu/openblas-pthread/openblas_config.h"
    host = machine({there: text, "/opt/OpenBLAS/include/openblas_config.h": b"other"}, links={})
    assert [(kit.kind, kit.version) for kit in find_blas(host)] == [("openblas", "0.3.21")]


def test_intel_s_compilers_by_their_folders() -> None:
    place = "/opt/intel/oneapi/compiler"
    host = machine(paths={f"{place}/{name}": None for name in ("2024.0", "2023.2.1", "latest")})
    assert sorted(kit.version or "" for kit in find_oneapi(host)) == ["2023.2.1", "2024.0"]
    windows = machine(paths={r"C:\Program Files (x86)\Intel\oneAPI\compiler\2024.1": None}, system="windows")
    assert [kit.version for kit in find_oneapi(windows)] == ["2024.1"]


def need(**what: Any) -> SupplyNeed:
    return SupplyNeed(name="x", torch=">=1", **what, **SOURCE)


def test_what_the_system_lacks_is_named_and_nothing_else() -> None:
    files = ("/usr/include/zlib.h", "/usr/lib/x86_64-linux-gnu/libz.so", "/c/lib/libq.a")
    host = machine(
        paths=dict.fromkeys(files), programs={"protoc": ("/usr/bin/protoc",)}, env={"CMAKE_PREFIX_PATH": "/b;/c"}
    )
    there = need(headers=("zlib.h",), libraries=("z", "q"), programs=("protoc",), any_header=("no.h", "zlib.h"))
    assert find_lacks(host, [there, need(any_library=("none", "z"))]) == ()
    (lack,) = find_lacks(
        host,
        [need(headers=("a.h",), libraries=("b",), programs=("c",), any_header=("d.h", "e.h"), any_library=("f", "g"))],
    )
    assert lack.what == ("<a.h>", "<d.h> or <e.h>", "libb", "c", "libf or libg")
    elsewhere = machine(paths={"/plan/include/a.h": None})
    assert find_lacks(elsewhere, [need(headers=("a.h",))], {"CPATH": "/plan/include"}) == ()
    assert find_lacks(elsewhere, [need(headers=("a.h",))]) != ()


def party(**what: Any) -> ThirdParty:
    return msgspec.convert({"name": "fmt", "torch": ">=1", "way": "system", **what, **SOURCE}, ThirdParty)


def test_the_version_a_system_header_says_of_itself() -> None:
    row = party(version={"header": "fmt/core.h", "macro": "FMT_VERSION"})
    host = machine({"/usr/include/fmt/base.h": b"#define FMT_VERSION 110102\n", "/usr/include/fmt/core.h": b""})
    assert system_version(host, row) == "11.1.2" and system_version(machine(), row) is None
    assert system_version(host, party()) is None


def test_a_header_without_a_version_is_told_by_what_it_lacks() -> None:
    row = party(old={"header": "x.h", "lacks": "new_name", "name": "older"})
    assert system_kind(machine({"/usr/include/x.h": b"int new_name;"}), row) == "usual"
    assert system_kind(machine({"/usr/include/x.h": b"int other;"}), row) == "older"
    assert system_kind(machine(), row) is None and system_kind(machine(), party()) is None


def test_math_libraries_of_windows() -> None:
    oneapi = r"C:\Program Files (x86)\Intel\oneAPI\mkl\2024.1\include"
    conda = r"C:\conda\Library\include"
    files = {
        rf"{oneapi}\mkl_version.h": mkl(2024, 1, 0),
        rf"{conda}\openblas_config.h": b'#define OPENBLAS_VERSION " OpenBLAS 0.3.27 "\n',
        rf"{conda}\cudnn_version.h": CUDNN,
    }
    host = machine(files, system="windows", env={"CONDA_PREFIX": r"C:\conda"})
    assert [(kit.kind, kit.version, kit.path) for kit in find_blas(host)] == [
        ("mkl", "2024.1.0", r"C:\Program Files (x86)\Intel\oneAPI\mkl\2024.1"),
        ("openblas", "0.3.27", r"C:\conda\Library"),
    ]
    assert rows(find_cudnn(host, [])) == [("8.9.7", r"C:\conda\Library", None)]
    assert [kit.kind for kit in find_blas(machine(files, system="windows"))] == ["mkl"], "no conda is active"


def test_a_math_library_counts_once_by_version() -> None:
    text = b'#define OPENBLAS_VERSION " OpenBLAS 0.3.21 "\n'
    places = ("/usr/include", "/usr/local/include", "/usr/include/openblas")
    host = machine({f"{place}/openblas_config.h": text for place in places}, env={"MKLROOT": "/m"})
    assert [(kit.kind, kit.version, kit.path) for kit in find_blas(host)] == [("openblas", "0.3.21", "/usr")]


def test_a_header_that_is_far_too_long_is_read_to_a_bound() -> None:
    beyond = b"//" + b" " * (64 << 10)
    assert rows(find_nccl(machine({"/usr/include/nccl.h": beyond + b"\n" + NCCL}), [])) == []
    within = b"//" + b" " * ((64 << 10) - len(NCCL) - 3) + b"\n" + NCCL
    assert len(within) == 64 << 10
    assert rows(find_nccl(machine({"/usr/include/nccl.h": within}), [])) == [("2.18.5", "/usr", None)]
    inside = b"//" + b" " * ((64 << 10) - len(NCCL)) + b"\n" + NCCL[:-1]
    assert rows(find_nccl(machine({"/usr/include/nccl.h": inside}), [])) == []


def test_a_lack_is_told_by_what_may_stand_in_for_it() -> None:
    """One of several is enough, in any place that a compiler searches."""
    prefixes = {
        "OpenBLAS_HOME": "/blas",
        "CONDA_PREFIX": "/conda",
        "LIBRARY_PATH": "/own:",
        "CMAKE_PREFIX_PATH": "/a:/b;/c",
    }
    for folder in ("/blas/lib", "/conda/lib", "/own", "/a/lib", "/b/lib", "/c/lib", "/usr/lib64"):
        for ending in (".so", ".a", ".dylib"):
            host = machine(paths={f"{folder}/libopenblas{ending}": None}, env=prefixes)
            assert find_lacks(host, [need(any_library=("mkl", "openblas")), need(libraries=("openblas",))]) == ()
    assert find_lacks(machine(paths={"/elsewhere/libx.so": None}), [need(libraries=("x",))]) != ()
    assert find_lacks(machine(), [need()]) == ()


def test_an_empty_place_is_no_place() -> None:
    """A variable that ends in a colon, or a prefix that is set to nothing, does not mean the current folder."""
    here = dict.fromkeys(("x.h", "include/x.h", "libx.so", "lib/libx.so"))
    env = {"CPATH": "/own:", "LIBRARY_PATH": "", "CMAKE_PREFIX_PATH": ";", "CONDA_PREFIX": ""}
    (lack,) = find_lacks(machine(paths=here, env=env), [need(headers=("x.h",), libraries=("x",))])
    assert lack.what == ("<x.h>", "libx")
