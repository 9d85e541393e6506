"""Machine files, plans, tables and overlays of facts with odd values: an answer or one line, never a bug."""

from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path

import pytest
from canary import LONG, in_process

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from fuzz_documents import documents, tried

COUNT = 25
DOCUMENTS = documents()


def _faults(name: str, seed: int, count: int, folder: Path) -> list[str]:
    return [
        fault
        for _, fault in itertools.islice(tried(name, DOCUMENTS[name], random.Random(seed), folder), count)
        if fault
    ]


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "plan"])
def test_no_document_is_a_bug(name: str, tmp_path: Path) -> None:
    few = 4 if name.startswith("facts-") else COUNT
    assert not _faults(name, 2026, few, tmp_path)


@LONG
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_is_a_bug_in_many_tries(name: str, tmp_path: Path) -> None:
    assert not _faults(name, 17, 400, tmp_path)


FACTS = ("plan", "--os", "linux", "-q", "--gpu")


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("nvidia", f"x = {1 << 70}"),
        ("nvidia", f"x = {'9' * 5000}"),
        ("nvidia", f"x = {'[' * 5000}{']' * 5000}"),
        ("cpu", 'microarchitecture = { x = "y" }'),
        ("cpu", "microarchitecture = 5"),
        ("hazards", 'hazard = [{ torch = "" }]'),
    ],
)
def test_an_overlay_that_is_none_is_named(
    table: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{table}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("REKINDLE_FACTS", str(tmp_path))
    code, said = in_process(
        *FACTS, *(("none", "--cpu", "sandybridge") if table == "cpu" else ("Tesla K40c", "--build"))
    )
    assert code == 2 and f"{table}.toml" in said, said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('project = "s\\"ark"\n[axes]\npython = ["3.11"]', "is no project"),
        ('project = "other"\n[axes]\npython = ["3.11"]', "no sources of 'other'"),
        ('[axes]\npython = ["3.11"]', "the axis 'torch' is missing"),
        ('[axes]\npython = ["3.11"]\ntorch = ["2.6.0"]\n[[include]]\ntorch = "2.5.1"', "does not name 'python'"),
        ('[axes]\npython = ["3.11"]\ntorch = ["2.6.0"]\n[[include]]\npython = "3.12"', "does not name 'torch'"),
        (f"x = {'9' * 5000}", "matrix.toml"),
        (f"x = {'[' * 5000}", "matrix.toml"),
    ],
)
def test_a_table_that_is_none_is_told_where(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text(text, encoding="utf-8")
    code, said = in_process("matrix", "plan", str(tmp_path / "matrix.toml"), "--dry-run", "-q")
    assert code == 2 and words in said, said


@pytest.mark.parametrize("version", ["~", "1.2~3", "9" * 6000])
def test_a_record_whose_version_is_none_has_no_variant_and_hides_no_other(version: str, tmp_path: Path) -> None:
    house = DOCUMENTS["house-records"]
    assert {"house-variants", "house-variants-kept"} <= set(DOCUMENTS), "a wheel that has a variant"
    for name, content in house.beside.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / house.name).write_text(json.dumps(house.value | {"version": version}), encoding="utf-8")
    code, said = in_process("index", "build", "--root", str(tmp_path), "--variants", "-q")
    assert code == 0 and "no version" in said, said
