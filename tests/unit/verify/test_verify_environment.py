"""The throw-away environment: which Python, does the wheel fit, what is refused of a stranger's, how pip is told."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool, Unprepared
from rekindle.host.protocol import Host
from rekindle.interpreters.environment import python_of
from rekindle.interpreters.installer import REFUSED, InstallerRun
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Silent
from rekindle.verify import environment, prove
from rekindle.verify.environment import Isolation, check_fits, judge_wheel, prepare_environment, refuse_addresses
from rekindle.verify.target import Subject, read_subject
from tiny_wheels import make_wheel

HERE = Interpreter(path="/usr/bin/python3.11", version="3.11.7", machine="x86_64", system="linux")


def subject(folder: Path, tag: str = "cp311-cp311-linux_x86_64", **more: Any) -> Subject:
    return read_subject(make_wheel(folder, "torch", "2.6.0", tag=tag, **more))


class Notes(Silent):
    """Remembers what was noted."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def note(self, text: str) -> None:
        self.noted.append(text)


@pytest.mark.parametrize(
    "tag", ["cp311-cp311-linux_x86_64", "cp310-abi3-manylinux_2_28_x86_64", "cp311-abi3-linux_x86_64", "py3-none-any"]
)
def test_a_wheel_for_this_python_fits(tag: str, tmp_path: Path) -> None:
    check_fits(subject(tmp_path, tag), HERE)


@pytest.mark.parametrize(
    ("tag", "why", "remedy"),
    [
        ("cp311-cp311-win_amd64", "is for windows, this machine runs linux", "verify it there"),
        ("cp311-cp311-linux_aarch64", "is for aarch64, this Python runs on x86_64", "verify it on such a machine"),
        ("cp310-cp310-linux_x86_64", r"is for Python 3\.10, /usr/bin/python3\.11 is 3\.11", "--python EXE"),
        ("cp312-abi3-linux_x86_64", r"is for Python 3\.12", "--python EXE"),
    ],
)
def test_a_wheel_for_others_is_refused_in_one_line(tag: str, why: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=why) as refused:
        check_fits(subject(tmp_path, tag), HERE)
    assert remedy in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("named", "inside", "fault"),
    [
        ("2.6.1", "2.6.0", "version 2.6.0 by its METADATA"),
        ("2.6.0+cu118", "2.6.0", "version 2.6.0 by"),
        ("2.6.0", "two", "version two by"),
        ("2.6", "2.6.0", None),
        ("2.6.0+cu118", "2.6.0+CU118", None),
    ],
)
def test_a_file_named_after_another_version_is_refused(
    named: str, inside: str, fault: str | None, tmp_path: Path
) -> None:
    """uv refuses it and pip does not: the answer must not hang on which of them is here."""
    path = make_wheel(tmp_path, "torch", inside, file=f"torch-{named}-py3-none-any.whl")
    if fault is None:
        assert read_subject(path).version == named
        return
    with pytest.raises(BadInput, match=fault):
        read_subject(path)


def test_an_x86_wheel_elsewhere_can_be_emulated(tmp_path: Path) -> None:
    arm = Interpreter(path="/p", version="3.11.7", machine="aarch64", system="linux")
    with pytest.raises(BadInput) as refused:
        check_fits(subject(tmp_path), arm)
    assert "--cpu" in (refused.value.remedy or "")


def test_only_what_was_not_built_here_is_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = subject(tmp_path)
    for made in (False, True):
        monkeypatch.setattr(environment, "was_made_here", lambda sha256, made=made: made)
        judged = {wish: judge_wheel(wheel, "0", wish, None) for wish in ("auto", "yes", "no")}
        assert {wish: one.strange for wish, one in judged.items()} == {"auto": not made, "yes": not made, "no": False}
        wanted = {"auto": not made, "yes": True, "no": False}
        assert {wish: one.wheels_only for wish, one in judged.items()} == wanted
    assert judged["auto"].gpu and not judge_wheel(wheel, "0", "auto", False).gpu


