"""A server of ours: found by its note, ended with all it started; what is not ours is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rekindle.errors import StageFailed
from rekindle.farm import daemons
from rekindle.farm.daemons import Daemon
from rekindle.host.processes import process_mark, tree_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
FAMILY = [sys.executable, "-c", f"import subprocess; subprocess.run({SLEEP!r})"]


@pytest.fixture
def daemon(tmp_path: Path) -> object:
    made = Daemon(tmp_path / "run", "scheduler", tmp_path / "x.conf")
    yield made
    made.end()


def test_started_found_and_ended(daemon: Daemon) -> None:
    assert daemon.find() is None and not daemon.end()
    pid = daemon.start(SLEEP, os.environ)
    assert daemon.find() == pid
    assert Daemon(daemon.folder, "scheduler", daemon.conf).find() == pid, "another command finds it, too"
    assert daemon.end()
    assert process_mark(pid) is None and daemon.find() is None and not daemon.note.exists()
    assert not daemon.end()


def test_what_it_started_ends_with_it(daemon: Daemon) -> None:
    pid = daemon.start(FAMILY, os.environ)
    deadline = time.monotonic() + 20
    while not (children := tree_of(pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    daemon.end()
    time.sleep(0.2)
    assert children and all(process_mark(child.pid) is None for child in children)


def test_one_that_does_not_want_to_end_must(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_GRACE_SECONDS", 0.5)
    stubborn = (
        "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    pid = daemon.bring_up(
        [sys.executable, "-c", stubborn], os.environ, lambda: "deaf" in daemon.log.read_text(), timeout=20
    )
    assert daemon.end() and process_mark(pid) is None


@pytest.mark.parametrize(
    "note", ['{"pid": %d, "mark": "another-boot/1"}', '{"pid": %d}', "{", "[]", '{"pid": "x"}', ""]
)
def test_a_number_that_somebody_else_has_now_is_left_alone(daemon: Daemon, note: str) -> None:
    """After a restart of the machine the noted number may be anybody's."""
    stranger = subprocess.Popen(SLEEP)
    try:
        daemon.folder.mkdir()
        daemon.note.write_text(note.replace("%d", str(stranger.pid)))
        assert daemon.find() is None and not daemon.end()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_one_whose_note_was_lost_is_known_by_its_file(daemon: Daemon, tmp_path: Path) -> None:
    pid = daemon.start(SLEEP, os.environ)
    daemon.note.unlink()
    assert daemon.find() == pid
    assert Daemon(daemon.folder, "scheduler", tmp_path / "other.conf").find() is None
    assert daemon.end() and process_mark(pid) is None


