"""What ``explain`` reads and hands back: any kind of source, a log that still grows, a command, a torch, a report."""

from __future__ import annotations

import importlib
import io
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle import api
from rekindle.api.explain_log import advice_on, proof_with_causes, redacted, remedy_for, with_cause
from rekindle.errors import BadInput
from rekindle.model.build import BuildFailure
from rekindle.model.diagnosis import Diagnosis
from rekindle.model.verify import Crash, VerifyCheck, VerifyReport
from rekindle.model.wheel import WheelReport

explaining: Any = importlib.import_module("rekindle.api.explain_log")
KILLED = "c++: fatal error: Killed signal terminated program cc1plus\n"
PLAIN = "error: something of nobody's went wrong here\n"


def ids(diagnosis: Diagnosis) -> list[str]:
    return [match.id for match in diagnosis.matches]


def test_a_path_a_text_bytes_an_open_file_and_a_stream_are_read_alike(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text(KILLED, encoding="utf-8")
    raw = KILLED.encode()
    for source in (log, KILLED, raw, io.BytesIO(raw), [raw[:20], raw[20:]], iter([raw])):
        assert ids(api.explain(source))[0] == "oom-killed", source


def test_what_is_to_be_posted_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        explaining, "redactor_here", lambda: SimpleNamespace(text=lambda text: text.replace("ann", "x"))
    )
    unexplained = api.explain("RuntimeError: the gadget of ann is upside down\n").unexplained
    assert unexplained is not None and "gadget of x" in unexplained.post and "ann" not in unexplained.post
    assert redacted("by ann") == "by x"


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_is_run_and_explained_where_it_failed(code: int) -> None:
    out, err = io.BytesIO(), io.BytesIO()
    program = f"import sys; sys.stderr.write({KILLED!r}); sys.exit({code})"
    found = api.explain_command([sys.executable, "-S", "-c", program], out=out, err=err)
    assert found.exit_code == code and ids(found)[:1] == ["oom-killed"] * (code != 0)
    assert KILLED.strip() in err.getvalue().decode()


def test_what_a_command_said_is_read_from_its_first_letter() -> None:
    said = "RuntimeError: the gadget is upside down"
    program = f"import sys; sys.stderr.write({said!r}); sys.exit(1)"
    found = api.explain_command([sys.executable, "-S", "-c", program], out=io.BytesIO(), err=io.BytesIO())
    assert found.unexplained is not None and found.unexplained.quote == said


def test_a_rule_is_tried_on_any_source(tmp_path: Path) -> None:
    (tmp_path / "build.log").write_text(KILLED, encoding="utf-8")
    for source in (tmp_path / "build.log", KILLED):
        tried = {trial.rule: trial.outcome for trial in api.explain_try("oom-killed", source).trials}
        assert tried["oom-killed"] == "won" and tried["oom-killed/slurm"] == "did not fire"