def test_a_stranger_may_not_name_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = subject(tmp_path, metadata="Requires-Dist: evil @ https://evil.example/x.tar.gz\n")
    monkeypatch.setattr(environment, "was_made_here", lambda sha256: False)
    with pytest.raises(BadInput, match="a place of its own choosing"):
        judge_wheel(wheel, "0", "auto", None)
    assert not judge_wheel(wheel, "0", "no", None).strange
    monkeypatch.setattr(environment, "was_made_here", lambda sha256: True)
    assert not judge_wheel(wheel, "0", "auto", None).strange
    with pytest.raises(BadInput, match="a place of its own choosing"):
        judge_wheel(wheel, "0", "yes", None)


def test_a_stranger_without_a_sandbox_is_never_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_sandbox", lambda wish, **_: (None, "none: no bubblewrap"))
    notes = Notes()
    box, said = Isolation(wish="auto", strange=True, gpu=True).sandbox([], [], tmp_path / "a", notes)
    assert box is None and said == {"sandbox": "none: no bubblewrap", "installed": environment.WHEELS_ONLY}
    assert "no sandbox (no bubblewrap)" in notes.noted[0] and len(notes.noted) == 2
    own = Notes()
    assert Isolation(wish="auto", strange=False, gpu=True).sandbox([], [], tmp_path / "b", own) == (None, {})
    assert not (tmp_path / "b").exists()
    _, said = Isolation(wish="yes", strange=False, gpu=True).sandbox([], [], tmp_path / "c", own)
    assert said["installed"] == environment.WHEELS_ONLY and own.noted == []


def note_address(folder: Path, name: str, text: str) -> None:
    place = folder / "lib" / f"{name}-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "direct_url.json").write_text(text, "utf-8")


def test_what_came_from_addresses_is_refused_but_the_wheel_itself(tmp_path: Path) -> None:
    wheel = subject(tmp_path / "a b")
    note_address(tmp_path / "own", "torch", json.dumps({"url": wheel.path.as_uri()}))
    refuse_addresses(tmp_path / "own", wheel)
    refuse_addresses(tmp_path / "none", wheel)
    others = {
        "elsewhere": json.dumps({"url": "https://evil.example/x.whl"}),
        "another": json.dumps({"url": wheel.path.as_uri()}),
        "torch": json.dumps({"url": (tmp_path / "other.whl").as_uri()}),
        "unread": "{",
        "list": "[]",
        "http": json.dumps({"url": f"https://evil.example{wheel.path}"}),
    }
    for name, text in others.items():
        note_address(tmp_path / f"with {name}", name, text)
        with pytest.raises(BadInput, match=f"leads to {name} from"):
            refuse_addresses(tmp_path / f"with {name}", wheel)
    for size, read in ((1 << 20, True), ((1 << 20) + 1, False)):
        text = json.dumps({"url": wheel.path.as_uri()})
        note_address(tmp_path / str(size), "torch", " " * (size - len(text)) + text)
        with contextlib.nullcontext() if read else pytest.raises(BadInput, match="an address nobody can read"):
            refuse_addresses(tmp_path / str(size), wheel)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Path]]:
    """What an installer was told, and where; every call ends well. No environment is made."""
    found: list[tuple[list[str], Path]] = []

    def run(argv: Sequence[str], *, cwd: Path, seconds: float) -> InstallerRun:
        assert seconds == 3600, "an hour: where the index is slow it takes long, and it must end"
        found.append((list(argv), cwd))
        return InstallerRun(argv=tuple(argv), code=0, lines=())

    def make(python: str, folder: Path, run: object, *, with_pip: bool) -> InstallerRun:
        found.append(([python, f"with_pip={with_pip}"], folder))
        return InstallerRun(argv=(python,), code=0, lines=())

    monkeypatch.setattr(environment, "run_installer", run)
    monkeypatch.setattr(environment, "make_environment", make)
    return found


class UvHost(BareHost):
    """Has uv."""

    def which(self, name: str) -> str | None:
        return "/usr/bin/uv" if name == "uv" else None


