"""`facts show` loses no row, names each so that it can be asked for, and shows only what a row says."""

from __future__ import annotations

import pytest

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.browse import facts_show, facts_sources, rows_of
from rekindle.facts.tables import FILES

FACTS = load_facts()


@pytest.mark.parametrize("table", FILES)
def test_every_row_of_a_file_is_there_under_a_name_of_its_own(table: str) -> None:
    content = getattr(FACTS, table)
    values = (getattr(content, field) for field in content.__struct_fields__)
    rows = [row for value in values if isinstance(value, dict | tuple) for row in _rows(value)]
    named = rows_of(table, FACTS)
    assert len(named) == len(rows) and all(row in rows for row in named.values())
    assert all(name and "None" not in name for name in named)


def _rows(value: object) -> list[object]:
    return list(value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ())


def test_rows_of_the_same_name_are_numbered() -> None:
    names = [name for name in rows_of("wheels", FACTS) if name.startswith("1.3+cu101")]
    assert names == ["1.3+cu101", "1.3+cu101 (2)"]


def test_a_probe_is_named_for_what_was_tried() -> None:
    (name,) = facts_show("probes", "2.6.0 sm_35").rows
    assert name == "2.6.0 sm_35 CUDA 11.8 device"


@pytest.mark.parametrize("table", FILES)
def test_only_what_a_row_says_is_shown(table: str) -> None:
    for name, row in facts_show(table).rows.items():
        assert row["source"] and row["date"], name
        assert not [value for value in row.values() if value is None or value in ([], {}, "")], name


def test_the_overview_counts_every_row_once() -> None:
    overview = facts_show().rows
    assert list(overview) == list(FILES)
    for table, said in overview.items():
        counted = [value for name, value in said.items() if name not in ("rows", "newest")]
        assert sum(counted) == said["rows"] == len(rows_of(table, FACTS)), table  # type: ignore[arg-type]
        assert said["newest"] == max(row.date for row in rows_of(table, FACTS).values())


def test_the_sources_count_every_row_once() -> None:
    found, rows = facts_sources(), [row for table in FILES for row in rows_of(table, FACTS).values()]
    assert sum(found.how.values()) == len(rows)
    assert list(found.how.values()) == sorted(found.how.values(), reverse=True)
    assert sum(use.rows for use in found.sources) == sum(len(row.source) for row in rows)
    dates = [row.date for row in rows]
    assert (found.oldest, found.newest) == (min(dates), max(dates))


def test_a_product_is_looked_for_in_its_chips_row() -> None:
    rows = facts_show("nvidia", "geforce gtx 1080 ti").rows
    assert list(rows) == ["GP102"]


@pytest.mark.parametrize(("asked", "remedy"), [("cude", "did you mean cuda?"), ("xyz", "the tables are cuda, cudnn")])
def test_a_table_that_is_none_brings_the_nearest_or_all(asked: str, remedy: str) -> None:
    with pytest.raises(BadInput) as refused:
        facts_show(asked)
    assert refused.value.remedy is not None and refused.value.remedy.startswith(remedy)


def test_a_row_that_is_none_says_how_to_see_them() -> None:
    with pytest.raises(BadInput, match="no row for 'zzz'") as refused:
        facts_show("cuda", "zzz")
    assert refused.value.remedy == "rekindle facts show cuda lists them"


def test_hazards_and_distributions_go_by_their_own_names() -> None:
    assert not [name for name in rows_of("hazards", FACTS) if name.startswith("hazard ")]
    assert not [name for name in rows_of("distros", FACTS) if name.startswith("distro ")]
