"""The doctor's first screen: the verdict first, what is missing with its fix, the torch and its command at the end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rekindle import api
from rekindle.render.machine import show_glance
from rekindle.render.screen import Screen

MACHINES = Path(__file__).parents[2] / "machines"


def glance(name: str, width: int = 100) -> list[str]:
    examined = api.doctor(replay=MACHINES / name)
    out = io.StringIO()
    show_glance(examined, api.plan(examined.machine), Screen(out, width=width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("name", "card", "torch"),
    [("k40c-windows10", "Tesla K40c", "Build torch"), ("rtx5070-windows11", "RTX 5070", "Install the official torch"),
     ("rx7900xtx-fedora41", "7900 XTX", "Install the official torch")],
)  # fmt: skip
def test_it_ends_in_the_torch_and_the_command(name: str, card: str, torch: str) -> None:
    lines = glance(name)
    assert lines[0].startswith(("✓ Ready", "! Ready", "✗ Not ready"))
    assert any(card in line and line.strip().startswith("gpu") for line in lines)
    at = lines.index("The torch for it")
    assert torch in lines[at + 1] and "  rekindle up" in lines[at:]
    assert len(lines) < 50  # one screen


def test_what_is_missing_stands_there_with_its_fix() -> None:
    lines = glance("k40c-windows10")
    at = next(number for number, line in enumerate(lines) if "long-paths" in line)
    assert any("→" in line for line in lines[at : at + 3])


def test_paths_are_for_the_details() -> None:
    assert not [line for line in glance("k40c-windows10") if "python.exe" in line]
