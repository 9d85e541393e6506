"""The question scripts: standard Python, sent as text to any interpreter, each answered by one line of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_SCRIPTS = Path(__file__).parent / "questions"


def question_text(name: str) -> str:
    """The script ``questions/NAME.py``. Text, not a path: the target may not see our files (containers, WSL)."""
    return (_SCRIPTS / f"{name}.py").read_text(encoding="utf-8")


def read_answer(out: str) -> dict[str, Any] | None:
    """The last line that is a JSON object: what a Python prints before it is its own business."""
    for line in reversed(out.splitlines()):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict):
            return answer
    return None
