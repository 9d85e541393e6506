"""Builds that are really broken, thirty ways: the tools' own words, and what is answered to them.

Set ``REKINDLE_EVIDENCE`` to a file to keep what was said and answered.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle import api
from rekindle.model.diagnosis import Match
from samples import LOGS

pytestmark = [pytest.mark.integration, needs.tool("g++", "cmake", "ninja", "make", "git", "bash", "pkill")]
BROKEN = tomllib.loads((LOGS / "broken.toml").read_text(encoding="utf-8"))["broken"]
_LEFT_OUT = (
    "PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "http_proxy", "https_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy",
)  # fmt: skip


def run(folder: Path, command: str) -> str:
    env = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    env |= {"LC_ALL": "C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull}
    ended = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=120, errors="replace"
    )
    return ended.stdout + ended.stderr


def keep(name: str, command: str, said: str, first: Match) -> None:
    if evidence := os.environ.get("REKINDLE_EVIDENCE"):
        quoted = "\n".join(f"    {line}" for line in said.splitlines()[:12])
        steps = "\n".join(f"- {step}" for step in first.fix)
        answer = f"**{first.id}** ({first.confidence}): {first.title}. {first.cause}"
        with Path(evidence).open("a", encoding="utf-8") as file:
            file.write(f"\n## {name.capitalize()}\n\n`{command}`\n\n{quoted}\n\n{answer}\n\n{steps}\n")


@pytest.mark.parametrize("row", BROKEN, ids=lambda row: row["name"])
def test_a_broken_build_is_explained(row: dict[str, Any], tmp_path: Path) -> None:
    if row["command"].startswith("nvcc"):
        mark = needs.tool("nvcc")
        if mark.args[0]:
            pytest.skip(str(mark.kwargs["reason"]))
    for name, text in row.get("files", {}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = run(tmp_path, row["command"].replace("{python}", sys.executable))
    matches = api.explain(said).matches
    assert matches, said
    keep(row["name"], row["command"].replace("{python}", "python"), said.replace(str(tmp_path), "/w"), matches[0])
    assert matches[0].id == row["cause"] and row.get("says", "") in matches[0].cause, (matches[0], said)
