"""What stands in the way comes first, what everybody has is no fault, and lines are named for where they are pasted."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import get_args

import pytest

import rekindle
from rekindle import api
from rekindle.model.plan import Answer
from rekindle.model.wheel import IsaUse, WheelCpu
from rekindle.render.plan import plan_view
from rekindle.render.screen import CALLED_AS, Screen
from rekindle.render.wheel import _cpu


def test_what_must_be_done_by_hand_stands_before_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CALLED_AS, "./rekindle")
    made = api.plan(api.machine_from_flags(gpu=["Tesla K40c"], os="windows"), wheelhouses=())
    stream = io.StringIO()
    plan_view(made, Screen(stream))
    text = stream.getvalue()
    assert text.index("First, by hand") < text.index("cuDNN 8.7.0 has to be put") < text.index("git clone")
    assert text.count("has to be put into the CUDA folder by hand") == 1
    # cmd knows no ./rekindle: it is how this machine calls it.
    assert "\n  rekindle source patch" in text and "./rekindle source patch" not in text


@pytest.mark.parametrize("isa", ["sse3", "avx2"])
def test_what_the_code_needs_is_no_verdict(isa: str) -> None:
    """Whether it is a fault depends on the machine, and stands there."""
    stream = io.StringIO()
    use = IsaUse(isa=isa, functions=282, examples=("CFLOAT_fill",))
    _cpu(WheelCpu(arch="x86_64", functions=5000, unconditional=(use,), runs_from="nocona"), Screen(stream))
    assert "- reached without asking" in stream.getvalue()
    assert not {"✓", "✗"} & set(stream.getvalue())


def test_the_finder_has_words_for_every_answer() -> None:
    script = (Path(rekindle.__file__).parent / "index/pages/templates/page.js").read_text(encoding="utf-8")
    told = re.search(r"const VERDICT = \{(.*?)\};", script, re.S)
    assert told is not None
    assert set(re.findall(r"(\w+): \[", told[1])) == set(get_args(Answer))
