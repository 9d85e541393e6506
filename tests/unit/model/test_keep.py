"""Files that keep a torch: pip and uv themselves read them back."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from rekindle.model.guard import constraints_text, pinned, pyproject_text, requirements_text
from rekindle.model.plan import Request

INDEX = "https://example.org/whl/cu126"
TORCH = Request(name="torch", version="2.7.1+cu126", index=INDEX)
VISION = Request(name="torchvision", version="0.22.1+cu126", index=INDEX)
NUMPY = Request(name="numpy", specifier="<2")
INSTALLED = {"torch": "2.7.1+cu126", "torchvision": "0.22.1+cu126", "numpy": "1.26.4", "sympy": "1.13"}


def test_only_what_was_asked_for_is_pinned_and_as_it_is_there() -> None:
    assert pinned([TORCH, VISION, NUMPY], INSTALLED) == {
        "torch": "2.7.1+cu126", "torchvision": "0.22.1+cu126", "numpy": "1.26.4"
    }  # fmt: skip
    assert pinned([TORCH], {}) == {}


def test_constraints_are_requirements_line_by_line() -> None:
    lines = [line for line in constraints_text(pinned([TORCH, NUMPY], INSTALLED)).splitlines() if line[0] != "#"]
    assert [str(Requirement(line)) for line in lines] == ["torch==2.7.1+cu126", "numpy==1.26.4"]


def test_requirements_name_the_place_once() -> None:
    text = requirements_text(pinned([TORCH, VISION], INSTALLED), [TORCH, VISION])
    assert text.splitlines() == [f"--extra-index-url {INDEX}", "torch==2.7.1+cu126", "torchvision==0.22.1+cu126"]


def test_the_project_takes_torch_from_its_index_alone() -> None:
    read = tomllib.loads(pyproject_text(pinned([TORCH, VISION], INSTALLED), [TORCH, VISION]))["tool"]["uv"]
    assert read["override-dependencies"] == ["torch==2.7.1+cu126", "torchvision==0.22.1+cu126"]
    assert read["index"] == [{"name": "torch-cu126", "url": INDEX, "explicit": True}]
    assert read["sources"] == {"torch": {"index": "torch-cu126"}, "torchvision": {"index": "torch-cu126"}}


def test_a_wheel_built_here_is_named_by_its_place(tmp_path: Path) -> None:
    wheel = tmp_path / 'o"dd näme.whl'
    ours = Request(name="torch", url=str(wheel))
    assert requirements_text({"torch": "2.7.1"}, [ours]) == f"torch @ {wheel.as_uri()}\n"
    assert tomllib.loads(pyproject_text({"torch": "2.7.1"}, [ours]))["tool"]["uv"]["sources"]["torch"] == {
        "path": str(wheel)
    }


def test_a_place_with_any_character_of_a_file_name_is_read_back_by_uv(tmp_path: Path) -> None:
    wheel = str(tmp_path / "two\nlines\t\x7f.whl")
    text = pyproject_text({"torch": "2.7.1"}, [Request(name="torch", url=wheel)])
    assert tomllib.loads(text)["tool"]["uv"]["sources"]["torch"] == {"path": wheel}
