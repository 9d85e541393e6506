"""Sessions on real (pseudo) terminals of three widths: the same words everywhere, nothing wider than the screen."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from terminal import ESCAPES, rekindle, screen, session, shown

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


# What was recorded once and looked at; the planner's part moves with the facts, so it is left out.
RECORDS = Path(__file__).parents[1] / "sessions"
RECORDED = {"doctor": "The torch for it", "wrong": None}
# A build as it was seen in the middle: two giants, one waiting for memory, a cache, more jobs than fit.
PANEL = """
import sys, time
from rekindle.model.progress import BuildView, JobView
from rekindle.render import progress
progress.PANEL_EVERY_SECONDS = -1.0
names = ("RegisterSparseCsrCUDA.cpp", "flash_bwd_hdim256_bf16_sm80.cu", "Functions.cpp", "LinearAlgebra.cpp")
jobs = tuple(
    JobView(name=f"{name}.o", seconds=400.0 / (n + 1), bytes=(3 - n) * 10**9, paused=n == 2, expected=500.0 / (n + 1))
    for n, name in enumerate(names)
)
show = progress.LineProgress(sys.stderr)
show.stage("build", "torch 2.14.1, four jobs at most, within 12 GiB of memory, with a compiler cache")
for done in (812, 813):
    show.panel(BuildView(done=done, total=6021, per_minute=18.2, left=9000.0, used=5 << 30, free=9 << 30, running=4,
        allowed=4, paused=1, jobs=jobs, hits=412, misses=100))
"""


def recorded(name: str, width: int, lines: list[str]) -> None:
    """As it was when somebody looked at it. After a change: REKINDLE_RECORD=1, and look again."""
    path = RECORDS / f"{name}-{width}.txt"
    text = "\n".join(lines).strip("\n") + "\n"
    if os.environ.get("REKINDLE_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} looks different"


def words(text: str) -> list[str]:
    return " ".join(line for line in shown(text) if "%" not in line).split()


@pytest.mark.parametrize("name", SESSIONS)
def test_three_widths_say_the_same_and_none_overflows(name: str) -> None:
    said = {width: rekindle(*SESSIONS[name], columns=width) for width in WIDTHS}
    assert len({code for code, _ in said.values()}) == 1
    assert words(said[60][1]) == words(said[100][1]) == words(said[200][1])
    for width, (_, text) in said.items():
        if name in RECORDED:
            lines = shown(text)
            end = RECORDED[name]
            recorded(name, width, lines[: lines.index(end)] if end else lines)
        for line in text.replace("\r\n", "\n").split("\n"):
            # A command to paste is never broken; it is coloured as such (or hangs on its arrow).
            if "\x1b[36m" in line or "→" in line:
                continue
            plain = ESCAPES.sub("", line.split("\r")[-1]).rstrip()
            assert len(plain) <= width or " " not in plain.strip(), (width, plain)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_running_build_looks_as_recorded(width: int) -> None:
    code, text = session([sys.executable, "-c", PANEL], columns=width, rows=12)
    assert code == 0
    lines = screen(text)
    assert max(map(len, lines)) < width and "813/6021" in "".join(lines) and "812/6021" not in "".join(lines)
    recorded("build", width, lines)


def test_up_asks_after_its_card_and_a_no_leaves_nothing_behind(tmp_path: Path) -> None:
    argv = ("up", "--build", "--torch", "2.6.0", "--variant", "cpu", "--offline", "--workspace")
    code, text = rekindle(
        *argv, str(tmp_path / "w"), columns=80, answers=[("[y/N]", "n")], XDG_DATA_HOME=str(tmp_path / "data")
    )
    plain = "\n".join(shown(text))
    if "[y/N]" not in plain:
        assert code == 1 and "→" in plain  # this machine cannot build it, and says what is missing
        return
    assert code == 1 and "nothing was done" in plain.lower()
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
