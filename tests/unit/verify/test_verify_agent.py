"""The agent's own ways (agent) and the process it lends each check (child): what begins, in which order, for which
card, with which limit; and what a death says. A torch of a few lines stands in for the real one."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loaded_checks import loaded_checks
from rekindle.verify.target import CHECKS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, signals and /proc")


@pytest.fixture(scope="module")
def checks() -> Iterator[Any]:
    with loaded_checks() as load:
        for path in sorted(CHECKS.glob("check_*.py")):
            load(path.stem)
        yield load


@pytest.fixture(autouse=True)
def no_traceback_of_pytest() -> Iterator[None]:
    """Its handler would write pages about each crash that is made here."""
    was = faulthandler.is_enabled()
    faulthandler.disable()
    yield
    if was:
        faulthandler.enable(sys.__stderr__ or sys.stderr)


# A process of its own.


def died(checks: Any, work: Callable[[Any], object], **more: Any) -> tuple[list[Any], Any]:
    child = checks("child").Child(work, **more)
    return list(child.lines(time.time() + 60)), child.end()


NAMES = {4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV",
         15: "SIGTERM", 10: "signal 10"}  # fmt: skip


@pytest.mark.parametrize("number", NAMES)
def test_the_signal_it_died_of_has_its_name(number: int, checks: Any) -> None:
    def work(tell: Any) -> None:
        tell({"a": 1})
        signal.raise_signal(number)

    said, end = died(checks, work)
    assert said == [{"a": 1}] and (end["signal"], end["name"]) == (number, NAMES[number])
    assert ("address" in end) == (number in (4, 7, 8, 11)), "those are trapped"


def test_a_crash_tells_the_place_by_its_file(checks: Any) -> None:
    """The bytes that were told stand at that place of that file; the address that was not there is told, too."""
    _, end = died(checks, lambda _: ctypes.string_at(0x1238))
    assert (end["name"], end["fault"]) == ("SIGSEGV", 0x1238)
    with open(end["library"], "rb") as file:
        file.seek(end["offset"])
        assert file.read(16).hex() == end["code"] and len(end["code"]) == 32
    _, again = died(checks, lambda _: ctypes.string_at(0x1238))
    assert (again["library"], again["offset"], again["address"]) == (end["library"], end["offset"], end["address"])


def test_code_of_no_file_has_an_address_alone(checks: Any) -> None:
    child = checks("child")
    address = child.executable_page(bytes.fromhex("0f0b" if child.MACHINE == "x86_64" else "00000000"))
    assert ctypes.string_at(address, 2) == (b"\x0f\x0b" if child.MACHINE == "x86_64" else b"\0\0")
    _, end = died(checks, lambda _: ctypes.CFUNCTYPE(None)(address)())
    assert (end["name"], end["address"]) == ("SIGILL", address)
    assert end.get("library", "/dev/zero").startswith("/dev/zero"), "what the kernel calls memory of no file"


def test_maps_are_read_to_their_bounds(checks: Any) -> None:
    child = checks("child")
    _, at, size = child.CODE[child.MACHINE]

    def read(counter: int, maps: str, number: int = 11, cut: int = 0) -> Any:
        state = bytearray(128 + size + 16)
        struct.pack_into("<i", state, 0, number)
        struct.pack_into("<Q", state, 16, 77)
        struct.pack_into("<Q", state, 128 + at, counter)
        state[128 + size :] = bytes(range(16))
        return child._read(bytes(state[: len(state) - cut]), maps.encode())

    maps = "nonsense\n\n1000-2000 r-xp 00000300 08:01 5    /a b/lib.so\n"
    maps += "2000-3000 r-xp 0 0:0 0\n3000-4000 r-xp 0 0:0 0 [x]\n"
    base = {"signal": 11, "fault": 77, "code": bytes(range(16)).hex()}
    for counter in (0x1000, 0x1FFF):
        place = {"library": "/a b/lib.so", "offset": counter - 0x1000 + 0x300}
        assert read(counter, maps) == {**base, "address": counter, **place}
    for counter in (0xFFF, 0x2000, 0x3000, 0x5000):
        assert read(counter, maps) == {**base, "address": counter}
    assert read(0x1000, maps, number=4)["signal"] == 4
    assert read(0x1000, maps, cut=16)["code"] == "" and read(0x1000, maps, cut=17) == {}


def test_a_plain_end_an_exit_code_and_an_error(checks: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert died(checks, lambda tell: tell({"x": "ü"})) == ([{"x": "ü"}], None)
    assert died(checks, lambda _: os._exit(3)) == ([], {"exit": 3})
    assert died(checks, lambda _: [][0]) == ([], {"exit": 70})
    assert "IndexError: list index out of range" in capfd.readouterr().err


def test_lines_come_whole_however_long(checks: Any) -> None:
    sizes = [1, 65535, 65536, 200_000, 3]
    said, end = died(checks, lambda tell: [tell({"x": "y" * size}) for size in sizes])
    assert [len(line["x"]) for line in said] == sizes and end is None


def test_past_its_time_it_is_killed_with_its_group(checks: Any) -> None:
    def work(tell: Any) -> None:
        helper = os.fork()
        if not helper:
            signal.pause()
        tell({"own": os.getpid(), "group": os.getpgid(0), "helper": helper})
        signal.pause()

    child = checks("child").Child(work)
    lines = child.lines(time.time() + 3)
    told = next(lines)
    assert told["own"] == told["group"] == child.pid
    assert list(lines) == [None]
    assert child.end()["name"] == "SIGKILL"
    waiting = time.time() + 20
    while Path(f"/proc/{told['helper']}/status").exists() and time.time() < waiting:
        if "zombie" in Path(f"/proc/{told['helper']}/status").read_text():
            break
        time.sleep(0.01)
    else:
        assert time.time() < waiting
    late = checks("child").Child(lambda tell: signal.pause())
    assert list(late.lines(time.time() - 1)) == [None] and late.end()["name"] == "SIGKILL"


def test_without_a_group_of_its_own_it_stays_in_ours(checks: Any) -> None:
    said, _ = died(checks, lambda tell: tell({"group": os.getpgid(0)}), own_group=False)
    assert said == [{"group": os.getpgid(0)}]


def test_whoever_ends_it_is_heard(checks: Any) -> None:
    """The parent may block or catch the question; the child must not."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        _, end = died(checks, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGTERM, before)
    assert end["name"] == "SIGTERM"


