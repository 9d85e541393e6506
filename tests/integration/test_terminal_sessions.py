"""Sessions on real (pseudo) terminals of three widths: the same words everywhere, nothing wider than the screen."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from terminal import ESCAPES, rekindle, session, shown

pytestmark = [pytest.mark.integration, pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")]
ROOT = Path(__file__).parents[2]
K40C = str(ROOT / "tests/machines/k40c-windows10")
WIDTHS = (60, 100, 200)
SESSIONS = {
    "doctor": ("doctor", "--replay", K40C),
    "plan": ("plan", "--gpu", "GTX 1080", "--driver", "580.95", "--os", "linux"),
    "build-plan": ("plan", "--gpu", "Tesla K40c", "--os", "linux"),
    "wrong": ("plan", "--gpus", "x"),
}


def words(text: str) -> list[str]:
    return " ".join(line for line in shown(text) if "%" not in line).split()


@pytest.mark.parametrize("name", SESSIONS)
def test_three_widths_say_the_same_and_none_overflows(name: str) -> None:
    said = {width: rekindle(*SESSIONS[name], columns=width) for width in WIDTHS}
    assert len({code for code, _ in said.values()}) == 1
    assert words(said[60][1]) == words(said[100][1]) == words(said[200][1])
    for width, (_, text) in said.items():
        for line in text.replace("\r\n", "\n").split("\n"):
            # A command to paste is never broken; it is coloured as such (or hangs on its arrow).
            if "\x1b[36m" in line or "→" in line:
                continue
            plain = ESCAPES.sub("", line.split("\r")[-1]).rstrip()
            assert len(plain) <= width or " " not in plain.strip(), (width, plain)


def test_up_asks_after_its_card_and_a_no_leaves_nothing_behind(tmp_path: Path) -> None:
    argv = ("up", "--build", "--torch", "2.6.0", "--variant", "cpu", "--offline", "--workspace")
    code, text = rekindle(
        *argv, str(tmp_path / "w"), columns=80, answers=[("[y/N]", "n")], XDG_DATA_HOME=str(tmp_path / "data")
    )
    plain = "\n".join(shown(text))
    if "[y/N]" not in plain:
        assert code == 1 and "→" in plain  # this machine cannot build it, and says what is missing
        return
    assert code == 2 and "nothing was done" in plain
    assert re.search(r"what +torch 2\.6\.0", plain) and "into" in plain
    assert not (tmp_path / "w/envs").exists()


def test_ctrl_c_ends_with_a_word_and_no_traceback(tmp_path: Path) -> None:
    code, text = rekindle(
        "demo", "--workspace", str(tmp_path / "w"), columns=80, interrupt_at="probe", XDG_DATA_HOME=str(tmp_path)
    )
    assert code == 3 and "interrupted" in text and "Traceback" not in text


def test_ctrl_c_in_the_first_set_up_leaves_no_traceback(tmp_path: Path) -> None:
    """A clone that was never started: the set-up is cut short, and the next start begins it again."""
    for name in ("rekindle", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "tools").mkdir()
    for name in ("launch.sh", "bootstrap.py"):
        (tmp_path / "tools" / name).write_bytes((ROOT / "tools" / name).read_bytes())
    (tmp_path / "src/rekindle").mkdir(parents=True)
    (tmp_path / "src/rekindle/__init__.py").write_text('__version__ = "0"\n')
    (tmp_path / "README.md").write_text("")
    code, text = session(["sh", str(tmp_path / "rekindle"), "version"], columns=80, interrupt_at="setting up")
    assert code != 0 and "Traceback" not in text, text
    assert "again" in text, text
    assert not (tmp_path / ".venv/ready.use").exists()
