"""A bug report says what happened and tells nobody's secrets."""

from __future__ import annotations

from pathlib import Path

from rekindle.build.failure import render_bug_report
from rekindle.model.build import BuildFailure


def test_the_report_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "b.log"
    log.write_text(f"[     1.00] cd {Path.home()}/x HF_TOKEN=abc123\n[     2.00] a.cpp:1:1: error: no\n")
    failure = BuildFailure(
        project="torch",
        phase="compile",
        message="a.cpp:1:1: error: no",
        command="c++ -o a.o",
        error=("e1",),
        log=str(log),
    )
    text = render_bug_report(failure)
    for part in ("torch: compile failed", "c++ -o a.o", "e1", "a.cpp:1:1: error: no"):
        assert part in text
    assert "abc123" not in text
    if str(Path.home()) != "/root":  # root is nobody's name
        assert str(Path.home()) + "/x" not in text
