"""Visual Studio: every toolset of every instance, the Windows SDK, and what its batch file sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.toolkits.compilers import build_compilers, cl_version, find_msvc, list_compilers, read_vcvars

VSWHERE = r"C:\Program Files (x86)\Microsoft Visual Studio\Installer\vswhere.exe"
STUDIO, TOOLS = r"C:\Program Files\VS\2022\Community", r"D:\BuildTools"
INSTANCES = [
    {"installationPath": STUDIO, "displayName": "Visual Studio Community 2022", "isComplete": True},
    {"installationPath": TOOLS, "productId": "Microsoft.Product.BuildTools", "isComplete": False},
]
SET = "INCLUDE=C:\\inc\nPATH=C:\\bin\nWindowsSDKVersion=10.0.22621.0\\\n"


def settings(root: str, toolset: str) -> tuple[str, ...]:
    batch = rf"{root}\VC\Auxiliary\Build\vcvars64.bat"
    return ("cmd", "/d", "/c", "call", batch, f"-vcvars_ver={toolset}", ">nul", "&&", "set")


def asked_of(program: str) -> tuple[str, ...]:
    return (program, "-all", "-products", "*", "-format", "json", "-utf8")


def windows(instances: object, *folders: str, said: str = SET, **more: Any) -> Asking:
    """Toolsets by folder; vcvars64.bat says ``said`` for each."""
    runs = [Completed(argv=asked_of(VSWHERE), code=0, out=json.dumps(instances))]
    for folder in folders:
        root, _, tail = folder.partition(r"\VC\Tools\MSVC" + "\\")
        runs.append(Completed(argv=settings(root, tail), code=0, out=said))
    paths = dict.fromkeys((VSWHERE, *folders))
    return Asking(RecordedHost(Record(system="windows", machine="AMD64", paths=paths, runs=runs, **more)))


def toolset(root: str, name: str) -> str:
    return rf"{root}\VC\Tools\MSVC\{name}"


OLD, NEW, THIRD = toolset(STUDIO, "14.29.30133"), toolset(STUDIO, "14.40.33807"), toolset(TOOLS, "14.38.33130")


def test_every_toolset_of_every_instance_newest_first() -> None:
    default = rf"{STUDIO}\VC\Auxiliary\Build\Microsoft.VCToolsVersion.default.txt"
    host = windows(INSTANCES, OLD, NEW, THIRD, toolset(STUDIO, "preview"), files={default: b"14.40.33807\r\n"})
    found, studio = list_compilers(host), "Visual Studio Community 2022"
    cl = r"bin\Hostx64\x64\cl.exe"
    assert [(each.kind, each.version, each.path, each.note) for each in found] == [
        ("msvc", "19.40.33807", rf"{NEW}\{cl}", f"{studio}, toolset 14.40.33807 (default), Windows SDK 10.0.22621.0"),
        ("msvc", "19.38.33130", rf"{THIRD}\{cl}", "Microsoft.Product.BuildTools, toolset 14.38.33130"),
        ("msvc", "19.29.30133", rf"{OLD}\{cl}", f"{studio}, toolset 14.29.30133"),
    ]
    assert [(gap.what, gap.why.split(" (")[0]) for gap in host.gaps] == [
        ("Microsoft.Product.BuildTools", "its installation is not complete")
    ]
    assert build_compilers(found, "windows") == found and build_compilers(found, "linux") == ()


def test_a_studio_on_another_disk_is_found_by_the_system_s_own_word() -> None:
    program = r"E:\x86\Microsoft Visual Studio\Installer\vswhere.exe"
    done = Completed(argv=asked_of(program), code=0, out=json.dumps(INSTANCES[:1]))
    paths, env = dict.fromkeys((program, OLD)), {"ProgramFiles(x86)": r"E:\x86"}
    record = Record(system="windows", paths=paths, runs=[done], env=env)
    assert [each.version for each in find_msvc(Asking(RecordedHost(record)))] == ["19.29.30133"]
    assert find_msvc(Asking(BareHost("windows"))) == (), "no Installer, no Studio"


@pytest.mark.parametrize(("code", "timed_out", "words"), [(87, False, "exit 87"), (None, True, "timed out")])
def test_a_vswhere_that_does_not_answer_is_told(code: int | None, timed_out: bool, words: str) -> None:
    done = Completed(argv=asked_of(VSWHERE), code=code, timed_out=timed_out)
    host = Asking(RecordedHost(Record(system="windows", paths={VSWHERE: None}, runs=[done])))
    assert find_msvc(host) == ()
    assert [(gap.what, gap.why) for gap in host.gaps] == [("Visual Studio", f"vswhere gave no JSON ({words})")]


@pytest.mark.parametrize("rows", [{"installationPath": STUDIO}, None, 5])
def test_an_answer_that_is_no_list_has_no_instance(rows: object) -> None:
    assert find_msvc(windows(rows, OLD)) == ()
    assert [each.version for each in find_msvc(windows([None, "x", INSTANCES[0]], OLD))] == ["19.29.30133"]


def test_a_studio_without_its_workload_is_told() -> None:
    host = windows(INSTANCES)
    assert find_msvc(host) == ()
    assert [gap.what for gap in host.gaps if "Desktop development with C++" in gap.why] == [
        "Visual Studio Community 2022",
        "Microsoft.Product.BuildTools",
    ]


def test_a_missing_sdk_and_a_batch_file_that_does_not_run_are_told() -> None:
    host = windows(INSTANCES[:1], NEW, said="INCLUDE=C:\\inc\n")
    (found,) = find_msvc(host)
    assert (found.note or "").endswith("toolset 14.40.33807, Windows SDK missing")
    assert [gap.what for gap in host.gaps] == ["Windows SDK"]
    blocked = windows(INSTANCES[:1], NEW, said="blocked by policy\n")
    (found,) = find_msvc(blocked)
    assert (found.note or "").endswith("toolset 14.40.33807") and found.version == "19.40.33807"
    assert [(gap.what, gap.why) for gap in blocked.gaps] == [
        ("Visual Studio's environment", "vcvars64.bat: blocked by policy")
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("14.40.33807", "19.40.33807"),
        ("14.0.24210", "19.00.24210"),
        ("14.9.1", "19.09.1"),
        ("14.29.30133.7", "19.29.30133"),
        ("14.29", None),
        ("15.1.2", None),
        ("tools", None),
    ],
)
def test_a_toolset_s_number_is_the_compiler_s(name: str, version: str | None) -> None:
    assert cl_version(name) == version


class Cmd(BareHost):
    """Answers with one thing whatever is called, and remembers what was."""

    def __init__(self, done: Completed) -> None:
        super().__init__("windows")
        self.done = done
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(argv)
        return self.done


@pytest.mark.parametrize(
    ("done", "answer"),
    [
        (Completed(argv=(), code=0, out="Include=a=b\nfoo=1\nno mark\npath=x\n"), {"PATH": "x", "INCLUDE": "a=b"}),
        (Completed(argv=(), code=0, out="PATH=x\nLIB=y\n"), "PATH=x"),
        (Completed(argv=(), code=0, out="INCLUDE\n"), "INCLUDE"),
        (Completed(argv=(), code=1, out="INCLUDE=a\n"), "INCLUDE=a"),
        (Completed(argv=(), code=1, out="said\n", err=" \nfirst\nsecond\n"), "first"),
        (Completed(argv=(), code=3), "exit code 3"),
        (Completed(argv=(), timed_out=True, out="INCLUDE=a\n"), "it did not end in time"),
    ],
)
def test_what_the_batch_file_leaves_or_why_it_did_not(done: Completed, answer: dict[str, str] | str) -> None:
    host = Cmd(done)
    assert read_vcvars(host, "vcvars64.bat") == answer == read_vcvars(host, "vcvars64.bat", "14.29")
    plain = ["cmd", "/d", "/c", "call", "vcvars64.bat", ">nul", "&&", "set"]
    assert host.asked == [plain, [*plain[:5], "-vcvars_ver=14.29", *plain[5:]]]