def test_where_the_system_forbids_executable_memory_there_is_none(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import mmap

    def refuse(*words: object, **more: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert checks("child").executable_page(b"x") is None
    _, end = died(checks, lambda _: os.kill(os.getpid(), signal.SIGSEGV))
    assert end == {"signal": 11, "name": "SIGSEGV"}, "known by its signal all the same"


# What begins.

TORCH = """
import types
__version__ = "2.6.0+cu124"
version = types.SimpleNamespace(cuda="12.4", hip=None, xpu=None)
cards = [types.SimpleNamespace(name="NVIDIA H200", major=9, minor=0, total_memory=141 << 30)] * 2
cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, chosen=[])
cuda.get_device_properties = lambda index: cards[index]
cuda.set_device = cuda.chosen.append
"""


@pytest.fixture
def talk(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    def ask(source: str = TORCH, name: str = "torch", **request: Any) -> list[dict[str, Any]]:
        (tmp_path / f"{name}.py").write_text(source)
        asked = {"package": name, "level": "smoke", **request}
        env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, str(CHECKS / "agent.py")]
        said = subprocess.run(command, input=json.dumps(asked).encode(), env=env, capture_output=True, check=True)
        return [json.loads(line) for line in said.stdout.splitlines()]

    return ask


def begun(events: list[dict[str, Any]]) -> list[str]:
    return [event["id"] for event in events if event["event"] == "begin"]


def expected(checks: Any, level: str, cards: int, *, scopes: tuple[str, ...] = ("cpu", "gpu", "gpus")) -> list[str]:
    """The ids of torch's checks in the order of their scopes; each of a card's once for each card."""
    ids = []
    for scope in scopes:
        for check in checks("framework").CHECKS:
            if check.scope == scope and check.package in ("torch", "any") and level in (check.level, "full"):
                cards_of = range(cards) if scope == "gpu" else [0] if scope != "gpus" or cards else []
                ids += [check.id.replace("gpu.", f"gpu{card}.", 1) if scope == "gpu" else check.id for card in cards_of]
    return ids


@pytest.mark.parametrize("inline", [False, True])
def test_every_check_of_the_level_in_order_and_each_card_for_itself(inline: bool, checks: Any, talk: Any) -> None:
    events = talk(inline=inline)
    wanted = expected(checks, "smoke", 2)
    assert begun(events) == ["import.torch", *wanted] and len([id for id in wanted if id.startswith("gpu1.")]) > 5
    assert [event["id"] for event in events if event["event"] == "end"] == begun(events)
    plan = next(event for event in events if event["event"] == "plan")
    assert plan["checks"] == len(wanted) and plan["about"] == {"torch": "2.6.0+cu124", "cuda": "12.4"}
    assert plan["gpus"] == [{"name": "NVIDIA H200, sm_90, 141.0 GiB"}] * 2
    assert events[0]["event"] == "hello" and events[0]["executable"] == sys.executable
    assert events[-1] == ({"event": "done"} if inline else {"event": "done", "clean": True})
    ended = {event["id"]: event for event in events if event["event"] == "end"}
    assert ended["import.torch"]["status"] == "passed" and ended["import.torch"]["detail"].startswith(
        "2.6.0+cu124 from /"
    )
    assert ended["gpu1.elementwise"]["status"] == "failed", "a torch of a few lines computes nothing"
    assert all(event["seconds"] >= 0 and event["cpu_seconds"] >= 0 for event in ended.values() if "crash" not in event)


def test_of_amds_and_intels_cards_and_of_none(talk: Any) -> None:
    def plan(more: str) -> dict[str, Any]:
        said = talk(TORCH + more, only=("capability",))
        return next(event for event in said if event["event"] == "plan")

    amd = "version.hip, version.cuda, cards[0].gcnArchName = '6.4', None, 'gfx942:sramecc+'\n"
    assert plan(amd)["gpus"][0]["name"] == "NVIDIA H200, gfx942, 141.0 GiB"
    assert plan(amd)["about"] == {"torch": "2.6.0+cu124", "hip": "6.4"}
    intel = "xpu, version.cuda = cuda, None\nxpu._is_compiled = lambda: True\ncards[0].driver_version = '1.6'\n"
    assert plan(intel)["gpus"][1]["name"] == "NVIDIA H200, driver 1.6, 141.0 GiB"
    assert plan(intel)["about"] == {"torch": "2.6.0+cu124", "xpu": "yes"}
    assert plan(intel + "version.xpu = '2025'\n")["about"]["xpu"] == "2025"
    none = plan("cuda.is_available = lambda: False\n")
    assert none["gpus"] == [] and none["checks"] == 1
    crashing = plan("import os\ncuda.is_available = lambda: os._exit(9)\n")
    assert crashing["gpus"] == []


def test_only_what_was_asked_for_and_is_not_done(checks: Any, talk: Any) -> None:
    assert begun(talk(only=("version", "gpu*.arch"))) == ["import.torch", "version", "gpu0.arch", "gpu1.arch"]
    assert begun(talk(only=("gpu1",)))[1:] == [id for id in expected(checks, "smoke", 2) if id.startswith("gpu1.")]
    assert begun(talk(only=("gpu1.start",), level="full")) == ["import.torch", "gpu1.start"]
    events = talk(only=("version", "settings"), done=["import.torch", "version"])
    assert begun(events) == ["settings"] and events[-1]["clean"]
    assert begun(talk(only=("core.load",), level="full")) == ["core.load"], "what needs no import imports nothing"
    assert begun(talk(only=("nothing",))) == [] and begun(talk(only=("import.torch",))) == ["import.torch"]
    assert begun(talk(only=("gpus.peer",), level="full")) == ["import.torch", "gpus.peer"]


def test_full_begins_with_the_c_functions_and_goes_on_without_them(checks: Any, talk: Any) -> None:
    events = talk("raise ImportError('no libtorch')", level="full")
    assert begun(events) == ["core.load", "import.torch"], "where the library does not load, its functions say nothing"
    ended = {event["id"]: event for event in events if event["event"] == "end"}
    assert ended["core.load"]["status"] == "failed" and ended["import.torch"]["detail"] == "ImportError: no libtorch"


def test_limits_grow_with_patience_and_what_helps_is_told(checks: Any, talk: Any) -> None:
    remedies = {
        check.id: (check.timeout, check.remedy) for check in checks("framework").CHECKS if check.package != "spark"
    }
    for patience in (1, 3):
        for event in talk(only=("version", "training"), patience=patience):
            if event["event"] == "begin" and event["id"] != "import.torch":
                limit, remedy = remedies[event["id"]]
                assert (event["timeout"], event["remedy"]) == (limit * patience, remedy)
            if event["event"] == "begin" and event["id"] == "import.torch":
                assert event["timeout"] == 120 * patience


def test_what_is_not_to_be_imported_is_skipped_with_the_reason(talk: Any) -> None:
    events = talk("raise SystemExit", no_import="for another Python", no_import_remedy="bring it")
    said = [event for event in events if event["event"] in ("begin", "end")]
    assert begun(events) == ["import.torch"] and said[0]["timeout"] == 1
    told = {name: said[1][name] for name in ("status", "skip", "detail", "remedy")}
    assert told == {"status": "skipped", "skip": "untried", "detail": "for another Python", "remedy": "bring it"}


@pytest.mark.parametrize(
    ("raises", "detail", "remedy"),
    [
        ("MemoryError()", "out of memory", None),
        ("RuntimeError('\\n  first line \\nsecond')", "RuntimeError: first line", None),
        ("RuntimeError()", "RuntimeError: no message", None),
        ("RuntimeError('x' * 500)", "RuntimeError: " + "x" * 397 + "...", None),
        ("OSError('No space left on device')", "OSError: No space left on device", "the disk or /dev/shm is full"),
    ],
)
def test_whatever_a_strange_torch_throws_is_told_in_one_line(
    raises: str, detail: str, remedy: str | None, talk: Any
) -> None:
    source = TORCH + f"def arange(n): raise {raises}\n"
    ended = {event["id"]: event for event in talk(source, only=("arithmetic",)) if event["event"] == "end"}
    assert (ended["arithmetic"]["status"], ended["arithmetic"]["detail"]) == ("failed", detail)
    assert ended["arithmetic"]["remedy"] == remedy


def test_operators_and_companions_of_this_run(talk: Any, tmp_path: Path) -> None:
    (tmp_path / "friend.py").write_text("__version__ = '1.2'\nanswer = 42\n")
    (tmp_path / "bad.py").write_text("raise ImportError('undefined symbol: x')\n")
    row = {"remedy": "take another", "gpu": False}
    companions = [
        {
            **row,
            "name": "Friend",
            "module": "friend",
            "call": "import friend\nassert friend.answer == 42\nt.step('more')",
        },
        {**row, "name": "Named", "module": "friend", "call": "did = ['this', 'that']", "gpu": True},
        {**row, "name": "Wrong", "module": "friend", "call": "t.ensure(False, device)"},
        {**row, "name": "Bad", "module": "bad", "call": ""},
        {**row, "name": "Gone", "module": "gone_away", "call": ""},
    ]
    operators = [
        {"id": "fine", "call": "step('one')\ntorch.cuda.device_count()"},
        {"id": "lacking", "call": "torch.nothing_like_it()"},
        {"id": "raises", "call": "step('two')\n1 / 0"},
        {"id": "crashes", "call": "step('three')\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"},
        {"id": "leaves", "call": "import os\nos._exit(4)"},
    ]
    wanted = ("with", "operator")
    events = talk(operators=operators, companions=companions, only=wanted)
    ended = {event["id"]: event for event in events if event["event"] == "end"}
    assert begun(events)[1:] == [
        *(f"operator.{row['id']}" for row in operators),
        *(f"with.{row['name']}" for row in companions),
    ]
    said = {id: (event["status"], event["detail"]) for id, event in ended.items() if id != "import.torch"}
    assert said == {
        "operator.fine": ("passed", "runs"),
        "operator.lacking": ("skipped", said["operator.lacking"][1]),
        "operator.raises": ("failed", "two: ZeroDivisionError: division by zero"),
        "operator.crashes": ("failed", "died of SIGSEGV in step three"),
        "operator.leaves": ("failed", "ended with exit code 4 without a word"),
        "with.Friend": ("passed", "Friend 1.2: one operation on cuda"),
        "with.Named": ("passed", "Named 1.2: this, that on cuda"),
        "with.Wrong": ("failed", "operation on cuda: cuda"),
        "with.Bad": ("failed", "import: ImportError: undefined symbol: x"),
        "with.Gone": ("skipped", "Gone is not installed"),
    }
    assert said["operator.lacking"][1].startswith("this build has no such call: ")
    assert ended["operator.lacking"]["skip"] == "absent" and ended["with.Gone"]["skip"] == "untried"
    assert ended["with.Bad"]["remedy"] == "take another" and ended["operator.raises"]["remedy"] is None
    assert ended["operator.crashes"]["crash"]["signal"] == 11
    alone = talk(
        TORCH + "cuda.is_available = lambda: False\n", companions=companions, only=("with.Named", "with.Wrong")
    )
    told = {event["id"]: event["detail"] for event in alone if event["event"] == "end"}
    assert told["with.Named"] == "Named 1.2 is imported; its operations need a GPU"
    assert told["with.Wrong"] == "operation on cpu: cpu"
    assert begun(talk(companions=companions))[-5:] == [f"with.{row['name']}" for row in companions], (
        "of the smoke level"
    )


def test_the_numbers_that_came_nearest_to_the_limit_are_told(talk: Any) -> None:
    exact = TORCH + (
        "class T(list):\n"
        "    def __add__(self, n): return T(v + n for v in self)\n"
        "    def sum(self): return sum(self)\n"
        "    def reshape(self, a, b): return self\n"
        "    def __matmul__(self, other): return [3, 3, 12, 12 + 5e-10]\n"
        "def arange(n): return T(range(int(n)))\n"
        "def ones(*shape): return None\n"
    )
    ended = {event["id"]: event for event in talk(exact, only=("arithmetic", "version")) if event["event"] == "end"}
    assert ended["arithmetic"]["status"] == "passed" and ended["arithmetic"]["worst"] == pytest.approx(0.5, rel=1e-3)
    assert "worst" not in ended["version"]
