"""The table of CPUs: no row hides another, ours lie over archspec's, and reading it costs little."""

from __future__ import annotations

import pytest

from rekindle.facts import load_facts

FACTS = load_facts()
VECTORS = {"sse4_1", "sse4_2", "avx", "avx2", "avx512f"}


def test_every_row_is_reached_before_no_other_row() -> None:
    """A row that an identical earlier one hides is a mistake."""
    seen = set()
    for row in FACTS.cpu.name:
        key = (row.words, row.any, row.without, row.line, row.model, row.suffix, row.version)
        assert key not in seen, row
        seen.add(key)


@pytest.mark.parametrize("kind", sorted(FACTS.cpu.microarchitecture))
def test_features_contain_those_of_archspec_and_of_the_parents(kind: str) -> None:
    from archspec.cpu import TARGETS

    row = FACTS.cpu.microarchitecture[kind]
    if kind in TARGETS:
        assert set(row.features) >= {str(feature) for feature in TARGETS[kind].features}
    for parent in row.parents:
        above = FACTS.cpu.microarchitecture.get(parent)
        if above is not None and above.vendor != "generic" and kind not in ("cascadelake", "zen"):
            missing = set(above.features) - set(row.features)
            assert not missing & VECTORS, (kind, parent, missing)


def test_the_table_of_cpus_is_read_without_importing_archspec() -> None:
    """Its package takes forty times as long as its file, and every plan for a CPU reads the table."""
    import subprocess
    import sys

    told = "from rekindle.facts import load_facts; load_facts().cpu; import sys; print('archspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_row_of_ours_lies_over_archspecs_field_by_field() -> None:
    from rekindle.facts.cpus import archspec_rows

    theirs, ours = archspec_rows()["k10"], FACTS.cpu.microarchitecture["k10"]
    assert "popcnt" in ours.features and "popcnt" not in theirs["features"]
    assert (ours.vendor, ours.flags) == (theirs["vendor"], theirs["flags"])
    assert "penryn" not in archspec_rows() and FACTS.cpu.microarchitecture["penryn"].parents == ("core2",)
