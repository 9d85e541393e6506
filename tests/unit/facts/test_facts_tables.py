"""The shipped tables: they fit the schema, are in canonical form, and agree with each other."""

from __future__ import annotations

import tomllib

import pytest

from rekindle.facts import load_facts
from rekindle.facts.canonical import body, dump
from rekindle.facts.load import HERE, read_table
from rekindle.facts.tables import FILES


@pytest.mark.parametrize("name", FILES)
def test_a_file_fits_its_schema_and_is_canonical(name: str) -> None:
    read_table(name, FILES[name])
    text = (HERE / f"{name}.toml").read_text("utf-8")
    assert body(text) == dump(tomllib.loads(text))
    assert len(text.encode()) < 600_000


def test_every_file_in_the_directory_is_known() -> None:
    assert {path.stem for path in HERE.glob("*.toml")} == set(FILES)


def test_every_flavour_belongs_to_a_release_and_a_toolkit() -> None:
    facts = load_facts()
    for flavour in facts.wheels.flavour:
        assert flavour.torch in facts.minors
        assert flavour.cuda is None or facts.toolkit(flavour.cuda) is not None, flavour.name
        assert set(flavour.only) <= set(facts.torch.release)
