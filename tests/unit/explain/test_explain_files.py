"""A damaged rule file is the user's to put right: exit code 2 with its name, no crash report."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.cli.main import main
from rekindle.explain import engine, rule

CACHED = (rule.load_files, rule.load_rules, rule.load_signals, rule.load_forms, engine._watcher)


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "rules"
    shutil.copytree(rule._RULES, folder)
    monkeypatch.setattr(rule, "_RULES", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for cached in CACHED:
        cached.cache_clear()
    yield folder
    for cached in CACHED:
        cached.cache_clear()


@pytest.mark.parametrize(
    ("before", "after"),
    [("rank = ", "ranck = "), ('stage = "', 'stage = "not '), ("rank = ", 'rank = "x" # '), ("[[rule]]", "[[rule")],
    ids=["unknown field", "unknown stage", "wrong type", "no TOML"],
)
def test_a_wrong_field_is_told_with_its_file(
    rules: Path, before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rules / "cpu.toml"
    path.write_text(path.read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    assert main(["explain", "nvcc fatal   : Unsupported gpu architecture 'compute_120'"]) == 2
    said = capsys.readouterr().err
    assert "rules/cpu.toml" in said and "Traceback" not in said


def test_a_wrong_expression_is_no_crash(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rules / "cpu.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text
        + """
[[rule]]
id = "x"
title = "x"
stage = "runtime"
match = [{ has = ["zork zork"], regex = "zork (" }]
cause = "x"
fix = ["x"]
source = "x"
""",
        encoding="utf-8",
    )
    assert main(["explain", "zork zork"]) == 2
    assert "regular expression" in capsys.readouterr().err


def test_the_rules_as_they_are_can_be_read(rules: Path) -> None:
    assert main(["explain", "nvcc fatal   : Unsupported gpu architecture 'compute_120'"]) == 0
