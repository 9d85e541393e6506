"""Questions to a machine: asked alike of the real one, a watched one and a replayed one; a Python asked by a script."""

from __future__ import annotations

import inspect
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host import capture
from rekindle.host.asking import Asking, ask_each
from rekindle.host.capture import Record, RecordedHost, join_records, read_capture
from rekindle.host.live import LiveHost, ask_python, read_answer
from rekindle.host.protocol import Completed, Cpuid, Disk, Host, Memory, RegistryKey
from rekindle.model.machine import Gap

QUESTIONS = [name for name, value in vars(Host).items() if inspect.isfunction(value) and not name.startswith("_")]


@pytest.mark.parametrize("kind", [LiveHost, Asking, RecordedHost])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_same_words_and_patience_everywhere(kind: type, name: str) -> None:
    assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Host, name))


RECORD = Record(
    system="linux",
    machine="x86_64",
    runs=[Completed(argv=("tool", "-v"), code=3, err="no"), Completed(argv=("slow",), timed_out=True)],
    files={"/etc/x": b"content", "/none": None},
    paths={"/etc/x": None},
    programs={"gcc": ("/usr/bin/gcc", "/opt/gcc")},
    links={"/usr/bin/gcc": "/usr/bin/gcc-12"},
    env={"HOME": "/home/u", "TOKEN": "secret"},
    disks={"/": Disk(total=10, free=5)},
    registry={"HKLM\\X": RegistryKey(values={"a": 1}, keys=("b",))},
    pythons={"/p": {"version": "3.11"}},
    torches={"/p": {"version": "2.6"}},
    access={"/dev/kfd": False, "/dev/dri": True},
    hwcap=(1, 2),
    cores=4,
    memory=Memory(total=100),
    cpuid=Cpuid(leaves={(0, 0): (1, 2, 3, 4)}),
    nvml={"driver": "550"},
)


def test_everything_that_is_answered_is_remembered_and_most_of_it_noted() -> None:
    asking = Asking(RecordedHost(RECORD), "probe")
    answers = [asking.run(["tool", "-v"]), asking.run(["slow"]), asking.read("/etc/x"), asking.read("/none")]
    assert [answer and getattr(answer, "code", answer) for answer in answers] == [3, None, b"content", None]
    assert asking.glob("/etc/*") == ("/etc/x",) and asking.glob("/no/*") == ()
    assert asking.which("gcc") == "/usr/bin/gcc" and asking.which("cl") is None
    assert asking.which_all("gcc") == ("/usr/bin/gcc", "/opt/gcc")
    assert asking.realpath("/usr/bin/gcc") == "/usr/bin/gcc-12" and asking.realpath("/a") == "/a"
    assert (asking.access("/dev/kfd"), asking.access("/dev/dri"), asking.access("/dev/no")) == (False, True, None)
    assert (asking.hwcap(), asking.cores(), asking.memory(), asking.nvml()) == ((1, 2), 4, RECORD.memory, RECORD.nvml)
    assert asking.disk("/") == RECORD.disks["/"] and asking.cpuid() == RECORD.cpuid
    assert asking.registry("HKLM\\X") == RECORD.registry["HKLM\\X"] and asking.registry("HKLM\\Y") is None
    assert asking.python("/p") == {"version": "3.11"} and asking.torch("/p") == {"version": "2.6"}
    assert asking.env["HOME"] == "/home/u" and asking.env.get("NO") is None
    assert len(asking.env) == 2 and set(asking.env) == {"HOME", "TOKEN"}
    kept = asking.record
    assert kept.env == {"HOME": "/home/u"}, "only what somebody asked for: an environment holds secrets"
    assert kept.files == RECORD.files and kept.links == RECORD.links and kept.programs == RECORD.programs | {"cl": ()}
    assert kept.access == {**RECORD.access, "/dev/no": None} and kept.registry == {**RECORD.registry, "HKLM\\Y": None}
    for name in ("system", "machine", "disks", "pythons", "torches", "hwcap", "cores", "memory", "cpuid", "nvml"):
        assert getattr(kept, name) == getattr(RECORD, name), name
    told = {note.asked: note.said for note in asking.evidence}
    assert {note.probe for note in asking.evidence} == {"probe"}
    assert told["tool -v"] == "exit 3: no" and told["slow"] == "timed out:"
    assert told["/etc/x"] == "content" and "/none" not in told
    assert told["/etc/*"] == "1: /etc/x" and "/no/*" not in told
    assert (told["/dev/kfd"], told["/dev/dri"]) == ("no permission", "may be used") and "/dev/no" not in told
    assert told["AT_HWCAP, AT_HWCAP2"] == "0x1, 0x2" and told["cpuid"] == "1 leaves"
    assert told["/p about itself"] == "3.11" and told["HKLM\\X"] == "{'a': 1}"


