"""A file that is not there is not waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.formats.ranges import Unreachable, read_page


def test_a_missing_file_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("rekindle.formats.ranges.time.sleep", waited.append)
    with pytest.raises(Unreachable):
        read_page((tmp_path / "none").as_uri())
    assert waited == []


def test_a_server_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("rekindle.formats.ranges.time.sleep", waited.append)
    with pytest.raises(Unreachable):
        read_page("http://127.0.0.1:9/", timeout=2)
    assert waited
