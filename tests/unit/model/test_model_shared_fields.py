"""Fields that two values share, by their names."""

from __future__ import annotations

from rekindle.model.document import shared_fields
from rekindle.model.graft import GraftRow
from rekindle.model.wheelhouse import RowProof


class Told:
    passed = 3
    environment = {"gpu0": "H200"}
    other = 1


def test_only_what_both_have_is_taken() -> None:
    assert shared_fields(Told(), RowProof) == {"passed": 3, "environment": {"gpu0": "H200"}}
    assert shared_fields(None, RowProof) == {} == shared_fields(Told(), GraftRow)
