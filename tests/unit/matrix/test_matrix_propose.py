"""From a list of machines to a table: the fewest wheels, and a table that ``matrix plan`` takes as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.journey import matrix_propose
from rekindle.model.document import encode
from rekindle.model.source import SourceTree
from rekindle.readiness.case import wheel_version

LAB = """name,GPU,driver,os,python,cpu
rack-1,Tesla K40c,470.256.02,linux,3.10,ivybridge
rack-2,Tesla K40c,470.256.02,linux,3.10,haswell
desk,GTX 1080 Ti,580.95,windows,3.12,
"""


def lab(tmp_path: Path, text: str = LAB) -> str:
    file = tmp_path / "lab.csv"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_machines_of_a_kind_share_a_wheel_and_an_official_one_needs_none(tmp_path: Path) -> None:
    table = tmp_path / "a lab" / "matrix.toml"
    table.parent.mkdir()
    found = api.matrix_propose([lab(tmp_path)], out=table)
    (wheel,) = found.wheels
    assert wheel.serves == ("rack-1", "rack-2") and wheel.archs == ("3.5",) and wheel.python == "3.10"
    assert wheel.cpu == "ivybridge", "what is compiled for the lesser CPU runs on both"
    assert list(found.official) == ["desk"] and "pip install" in found.official["desk"]
    assert not found.unserved and found.path == str(table) and table.read_text("utf-8") == found.table
    lock = api.matrix_plan(table, dry_run=True)
    assert [cell.axes["torch"] for cell in lock.cells] == [wheel.torch] and not lock.refused


def test_another_python_is_another_wheel(tmp_path: Path) -> None:
    found = api.matrix_propose([lab(tmp_path, LAB.replace("3.10,haswell", "3.11,haswell"))])
    assert [wheel.python for wheel in found.wheels] == ["3.10", "3.11"]
    file = tmp_path / "two.toml"
    file.write_text(found.table, encoding="utf-8")
    assert len(api.matrix_plan(file, dry_run=True).cells) == 2


def test_names_and_doctors_files_are_machines_too(tmp_path: Path) -> None:
    machine = api.machine_from_flags(gpu=["Tesla K40c"], os="linux", arch="x86_64", python="3.10")
    (tmp_path / "node7.json").write_bytes(encode(machine))
    found = api.matrix_propose([str(tmp_path / "node7.json"), "Tesla K40c", "Tesla K40c"], python="3.10")
    assert [wheel.serves for wheel in found.wheels] == [("node7", "Tesla K40c", "Tesla K40c (2)")]


def test_a_card_that_nothing_serves_is_told() -> None:
    found = api.matrix_propose(["GeForce 8800 GT"])
    assert not found.wheels and "never supported" in found.unserved["GeForce 8800 GT"]


def test_no_table_is_written_where_no_wheel_has_to_be_made(tmp_path: Path) -> None:
    for machine, told in (("GTX 1080", {}), ("GeForce 8800 GT", {"python": "3.12"})):
        found = api.matrix_propose([machine], out=tmp_path / "matrix.toml", **told)
        assert found.path is None and not (tmp_path / "matrix.toml").exists() and not found.wheels
    assert api.matrix_propose(["Tesla K40c"]).path is None


def test_a_wheel_is_for_the_python_of_the_doctors_file_where_nobody_says_another(tmp_path: Path) -> None:
    machine = api.machine_from_flags(gpu=["Tesla K40c"], os="linux", arch="x86_64", python="3.9")
    (tmp_path / "node7.json").write_bytes(encode(machine))
    for python, wanted in ((None, "3.9"), ("3.10", "3.10")):
        (wheel,) = api.matrix_propose([str(tmp_path / "node7.json")], python=python).wheels
        assert wheel.python == wanted
    (unnamed,) = api.matrix_propose(["Tesla K40c"]).wheels
    assert unnamed.python.startswith("3.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu,drivr\n", "no column is called 'drivr'"),
        ("gpu,python\nGTX 1080,new\n", "line 2"),
        ("gpu\n", "no machine"),
        ("", "no machine"),
    ],
)
def test_what_is_wrong_with_a_list_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        api.matrix_propose([lab(tmp_path, text)])


@pytest.mark.parametrize(
    ("project", "remedy"), [("torchvision", 'companions = ["torchvision"]'), ("tortch", 'project = "torch"')]
)
def test_a_project_that_is_not_fetched_is_refused_with_what_to_write(project: str, remedy: str, tmp_path: Path) -> None:
    table = tmp_path / "m.toml"
    table.write_text(f'project = "{project}"\n[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\n', encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        api.matrix_plan(table, dry_run=True)
    assert remedy in (refused.value.remedy or "")


def test_a_refused_cell_says_why_and_what_to_write(tmp_path: Path) -> None:
    table = tmp_path / "m.toml"
    axes = 'torch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cu118"]\narchs = ["12.0"]\nsystem = ["linux-x86_64"]\n'
    table.write_text(f"[axes]\n{axes}", encoding="utf-8")
    (cell,) = api.matrix_plan(table, dry_run=True).refused
    text = cell.because[0].text
    assert "cannot compile for sm_120" in text and 'Write variant = ["cu12' in text


def test_wheels_for_two_cpus_have_two_names(tmp_path: Path) -> None:
    table = tmp_path / "m.toml"
    axes = 'torch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\ncpu = ["ivybridge", "haswell"]\n'
    table.write_text(f'[axes]\n{axes}system = ["linux-x86_64"]\n', encoding="utf-8")
    cells = api.matrix_plan(table, dry_run=True).cells
    tree = SourceTree(project="torch", version="2.6.0", root="/t")
    assert [wheel_version(cell.plan, tree) for cell in cells] == [
        "2.6.0+rekindle.cpu.ivybridge",
        "2.6.0+rekindle.cpu.haswell",
    ]


def test_a_line_without_a_python_takes_the_one_that_was_asked_for(tmp_path: Path) -> None:
    lines = "name,gpu,driver,os,python\nrack,Tesla K40c,470.256.02,linux, \nold,Tesla K40c,470.256.02,linux,3.9\n"
    found = api.matrix_propose([lab(tmp_path, lines)], python="3.10")
    assert {wheel.serves: wheel.python for wheel in found.wheels} == {("rack",): "3.10", ("old",): "3.9"}


def test_machines_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Whatever the list calls the others: one that is named like a number of another is no reason to hang."""
    rest = "GTX 1080 Ti,580.95,linux,3.12\n"
    names = ("X", "X (3)", "X", "X1", "X", "X")
    found = api.matrix_propose([lab(tmp_path, "name,gpu,driver,os,python\n" + "".join(f"{n},{rest}" for n in names))])
    assert list(found.official) == ["X", "X (3)", "X (2)", "X1", "X (4)", "X (5)"]


def test_more_than_a_thousand_machines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert matrix_propose._MAX_MACHINES == 1000
    monkeypatch.setattr(matrix_propose, "_MAX_MACHINES", 3)
    row = "GTX 1080 Ti,580.95,linux,3.12\n"
    found = api.matrix_propose([lab(tmp_path, "gpu,driver,os,python\n" + 3 * row)])
    assert list(found.official) == ["GTX 1080 Ti", "GTX 1080 Ti (2)", "GTX 1080 Ti (3)"]
    with pytest.raises(BadInput, match="more than 3 machines") as refused:
        api.matrix_propose([lab(tmp_path, "gpu,driver,os,python\n" + 4 * row)])
    assert refused.value.remedy == "propose for one kind of them at a time"
