"""What a strange program sees when it is run apart: only what is shown, and none of the user's variables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import MissingTool
from rekindle.host import sandbox
from rekindle.host.sandbox import Sandbox, find_sandbox, links_of, parts_of


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small system with a link in the place of a folder, and a home elsewhere."""
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "home/me/kit").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(sandbox, "_SYSTEM", tuple(str(tmp_path / name) for name in ("usr", "lib", "none")))
    monkeypatch.setenv("HOME", str(tmp_path / "home/me"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    return tmp_path


def _pairs(words: list[str], option: str) -> list[str]:
    """What an option that takes two words was told last."""
    return [words[place + 2] for place, word in enumerate(words) if word == option]


def _wrap(machine: Path, box: Sandbox | None = None, **more: Any) -> tuple[list[str], dict[str, str]]:
    told: dict[str, Any] = {"work": machine / "work", "env": {}} | more
    return (box or Sandbox(program="bwrap", gpu=False)).wrap(["python", "-c", "1"], **told)


def test_the_command_comes_last_and_nothing_is_shared(machine: Path) -> None:
    words, env = _wrap(machine)
    assert words[:5] == ["bwrap", "--die-with-parent", "--unshare-all", "--cap-drop", "ALL"]
    assert words[-4:] == ["--", "python", "-c", "1"]
    work = str(machine / "work")
    assert words[-9:-4] == [work, "--remount-ro", "/", "--chdir", work]
    assert _pairs(words, "--bind") == ["/tmp", work]
    assert env == {"HOME": f"{work}/home", "TMPDIR": "/tmp", "USER": "rekindle", "LOGNAME": "rekindle"}
    assert sorted(path.name for path in Path(work).iterdir()) == ["home", "tmp"]
    assert _wrap(machine)[0] == words, "the folders may be there already"


def test_the_system_is_read_only_and_links_stay_links(machine: Path) -> None:
    words, _ = _wrap(machine)
    assert str(machine / "usr") in _pairs(words, "--ro-bind") and str(machine / "none") not in words
    assert _pairs(words, "--symlink") == [str(machine / "lib")]
    assert "usr/lib" in words


def test_only_variables_that_a_torch_may_know_come_in(machine: Path) -> None:
    told = {"LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "0", "TORCH_X": "1", "GITHUB_TOKEN": "t", "AWS_KEY": "k"}
    _, env = _wrap(machine, env=told)
    assert {name for name in env if name in told} == {"LC_ALL", "CUDA_VISIBLE_DEVICES", "TORCH_X"}


def test_a_home_within_the_system_is_hidden(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--tmpfs" not in _wrap(machine)[0]
    (machine / "usr/home/lib").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(machine / "usr/home"))
    words, _ = _wrap(machine, shown=[machine / "usr/home/lib", machine / "usr/lib"])
    assert words[words.index("--tmpfs") + 1] == str(machine / "usr/home")
    shown = _pairs(words, "--ro-bind")
    assert str(machine / "usr/home/lib") in shown, "it lies in what was hidden"
    assert str(machine / "usr/lib") not in shown, "the system is there already"


def test_what_is_shown_is_shown_once(machine: Path) -> None:
    for name in ("a/b", "c"):
        (machine / name).mkdir(parents=True)
    box = Sandbox(program="bwrap", gpu=False, shown=(machine / "a/b", machine / "c"))
    shown = _pairs(_wrap(machine, box, shown=[machine / "a", machine / "gone"])[0], "--ro-bind")
    assert sorted(shown[-2:]) == [str(machine / "a"), str(machine / "c")]


def test_folders_that_variables_name_are_shown_unless_they_hold_the_home(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine)
    (machine / "relative").mkdir()
    kit, home = machine / "home/me/kit", machine / "home"
    told = {"LD_LIBRARY_PATH": f"{kit}:relative::{home}:{machine / 'none'}", "CUDA_HOME": str(machine / "home/me")}
    shown = _pairs(_wrap(machine, env=told)[0], "--ro-bind")
    assert str(kit) in shown and not {str(home), str(machine / "home/me"), "relative", "."} & set(shown)


def test_gpus_are_reached_where_they_are_asked_for(machine: Path) -> None:
    without, _ = _wrap(machine)
    there, _ = _wrap(machine, Sandbox(program="bwrap"))
    assert "/sys" in _pairs(there, "--ro-bind") and "/sys" not in _pairs(without, "--ro-bind")
    assert "--dev-bind" not in without


def test_only_the_nodes_of_graphics_cards_are_shared(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {"nvidia*": ["/dev/nvidiactl", "/dev/nvidia0"], "dri": ["/dev/dri"]}
    usual = Path.glob

    def glob(folder: Path, pattern: str) -> Any:
        return iter(map(Path, nodes.get(pattern, ()))) if folder == Path("/dev") else usual(folder, pattern)

    monkeypatch.setattr(sandbox, "_SHOWN", {**sandbox._SHOWN, "gpu_nodes": tuple(nodes)})
    monkeypatch.setattr(Path, "glob", glob)
    with_gpu, without = (_wrap(machine, Sandbox(program="bwrap", gpu=gpu))[0] for gpu in (True, False))
    assert _pairs(with_gpu, "--dev-bind") == ["/dev/dri", "/dev/nvidia0", "/dev/nvidiactl"]
    assert _pairs(without, "--dev-bind") == []


def test_a_user_without_a_home_gets_a_sandbox_too(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("no home directory")

    monkeypatch.setattr(Path, "home", nobody)
    shown = _pairs(_wrap(machine, env={"LD_LIBRARY_PATH": str(machine / "home")})[0], "--ro-bind")
    assert str(machine / "home") in shown


def test_files_of_its_own_are_bounded(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    words, _ = _wrap(machine)
    most = 8 * 1024**3
    assert words[:4] == ["/usr/bin/prlimit", f"--fsize={most}:{most}", "--", "bwrap"]


def _find(
    machine: Path, monkeypatch: pytest.MonkeyPatch, wish: Any, *, gpu: bool = False, ended: object = None
) -> tuple[Sandbox | None, str]:
    def run(argv: list[str], **_: object) -> Any:
        if isinstance(ended, BaseException):
            raise ended
        return ended

    monkeypatch.setattr(subprocess, "run", run)
    return find_sandbox(wish, shown=[machine / "usr"], gpu=gpu, probe=["true"], work=machine / "work")


GOOD = subprocess.CompletedProcess([], 0, b"", b"")


def test_a_sandbox_must_start_to_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    box, said = _find(machine, monkeypatch, "auto", ended=GOOD)
    assert box == Sandbox(program="/usr/bin/bwrap", shown=(machine / "usr",), gpu=False)
    assert said == "bubblewrap: no network, no home, no GPU"
    assert _find(machine, monkeypatch, "yes", gpu=True, ended=GOOD)[1] == "bubblewrap: no network, no home"


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (subprocess.CompletedProcess([], 1, b"", b"first\nno permission\n"), "cannot work here: no permission"),
        (subprocess.CompletedProcess([], 7, b"", b""), "cannot work here: exit code 7"),
        (OSError(2, "gone"), "does not start"),
        (subprocess.TimeoutExpired("bwrap", 60), "does not start"),
    ],
)
def test_one_that_does_not_start_is_told(
    machine: Path, monkeypatch: pytest.MonkeyPatch, ended: object, why: str
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    box, said = _find(machine, monkeypatch, "auto", ended=ended)
    assert box is None and said.startswith("none: bubblewrap") and why in said
    with pytest.raises(MissingTool, match=why):
        _find(machine, monkeypatch, "yes", ended=ended)


def test_without_bubblewrap_there_is_none(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _find(machine, monkeypatch, "no", ended=GOOD) == (None, "none: switched off")
    assert "apt install bubblewrap" in _find(machine, monkeypatch, "auto", ended=GOOD)[1]
    monkeypatch.setattr(sys, "platform", "win32")
    assert _find(machine, monkeypatch, "auto", ended=GOOD) == (None, "none: only Linux has one")


def test_the_parts_of_a_python_and_the_links_before_it(tmp_path: Path) -> None:
    for name in ("py/bin", "py/lib", "py/share"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("py")
    assert parts_of(tmp_path / "py") == [tmp_path / "py/bin", tmp_path / "py/lib"]
    assert parts_of(tmp_path / "link")[2:] == [tmp_path / "py/bin", tmp_path / "py/lib"]
    (tmp_path / "second").symlink_to("link")
    assert links_of(tmp_path / "second") == [tmp_path / "link", tmp_path / "py"] and links_of(tmp_path / "py") == []
    (tmp_path / "round").symlink_to("round")
    assert len(links_of(tmp_path / "round")) == 40
