"""A failed proof says since when: what passed in the last one, and what is different."""

from __future__ import annotations

from pathlib import Path

import msgspec

from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.verify.output import compare_with_last, keep_proof, proof_place

GOOD = VerifyReport(
    verdict="proven", subject="torch-2.6.0.whl", wheel_sha256="ab" * 32,
    environment={"torch": "2.6.0", "python": "3.11"},
    checks=(VerifyCheck(id="ops.conv", status="passed"), VerifyCheck(id="vision", status="skipped", skip="absent")),
)  # fmt: skip
BAD = VerifyReport(
    verdict="failed", subject="torch-2.7.0.whl", environment={"torch": "2.7.0", "python": "3.11"},
    checks=(VerifyCheck(id="ops.conv", status="failed"), VerifyCheck(id="vision", status="failed")),
)  # fmt: skip


def test_what_got_worse_and_what_is_different(tmp_path: Path) -> None:
    place = proof_place(tmp_path, "torch", "smoke", False)
    assert compare_with_last(BAD, place) is None, "no proof yet"
    keep_proof(BAD, place)
    assert not place.exists(), "only a proof is kept"
    keep_proof(GOOD, place)
    since = compare_with_last(BAD, place)
    assert since is not None and since.worse == ("ops.conv",) and since.wheel_sha256 == "ab" * 32
    assert since.subject == "torch-2.6.0.whl" and since.changed == {"torch": "2.6.0 → 2.7.0"}
    assert compare_with_last(GOOD, place) is None
    assert compare_with_last(msgspec.structs.replace(BAD, verdict="not-proven"), place) is not None


def test_levels_and_emulation_are_kept_apart_and_a_broken_memory_is_none(tmp_path: Path) -> None:
    places = {
        proof_place(tmp_path, "torch", level, emulated) for level in ("smoke", "full") for emulated in (True, False)
    }
    assert len(places) == 4
    place = next(iter(places))
    place.parent.mkdir(parents=True)
    place.write_text("{")
    assert compare_with_last(BAD, place) is None


def test_a_setting_that_changed_is_told_and_a_secret_is_not() -> None:
    from rekindle.verify.target import settings_words

    shell = {"HOME": "/x", "ATEN_CPU_CAPABILITY": "avx2", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0"}
    words = settings_words(shell, {"HF_TOKEN": "hf_secret", "ATEN_CPU_CAPABILITY": "default"})
    assert words == "ATEN_CPU_CAPABILITY=default CUDA_VISIBLE_DEVICES=0 HF_TOKEN MKL_NUM_THREADS=1"
    assert settings_words({"HOME": "/x", "XATEN_A": "1"}, {}) == ""


def test_a_failed_proof_says_which_setting_is_new(tmp_path: Path) -> None:
    good = VerifyReport(verdict="proven", subject="w", checks=(VerifyCheck(id="a", status="passed"),))
    place = proof_place(tmp_path, "torch", "smoke", True)
    keep_proof(good, place)
    settings = {"settings": "ATEN_CPU_CAPABILITY=avx2"}
    bad = VerifyReport(verdict="failed", checks=(VerifyCheck(id="a", status="failed"),), environment=settings)
    since = compare_with_last(bad, place)
    assert since is not None and since.worse == ("a",)
    assert since.changed == {"settings": "none → ATEN_CPU_CAPABILITY=avx2"}
