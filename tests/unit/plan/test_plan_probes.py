"""Compile probes decide how well a build is known, and a kernel that fails is a no."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from planning import FACTS, ask, build, plan, said

from rekindle.facts import Facts
from rekindle.model.arch import Sm
from rekindle.model.machine import Toolkit
from rekindle.model.plan import Wish
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.evidence import evidence
from rekindle.plan.question import Question
from rekindle.plan.solve import make_plan

ROW = """schema = 1
[[probe]]
torch = "2.5.1"
cuda = "11.8"
sm = "sm_35"
level = "quick"
of = 2
source = ["tried"]
date = "2026-11-16"
how = "measured"
"""


def facts_with(folder: Path, more: str) -> Facts:
    (folder / "probes.toml").write_text(ROW + more, encoding="utf-8")
    return Facts(folder)


@pytest.mark.parametrize(
    ("more", "grade", "near", "says"),
    [
        ('compiled = { "Sort.cu" = [1.0, 0.5] }', "untried", True, "1 of 2 kernel files of torch 2.5.1"),
        ('compiled = { "Sort.cu" = [1.0, 0.5], "Dropout.cu" = [1.0, 0.5] }', "compiled", False, "All 2 kernel files"),
        ('failed = { "Sort.cu" = "no such intrinsic" }', "untried", False, "nobody is known"),
        ("", "untried", False, "nobody is known"),
    ],
)
def test_the_grade_follows_the_probes(tmp_path: Path, more: str, grade: str, near: bool, says: str) -> None:
    found = evidence("2.5.1", "11.8", Sm(3, 5), "linux", facts_with(tmp_path, more))
    assert (found.grade, found.near) == (grade, near) and says in found.text


@pytest.mark.parametrize(
    ("torch", "cuda", "sm"), [("2.5.0", "11.8", Sm(3, 5)), ("2.5.1", "11.7", Sm(3, 5)), ("2.5.1", "11.8", Sm(3, 0))]
)
def test_a_probe_speaks_of_its_own_cell_alone(tmp_path: Path, torch: str, cuda: str, sm: Sm) -> None:
    facts = facts_with(tmp_path, 'compiled = { "Sort.cu" = [1.0, 0.5], "Dropout.cu" = [1.0, 0.5] }')
    assert evidence(torch, cuda, sm, "linux", facts).grade == "untried"


def test_a_kernel_that_fails_is_a_no_unless_it_can_be_left_out(tmp_path: Path) -> None:
    failed = 'failed = { "Sort.cu" = "Sort.cuh(3): error: no such intrinsic" }\n'

    def refused(more: str) -> list[str]:
        question = ask("sm_35", torch="2.5.1", build=True, cuda="11.8")
        asked = Question(question.machine, question.wish, facts_with(tmp_path, more))
        return [one.reason for one in said("R120", build("2.5.1", cuda="11.8"), asked)]

    [reason] = refused(failed)
    assert (
        "Sort.cu of torch 2.5.1 does not compile for sm_35 with CUDA 11.8" in reason and "no such intrinsic" in reason
    )
    assert refused(failed + 'without = { "Sort.cu" = "USE_SORT=0" }') == []
    assert refused("") == []


def test_a_plan_avoids_what_was_seen_failing(tmp_path: Path) -> None:
    facts = facts_with(tmp_path, 'failed = { "Sort.cu" = "error: no" }')
    machine = machine_from_flags(facts, gpu=("sm_35",), os="linux")
    wish = Wish(torch="2.5.1", build=True, cuda="11.8")
    assert make_plan(machine, wish, FACTS).torch == "2.5.1"
    other = make_plan(machine, wish, facts)
    assert (other.torch, other.cuda) != ("2.5.1", "11.8") and other.changes


def test_an_insisted_build_that_cannot_be_is_told() -> None:
    """glibc 2.41 and CUDA 12.4: there is a wheel, but a wheel is not what was asked for."""
    made = plan("sm_61", torch="2.6.0", build=True, cuda="12.4", distro="debian 13")
    [change] = [one for one in made.changes if one.what == "build"]
    assert (made.answer, made.as_asked) == ("install", False)
    assert change.to == "a published wheel" and "glibc 2.41" in change.why
    assert not [one for one in plan("sm_61", torch="2.6.0", cuda="12.4", distro="debian 13").changes]
    assert plan("sm_61", torch="2.6.0", build=True, cuda="12.4", distro="debian 12").answer == "build"


@pytest.mark.parametrize(
    ("path", "version", "answer", "cuda"),
    [
        ("/usr", "12.4", "build", "12.4"),
        ("/usr/local/cuda-12.4", "12.4", "install", "12.4"),
        ("/usr", "12.3", "build", "12.3"),
    ],
)
def test_system_headers_spare_a_toolkit_the_clash_with_glibc(path: str, version: str, answer: str, cuda: str) -> None:
    """nvcc lets the difference pass in what lies in /usr/include; only the toolkit that lies there is spared."""
    asked = ask("sm_61", torch="2.6.0", build=True, cuda="12.4", distro="debian 13")
    kits = (Toolkit(kind="cuda", version=version, path=path),)
    machine = msgspec.structs.replace(asked.machine, toolkits=kits)
    made = make_plan(machine, asked.wish, FACTS)
    assert (made.answer, made.cuda) == (answer, cuda)
