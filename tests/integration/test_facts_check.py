"""The facts measured again from real artefacts: index pages, one wheel by ranges, one ptxas."""

from __future__ import annotations

import pytest

from measure_facts import _wheels
from rekindle import api
from rekindle.inspect.published import pip_places

pytestmark = [pytest.mark.network, pytest.mark.integration]


def test_published_wheels_and_compilers_agree_with_the_tables() -> None:
    if not _wheels("torch", pip_places()):
        pytest.skip("no index that pip is set up for has torch")
    check = api.facts_check(torch=["2.6.0"], cuda=["12.8"])
    drifted = [row for row in check.compared if row.outcome == "drift"]
    assert not drifted
    assert any("torch 2.6.0+cu124 linux_x86_64 architectures" in row.what for row in check.compared)
    assert check.agrees > 100
