"""Files that keep a torch: pip and uv themselves read them back."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from rekindle.model.guard import CONTENTS, constraints_text, pinned, pyproject_text, requirements_text
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


def test_what_is_known_of_the_bytes_is_a_remark_that_pip_does_not_read() -> None:
    pins = pinned([TORCH, VISION, NUMPY], INSTALLED)
    lines = constraints_text(pins, {"torch": "ab12", "torchvision": "", "other": "cd34"}).splitlines()[1:]
    assert lines == [f"torch==2.7.1+cu126  # {CONTENTS}ab12", "torchvision==0.22.1+cu126", "numpy==1.26.4"]


def test_only_what_stays_has_a_place() -> None:
    other = Request(name="xformers", version="0.0.30", index="https://example.org/other/")
    read = tomllib.loads(pyproject_text({"torch": "2.7.1+cu126"}, [other, TORCH, NUMPY]))["tool"]["uv"]
    assert list(read["sources"]) == ["torch"] and [each["url"] for each in read["index"]] == [INDEX]
    bare = tomllib.loads(pyproject_text({"numpy": "1.26.4"}, [NUMPY]))["tool"]["uv"]
    assert bare == {"override-dependencies": ["numpy==1.26.4"]}
    assert requirements_text({"sympy": "1.13"}, []) == "sympy==1.13\n"


def test_an_address_stays_an_address_and_a_page_of_files_is_named() -> None:
    url = "https://example.org/torch.whl"
    ours = Request(name="torch", url=url)
    linked = Request(name="torchvision", version="1+cu1", links="https://example.org/all.html")
    text = requirements_text({"torch": "2", "torchvision": "1+cu1"}, [ours, linked])
    assert text.splitlines() == [f"--find-links {linked.links}", f"torch @ {url}", "torchvision==1+cu1"]
    assert tomllib.loads(pyproject_text({"torch": "2"}, [ours]))["tool"]["uv"]["sources"]["torch"] == {"url": url}


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
