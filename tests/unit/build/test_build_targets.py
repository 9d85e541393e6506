"""What alone is built: one target, several, or files of the build tree, as CMake is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.build.history import History, ObjectCosts
from rekindle.build.steps import compile_tree
from rekindle.errors import BadInput
from rekindle.model.build import spoken_targets
from rekindle.model.build_options import BuildOptions


class Watched:
    """A build that only writes down what it would have run."""

    def __init__(self, target: str | None, *, cmake: bool = True) -> None:
        self.jobs = None
        self.options = BuildOptions(target=target)
        self.front = SimpleNamespace(takes_cmake_settings=cmake, build_tree=Path("/t/build"))
        self.tree = SimpleNamespace(root="/t")
        self.ran: list[list[str]] = []

    def run(self, phase: str, argv: list[str], env: dict[str, str]) -> None:
        self.ran.append(argv)


def compiled(work: Any) -> object:
    env: Any = SimpleNamespace(full={})
    tool: Any = SimpleNamespace(path="cmake")
    return compile_tree(work, tool, tool, SimpleNamespace(path="ninja"), env)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("there", "jobs", "first"),
    [(True, {"MAKEFLAGS": "x"}, True), (False, {"MAKEFLAGS": "x"}, False), (True, {"MAX_JOBS": "2"}, False)],
    ids=["a jobserver", "not configured", "a fixed number"],
)
def test_what_comes_before_the_jobserver_is_made_first(
    there: bool, jobs: dict[str, str], first: bool, tmp_path: Path
) -> None:
    """With a fixed number of jobs Ninja is told it anyway."""
    work: Any = Watched("c10")
    work.front.build_tree = tmp_path
    work.jobs = SimpleNamespace(env=jobs, max_jobs=2, learnt=ObjectCosts(History()))
    if there:
        (tmp_path / "build.ninja").write_text("", encoding="utf-8")
    work.log = SimpleNamespace(write=lambda _line: None)
    compiled(work)
    assert (work.ran[0] == ["ninja", "-C", str(tmp_path), "-j2", "build.ninja"]) is first
    assert len(work.ran) == 1 + first


@pytest.mark.parametrize(
    ("said", "targets"),
    [
        (None, ()),
        ("", ()),
        ("c10", ("c10",)),
        ("c10,c10_hip", ("c10", "c10_hip")),
        ("a/x.hip.o, b/y.hip.o,", ("a/x.hip.o", "b/y.hip.o")),
    ],
)
def test_commas_stand_between_them(said: str | None, targets: tuple[str, ...]) -> None:
    assert BuildOptions(target=said).targets == targets


@pytest.mark.parametrize("said", ["c10", "c10,a/x.hip.o"])
def test_cmake_is_told_each_and_no_wheel_is_made(said: str) -> None:
    work = Watched(said)
    assert compiled(work) is None
    assert work.ran == [["cmake", "--build", str(Path("/t/build")), "--target", *said.split(",")]]


def test_a_tree_without_cmake_has_no_targets() -> None:
    work = Watched("c10,other", cmake=False)
    with pytest.raises(BadInput, match="no target c10,other"):
        compiled(work)
    assert work.ran == []


@pytest.mark.parametrize(
    ("said", "spoken"), [("", ""), ("c10", "c10"), ("a/x.o,b/y.o", "2 targets"), ("a,b,c", "3 targets")]
)
def test_of_several_only_the_number_is_said(said: str, spoken: str) -> None:
    assert spoken_targets(said) == spoken
