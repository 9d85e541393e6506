"""Ready to build, ready to use: a machine that has everything, and the same one with one thing taken away."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from rekindle.errors import NotReady
from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.machine import (
    Check,
    Compiler,
    Gap,
    Gpu,
    Machine,
    Os,
    Python,
    Ready,
    Toolkit,
)
from rekindle.readiness.case import Cards, ExaminedMachine, Graphics
from rekindle.readiness.register import check_machine, refuse_unready

TOOLS = {"git": "2.39", "cmake": "3.31.0", "ninja": "1.13", "ccache": "4.8"}
READY = Machine(
    os=Os(system="linux", arch="x86_64", glibc="2.36"),
    pythons=(Python(version="3.12.3", path="/usr/bin/python3"),),
    compilers=(Compiler(kind="gcc", version="12.2.0"),),
    tools=TOOLS,  # type: ignore[arg-type]
    disk_free_gib=10_000.0,
    memory_gib=1_000.0,
)
CARD = Gpu(vendor="nvidia", name="card", arch=parse_gpu_arch("sm_86"), how="nvml")


def examined(subject: Machine, **parts: Any) -> tuple[dict[str, Check], Ready]:
    graphics = Graphics(nvidia=parts.pop("nvidia", Cards()), amd=parts.pop("amd", Cards()))
    case = ExaminedMachine(machine=subject, graphics=graphics, managers=(), workspace="/x", **parts)
    checks, ready = check_machine(case)
    return {check.id: check for check in checks}, ready


@pytest.mark.parametrize(
    ("gone", "build", "use"),
    [
        ({}, True, True),
        ({"disk_free_gib": None, "memory_gib": None}, True, True),
        ({"tools": {**TOOLS, "ccache": None}}, True, True),
        ({"tools": {**TOOLS, "git": None}}, False, True),
        ({"compilers": ()}, False, True),
        ({"os": Os(system="linux", arch="x86_64", glibc="2.5")}, True, False),
        ({"pythons": ()}, False, False),
        ({"disk_free_gib": 0.1}, False, False),
    ],
)
def test_what_fails_stands_in_the_way_of_what_needs_it_alone(gone: dict[str, Any], build: bool, use: bool) -> None:
    assert examined(structs.replace(READY, **gone))[1] == Ready(build=build, use=use)


def test_what_has_no_fix_is_refused_by_its_words_or_its_name() -> None:
    with pytest.raises(NotReady, match=r"not ready for the build: no gcc; disk$") as caught:
        refuse_unready([Check(id="compiler", status="fail", found="no gcc"), Check(id="disk", status="fail")])
    assert caught.value.remedy is None
    with pytest.raises(NotReady) as caught:
        refuse_unready([Check(id="a", status="fail"), Check(id="b", status="fail", fix="install b")])
    assert caught.value.remedy == "install b"


def python_of(version: str, system: Any = "linux", arch: str = "x86_64", **parts: Any) -> Check:
    pythons = (Python(version=version, **parts),)
    return examined(structs.replace(READY, os=Os(system=system, arch=arch), pythons=pythons))[0]["python"]


@pytest.mark.parametrize(
    ("system", "arch"),
    [
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("windows", "AMD64"),
        ("windows", "ARM64"),
        ("macos", "arm64"),
    ],
)
def test_a_python_is_judged_by_the_wheels_of_its_system(system: str, arch: str) -> None:
    newest = load_facts().release(load_facts().releases[0])
    assert newest is not None
    published = [name for name in newest.pythons["linux_x86_64"] if not name.endswith("t")]
    good = python_of(f"{published[-1]}.1", system, arch)
    assert (good.status, good.want) == ("ok", f"{published[0]} to {published[-1]}")
    old = python_of("3.8.10", system, arch)
    assert old.status == "warn" and (old.why or "").startswith("for Python 3.8 the newest torch is 2.4")


def test_where_no_torch_is_published_no_python_is_wanted() -> None:
    check = python_of("3.12.3", arch="ppc64le")
    assert (check.status, check.found, check.want) == ("fail", "3.12.3", None)


@pytest.mark.parametrize(("abi", "status"), [(None, "ok"), ("cp312", "ok"), ("pypy312_pp73", "fail")])
def test_only_cpythons_count(abi: str | None, status: str) -> None:
    assert python_of("3.12.3", abi=abi).status == status


@pytest.mark.parametrize(
    ("system", "pythons", "status"),
    [
        ("linux", (Python(version="3.12.3"),), "ok"),
        ("linux", (Python(version="3.12.3", note="no headers"),), "fail"),
        ("linux", (Python(version="3.11.2", note="no headers"), Python(version="3.12.3")), "ok"),
        ("linux", (), None),
        ("windows", (Python(version="3.12.3"),), None),
    ],
)
def test_headers_are_asked_of_the_pythons_of_a_system_that_may_lack_them(
    system: Any, pythons: tuple[Python, ...], status: str | None
) -> None:
    check = examined(structs.replace(READY, os=Os(system=system), pythons=pythons))[0].get("python-headers")
    assert (check.status if check else None) == status
    assert check is None or check.found == ("for 3.12.3" if status == "ok" else None)


def test_a_cmake_exactly_as_old_as_the_least_is_good() -> None:
    least = load_facts().era("2.0.0").cmake_min
    assert examined(structs.replace(READY, tools={**TOOLS, "cmake": least}))[0]["cmake"].status == "ok"


@pytest.mark.parametrize(
    ("driver", "l4t", "found"), [("580.95", None, "580.95"), (None, "36.4", "36.4"), ("540.4", "36.4", "540.4")]
)
def test_a_driver_is_told_by_its_number_or_by_that_of_its_board(
    driver: str | None, l4t: str | None, found: str
) -> None:
    cards = Cards(gpus=(CARD,), driver=driver, l4t=l4t)
    check = examined(structs.replace(READY, gpus=(CARD,)), nvidia=cards)[0]["nvidia-driver"]
    assert (check.status, check.found) == ("ok", found)


def test_the_environment_of_visual_studio_is_looked_for_beside_other_compilers() -> None:
    mingw = Compiler(kind="gcc", version="14.2.0")
    studio = Compiler(kind="msvc", version="19.40", note="MSVC 14.4, Windows SDK 10.0.22621.0")
    windows = structs.replace(READY, os=Os(system="windows", arch="x86_64"))
    gaps = (Gap(what="Windows SDK", why="not installed"),)
    both = examined(structs.replace(windows, compilers=(mingw, studio)), gaps=gaps)[0]["msvc-environment"]
    assert (both.status, both.found) == ("ok", "Windows SDK 10.0.22621.0")
    assert "msvc-environment" not in examined(structs.replace(windows, compilers=(mingw,)))[0]


def test_a_rocm_is_not_counted_among_the_toolkits_of_others() -> None:
    card = Gpu(vendor="amd", name="card", arch=parse_gpu_arch("gfx1030"))
    kits = (Toolkit(kind="cuda", version="12.4", path="/c"), Toolkit(kind="rocm", version="6.2.4", path="/r"))
    subject = structs.replace(READY, gpus=(card,), toolkits=kits)
    checks = examined(subject, amd=Cards(gpus=(card,)))[0]
    assert (checks["rocm"].status, checks["rocm"].found) == ("ok", "6.2.4")
    alone = examined(structs.replace(subject, toolkits=kits[:1]), amd=Cards(gpus=(card,)))[0]
    assert (alone["rocm"].status, alone["rocm"].found, alone["rocm"].want) == (
        "fail", None, "a ROCm that knows the card"
    )  # fmt: skip
