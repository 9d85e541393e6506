"""Batch files of hostile plans run by a real cmd (wine's): each field with each payload, and no canary sings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from canary import LONG
from test_exports import CHOSEN, DOCUMENTS, FIELDS, PAYLOADS, put, scripts, unchecked

import needs
from rekindle.scripts.formats import encode

pytestmark = [pytest.mark.integration, needs.tool("wine"), pytest.mark.skipif(sys.platform == "win32", reason="wine")]
PREFIX = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci" / "wine"
COMMAND = "type nul >sang"
TOOL = '@echo off\r\nif "%1"=="--version" echo Python 3.10.14\r\nexit /b 0\r\n'


def run_all(payload: str, folder: Path, fields: Any) -> int:
    """Every field's script, one after another in one cmd; how many ran. The canary would lie in its folder."""
    (folder / "tools").mkdir(parents=True)
    for name in ("git", "python", "nvcc", "powershell", "vswhere", "cmake"):
        (folder / "tools" / f"{name}.bat").write_bytes(TOOL.encode())
    text, made = payload.replace("{}", COMMAND).replace("{{", "{").replace("}}", "}"), {}
    driver = ["@echo off"]
    for number, (kind, place) in enumerate(fields):
        for form, script in scripts(unchecked(put(DOCUMENTS[kind], place, text))):
            if form != "bat":
                continue
            inner = folder / str(number)
            inner.mkdir()
            (inner / "build.bat").write_bytes(encode(script, "bat"))
            driver += [f"cd {number}", "call build.bat", "type nul >ended", "cd .."]
            made[number] = place
    (folder / "all.bat").write_bytes("\r\n".join([*driver, ""]).encode())
    tools = "Z:" + str(folder / "tools").replace("/", "\\")
    env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    env |= {"WINEPREFIX": str(PREFIX), "WINEDEBUG": "-all", "WINEPATH": tools, "PYTHON": "python", "LC_ALL": "C.UTF-8"}
    PREFIX.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["wine", "cmd", "/c", "all.bat"],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=500,
    )
    sang = sorted({int(path.relative_to(folder).parts[0]) for path in folder.rglob("sang")})
    assert not sang, [made.get(number) for number in sang]
    ended = [number for number in made if (folder / str(number) / "ended").exists()]
    assert len(ended) == len(made), "a script ended the whole cmd"
    return len(made)


def test_the_canary_can_sing(tmp_path: Path) -> None:
    """Otherwise the silence below says nothing."""
    (tmp_path / "x.bat").write_bytes(f'@echo off\r\nset "A="&{COMMAND}&rem ""\r\n'.encode())
    env = {**os.environ, "WINEPREFIX": str(PREFIX), "WINEDEBUG": "-all"}
    PREFIX.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["wine", "cmd", "/c", "x.bat"], cwd=tmp_path, env=env, capture_output=True, timeout=120)
    assert (tmp_path / "sang").exists()


def test_cmd_runs_nothing_of_a_plan(tmp_path: Path) -> None:
    assert run_all('"&{}&rem "', tmp_path, CHOSEN) >= 7


@LONG
@pytest.mark.parametrize("payload", PAYLOADS, ids=ascii)
def test_cmd_runs_nothing_of_a_plan_in_any_field(payload: str, tmp_path: Path) -> None:
    assert run_all(payload, tmp_path, FIELDS) >= 1