def test_the_wheel_goes_in_by_its_place_with_what_it_needs(calls: list[tuple[list[str], Path]], tmp_path: Path) -> None:
    wheel = subject(tmp_path / "wheels")
    python = prepare_environment(UvHost(), tmp_path / "env", HERE, wheel, extra=["numpy<2"], progress=Silent())
    assert python == python_of(tmp_path / "env")
    (made, _), (words, where) = calls
    assert made == [HERE.path, "with_pip=False"] and where == tmp_path / "wheels"
    assert words[-2:] == [f"./{wheel.path.name}", "numpy<2"] and "--no-deps" not in words
    prepare_environment(
        UvHost(), tmp_path / "env", HERE, wheel, extra=["numpy<2"], dependencies=False, progress=Silent()
    )
    assert "--no-deps" in calls[-1][0] and "numpy<2" not in calls[-1][0]


def test_without_uv_the_address_of_the_file_is_named(calls: list[tuple[list[str], Path]], tmp_path: Path) -> None:
    wheel = subject(tmp_path / "wheels")
    prepare_environment(BareHost(), tmp_path / "env", HERE, wheel, progress=Silent())
    assert wheel.path.as_uri() in calls[-1][0]
    old = Interpreter(path="/p", version="3.6.9", machine="x86_64", system="linux")
    any_python = subject(tmp_path / "any", "py3-none-any")
    prepare_environment(BareHost(), tmp_path / "env", old, any_python, progress=Silent())
    assert calls[-2][0] == ["/p", "with_pip=True"], "our pip does not run there"


def test_a_strangers_environment_is_searched_for_addresses(calls: list[tuple[list[str], Path]], tmp_path: Path) -> None:
    wheel = subject(tmp_path / "wheels")
    note_address(tmp_path / "env", "evil", json.dumps({"url": "https://evil.example/x.whl"}))
    prepare_environment(UvHost(), tmp_path / "env", HERE, wheel, progress=Silent())
    with pytest.raises(BadInput, match="leads to evil"):
        prepare_environment(UvHost(), tmp_path / "env", HERE, wheel, wheels_only=True, progress=Silent())


