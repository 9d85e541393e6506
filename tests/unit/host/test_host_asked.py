"""What the machine itself answers: lists in order, the real place of a link, a bounded answer, nothing of Windows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

import needs
from rekindle.host import live
from rekindle.host.live import LiveHost, decode
from rekindle.host.text import read_answer


def test_files_are_listed_in_order_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b.so", "a.so", ".hidden.so", "c.txt", "deep/d.so"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    host = LiveHost()
    assert host.glob(f"{tmp_path}/*.so") == (str(tmp_path / "a.so"), str(tmp_path / "b.so"))
    assert host.glob(f"{tmp_path}/*/*.so") == (str(tmp_path / "deep" / "d.so"),)
    assert host.glob(f"{tmp_path}/*.none") == ()


@needs.links()
def test_a_link_leads_to_its_real_place(tmp_path: Path) -> None:
    (tmp_path / "cuda-12.4").mkdir()
    (tmp_path / "cuda").symlink_to("cuda-12.4")
    assert LiveHost().realpath(str(tmp_path / "cuda")) == str((tmp_path / "cuda-12.4").resolve())


def test_what_may_be_used_is_told_apart_from_what_is_not_there(tmp_path: Path) -> None:
    assert LiveHost().access(str(tmp_path)) is True and LiveHost().access(str(tmp_path / "none")) is None


def test_elsewhere_than_on_windows_there_is_no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert LiveHost().registry("HKLM\\SOFTWARE\\Python") is None


def test_a_machine_without_psutil_tells_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NotImplementedError

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    assert LiveHost().memory() is None


def test_a_disk_that_nobody_knows_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("shutil.disk_usage", refuse)
    assert LiveHost().disk("/no/such/place") is None


@needs.posix("a program is a script of the shell")
def test_a_python_that_hangs_is_said_to_have_given_no_answer(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    said = LiveHost().python(str(slow), timeout=0.2)
    assert said == {"error": "no answer within 0.2 s", "timed_out": True}


@needs.posix("groups of processes are POSIX's")
def test_an_interrupt_ends_the_command_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "pid"

    def interrupt(process: object, timeout: float | None = None) -> None:
        deadline = time.monotonic() + 20
        while not (note.exists() and note.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.01)
        raise KeyboardInterrupt

    usual = live.kill_group

    with monkeypatch.context() as patch:

        def kill(process: subprocess.Popen[bytes]) -> None:
            patch.undo()
            usual(process)

        patch.setattr(subprocess.Popen, "wait", interrupt)
        patch.setattr(live, "kill_group", kill)
        with pytest.raises(KeyboardInterrupt):
            LiveHost().run(["sh", "-c", f"sleep 60 & echo $! > {note}; wait"])
    pid = int(note.read_text())
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "what it started lives on"
        time.sleep(0.01)
    assert not live._running


@needs.posix("groups of processes are POSIX's")
def test_what_still_runs_at_the_end_is_ended() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    live._running.add(child)
    try:
        live._end_what_runs()
        assert child.wait(10) == -9
    finally:
        live._running.discard(child)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Übung".encode(), "Übung"),
        ("wsl".encode("utf-16"), "wsl"),
        ("Default".encode("utf-16-le"), "Default"),
        (b"a\r\nb", "a\nb"),
        (b"a\0b", "a\0b"),
        (b"\xff", "�"),
        (b"", ""),
    ],
)
def test_words_of_tools_are_read_however_they_were_written(raw: bytes, text: str) -> None:
    assert decode(raw) == text


@needs.posix("a program is a script of the shell")
def test_a_tool_that_floods_is_heard_to_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_OUTPUT_BYTES", 100_000)
    done = LiveHost().run(["sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; exit 3"])
    assert done.out == "x" * 100_000 and done.code == 3


class Told(msgspec.Struct):
    version: str | None = None
    error: str | None = None


def test_an_answer_that_makes_no_sense_says_so() -> None:
    assert read_answer({"version": "3.12.1"}, Told) == Told(version="3.12.1")
    assert read_answer(None, Told) == Told()
    assert "its answer makes no sense" in (read_answer({"version": 3}, Told).error or "")


def test_the_environment_is_that_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_SAID", "yes")
    assert LiveHost().env["REKINDLE_SAID"] == os.environ["REKINDLE_SAID"] == "yes"
