"""A bug report says what happened and tells nobody's secrets."""

from __future__ import annotations

from pathlib import Path

from rekindle.build.bugreport import redact, render_bug_report
from rekindle.host.live import LiveHost
from rekindle.model.build import BuildFailure


def test_secrets_and_names_are_gone() -> None:
    text = "/home/ann/src HF_TOKEN=abc123 https://ann:pw@host/x mail ann@example.org by ann on box7; annual"
    clean = redact(text, names=["/home/ann", "ann", "box7"])
    for secret in ("abc123", "pw@", "ann@", "box7", "/home/ann"):
        assert secret not in clean
    assert "annual" in clean
    assert clean.startswith("~/src")


def test_the_report_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "b.log"
    log.write_text(f"[     1.00] cd {Path.home()}/x\n[     2.00] a.cpp:1:1: error: no\n")
    failure = BuildFailure(
        project="torch",
        phase="compile",
        message="a.cpp:1:1: error: no",
        command="c++ -o a.o",
        error=("e1",),
        log=str(log),
    )
    text = render_bug_report(failure, LiveHost())
    for part in ("torch: compile failed", "c++ -o a.o", "e1", "a.cpp:1:1: error: no"):
        assert part in text
    assert str(Path.home()) + "/x" not in text
