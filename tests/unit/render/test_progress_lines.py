"""The plain lines of progress: what goes on, how far it is, and no figure that says nothing."""

from __future__ import annotations

import io

import pytest

from rekindle.render import progress
from rekindle.render.progress import LineProgress


@pytest.mark.parametrize(
    ("stage", "step", "line"),
    [
        ("build", (0, None, "configure: 91 s"), "  build: configure: 91 s"),
        ("configure", (0, None, "configure: 91 s"), "  configure: 91 s"),
        ("unpack", (3, 4, "17 files"), "  unpack  75 %  17 files"),
        ("apt", (17, None, "main/source"), "  apt 17  main/source"),
    ],
)
def test_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, stage: str, step: tuple[float, float | None, str], line: str
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_SECONDS", -1.0)
    out = io.StringIO()
    shown = LineProgress(out)
    shown.stage(stage)
    shown.step(*step)
    assert out.getvalue().splitlines() == [stage, line]