def test_the_embeddable_python_is_copied_and_filled(
    calls: list[tuple[list[str], Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = subject(tmp_path / "wheels", files={"torch/__init__.py": b""})
    copied = (tmp_path / "env" / "python.exe", tmp_path / "env" / "Lib" / "site-packages")
    copied[1].mkdir(parents=True)
    monkeypatch.setattr(environment, "is_embedded", lambda interpreter: True)
    monkeypatch.setattr(environment, "copy_embedded", lambda interpreter, folder: copied)
    alone = prepare_environment(BareHost(), tmp_path / "env", HERE, wheel, dependencies=False, progress=Silent())
    assert alone == copied[0] and (copied[1] / "torch" / "__init__.py").is_file() and calls == []
    prepare_environment(UvHost(), tmp_path / "env", HERE, wheel, extra=["numpy"], progress=Silent())
    assert calls[-1][0][-2:] == [str(wheel.path), "numpy"] and str(copied[1]) in calls[-1][0]
    monkeypatch.setattr(environment, "our_pip_serves", lambda release: True)
    monkeypatch.setattr(environment, "our_pip_fills", lambda interpreter: True)
    prepare_environment(BareHost(), tmp_path / "env", HERE, wheel, progress=Silent())
    assert calls[-1][0][0] == sys.executable and "install" in calls[-1][0] and calls[-1][0][-1] == str(wheel.path)
    monkeypatch.setattr(environment, "our_pip_fills", lambda interpreter: False)
    with pytest.raises(MissingTool, match="no pip or uv"):
        prepare_environment(BareHost(), tmp_path / "env", HERE, wheel, progress=Silent())
    monkeypatch.setattr(environment, "our_pip_fills", lambda interpreter: True)
    monkeypatch.setattr(environment, "our_pip_serves", lambda release: False)
    with pytest.raises(MissingTool, match="no pip or uv"):
        prepare_environment(BareHost(), tmp_path / "env", HERE, wheel, progress=Silent())


@pytest.mark.parametrize(
    ("lines", "remedy"),
    [
        (("ERROR: No matching distribution found for sympy",), "--find-links"),
        (("error: No solution found",), "--find-links"),
        (("something else",), "by hand"),
    ],
)
def test_a_failed_install_says_what_may_help(
    lines: tuple[str, ...], remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = InstallerRun(argv=("pip",), code=1, lines=lines)
    monkeypatch.setattr(environment, "run_installer", lambda argv, **_: failed)
    there = OtherMachine(system="linux", arch="x86_64", python="3.11", glibc="2.36")
    with pytest.raises(Unprepared) as refused:
        environment.install_for_emulation(["sympy"], tmp_path, there, ())
    assert remedy in (refused.value.remedy or "")
    environment.install_for_emulation([], tmp_path, there, ())


def test_what_would_have_to_be_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = InstallerRun(argv=("pip",), code=1, lines=(f"RuntimeError: {REFUSED}",))
    monkeypatch.setattr(environment, "run_installer", lambda argv, **_: failed)
    there = OtherMachine(system="linux", arch="x86_64", python="3.11", glibc="2.36")
    with pytest.raises(BadInput, match="the wheel leads to a package that would have to be built"):
        environment.install_for_emulation(["sympy"], tmp_path, there, ())


def test_folders_of_wheels_are_named_whole_and_addresses_as_they_are(
    calls: list[tuple[list[str], Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wheels").mkdir()
    there = OtherMachine(system="linux", arch="x86_64", python="3.11", glibc="2.36")
    environment.install_for_emulation(["sympy"], tmp_path, there, ["wheels", "https://x.example/"])
    (words, _) = calls[0]
    links = [words[number + 1] for number, word in enumerate(words) if word == "--find-links"]
    assert links == [str(tmp_path / "wheels"), "https://x.example/"] and words[-1] == "sympy"


def test_the_newest_python_of_the_wheel_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = subject(tmp_path, "cp310.cp311-abi3-linux_x86_64")

    def search(host: Host, version: str, *, ours_first: bool) -> Iterator[Interpreter]:
        assert ours_first
        if version in here:
            yield Interpreter(path=f"/opt/{version}", version=f"{version}.1")

    monkeypatch.setattr(prove, "search_version", search)
    here = {"3.10", "3.11"}
    assert prove.python_for(BareHost(), wheel, None).path == "/opt/3.11"
    here = {"3.10"}
    assert prove.python_for(BareHost(), wheel, None).path == "/opt/3.10"
    here = set()
    with pytest.raises(BadInput, match=r"for Python 3\.11 or 3\.10, and there is none") as refused:
        prove.python_for(BareHost(), wheel, None)
    assert "uv python install 3.11" in (refused.value.remedy or "")
    monkeypatch.setattr(prove, "find_interpreter", lambda host, given: Interpreter(path=given, version="3.9.1"))
    assert prove.python_for(BareHost(), wheel, "/mine").path == "/mine"
    monkeypatch.setattr(prove, "ask_interpreter", lambda host, path: Interpreter(path=path, version="3.9.1"))
    assert prove.python_for(BareHost(), subject(tmp_path, "py3-none-any"), None).path == sys.executable


def test_only_linux_on_two_processors_is_emulated(tmp_path: Path) -> None:
    assert prove.machine_for(subject(tmp_path)).machine == "x86_64"
    assert prove.machine_for(subject(tmp_path, "cp311-cp311-manylinux_2_28_aarch64")).machine == "aarch64"
    for tag in ("cp311-cp311-win_amd64", "cp311-cp311-linux_riscv64"):
        with pytest.raises(BadInput, match="holds no code for Linux on x86-64 or AArch64"):
            prove.machine_for(subject(tmp_path, tag))


def test_what_only_serves_gpus_is_not_brought_to_an_emulated_cpu(tmp_path: Path) -> None:
    names = ("sympy", "nvidia-cublas-cu12", "triton", 'pywin32; sys_platform == "win32"', "jinja2; extra == 'docs'")
    lines = [*names, "filelock>=3 ; python_version >= '3.8'"]
    wheel = subject(tmp_path, metadata="".join(f"Requires-Dist: {name}\n" for name in lines))
    there = OtherMachine(system="linux", arch="x86_64", python="3.11", glibc="2.36")
    assert prove.wanted_dependencies(wheel, there) == ["sympy", "filelock>=3"]
