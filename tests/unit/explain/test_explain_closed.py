"""Closed lists: every error a component can say, with the answer that must stand first (``tests/closed/*.txt``).

A line ``== ID FRAME`` names the answer and what stands around the words; each line after it is one error (``\\n`` parts
its lines). The lists are from headers, sources and documentation; a rule written later may not steal from them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rekindle.explain.engine import diagnose

_LISTS = sorted((Path(__file__).parents[2] / "closed").glob("*.txt"))
_TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/app/train.py", line {}, in <module>\n    {}\n'
_FRAMES = {
    "bare": "",
    "torch": _TRACEBACK.format(41, 'model = model.to("cuda")'),
    "imp": _TRACEBACK.format(3, "import torch"),
    "pip": "$ pip install torch\n",
    "dmesg": "[   12.345678] ",
}


@pytest.mark.parametrize("path", _LISTS, ids=lambda path: path.stem)
def test_every_entry_of_a_closed_list_keeps_its_answer(path: Path) -> None:
    wrong, expected, frame = [], "", ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            _, expected, frame = line.split()
            continue
        error = re.sub(r"\\(.)", lambda part: "\n" if part[1] == "n" else part[1], line)
        found = diagnose([f"{_FRAMES[frame]}{error}\n".encode()]).matches
        if not found or found[0].id != expected:
            wrong.append((line, expected, found[0].id if found else None))
    assert not wrong
