"""What keeps a torch: every file is written so that its own program obeys it, and nothing else is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rekindle
from app_trees import add_python, make_app
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost
from rekindle.host.made import MARK
from rekindle.interpreters.app_folder import find_app
from rekindle.journey.keeping import (
    MODULE,
    Keeping,
    app_files,
    environment_files,
    set_variables,
    start_files,
    with_constraint,
)

ADDRESS = "file:///a%20b/constraints.txt"
WORDS = ("torch==2.9.1", "torchvision==0.24.1", "--index-url", "https://x.invalid/whl/cu126")


def keeping(root: Path, **more: object) -> Keeping:
    pins = {"torch": "2.9.1+cu126", "torchvision": "0.24.1+cu126"}
    return Keeping(root=root, site=root / "site", pins=pins, undo="rekindle adopt X --undo", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"[global]\nconstraint = {ADDRESS}\n"),
        ("[install]\nuser = no\n", f"[install]\nuser = no\n[global]\nconstraint = {ADDRESS}\n"),
        (
            "# mine\n[global]\nindex-url = x\n[install]\nconstraint = other\n",
            f"# mine\n[global]\nconstraint = {ADDRESS}\nindex-url = x\n[install]\nconstraint = other\n",
        ),
        ("[global]\nconstraint = mine.txt\n", f"[global]\nconstraint = mine.txt {ADDRESS}\n"),
        (f"[global]\nconstraint = {ADDRESS}\n", f"[global]\nconstraint = {ADDRESS}\n"),
    ],
)
def test_pips_settings_get_one_more_constraint(before: str, after: str) -> None:
    assert with_constraint(before, ADDRESS) == after


def test_inside_the_environment(tmp_path: Path) -> None:
    root = tmp_path / "my venv"
    files = environment_files(keeping(root, env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, windows=False))
    assert "torch==2.9.1+cu126\n" in files[root / "rekindle/constraints.txt"]
    assert "/my%20venv/rekindle/constraints.txt" in files[root / "pip.conf"]
    told = json.loads(files[root / "rekindle/adopted.json"])
    assert told["env"]["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0" and told["env"]["UV_CONSTRAINT"].startswith("file:///")
    assert "rekindle adopt X --undo" in told["why"] and "torch 2.9.1+cu126" in told["why"]
    assert root / "pip.ini" in environment_files(keeping(root, windows=True))


def start(prefix: Path, code: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A Python whose site has our start file; ``sys.prefix`` is the environment."""
    head = f"import sys; sys.prefix = {str(prefix)!r}; sys.orig_argv = {['python', *words]!r}; import {MODULE}; "
    whole = {**os.environ, "PYTHONPATH": str(prefix / "site"), **env}
    return subprocess.run([sys.executable, "-c", head + code], env=whole, capture_output=True, text=True)


def write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_variables_are_set_at_the_start_and_ones_own_stay(tmp_path: Path) -> None:
    write(start_files(keeping(tmp_path, env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "MINE": "ours"})))
    code = "import os; print(os.environ['HSA_OVERRIDE_GFX_VERSION'], os.environ['MINE'])"
    assert start(tmp_path, code, MINE="mine").stdout == "10.3.0 mine\n"


def test_after_a_pip_that_failed_it_is_said_why_and_what_to_do(tmp_path: Path) -> None:
    write(start_files(keeping(tmp_path)))
    failed = start(tmp_path, "sys.exit(1)", "-m", "pip", "install", "node")
    assert failed.returncode == 1 and "keeps torch 2.9.1+cu126" in failed.stderr and "--undo" in failed.stderr
    assert start(tmp_path, "sys.exit(0)", "-m", "pip", "install", "node").stderr == ""
    assert start(tmp_path, "sys.exit(1)", "main.py").stderr == "", "another program's end is its own"
    assert start(tmp_path, "sys.exit(1)", "-m", "pip", "list").stderr == ""


def test_cudnn_is_off_as_soon_as_torch_is_loaded(tmp_path: Path) -> None:
    write(start_files(keeping(tmp_path, env={"REKINDLE_CUDNN": "off"})))
    torch = tmp_path / "site/torch/backends/cudnn.py"
    torch.parent.mkdir(parents=True)
    torch.write_text("enabled = True\n", encoding="utf-8")
    (torch.parent / "__init__.py").write_text("from torch.backends import cudnn\n", encoding="utf-8")
    (torch.parent.parent / "__init__.py").write_text("from torch import backends\n", encoding="utf-8")
    assert start(tmp_path, "import torch; print(torch.backends.cudnn.enabled)").stdout == "False\n"


