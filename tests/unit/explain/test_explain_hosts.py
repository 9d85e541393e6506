"""Which host compiler is proposed for which toolkit, by the facts."""

from __future__ import annotations

import pytest

from rekindle.compat.toolkit import newest_compiler, takes_compiler
from rekindle.explain import values as look
from rekindle.explain.ranking import FILLS
from rekindle.facts import load_facts
from scenes import event, scene

host_gcc, host_msvc = FILLS["host-gcc"], FILLS["host-msvc"]  # by the names that rules ask for


def around(gcc: int | None = None, toolkit: str | None = None) -> str:
    header = f"/usr/include/c++/{gcc}/bits/x.h(3): error " if gcc else "error "
    return header + (f"/usr/local/cuda-{toolkit}/include/x.h" if toolkit else "")


def first_taking(kind: str, version: str) -> str | None:
    facts = load_facts()
    return next(
        (kit for kit in reversed(facts.toolkits) if takes_compiler(facts.cuda.toolkit[kit], kind, version)), None
    )


@pytest.mark.parametrize(
    ("msc", "name"),
    [
        (1909, "2015"), (1910, "2017"), (1919, "2017"), (1920, "2019"), (1929, "2019"), (1930, "2022"), (1949, "2022"),
        (1950, "2026"), (1959, "2026"), (1960, "newer than 2026"),
    ],
)  # fmt: skip
def test_generations_of_visual_studio_end_where_the_next_begins(
    msc: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look, "newest_compiler", lambda row, kind: msc)
    assert host_msvc(event(around=around(toolkit="12.3")), scene())["studio"] == f"Visual Studio {name}"


@pytest.mark.parametrize(
    ("toolkit", "said", "toolset", "studio", "first"),
    [
        ("12.3", "Compiler 19.40 x64", "14.39", "2022", "12.4"),
        ("12.3", "", "14.39", "2022", "12.4"),  # no version said: the first that is refused
        ("12.9", "", "14.49", "2022", "13.2"),
        ("11.5", "Compiler 19.38 x64", "14.29", "2019", "11.6"),
        ("9.0", "Compiler 19.12 x64", "14.11", "2017", None),
    ],
)
def test_the_newest_microsoft_compiler_of_a_toolkit(
    toolkit: str, said: str, toolset: str, studio: str, first: str | None
) -> None:
    here = event(around=f"C:\\CUDA\\v{toolkit}\\include\\x.h {said}")
    values = host_msvc(here, scene())
    assert values["toolkit"] == f"CUDA {toolkit}"
    assert (values["toolset"], values["studio"]) == (toolset, f"Visual Studio {studio}")
    have = said.split()[1] if said else f"19.{int(toolset.removeprefix('14.')) + 1}"
    assert values.get("first_cuda") == first_taking("msvc", have)
    if first:
        assert values["first_cuda"] == first


def test_the_microsoft_compiler_named_elsewhere_in_the_log_counts_too() -> None:
    here = event(around="CUDA/v11.5/include/x.h")
    assert host_msvc(here, scene(msvc_version="19.29.30133"))["first_cuda"] == first_taking("msvc", "19.29")
    assert host_msvc(here, scene(msvc_version="19.44.35207"))["first_cuda"] == "12.4"


def test_without_a_toolkit_nothing_is_proposed() -> None:
    assert host_msvc(event(around="Compiler 19.40 x64"), scene()) == {}
    assert host_msvc(event(), scene(toolkit="99.9")) == {"toolkit": "CUDA 99.9"}
    assert host_gcc(event(around=around(toolkit="12.4")), scene()) == {}


@pytest.mark.parametrize(
    ("gcc", "toolkit", "newest"),
    [
        (13, "12.3", "12"),  # the toolkit's own limit
        (12, "12.3", "11"),  # it takes 12: the nearest limit below stands in
        (14, "12.3", "12"),
        (14, None, "13"),
        (13, None, "12"),
        (13, "99.9", "12"),
        (5, "8.0", "4"),
        (4, None, None),
    ],
)
def test_the_newest_gcc_of_a_toolkit(gcc: int, toolkit: str | None, newest: str | None) -> None:
    values = host_gcc(event(around=around(gcc, toolkit)), scene())
    assert values["have_gcc"] == str(gcc)
    assert values.get("newest") == newest
    assert values.get("toolkit") == (f"CUDA {toolkit}" if toolkit else None)
    assert values.get("first_cuda") == first_taking("gcc", str(gcc))


def test_a_gcc_no_toolkit_takes_has_no_first_one() -> None:
    newest = max(newest_compiler(row, "gcc") or 0 for row in load_facts().cuda.toolkit.values())
    values = host_gcc(event(around=around(newest + 1)), scene())
    assert values == {"have_gcc": str(newest + 1), "newest": str(newest)}


def test_the_path_near_the_error_counts_before_the_rest_of_the_log() -> None:
    assert host_gcc(event(around=around(13, "12.3")), scene(toolkit="11.8"))["toolkit"] == "CUDA 12.3"
    assert host_gcc(event(around=around(13)), scene(toolkit="11.8"))["toolkit"] == "CUDA 11.8"
    assert host_gcc(event(around=around(13)), scene(toolkit="11.8"))["newest"] == "11"
