"""What the wheelhouse's verbs join: reports and proofs with the wheel they speak about."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.model.document import encode
from tiny_wheels import make_wheel


def test_a_report_or_a_proof_is_about_one_wheel(tmp_path: Path) -> None:
    wheels = [str(make_wheel(tmp_path, "tiny", version)) for version in ("1.0", "2.0")]
    (tmp_path / "report.json").write_bytes(encode(api.inspect(wheels[0])))
    for given in ({"report": str(tmp_path / "report.json")}, {"proofs": [str(tmp_path / "proof.json")]}):
        with pytest.raises(BadInput, match="several were given"):
            api.index_add(str(tmp_path / "house"), wheels, **given)
    one = api.index_add(str(tmp_path / "house"), wheels[:1], report=str(tmp_path / "report.json"))
    assert [each.state for each in one.wheels] == ["added"]
    both = api.index_add(str(tmp_path / "house"), wheels, look_inside=False)
    assert [each.state for each in both.wheels] == ["already", "added"]