def test_a_start_file_that_lost_its_notes_disturbs_nothing(tmp_path: Path) -> None:
    write(start_files(keeping(tmp_path)))
    (tmp_path / "rekindle/adopted.json").write_text("{", encoding="utf-8")
    done = start(tmp_path, "print('ok')", "-m", "pip", "install")
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_uv_and_the_manager_are_told_where_they_look(tmp_path: Path) -> None:
    make_app(tmp_path, "comfyui")
    manager = tmp_path / "user/__manager"
    manager.mkdir(parents=True)
    (manager / "pip_blacklist.list").write_text("mine\ntorch\n", encoding="utf-8")
    files = app_files(find_app(tmp_path, load_facts()), keeping(tmp_path / "venv"), WORDS, "linux")
    assert files == {
        tmp_path / "uv.toml": "# kept by rekindle adopt\n"
        'constraint-dependencies = ["torch==2.9.1+cu126", "torchvision==0.24.1+cu126"]\n',
        manager / "pip_blacklist.list": "mine\ntorch\ntorchvision\n",
    }


@pytest.mark.parametrize("own", ["pyproject.toml", "uv.toml"])
def test_settings_of_uv_that_somebody_made_are_left_alone(tmp_path: Path, own: str) -> None:
    make_app(tmp_path, "comfyui")
    (tmp_path / own).write_text("[tool.uv]\nprerelease = 'allow'\n", encoding="utf-8")
    assert app_files(find_app(tmp_path, load_facts()), keeping(tmp_path / "venv"), WORDS, "linux") == {}


@pytest.mark.parametrize(("system", "file"), [("linux", "webui-user.sh"), ("windows", "webui-user.bat")])
def test_the_launchers_own_command_brings_the_same_torch(tmp_path: Path, system: str, file: str) -> None:
    make_app(tmp_path, "automatic1111")
    add_python(tmp_path / "venv")
    more = keeping(tmp_path / "venv", env={"HIP_VISIBLE_DEVICES": "0"})
    files = app_files(find_app(tmp_path, load_facts()), more, WORDS, system)
    text = files[tmp_path / file]
    assert isinstance(text, bytes)
    assert b"pip install torch==2.9.1 torchvision==0.24.1 --index-url https://x.invalid/whl/cu126" in text
    if system == "windows":
        before, _, after = text.partition(b"call webui.bat")
        assert b'set "TORCH_COMMAND=pip install' in before and b'set "HIP_VISIBLE_DEVICES=0"\r\n' in before
        assert after == b"\r\n"
    else:
        done = subprocess.run(
            ["bash", "-c", text.decode() + 'printf "%s|%s" "$TORCH_COMMAND" "$HIP_VISIBLE_DEVICES"'],
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"pip install {' '.join(WORDS)}|0"


def test_variables_are_set_in_an_environment_of_our_own_alone(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    before = sorted(folder.rglob("*"))
    set_variables(LiveHost(), python, folder, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    set_variables(LiveHost(), python, None, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    assert sorted(folder.rglob("*")) == before, "it is somebody's own"
    (folder / MARK).touch()
    set_variables(LiveHost(), python, folder, {})
    assert not (folder / "rekindle").exists()
    set_variables(LiveHost(), python, folder, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    code = "import os; print(os.environ['HSA_OVERRIDE_GFX_VERSION'])"
    assert subprocess.run([python, "-c", code], capture_output=True, text=True).stdout == "10.3.0\n"


def test_adopt_up_and_configure_set_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "REKINDLE_CUDNN": "off", "MIOPEN_FIND_MODE": "FAST"}
    by_adopt = environment_files(keeping(tmp_path / "a", env=env))[tmp_path / "a/rekindle/adopted.json"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / MARK).touch()
    monkeypatch.setattr("rekindle.journey.keeping.package_places", lambda *_: [tmp_path / "b/site"])
    set_variables(LiveHost(), "python", tmp_path / "b", env)
    by_up = (tmp_path / "b/rekindle/adopted.json").read_text(encoding="utf-8")
    left = [json.loads(text)["env"] for text in (by_adopt, by_up)]
    assert [{name: value for name, value in each.items() if name != "UV_CONSTRAINT"} for each in left] == [env, env]
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "b"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path)})
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert rekindle.configure() == env
    assert type(sys.meta_path[0]).__name__ == "Finder", "cuDNN is switched off when torch comes"
