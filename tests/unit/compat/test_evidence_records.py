"""Our own proofs as records: what the pages of docs/evidence say, check by check, and nothing else."""

from __future__ import annotations

import re

import pytest

import seed_records
from rekindle.api.proofs import review_records
from rekindle.model.document import encode, load
from rekindle.model.verify import ProofCard, ProofRecord
from seed_records import EVIDENCE, RECORDS, read_seeds, record_from_page

SEEDS = read_seeds()
READ = next(proof for proof in SEEDS if "read" in proof)


def test_the_record_is_what_the_page_says() -> None:
    page = (EVIDENCE / "cuda-2.6.0.md").read_text("utf-8")
    made = record_from_page(READ)
    assert READ["page"] == "cuda-2.6.0.md" and f"sha256 `{made.wheel_sha256[:8]}…`" in page
    assert (made.count("passed"), made.count("failed"), made.count("skipped")) == (64, 0, 12)
    assert made.cards == (ProofCard(name="NVIDIA H200", arch="sm_90"),) and made.verdict == "proven"
    path = RECORDS / "torch-2.6.0-cuda11.8-h200.json"
    assert path.read_bytes() == encode(made), "the page and its record differ"
    assert seed_records.main(["--check"]) == 0


def test_a_page_that_contradicts_itself_makes_no_record(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name in (READ["page"], READ["read"]["digest_in"]):
        (tmp_path / name).write_text((EVIDENCE / name).read_text("utf-8"), "utf-8")
    monkeypatch.setattr(seed_records, "EVIDENCE", tmp_path)
    page = tmp_path / READ["page"]
    whole = page.read_text("utf-8")
    page.write_text(re.sub(r"^ +ok +gpu0.fft .*\n", "", whole, flags=re.M), "utf-8")
    with pytest.raises(SystemExit, match="63, 0, 12"):
        record_from_page(READ)


def test_all_of_them_are_good() -> None:
    review = review_records(str(RECORDS))
    assert review.good and len(review.records) == len(list(RECORDS.glob("*.json"))) >= 1
    for path in RECORDS.glob("*.json"):
        assert load(path, ProofRecord).verdict == "proven"


def test_every_proof_of_the_pages_has_its_record_or_its_reason() -> None:
    named = [proof["record"] for proof in SEEDS if "record" in proof]
    assert sorted(named) == sorted(path.name for path in RECORDS.glob("*.json"))
    for proof in SEEDS:
        assert ("record" in proof) != bool(proof.get("lacks")), proof
        assert (EVIDENCE / proof["page"]).is_file()
    told = {
        path.name for path in EVIDENCE.glob("*.md") if re.search(r"\d+ passed, \d+ failed|✓ verify", path.read_text())
    }
    assert told <= {proof["page"] for proof in SEEDS}