def test_a_gap_is_one_short_line() -> None:
    asking = Asking(RecordedHost(RECORD))
    asking.gap("a tool", "many\n  words " + "x" * 400)
    assert asking.gaps == [Gap(what="a tool", why=("many words " + "x" * 400)[:300])]


def test_a_deadline_bounds_what_a_command_may_take() -> None:
    assert Asking(RecordedHost(RECORD)).left(7.0) == 7.0
    soon = Asking(RecordedHost(RECORD), "p", time.monotonic() + 2.5)
    assert 1.0 < soon.left(7.0) <= 2.0, "half a second before the end"
    assert Asking(RecordedHost(RECORD), "p", 0.0).left(7.0) == 0.05


def test_several_are_asked_at_once_and_who_is_late_is_missing() -> None:
    release = threading.Event()

    def ask(number: int) -> int:
        if number == 2:
            release.wait(20)
        return number * 10

    late = Asking(RecordedHost(RECORD), "p", time.monotonic() + 0.8)
    assert ask_each(late, [1, 2, 3], ask, at_once=2) == {1: 10, 3: 30}
    release.set()
    assert ask_each(Asking(RecordedHost(RECORD)), [], ask, at_once=2) == {}


def test_records_are_joined_and_the_later_answer_stands() -> None:
    later = Record(machine="aarch64", system="windows", env={"HOME": "/other"}, cores=8)
    later.runs.append(Completed(argv=("tool", "-v"), code=0))
    whole = join_records([RECORD, later, Record()])
    assert (whole.system, whole.machine, whole.cores, whole.hwcap) == ("windows", "aarch64", 8, (1, 2))
    assert whole.env == {"HOME": "/other", "TOKEN": "secret"} and whole.nvml == RECORD.nvml
    assert [run.code for run in whole.runs] == [3, None], "of the same command the first"


def test_a_capture_too_large_to_be_one_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert capture._MAX_BYTES == 16 << 20
    file = tmp_path / "capture.toml"
    file.write_text('machine = "x86_64"\n')
    monkeypatch.setattr(capture, "_MAX_BYTES", file.stat().st_size)
    assert read_capture(tmp_path).machine == "x86_64"
    monkeypatch.setattr(capture, "_MAX_BYTES", file.stat().st_size - 1)
    with pytest.raises(BadInput, match="too large"):
        read_capture(tmp_path)


class Telling(BareHost):
    def __init__(self, code: int, out: str, err: str = "") -> None:
        super().__init__()
        self.told, self.asked = Completed(argv=(), code=code, out=out, err=err), [("", 0.0)]

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append((" ".join(argv), timeout))
        return self.told


def test_a_python_is_asked_without_the_user_s_packages() -> None:
    host = Telling(0, 'noise\n{"a": 1}\n', "warning\nlast")
    assert ask_python(host, "py", "script", "word", timeout=9.0) == ({"a": 1}, "last")
    assert host.asked[1] == ("py -I -c script word", 9.0)
    usual = Telling(0, "[]")
    assert ask_python(usual, "py", "script") == ([], "no message")
    assert usual.asked[1] == ("py -I -c script", 30.0), "half a minute: it may lie on a slow disk"
    for host in (Telling(1, "{}", "broken"), Telling(0, "", "broken"), Telling(0, "no json", "broken")):
        assert ask_python(host, "py", "script") == (None, "broken")
    assert ask_python(LiveHost(), sys.executable, "import json,sys; print(json.dumps(sys.argv[1:]))", "x")[0] == ["x"]


def test_the_last_object_is_the_answer() -> None:
    assert read_answer('{"a": 1}\n[1]\nnoise\n') == {"a": 1}
    assert read_answer(json.dumps({"a": 1}) + "\n" + json.dumps({"b": 2})) == {"b": 2}
    assert read_answer("nothing") is None


def test_who_does_not_answer_keeps_nobody_from_ending() -> None:
    said = ask_each(Asking(RecordedHost(RECORD)), [1, 2], lambda _: threading.current_thread().daemon, at_once=2)
    assert said == {1: True, 2: True}
