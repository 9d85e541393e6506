"""Installed = planned, boundary by boundary: each way in which the two can differ is a sentence."""

from __future__ import annotations

import pytest

from rekindle.interpreters.packages import Contents
from rekindle.journey.install import disagreements
from rekindle.model.guard import PackageRecord
from rekindle.model.journey import Package
from rekindle.model.plan import Plan, Request

CPU = Plan(answer="install", torch="2.13.0", variant="cpu")
CUDA = Plan(answer="install", torch="2.13.0", variant="cu130", cuda="13.0")
ASKED = (Request(name="torch", version="2.13.0+cpu", index="https://x/cpu"),)
TOLD = (Package(name="torch", version="2.13.0+cpu"), Package(name="typing-extensions", version="4.1"))


def holding(packages: dict[str, str], torch: dict[str, str | None] | None = None, record: str = "") -> Contents:
    rows = (PackageRecord(name=name, version=version, record=record) for name, version in packages.items())
    return Contents(packages=tuple(rows), torch=torch)


EMPTY = holding({"pip": "23.0"})


def contents(version: str = "2.13.0+cpu", cuda: str | None = None, hip: str | None = None, **more: str) -> Contents:
    packages = {"pip": "23.0", "torch": version, "typing_extensions": "4.1", **more}
    return holding(packages, {"__version__": version, "cuda": cuda, "hip": hip})


def test_the_same_is_the_same_however_names_are_spelled() -> None:
    assert disagreements(CPU, ASKED, TOLD, EMPTY, contents()) == []


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (contents("2.13.0+cu130", cuda="13.0"), "torch is 2.13.0+cu130, 2.13.0+cpu was announced"),
        (contents("2.13.0"), "torch is 2.13.0, 2.13.0+cpu was announced"),
        (contents(cuda="13.0"), "built for CUDA 13.0, a CPU build was planned"),
        (contents(hip="6.4"), "built for HIP 6.4, a CPU build was planned"),
        (contents(typing_extensions="4.2"), "typing-extensions is 4.2, 4.1 was announced"),
        (contents(pip="24.0"), "pip 23.0 became 24.0, which nobody announced"),
        (contents(nvidia_cublas="13.0"), "nvidia-cublas 13.0 came without being announced"),
        (holding({"pip": "23.0"}), "torch is missing"),
        (Contents(), "torch is not there"),
    ],
)
def test_every_difference_is_told(after: Contents, words: str) -> None:
    assert any(words in line for line in disagreements(CPU, ASKED, TOLD, EMPTY, after))


def test_a_package_that_vanished_is_told() -> None:
    before = holding({"pip": "23.0", "scipy": "1.11"})
    wrong = disagreements(CPU, ASKED, TOLD, before, contents())
    assert wrong == ["scipy 1.11 became nothing, which nobody announced"]


@pytest.mark.parametrize(
    ("cuda", "good"), [("13.0", True), ("13.0.1", True), ("13.1", False), ("12.0", False), (None, False)]
)
def test_cuda_is_compared_to_the_minor_version(cuda: str | None, good: bool) -> None:
    asked = (Request(name="torch", version="2.13.0+cu130", index="https://x/cu130"),)
    told = (Package(name="torch", version="2.13.0+cu130"), TOLD[1])
    wrong = disagreements(CUDA, asked, told, EMPTY, contents("2.13.0+cu130", cuda=cuda))
    assert (wrong == []) is good, wrong


def test_rocm_is_compared_too() -> None:
    plan = Plan(answer="install", torch="2.13.0", variant="rocm7.1", rocm="7.1")
    told = (Package(name="torch", version="2.13.0+rocm7.1"), TOLD[1])
    good = contents("2.13.0+rocm7.1", hip="7.1.52801-abc")
    assert disagreements(plan, ASKED, told, EMPTY, good) == []
    assert "7.1 was planned" in disagreements(plan, ASKED, told, EMPTY, contents("2.13.0+rocm7.1", hip="7.0.5"))[0]


def test_the_build_for_intels_gpus_is_known_by_its_name() -> None:
    plan = Plan(answer="install", torch="2.13.0", variant="xpu")
    asked = (Request(name="torch", version="2.13.0", index="https://x/xpu"),)
    for version, good in (("2.13.0+xpu", True), ("2.13.0+cpu", False), ("2.13.0", False)):
        told = (Package(name="torch", version=version), TOLD[1])
        wrong = disagreements(plan, asked, told, EMPTY, contents(version))
        assert (wrong == []) is good, wrong


def test_what_was_there_already_must_be_the_build_that_was_planned() -> None:
    before = after = contents()
    assert disagreements(CPU, ASKED, (), before, after) == []
    other = contents("2.13.0+cu130", cuda="13.0")
    assert disagreements(CPU, ASKED, (), other, other)[0] == "torch is 2.13.0+cu130, 2.13.0+cpu was planned"
    older = contents("2.12.0+cpu")
    assert len(disagreements(CPU, ASKED, (), older, older)) == 2, "by its name and by what it says"
    # From another index than one of a single flavour the local part is part of the name.
    elsewhere = (Request(name="torch", version="2.13.0+cpu"),)
    plain = contents("2.13.0")
    assert disagreements(CPU, elsewhere, (), plain, plain) == ["torch is 2.13.0, 2.13.0+cpu was planned"]
    assert disagreements(CPU, ASKED, (), plain, plain) == [], "an index of one flavour may leave it out"


def test_without_a_report_of_pip_the_result_is_still_compared() -> None:
    assert disagreements(CPU, ASKED, None, EMPTY, contents(numpy="2.0")) == []
    assert disagreements(CPU, ASKED, None, EMPTY, contents("2.13.0+cu130", cuda="13.0"))
    assert disagreements(CPU, (Request(name="numpy", specifier="<2"),), (), EMPTY, EMPTY) == []


def test_the_fingerprint_names_the_whole_state() -> None:
    same = [holding({"torch": "2"}, {"files": "x"}, "aa") for _ in range(2)]
    assert same[0].fingerprint == same[1].fingerprint != ""
    for changed in (
        holding({"torch": "2"}, {"files": "x"}, "bb"),
        holding({"torch": "2"}, {"files": "y"}, "aa"),
        holding({"torch": "3"}, {"files": "x"}, "aa"),
    ):
        assert changed.fingerprint != same[0].fingerprint
    assert Contents().fingerprint == ""
