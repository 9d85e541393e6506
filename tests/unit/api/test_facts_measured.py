"""Measuring the tables again belongs to a source tree; an installation says so."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput


def test_an_installation_says_where_the_tables_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    facts = importlib.import_module("rekindle.api.facts")
    monkeypatch.setattr(facts, "__file__", str(tmp_path / "a" / "b" / "c" / "facts.py"))
    with pytest.raises(BadInput, match="in a source tree; this is an installation") as refused:
        api.facts_check(images=["all"])
    assert "./rekindle facts check" in (refused.value.remedy or "")
