"""Rows of a catalogue: which wheels count as proven."""

from __future__ import annotations

import msgspec
import pytest

from rekindle.model.document import decode, encode
from rekindle.model.wheelhouse import RowProof, WheelCatalogue, WheelRow

ROW = WheelRow(file="a.whl", url="a.whl", project="a", version="1", bytes=1, sha256="0", metadata_sha256="0", added="x")


@pytest.mark.parametrize(
    ("passed", "failed", "skipped", "good"),
    [(1, 0, 0, True), (9, 0, 4, True), (0, 0, 0, False), (0, 0, 4, False), (9, 1, 0, False), (0, 1, 0, False)],
)
def test_a_proof_holds_where_something_passed_and_nothing_failed(
    passed: int, failed: int, skipped: int, good: bool
) -> None:
    proof = RowProof(passed=passed, failed=failed, skipped=skipped)
    assert proof.good is good
    assert msgspec.structs.replace(ROW, proofs=(proof,)).proven is good


def test_one_proof_that_holds_is_enough_and_hearsay_is_none() -> None:
    yes, no = RowProof(passed=3, failed=0, skipped=1), RowProof(passed=3, failed=1, skipped=1)
    assert ROW.proven is False
    assert msgspec.structs.replace(ROW, proofs=(no, yes)).proven is True
    assert msgspec.structs.replace(ROW, proofs=(no, no)).proven is False
    assert msgspec.structs.replace(ROW, hearsay=(yes,)).proven is False
    catalogue = WheelCatalogue(generated="x", wheels=(msgspec.structs.replace(ROW, proofs=(yes,)),))
    assert decode(encode(catalogue), WheelCatalogue) == catalogue, "what is computed is not written"
