"""The compilers of a machine that was recorded: listed once each, told where one does not answer, taken by a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import MissingTool
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.toolkits import compilers
from rekindle.toolkits.compilers import (
    bring_compiler,
    build_compilers,
    compilers_to_name,
    find_compilers,
    keep_place_out,
    list_compilers,
)
from rekindle.toolkits.programs import Tool


def gcc(version: str) -> str:
    return f"gcc (Debian {version}-1) {version}\n"


def machine(answers: Mapping[str, str | Completed], **record: Any) -> RecordedHost:
    """Compilers by path, with what they say to --version."""
    runs = [
        Completed(argv=(path, "--version"), code=0, out=said) if isinstance(said, str) else said
        for path, said in answers.items()
    ]
    record.setdefault("paths", dict.fromkeys(answers))
    return RecordedHost(Record(runs=runs, **{"machine": "x86_64", **record}))


def pair(version: str, place: str = "/usr/bin") -> dict[str, str]:
    number = version.split(".")[0]
    return {f"{place}/{name}-{number}": gcc(version) for name in ("gcc", "g++")}


def listed(host: RecordedHost) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.kind, each.version, each.path, each.note) for each in list_compilers(Asking(host))]


def test_every_compiler_is_listed_once_newest_first() -> None:
    clang = "/usr/lib/llvm-9/bin/clang"
    answers = {
        **pair("9.4.0"),
        **pair("12.2.0"),
        "/usr/bin/gcc": gcc("12.2.0"),
        "/usr/bin/g++": gcc("12.2.0"),
        # Its helpers say a version in the same form.
        "/usr/bin/gcc-ar-12": "GNU ar (GNU Binutils for Debian) 2.40\n",
        clang: "clang version 9.0.1 \n",
        f"{clang}++": "clang version 9.0.1 \n",
    }
    links = {"/usr/bin/gcc": "/usr/bin/gcc-12", "/usr/bin/g++": "/usr/bin/g++-12"}
    programs = {"gcc": ("/usr/bin/gcc",), "g++": ("/usr/bin/g++",)}
    host = machine(answers, links=links, programs=programs)
    assert listed(host) == [
        ("gcc", "12.2.0", "/usr/bin/gcc", None),
        ("gcc", "9.4.0", "/usr/bin/gcc-9", None),
        ("clang", "9.0.1", clang, None),
    ]


def test_a_cxx_driver_stands_alone_where_its_c_driver_is_not_listed() -> None:
    host = machine({"/opt/x/g++": gcc("13.1.0")}, programs={"g++": ("/opt/x/g++",)})
    assert listed(host) == [("gcc", "13.1.0", "/opt/x/g++", None)]
    # What the settings name comes with its options.
    named = machine({"/opt/y/gcc": gcc("7.5.0")}, env={"CC": "/opt/y/gcc -m64"})
    assert listed(named) == [("gcc", "7.5.0", "/opt/y/gcc", "C only: its C++ compiler is not installed")]
    assert build_compilers(list_compilers(Asking(named)), "linux") == ()


def test_where_a_compiler_comes_from_is_noted() -> None:
    host = machine(
        {
            "/usr/bin/clang": "Apple clang version 15.0.0 (clang-1500.3.9.4)\n",
            "/usr/bin/clang++": "Apple clang version 15.0.0\n",
            "/usr/bin/gcc-12": gcc("12.2.0"),
        },
        links={"/usr/bin/gcc-12": "/usr/bin/ccache"},
    )
    assert [(kind, note) for kind, _, _, note in listed(host)] == [
        ("gcc", "through ccache"),
        ("clang", "Apple's clang"),
    ]


def test_one_that_does_not_say_what_it_is_is_told() -> None:
    answers: dict[str, str | Completed] = {
        "/usr/bin/gcc-7": "x" * 200,
        "/usr/bin/gcc-8": Completed(argv=("/usr/bin/gcc-8", "--version"), code=127, out=gcc("8.3.0")),
        "/usr/bin/gcc-9": Completed(argv=("/usr/bin/gcc-9", "--version"), timed_out=True),
        "/usr/bin/gcc-10": "Intel(R) oneAPI DPC++/C++ Compiler 2024.1.0 (2024.1.0.20240308)\n",
    }
    asking = Asking(machine(answers))
    assert list_compilers(asking) == ()
    assert {gap.what: gap.why for gap in asking.gaps} == {
        "compiler /usr/bin/gcc-7": f"it said '{'x' * 120}'",
        "compiler /usr/bin/gcc-8": "exit code 127",
        "compiler /usr/bin/gcc-9": "it did not answer in time",
        "compiler /usr/bin/gcc-10": "it said 'Intel(R) oneAPI DPC++/C++ Compiler 2024.1.0 (2024.1.0.20240308)'",
    }


def test_a_compiler_nobody_waited_for_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """When time is up, whoever has not answered is missing from the answers."""

    def all_but_nine(host: Asking, paths: Sequence[str], ask: Any, *, at_once: int) -> dict[str, Any]:
        return {path: ask(path) for path in paths if not path.endswith("-9")}

    monkeypatch.setattr(compilers, "ask_each", all_but_nine)
    asking = Asking(machine({**pair("9.4.0"), **pair("12.2.0")}))
    assert [each.version for each in list_compilers(asking)] == ["12.2.0"]
    assert [(gap.what, gap.why) for gap in asking.gaps] == [("compiler /usr/bin/gcc-9", "it did not answer in time")]


def test_no_more_compilers_are_asked_than_a_doctor_has_time_for() -> None:
    many = {path: said for number in range(1, 21) for path, said in pair(f"{number}.1.0").items()}
    assert len(listed(machine(many))) == 16


def test_on_windows_the_places_of_linux_are_not_searched() -> None:
    host = machine({"/usr/bin/gcc-12": gcc("12.2.0")}, system="windows")
    assert listed(host) == []
    mingw = {rf"C:\m\{name}.exe": gcc("13.1.0") for name in ("gcc", "g++")}
    there = machine(mingw, system="windows", programs={"gcc": (r"C:\m\gcc.exe",)})
    assert [(kind, version) for kind, version, _, _ in listed(there)] == [("gcc", "13.1.0")]
    assert build_compilers(list_compilers(Asking(there)), "windows") == (), "torch is not built with it there"


@needs.posix()
def test_the_compilers_that_a_plan_names(tmp_path: Path) -> None:
    own = tmp_path / "g++"
    own.write_text("#!/bin/sh\n")
    programs = {"gcc-11": ("/usr/bin/gcc-11",), "g++-11": ("/usr/bin/g++-11",)}
    host = machine({**pair("11.4.0"), str(own): gcc("13.2.0")}, programs=programs, paths={})
    found = find_compilers(host, {"CC": "gcc-11", "CMAKE_CXX_COMPILER": "g++-11"})
    assert [(tool.path, tool.version) for tool in found] == [
        ("/usr/bin/gcc-11", "11.4.0"),
        ("/usr/bin/g++-11", "11.4.0"),
    ]
    assert compilers_to_name(found, {}) == {"CC": "/usr/bin/gcc-11", "CXX": "/usr/bin/g++-11"}
    settings = {"CC": "gcc-11", "CXX": str(own)}
    with pytest.raises(MissingTool, match=r"the plan's C\+\+ compiler .*g\+\+ is not on this machine"):
        find_compilers(host, settings)
    own.chmod(0o755)
    assert [tool.path for tool in find_compilers(host, settings)] == ["/usr/bin/gcc-11", str(own)]


@pytest.mark.parametrize(
    ("asked", "said", "found"),
    [
        ("gcc-12", gcc("12.2.0"), True),
        ("gcc-12.2", gcc("12.2.0"), True),
        ("gcc-12", gcc("13.1.0"), False),
        ("gcc-2", gcc("12.2.0"), False),
        ("gcc-x", gcc("12.2.0"), False),
        ("gcc", gcc("12.2.0"), True),
    ],
)
def test_a_numbered_compiler_may_be_there_under_its_plain_name(asked: str, said: str, found: bool) -> None:
    names = ("gcc", "g++")
    host = machine({f"/bin/{name}": said for name in names}, programs={name: (f"/bin/{name}",) for name in names})
    settings = {"CC": asked, "CXX": "g++"}
    if found:
        assert [tool.path for tool in find_compilers(host, settings)] == ["/bin/gcc", "/bin/g++"]
    else:
        with pytest.raises(MissingTool, match=f"the plan's C compiler {asked} is not on this machine") as refused:
            find_compilers(host, settings)
        assert refused.value.remedy == f"install {asked}"


def test_without_any_compiler_the_doctor_is_named() -> None:
    with pytest.raises(MissingTool, match="there is no C compiler on this machine") as refused:
        find_compilers(BareHost(), {})
    assert "rekindle doctor" in (refused.value.remedy or "")


def test_a_compiler_without_words_is_taken_as_it_is() -> None:
    """cl has no --version, and one that says nothing is still a compiler."""
    paths = {"cc": ("/bin/cc",), "c++": ("/bin/c++",)}
    silent = machine({"/bin/cc": "mine 3.4\n"}, programs=paths)
    found = find_compilers(silent, {})
    assert [(tool.name, tool.version, tool.kind) for tool in found] == [("CC", "3.4", None), ("CXX", "unknown", None)]
    assert compilers_to_name(found, {}) == {}


@pytest.mark.parametrize(
    ("compiler", "manager", "line"),
    [
        ("g++-11", "apt-get", "sudo apt-get install -y --no-install-recommends g++-11"),
        ("/usr/bin/gcc-11", "apt-get", "sudo apt-get install -y --no-install-recommends g++-11"),
        ("clang++-17", "apt-get", "sudo apt-get install -y --no-install-recommends clang-17"),
        ("gcc-12", "dnf", "sudo dnf install -y gcc-toolset-12-gcc-c++"),
        ("clang-17", "dnf", "sudo dnf install -y clang"),
        ("gcc-12", "pacman", "install gcc-12"),
        ("gcc", "apt-get", "install gcc"),
        ("gcc-next", "apt-get", "install gcc-next"),
        ("-11", "apt-get", "install -11"),
        ("11", "apt-get", "install 11"),
    ],
)
def test_the_line_that_brings_a_compiler(compiler: str, manager: str, line: str) -> None:
    host = machine({}, programs={manager: (f"/usr/bin/{manager}",)})
    assert bring_compiler(host, compiler) == line


@pytest.mark.parametrize(("version", "can"), [("9.4.0", False), ("10.0.0", True), ("10", True), ("unknown", False)])
def test_a_place_is_kept_out_from_release_ten_on(version: str, can: bool, tmp_path: Path) -> None:
    tool = Tool(name="CC", path="/usr/bin/gcc", version=version, kind="gcc")
    new = Tool(name="CXX", path="/usr/bin/g++", version="12.2.0", kind="gcc")
    assert keep_place_out(BareHost(), [tool, new], tmp_path / "plain") == can
    assert not keep_place_out(BareHost(), [new], tmp_path / "a=b"), "one that cannot even be asked"