def test_what_cannot_be_noted_is_ended_again(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(daemons, "write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        daemon.start(SLEEP, os.environ)
    assert daemon.find() is None


def test_its_last_words_are_told(daemon: Daemon) -> None:
    with pytest.raises(StageFailed, match="ended at once: port taken"):
        daemon.bring_up([sys.executable, "-c", "raise SystemExit('port taken')"], os.environ, lambda: False, timeout=20)
    assert "port taken" in daemon.log.read_text()
    with pytest.raises(StageFailed, match="did not answer"):
        daemon.bring_up(SLEEP, os.environ, lambda: False, timeout=0.3)
    assert "port taken" in Path(f"{daemon.log}.before").read_text(), "the log before is kept"
    assert daemon.find() is None, "what did not answer was ended"


def test_the_note_says_which(daemon: Daemon) -> None:
    pid = daemon.start(SLEEP, os.environ)
    assert json.loads(daemon.note.read_text()) == {"pid": pid, "mark": process_mark(pid)}
    assert process_mark(os.getpid()) not in (None, process_mark(pid))
    assert process_mark(2**22 - 3) is None


def test_its_files_are_the_user_s_alone_and_the_log_before_stays(daemon: Daemon) -> None:
    assert daemon.last_words() == "it has no log"
    for words in ("first", "second"):
        daemon.bring_up(
            [sys.executable, "-c", f"print('{words}', flush=True); import time; time.sleep(60)"],
            os.environ,
            lambda words=words: words in daemon.log.read_text(),  # type: ignore[misc]
            timeout=20,
        )
        assert daemon.last_words() == words
        daemon.end()
    assert daemon.folder.stat().st_mode & 0o777 == 0o700
    assert daemon.log.stat().st_mode & 0o777 == 0o600
    assert "first" in Path(f"{daemon.log}.before").read_text()


@pytest.mark.parametrize("pid", [0, 1, -1, 2])
def test_everybody_and_ourselves_are_no_group(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the system, group 1 is every process there is and group 0 our own."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *words: sent.append(words))
    monkeypatch.setattr(daemons, "process_mark", lambda pid: None)
    if pid == 2:
        daemons.end_group(pid)
        assert sent == [(2, signal.SIGTERM)], "it ended when it was asked to"
    else:
        with pytest.raises(StageFailed, match=f"process {pid} is not ours"):
            daemons.end_group(pid)
        assert not sent


@pytest.mark.parametrize("number", [0, 2**22 - 3])
def test_a_note_of_a_process_that_was_gone_before_it_was_noted_is_none(daemon: Daemon, number: int) -> None:
    daemon.folder.mkdir()
    daemon.note.write_text(json.dumps({"pid": number, "mark": None}))
    assert daemon.find() is None


def test_only_the_word_after_its_option_is_a_configuration(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = str(daemon.conf)
    lines = [
        None,
        [],
        ["x", "--config"],
        ["--config", "other", conf],
        [conf, "--config"],
        ["x", "--config", f"{conf}2"],
    ]
    others = [SimpleNamespace(pid=10 + number, info={"cmdline": line}) for number, line in enumerate(lines)]
    monkeypatch.setattr("psutil.process_iter", lambda names: iter(others))
    assert daemon.find() is None
    others.append(SimpleNamespace(pid=30, info={"cmdline": ["x", "--config", "y", "--config", conf]}))
    assert daemon.find() == 30


class Clock:
    """A second passes with every sleep, however short."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 1.0
        self.slept.append(seconds)


def test_one_that_does_not_end_in_six_seconds_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent = Clock(), dict[int, float]()
    monkeypatch.setattr(daemons, "time", clock)
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.update({number: clock.now}))
    monkeypatch.setattr(daemons, "process_mark", lambda pid: None if clock.now >= 108.0 else "here")
    daemons.end_group(7)
    assert sent == {signal.SIGTERM: 100.0, signal.SIGKILL: 106.0} and clock.now == 108.0
    assert max(clock.slept) <= 0.1, "nobody waits long for what has ended"


def test_a_server_is_ready_when_it_says_so(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(daemons, "time", clock)
    pid = daemon.bring_up(SLEEP, os.environ, lambda: clock.now >= 103.0, timeout=5)
    assert daemon.find() == pid and clock.now == 103.0 and max(clock.slept) <= 0.1
    monkeypatch.undo()
    assert daemon.end()


def test_what_ended_is_not_ready_whatever_answers(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server may answer at its address."""
    monkeypatch.setattr(daemons, "process_mark", lambda pid: None)
    with pytest.raises(StageFailed, match="the scheduler ended at once: it said nothing") as caught:
        daemon.bring_up(SLEEP, os.environ, lambda: True, timeout=20)
    assert str(daemon.log) in (caught.value.remedy or "")


def test_its_folder_may_be_deep_and_there_already(tmp_path: Path) -> None:
    made = Daemon(tmp_path / "a" / "b", "worker", tmp_path / "x.conf")
    for _ in range(2):
        assert made.start(SLEEP, os.environ) == made.find() and made.end()
    assert made.log == tmp_path / "a/b/worker.log" and made.note == tmp_path / "a/b/worker.json"
