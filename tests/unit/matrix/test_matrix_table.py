"""The table: what it spans, what it refuses, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.matrix import table as tables
from rekindle.matrix.table import MAX_CELLS, combinations, read_table

GOOD = """
project = "spark"
[axes]
python = ["3.10", "3.11"]
archs = ["6.1", ["5.0", "5.2"]]
[[exclude]]
python = "3.10"
archs = ["5.0", "5.2"]
[[include]]
python = "3.13"
archs = "9.0"
"""


def table(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "matrix.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_axes_are_multiplied_excluded_and_included(tmp_path: Path) -> None:
    file = table(tmp_path, GOOD)
    found = combinations(read_table(file), file)
    assert [(row["python"], row["archs"]) for row in found] == [
        ("3.10", "6.1"),
        ("3.11", "6.1"),
        ("3.11", "5.0;5.2"),
        ("3.13", "9.0"),
    ]


def test_what_is_included_twice_is_one_cell(tmp_path: Path) -> None:
    text = '[axes]\npython = ["3.11"]\ntorch = ["2.6.0"]\n[[include]]\npython = "3.11"\ntorch = "2.6.0"\n'
    file = table(tmp_path, text)
    assert len(combinations(read_table(file), file)) == 1


def test_an_exclusion_names_only_what_it_names(tmp_path: Path) -> None:
    text = '[axes]\npython = ["3.10", "3.11"]\ntorch = ["2.5", "2.6"]\n[[exclude]]\ntorch = "2.5"\n'
    file = table(tmp_path, text)
    assert {row["torch"] for row in combinations(read_table(file), file)} == {"2.6"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[axes]\n", "python"),
        ('[axes]\npython = ["3.11"]\n', "torch"),
        ('project = "spark"\n[axes]\npython = []\n', "no values"),
        ('project = "spark"\n[axes]\npython = ["3.11", "3.11"]\n', "twice"),
        ('project = "spark"\n[axes]\npythn = ["3.11"]\n', "pythn"),
        ('project = "spark"\n[axes]\npython = ["3.11"]\narchs = ["6.1"]\ncard = ["GTX 1080"]\n', "contradict"),
        ('project = "spark"\n[axes]\npython = [["3.11", "3.12"]]\n', "archs"),
        ('project = "spark"\n[axes]\npython = ["3.11"]\n[[exclude]]\ncolour = "red"\n', "colour"),
        ('project = "spark"\n[axes]\npython = ["3.11"]\n[defaults]\nprove = "maybe"\n', "prove"),
        ('schema = 2\nproject = "spark"\n[axes]\npython = ["3.11"]\n', "schema 2"),
        ('project = "spark"\n[axes]\npython = ["3.1\\u001b1"]\n', "value"),
        ("[axes\n", "matrix.toml"),
    ],
)
def test_a_wrong_table_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(table(tmp_path, text))
    assert words in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("setting", "good"),
    [
        ('USE_MPI = "0"', True),
        ('USE_MPI = "a\\u001bb"', False),
        ('"USE MPI" = "0"', False),
        (f'USE_MPI = "{"x" * 1000}"', True),
        (f'USE_MPI = "{"x" * 1001}"', False),
    ],
)
def test_a_setting_is_a_name_and_a_short_plain_text(tmp_path: Path, setting: str, good: bool) -> None:
    text = f'project = "spark"\n[axes]\npython = ["3.11"]\n[defaults.settings]\n{setting}\n'
    if good:
        assert read_table(table(tmp_path, text)).defaults
    else:
        with pytest.raises(BadInput, match="is no setting"):
            read_table(table(tmp_path, text))


@pytest.mark.parametrize(("length", "fits"), [(100, True), (101, False)])
def test_a_value_is_a_short_text(tmp_path: Path, length: int, fits: bool) -> None:
    file = table(tmp_path, f'project = "spark"\n[axes]\npython = ["{"3" * length}"]\n')
    if fits:
        assert len(combinations(read_table(file), file)) == 1
    else:
        with pytest.raises(BadInput, match="is no value for 'python'"):
            read_table(file)


def test_a_misspelt_axis_is_told_its_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(table(tmp_path, 'project = "spark"\n[axes]\npython = ["3.11"]\nvarient = ["cpu"]\n'))
    assert caught.value.remedy == "did you mean 'variant'?"
    with pytest.raises(BadInput) as caught:
        read_table(table(tmp_path, 'project = "spark"\n[axes]\npython = ["3.11"]\nzebra = ["cpu"]\n'))
    assert caught.value.remedy == "axes are torch, python, variant, archs, card, cpu, system"


def test_a_million_cells_are_refused_with_their_count(tmp_path: Path) -> None:
    values = ", ".join(f'"{n}"' for n in range(100))
    text = f"[axes]\ntorch = [{values}]\npython = [{values}]\nvariant = [{values}]\n"
    file = table(tmp_path, text)
    read = read_table(file)
    with pytest.raises(BadInput, match="1,000,000"):
        combinations(read, file)


def test_cells_are_counted_before_anything_is_excluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = table(tmp_path, GOOD)
    monkeypatch.setattr(tables, "MAX_CELLS", 5)
    assert len(combinations(read_table(file), file)) < 5
    monkeypatch.setattr(tables, "MAX_CELLS", 4)
    with pytest.raises(BadInput, match="spans 5 cells"):
        combinations(read_table(file), file)


@pytest.mark.parametrize(("count", "fits"), [(MAX_CELLS, True), (MAX_CELLS + 1, False)])
def test_the_limit_itself_fits(tmp_path: Path, count: int, fits: bool) -> None:
    values = ", ".join(f'"{n}"' for n in range(count))
    file = table(tmp_path, f'project = "spark"\n[axes]\npython = [{values}]\n')
    read = read_table(file)
    if fits:
        assert len(combinations(read, file)) == count
    else:
        with pytest.raises(BadInput):
            combinations(read, file)


@pytest.mark.parametrize(("size", "fits"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_a_table_is_a_small_file(tmp_path: Path, size: int, fits: bool) -> None:
    text = 'project = "spark"\n[axes]\npython = ["3.11"]\n'
    file = table(tmp_path, text + "#" * (size - len(text)))
    if fits:
        assert read_table(file).project == "spark"
    else:
        with pytest.raises(BadInput):
            read_table(file)


def test_nothing_left_is_said(tmp_path: Path) -> None:
    file = table(tmp_path, 'project = "spark"\n[axes]\npython = ["3.11"]\n[[exclude]]\npython = "3.11"\n')
    with pytest.raises(BadInput, match="nothing is left"):
        combinations(read_table(file), file)


def test_no_table_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_table(tmp_path / "none.toml")
    assert "rekindle matrix" in (caught.value.remedy or "")


def test_five_thousand_cells_are_the_limit() -> None:
    assert MAX_CELLS == 5000
