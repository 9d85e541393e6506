"""Our own proofs as records: what the pages of docs/evidence say, check by check, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from rekindle.api.proofs import review_records
from rekindle.model.document import encode, load
from rekindle.model.proof import ProofCard, ProofCheck, ProofRecord

EVIDENCE = Path(__file__).parents[3] / "docs" / "evidence"
RECORDS = EVIDENCE / "records"
WORDS = {"ok": "passed", "skip": "skipped", "FAIL": "failed"}


def from_page() -> ProofRecord:
    """PyTorch 2.6.0 with CUDA 11.8 on an H200, read out of its page and the report of its build."""
    page = (EVIDENCE / "cuda-2.6.0.md").read_text("utf-8")
    report = (EVIDENCE / "torch-2.6.0-cuda11.8-report.html").read_text("utf-8")
    lines = re.findall(r"^    (ok|skip|FAIL) +(\S+) +[\d.]+ s  ", page, re.M)
    digest = re.search(r'wheel sha256</td><td class="mono">([0-9a-f]{64})', report)
    assert digest is not None and f"sha256 `{digest[1][:8]}…`" in page
    return ProofRecord(
        package="torch",
        version="2.6.0+rekindle.cu118.sm90",
        wheel_sha256=digest[1],
        verdict="proven",
        level="full",
        claims=("cpu", "gpu"),
        checks=tuple(ProofCheck(id=name, status=WORDS[word]) for word, name in lines),  # type: ignore[arg-type]
        system="linux",
        arch="x86_64",
        distro="debian 12",
        cards=(ProofCard(name="NVIDIA H200", arch="sm_90"),),
        driver="580",
        cuda="11.8",
        python="3.11",
        day="2026-11-17",
        page="docs/evidence/cuda-2.6.0.md",
    )


def test_the_record_is_what_the_page_says() -> None:
    made = from_page()
    assert (made.count("passed"), made.count("failed"), made.count("skipped")) == (64, 0, 12)
    path = RECORDS / "torch-2.6.0-cuda11.8-h200.json"
    assert path.read_bytes() == encode(made), "the page and its record differ"


def test_all_of_them_are_good() -> None:
    review = review_records(str(RECORDS))
    assert review.good and len(review.records) == len(list(RECORDS.glob("*.json"))) >= 1
    for path in RECORDS.glob("*.json"):
        assert load(path, ProofRecord).verdict == "proven"
