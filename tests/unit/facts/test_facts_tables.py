"""The shipped tables: they fit the schema, are in canonical form, and agree with each other."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rekindle.cli.main import main
from rekindle.facts import FILES, load_facts
from rekindle.facts.browse import dump, reformat, without_head
from rekindle.facts.tables import HERE, read_table


@pytest.mark.parametrize("name", FILES)
def test_a_file_fits_its_schema_and_is_canonical(name: str) -> None:
    read_table(name, FILES[name])
    text = (HERE / f"{name}.toml").read_text("utf-8")
    assert without_head(text) == dump(tomllib.loads(text))
    assert len(text.encode()) < 600_000


def test_every_file_in_the_directory_is_known() -> None:
    assert {path.stem for path in HERE.glob("*.toml")} == set(FILES)


def test_every_flavour_belongs_to_a_release_and_a_toolkit() -> None:
    facts = load_facts()
    for flavour in facts.wheels.flavour:
        assert flavour.torch in facts.minors
        assert flavour.cuda is None or facts.toolkit(flavour.cuda) is not None, flavour.name
        assert set(flavour.only) <= set(facts.torch.release)


def test_a_file_in_another_form_is_brought_into_the_one_form() -> None:
    text = '# what it is\nschema = 1\n[toolkit]\n[toolkit."11.8"]\nsass = [\n  "sm_35",\n]\n'
    assert reformat(text) == '# what it is\nschema = 1\n\n[toolkit."11.8"]\nsass = ["sm_35"]\n'
    assert reformat(reformat(text)) == reformat(text)


@pytest.mark.parametrize("count", [5, 6])
def test_a_table_in_a_row_stays_inline_up_to_five_entries(count: int) -> None:
    row = {str(number): "x" for number in range(count)}
    text = dump({"schema": 1, "chip": {"A": {"products": row}}})
    assert ("[chip.A.products]" in text) == (count > 5)
    assert tomllib.loads(text)["chip"]["A"]["products"] == row


def test_a_comment_that_would_be_lost_is_refused() -> None:
    with pytest.raises(ValueError, match="line 3"):
        reformat("# top\nschema = 1\n# inside\n[a.b]\nc = 1\n")


def test_the_verb_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cuda.toml"
    file.write_bytes(b"schema = 1\r\n[[driver_end]]\r\nbranch   = 470\r\n")
    assert main(["facts", "format", "--check", str(file)]) == 1
    assert b"\r\n" in file.read_bytes()
    assert main(["facts", "format", str(file)]) == 0
    assert file.read_bytes() == b"schema = 1\n\n[[driver_end]]\nbranch = 470\n"
    assert main(["facts", "format", "--check", str(file)]) == 0
    assert main(["facts", "format", "--check"]) == 0
    file.write_text("a = = 1\n", "utf-8")
    assert main(["facts", "format", str(file)]) == 2
    capsys.readouterr()