class Growing:
    """A log that is written by others: at each pause of who watches, what ``text`` says for that pause is added."""

    def __init__(self, log: Path, monkeypatch: pytest.MonkeyPatch, **text: str) -> None:
        self.log, self.text = log, {int(name.removeprefix("at")): words for name, words in text.items()}
        self.paused: list[float] = []
        monkeypatch.setattr(explaining, "time", SimpleNamespace(sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        if words := self.text.get(len(self.paused)):
            with self.log.open("a", encoding="utf-8") as file:
                file.write(words)
        self.paused.append(seconds)
        assert len(self.paused) < 100, "it watches for ever"


def read_logs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the log each time it was read."""
    sizes: list[int] = []
    real: Callable[..., Diagnosis] = explaining.explain

    def explain(path: Path, **where: Any) -> Diagnosis:
        sizes.append(path.stat().st_size if path.exists() else -1)
        return real(path, **where)

    monkeypatch.setattr(explaining, "explain", explain)
    return sizes


def test_a_log_is_explained_when_it_has_rested_for_three_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Growing(tmp_path / "build.log", monkeypatch, at0=KILLED)
    sizes = read_logs(monkeypatch)
    assert ids(api.explain_watch(log.log))[0] == "oom-killed"
    assert log.paused == [1.0] * 4 and sizes == [len(KILLED)], "one second until it is there, three of rest"


def test_a_log_that_is_not_there_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Growing(tmp_path / "build.log", monkeypatch, at9=KILLED)
    assert ids(api.explain_watch(log.log))[0] == "oom-killed" and len(log.paused) == 13


def test_a_log_that_goes_on_is_not_judged_before_it_rests_and_only_once_for_each_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Growing(tmp_path / "build.log", monkeypatch, at0="all is well\n", at1="so far\n", at2="it is\n", at9=KILLED)
    sizes = read_logs(monkeypatch)
    assert ids(api.explain_watch(log.log, pause=0.5, quiet=1.0))[0] == "oom-killed"
    assert sizes == [len("all is well\nso far\nit is\n"), len("all is well\nso far\nit is\n" + KILLED)]
    assert log.paused == [0.5] * 12


def test_a_line_that_only_says_error_is_no_reason_to_stop_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "build.log").write_text(PLAIN, encoding="utf-8")
    log = Growing(tmp_path / "build.log", monkeypatch, at8=KILLED)
    assert ids(api.explain(PLAIN)) == ["plain-error"], "what this test is about"
    assert "oom-killed" in ids(api.explain_watch(log.log)) and len(log.paused) == 12


def test_who_ends_the_watching_is_told_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build.log").write_text(KILLED, encoding="utf-8")
    log = Growing(tmp_path / "build.log", monkeypatch)
    asked = iter([False, True])
    assert ids(api.explain_watch(log.log, until=lambda: next(asked)))[0] == "oom-killed" and log.paused == [1.0]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Which torch is looked into, and whether in haste."""
    asked: list[tuple[str, bool]] = []

    def inspect(target: str, *, quick: bool, progress: object) -> WheelReport:
        asked.append((target, quick))
        return WheelReport(name="torch")

    monkeypatch.setattr(importlib.import_module("rekindle.api.inspect_wheel"), "inspect", inspect)
    return asked


def test_the_torch_that_is_installed_is_the_one_named_or_the_first_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[tuple[str, bool]]
) -> None:
    planning = importlib.import_module("rekindle.api.plan_torch")
    torches = [SimpleNamespace(path=None), SimpleNamespace(path="/env/torch"), SimpleNamespace(path="/other/torch")]
    monkeypatch.setattr(planning, "this_machine", lambda: SimpleNamespace(torches=torches))
    assert api.installed_torch().name == api.installed_torch(str(tmp_path)).name == "torch"
    assert read == [("/env/torch", True), (str(tmp_path), True)]
    with pytest.raises(BadInput, match="there is no"):
        api.installed_torch(str(tmp_path / "none"))
    torches[:] = torches[:1]
    with pytest.raises(BadInput, match="no Python here has torch installed"):
        api.installed_torch()


def test_a_report_of_a_log_names_the_machine_and_no_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, target = tmp_path / "build.log", tmp_path / "report.txt"
    log.write_text(f"token=abcdefgh12345678\n{KILLED}", encoding="utf-8")
    for source in (log, log.read_text(encoding="utf-8")):
        api.explain_report(source, api.explain(source), target)
        text = target.read_text(encoding="utf-8")
        assert KILLED.strip() in text and "abcdefgh12345678" not in text
        assert f"Python {platform.python_version()}" in text and platform.machine() in text


def failure(log: Path | None, *error: str, phase: str = "compile") -> BuildFailure:
    return BuildFailure(project="torch", phase=phase, message="x", error=error, log=str(log or ""))


def test_a_command_that_is_sure_of_its_cause_needs_no_log(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n", encoding="utf-8")
    assert ids(with_cause(failure(log, KILLED)).diagnosis)[0] == "oom-killed"
    assert ids(with_cause(failure(log, "ninja: build stopped")).diagnosis)[0] == "unsupported-gpu-architecture-new"
    configured = with_cause(failure(log, KILLED, phase="configure")).diagnosis
    assert ids(configured)[0] == "unsupported-gpu-architecture-new", "a configure is read as a whole"
    log.write_text("nothing is known of this\n", encoding="utf-8")
    kept = with_cause(failure(log, KILLED, phase="configure")).diagnosis
    assert ids(kept)[0] == "oom-killed", "a log without a cause takes none away"


def test_advice_is_a_known_cause_and_never_a_guess() -> None:
    known = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
    first = advice_on(known)
    assert first is not None and first.confidence == "high"
    assert remedy_for(known) == f"{first.title}: {first.fix[0]}"
    guess = "ninja: build stopped"
    assert api.explain(guess).matches[0].confidence == "low", "what this test is about"
    for text in ("all is well", guess, "RuntimeError: the gadget is upside down"):
        assert advice_on(text) is None and remedy_for(text) is None


def test_guesses_stay_where_one_failed_check_is_no_known_instruction() -> None:
    said = "died of SIGILL: in _mi_options_init, at libc10.so+0xd0fec, lse instruction 1600f6f8df1240f1…"
    crash = Crash(signal="SIGILL", instruction="1600f6f8", isa="lse")
    checks = (
        VerifyCheck(id="core.load", status="failed", detail=said, crash=crash),
        VerifyCheck(id="core.other", status="failed", detail=said),
    )
    found = proof_with_causes(VerifyReport(checks=checks, failed=2)).diagnosis
    assert found is not None and any(match.confidence == "low" for match in found.matches)
    alone = VerifyReport(checks=(VerifyCheck(id="x", status="failed", detail="odd"),), failed=1)
    assert proof_with_causes(alone) is alone, "words that say nothing leave the report as it is"
