"""Filling a tree: what the plan builds decides which files of the package index are for it."""

from pathlib import Path
from typing import Any

import pytest

from rekindle.api import source
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.source import fetch
from rekindle.source.fetch import Filling


@pytest.mark.parametrize(("cuda", "backend"), [("13.0", "cuda"), (None, "cpu")])
def test_a_tree_is_filled_for_the_toolkit_of_the_plan(
    cuda: str | None, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Filling] = []

    def keep(*_words: Any, **choices: Any) -> None:
        given.append(choices["filling"])

    monkeypatch.setattr(fetch, "fill_tree", keep)
    monkeypatch.setattr(fetch, "fetch", keep)
    plan = tmp_path / "plan.json"
    recipe = BuildRecipe(source="x", origin="debian")
    plan.write_bytes(encode(Plan(answer="build", torch="2.12.1", cuda=cuda, build=recipe)))
    source.source_fill(tmp_path, plan=plan, find_links=["wheels"], offline=True, workspace=tmp_path)
    source.source_fetch(plan=plan, find_links=("wheels",), offline=True, workspace=tmp_path)
    expected = Filling(backend=backend, cuda=cuda, find_links=("wheels",), offline=True)
    assert given == [expected, expected]
    source.source_fill(tmp_path, workspace=tmp_path)
    assert given[2:] == [Filling()], "without a plan nobody knows"
