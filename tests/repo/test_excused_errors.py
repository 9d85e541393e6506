"""Planted errors that are excused from being noticed: each excuse still belongs to a line that stands in the source."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_excuse_matches_an_error_that_can_be_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from mutants import mutants_of

    excused: dict[str, set[tuple[str, str]]] = {}
    for row in tomllib.loads((ROOT / "tools/equivalent.toml").read_text("utf-8"))["mutant"]:
        excused.setdefault(row["file"], set()).add((row["line"], row["change"]))
    stale = []
    for file, excuses in excused.items():
        text = (ROOT / file).read_text("utf-8") if (ROOT / file).exists() else ""
        lines = [line.strip() for line in text.splitlines()]
        planted = {(lines[mutant.line - 1], mutant.what) for mutant in mutants_of(text)}
        stale += [(file, *excuse) for excuse in excuses - planted]
    assert not stale, "take these out of tools/equivalent.toml"
