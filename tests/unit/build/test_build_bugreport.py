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


def test_the_end_of_the_log_is_told_line_by_line_and_a_long_line_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "b.log"
    lines = [f"[     1.00] line {number}" for number in range(100)]
    log.write_text("\n".join([*lines, f"[     2.00] {'y' * 1000}z"]) + "\n")
    failure = BuildFailure(project="torch", phase="compile", message="no", error=("e1", "e2"), log=str(log))
    text = render_bug_report(failure)
    end = text[text.index("## End of the log") :].splitlines()[1:]
    assert end == [*(f"line {number}" for number in range(41, 100)), "y" * 1000], "sixty lines"
    assert "## First error\ne1\ne2\n\n## Causes" in text, "no blank lines between them"


def test_a_failure_without_a_log_is_told_all_the_same() -> None:
    text = render_bug_report(BuildFailure(project="torch", phase="check", message="no"))
    assert text.rstrip().endswith("## End of the log") and "## Command\nnone\n" in text
