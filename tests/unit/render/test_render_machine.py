"""The doctor's view: the verdict first, aligned, short, and nobody's name in it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace

from rekindle import api
from rekindle.model.machine import Gap, ProbeEvidence, Python
from rekindle.render import machine as view
from rekindle.render.screen import Screen

MACHINES = Path(__file__).parents[2] / "machines"


def shown(name: str, *, verbosity: int = 0, **changes: object) -> list[str]:
    out = io.StringIO()
    document = replace(api.doctor(replay=MACHINES / name), **changes)
    view.show_examination(document, Screen(out, color="never", verbosity=verbosity))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("name", sorted(path.name for path in MACHINES.iterdir()))
def test_verdict_first_and_rows_aligned(name: str) -> None:
    lines = shown(name)
    assert lines[0].startswith(("✓ Ready", "! Ready", "✗ Not ready"))
    assert len(lines) < 70
    rows = lines[2 : lines.index("", 2)]
    starts = {len(row) - len(row[13:].lstrip()) for row in rows}
    assert starts == {13}, "values begin in one column"


def test_what_fails_comes_with_its_fix() -> None:
    text = "\n".join(shown("gtx970-nouveau-debian12"))
    assert "the card runs on nouveau" in text
    assert "→ sudo apt-get install -y nvidia-driver" in text


def test_nobody_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "USERPROFILE"):  # of both systems
        monkeypatch.setenv(name, "/data/kimberly")
    monkeypatch.setenv("USER", "kimberly")
    monkeypatch.setattr("platform.node", lambda: "kims-box")
    view._redactor.cache_clear()
    try:
        text = "\n".join(
            shown(
                "neoverse-debian12",
                verbosity=1,
                pythons=(Python(version="3.12.1", path="/data/kimberly/env/bin/python", kind="venv"),),
                gaps=(Gap(what="Python /home/anna/x", why="kims-box said no"),),
                evidence=(ProbeEvidence(probe="x", asked="uuid", said="GPU-73ab278d-1681-f7b4-3d79-f98f21f3d184"),),
            )
        )
    finally:
        view._redactor.cache_clear()
    assert "~/env/bin/python" in text
    for secret in ("kimberly", "anna", "kims-box", "73ab278d"):
        assert secret not in text


def test_gaps_are_shown() -> None:
    assert "Could not learn" in shown("neoverse-debian12", gaps=(Gap(what="memory", why="no answer in time"),))
