"""Operators are suspected of the package that has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.api import verify  # noqa: F401 (loads the module)
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyOptions


def test_the_miniature_is_not_tried_with_operators_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    module = sys.modules["rekindle.api.verify_torch"]
    monkeypatch.setattr(module, "_features", lambda cpu: frozenset())
    torch = module.audit_for(VerifyOptions(wheel=Path("torch-2.6.0-cp311-cp311-linux_x86_64.whl")), Silent())
    assert torch.suspects
    spark = module.audit_for(VerifyOptions(wheel=Path("spark_miniature-0.3.0-cp311-cp311-linux_x86_64.whl")), Silent())
    assert not spark.suspects
