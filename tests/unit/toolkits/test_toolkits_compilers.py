"""Which compilers are here, and which of them a build takes, under whatever name they have."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

import pytest

from bare_host import BareHost
from rekindle.errors import MissingTool
from rekindle.host.asking import Asking
from rekindle.host.protocol import Completed
from rekindle.toolkits.compilers import (
    build_compilers,
    c_compiler_of,
    compilers_to_name,
    cxx_compiler_of,
    find_compilers,
    list_compilers,
    read_banner,
)


@pytest.mark.parametrize(
    ("said", "banner"),
    [
        ("c++ (Debian 12.2.0-14) 12.2.0\nCopyright (C) 2022 Free Software Foundation", ("gcc", "12.2.0")),
        ("gcc (GCC) 4.8.5 20150623 (Red Hat 4.8.5-44)", ("gcc", "4.8.5")),
        ("x86_64-conda-linux-gnu-c++ (crosstool-NG 1.25.0.95_7622b49) 9.5.0", ("gcc", "9.5.0")),
        ("gcc-12 (SUSE Linux) 12.2.1 20220830 [revision e927d1]", ("gcc", "12.2.1")),
        ("g++ 9.3.0", ("gcc", "9.3.0")),
        ("Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu", ("clang", "14.0.6")),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)", ("clang", "15.0.0")),
        ("Intel(R) oneAPI DPC++/C++ Compiler 2024.1.0 (2024.1.0.20240308)", ("icx", "2024.1.0")),
        ("Microsoft (R) C/C++ Optimizing Compiler Version 19.29.30154 for x64", ("msvc", "19.29.30154")),
        ("tcc version 0.9.27", None),
        ("", None),
    ],
)
def test_a_compiler_says_what_it_is(said: str, banner: tuple[str, str] | None) -> None:
    assert read_banner(said) == banner


@pytest.mark.parametrize(
    ("c", "cxx"),
    [
        ("/usr/bin/gcc-11", "/usr/bin/g++-11"),
        ("/opt/clang/bin/clang", "/opt/clang/bin/clang++"),
        ("/bin/cc", "/bin/c++"),
        ("//bin/gcc", "//bin/g++"),  # PATH=$PREFIX/bin with PREFIX=/
    ],
)
def test_c_and_cxx_compilers_come_in_pairs(c: str, cxx: str) -> None:
    assert cxx_compiler_of(c) == cxx and c_compiler_of(cxx) == c
    assert cxx_compiler_of(cxx) == cxx and c_compiler_of(c) == c


class Installed(BareHost):
    """Compilers by path; ``on_path`` are found by name too."""

    def __init__(self, programs: Mapping[str, str], on_path: Sequence[str] = ()) -> None:
        super().__init__()
        self.programs, self.on_path = programs, on_path

    def which(self, name: str) -> str | None:
        return next((path for path in self.on_path if path.rsplit("/", 1)[-1] == name), None)

    def which_all(self, name: str) -> tuple[str, ...]:
        return tuple(filter(None, [self.which(name)]))

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(sorted(path for path in self.programs if fnmatch.fnmatchcase(path, pattern)))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        said = self.programs.get(argv[0])
        return Completed(argv=tuple(argv), code=None if said is None else 0, out=said or "")


def gcc(version: str) -> str:
    return f"gcc (Debian {version}-1) {version}\n"


ONLY_ELEVEN = {"/usr/bin/gcc-11": gcc("11.4.0"), "/usr/bin/g++-11": gcc("11.4.0")}


def test_a_numbered_compiler_alone_is_a_compiler() -> None:
    """Debian's g++-11 brings neither g++ nor c++."""
    host = Installed(ONLY_ELEVEN, list(ONLY_ELEVEN))
    pair = find_compilers(host, {})
    assert [(tool.name, tool.path, tool.version, tool.kind) for tool in pair] == [
        ("CC", "/usr/bin/gcc-11", "11.4.0", "gcc"),
        ("CXX", "/usr/bin/g++-11", "11.4.0", "gcc"),
    ]
    assert compilers_to_name(pair, {}) == {"CC": "/usr/bin/gcc-11", "CXX": "/usr/bin/g++-11"}, "CMake looks for c++"
    assert compilers_to_name(pair, {"CC": "gcc-11", "CMAKE_CXX_COMPILER": "g++-11"}) == {}, "the plan has said it"


def test_plain_names_come_first_and_need_no_naming() -> None:
    plain = {"/usr/bin/cc": gcc("12.2.0"), "/usr/bin/c++": gcc("12.2.0")}
    pair = find_compilers(Installed({**plain, **ONLY_ELEVEN}, list(plain)), {})
    assert [tool.path for tool in pair] == ["/usr/bin/cc", "/usr/bin/c++"]
    assert compilers_to_name(pair, {}) == {}


def test_gcc_comes_before_a_newer_clang() -> None:
    clang = {
        "/usr/lib/llvm-19/bin/clang": "clang version 19.1.7",
        "/usr/lib/llvm-19/bin/clang++": "clang version 19.1.7",
    }
    assert find_compilers(Installed({**ONLY_ELEVEN, **clang}), {})[1].path == "/usr/bin/g++-11"
    assert find_compilers(Installed(clang), {})[1].path == "/usr/lib/llvm-19/bin/clang++"


def test_a_cxx_driver_without_a_c_name_is_not_listed_beside_its_c_driver() -> None:
    """As conda sets CC and CXX."""
    conda = {f"/conda/bin/x86_64-conda-linux-gnu-{name}": gcc("9.5.0") for name in ("cc", "c++")}
    host = Installed(conda, list(conda))
    host.env = dict(zip(("CC", "CXX"), (path.rpartition("/")[2] for path in conda), strict=True))
    assert [each.path for each in list_compilers(Asking(host))] == ["/conda/bin/x86_64-conda-linux-gnu-cc"]


def test_a_c_compiler_alone_is_none() -> None:
    host = Installed({"/usr/bin/gcc": gcc("12.2.0")}, ["/usr/bin/gcc"])
    (found,) = list_compilers(Asking(host))
    assert found.note == "C only: its C++ compiler is not installed"
    assert build_compilers([found], "linux") == ()
    with pytest.raises(MissingTool, match=r"there is no C\+\+ compiler"):
        find_compilers(host, {})
