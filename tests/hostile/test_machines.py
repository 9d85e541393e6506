"""Machine files from strangers: odd versions are one line and exit 2, not a bug."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from canary import in_process

from rekindle import api
from rekindle.model.document import encode

MACHINE = json.loads(
    encode(
        api.machine_from_flags(
            gpu=["Tesla K40c"],
            os="linux",
            glibc="2.35",
            driver="470.256.02",
            cuda="11.4",
            compiler="gcc-12",
            python="3.10",
        )
    )
)
PLACES: list[tuple[Any, ...]] = [
    ("os", "glibc"), ("drivers", "nvidia"), ("toolkits", 0, "version"), ("compilers", 0, "version"),
    ("pythons", 0, "version"),
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("text", ["", "x", "-rf", "..", "9" * 5000, "v"], ids=lambda text: ascii(text)[:12])
def test_an_odd_version_is_no_bug(place: tuple[Any, ...], text: str, tmp_path: Path) -> None:
    machine = json.loads(json.dumps(MACHINE))
    inner = machine
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = text
    (tmp_path / "machine.json").write_text(json.dumps(machine), encoding="utf-8")
    code, said = in_process("plan", "--machine", str(tmp_path / "machine.json"), "-q")
    assert code in (0, 1, 2), said
    assert "bug in rekindle" not in said
