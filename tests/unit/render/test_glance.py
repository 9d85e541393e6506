"""The doctor's first screen: the verdict first, what is missing with its fix, the torch and its command at the end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rekindle import api
from rekindle.model.machine import Check, Examination, InstalledTorch, Os, Ready
from rekindle.model.plan import Plan, Reason
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


WARNED = tuple(Reason(code=f"w{n}", text=f"Beware {n}.", handled=n == 0) for n in range(4))
CHECKS = (
    Check(id="driver", status="fail", needed_for=("use",), found="470", want="550", fix="update it"),
    Check(id="nvcc", status="warn", needed_for=("use", "build"), want="13", why="It is not here."),
    Check(id="cc", status="fail", needed_for=("build",), fix="install it"),
    Check(id="git", status="ok", needed_for=("build",), found="2.4", want="2", fix="nothing"),
)


@pytest.mark.parametrize(
    ("plan", "last"),
    [
        (
            Plan(answer="install", torch="2.6.0", python="3.12", warnings=WARNED),
            "  Install the official torch 2.6.0 for Python 3.12.\n  ! Beware 1.\n  ! Beware 2.\n  rekindle up\n"
            "  (one of that release is here: /e)\n",
        ),
        (
            Plan(answer="none", because=tuple(Reason(code="c", text=f"No {n}.") for n in range(3))),
            "  ✗ No 0.\n  ✗ No 1.\n  rekindle plan -v\n",
        ),
    ],
)
def test_a_glance_is_read_as_it_was_written(plan: Plan, last: str) -> None:
    torches = (InstalledTorch(version="2.5", python="/q"), InstalledTorch(version="2.6.0+cpu", python="/e"))
    examined = Examination(os=Os(system="linux"), checks=CHECKS, torches=torches, ready=Ready(use=False, build=False))
    out = io.StringIO()
    show_glance(examined, plan, Screen(out, color="never", width=90))
    assert out.getvalue() == (
        "✗ Not ready: neither to use torch nor to build it.\n\n"
        "  system     linux\n  processor  unknown\n  memory     unknown\n  gpu        none found\n"
        "  pythons    none found\n  torch      2.5, 2.6.0+cpu\n\n"
        "Missing, or to know\n"
        "  ✗ driver 470, want 550 (to use)\n           → update it\n"
        "  ! nvcc   It is not here. (to use and build)\n"
        "  ✗ cc     missing (to build)\n           → install it\n\n"
        f"The torch for it\n{last}\n"
        "  --details shows every path, check and gap; --json is for scripts\n"
    )
