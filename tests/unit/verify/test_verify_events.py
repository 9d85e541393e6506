"""What an agent wrote where Rekindle is not: GPUs are counted, an early end is told, sizes are bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.model.progress import Silent
from rekindle.verify import gather
from rekindle.verify.gather import Gathering, read_events
from rekindle.verify.target import Target, provable

HELLO = {"event": "hello", "python": "3.11", "implementation": "CPython", "machine": "x86_64", "executable": "p"}
PLAN = {
    "event": "plan",
    "checks": 1,
    "gpus": [{"name": "K40c"}, {"name": "H200"}],
    "about": {"cuda": "12", "gpux": "1"},
}
DONE = {"event": "done"}


def written(tmp_path: Path, *events: object) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return path


def test_gpus_are_counted_by_their_numbers(tmp_path: Path) -> None:
    heard = Gathering(LiveHost(), Silent(), {"gpu": "x"})
    for event in (HELLO, PLAN):
        heard.hear(event)
    assert heard.claim("torch", "smoke", None).gpus == 2
    report = read_events(LiveHost(), written(tmp_path, HELLO, PLAN, DONE), "smoke", Silent())
    assert report.claims == ("cpu", "gpu") and report.subject == "torch on K40c" and not report.checks


def test_times_are_told_to_a_thousandth(tmp_path: Path) -> None:
    end = {"event": "end", "id": "a", "status": "passed", "seconds": 1.23456, "cpu_seconds": 0.98765}
    report = read_events(LiveHost(), written(tmp_path, HELLO, end, DONE), "smoke", Silent())
    assert (report.checks[0].seconds, report.checks[0].cpu_seconds) == (1.235, 0.988) and report.seconds == 1.235


def test_a_record_that_ends_early_is_no_proof(tmp_path: Path) -> None:
    for events in ((), (HELLO,), (HELLO, PLAN, DONE, PLAN)):
        report = read_events(LiveHost(), written(tmp_path, *events), "smoke", Silent())
        assert [check.detail for check in report.checks] == ["the record ends in the middle"]


def test_a_record_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, HELLO, DONE)
    size = len(path.read_bytes())
    for most, ended in ((size, True), (size - 1, True), (size - 2, False)):
        monkeypatch.setattr(gather, "MAX_EVENTS_BYTES", most)
        if ended:
            assert not read_events(LiveHost(), path, "smoke", Silent()).checks
        else:
            with pytest.raises(BadInput, match="line 2"):
                read_events(LiveHost(), path, "smoke", Silent())


def test_what_is_asked_of_a_target_by_itself() -> None:
    assert Target(command=("p",)).patience == 1.0
    assert provable(["triton", "no-such-package"]) == ["triton"]
