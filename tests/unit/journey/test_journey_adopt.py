"""``adopt`` after a kill between the two renames of an undo: no environment is there, and the kept one comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.facts import load_facts
from rekindle.interpreters.kept_places import ChangeRecord, KeptPlaces
from rekindle.journey.adopt_place import finish_restoring


@pytest.mark.parametrize("place", ["venv", "."])
def test_an_environment_that_is_missing_comes_back(tmp_path: Path, place: str) -> None:
    app = tmp_path / "ComfyUI"
    root = app / place if place != "." else app
    root.mkdir(parents=True)
    (root / "torch.py").write_text("old")
    kept = KeptPlaces([root])
    kept.keep()
    assert not finish_restoring(app, load_facts()), "nothing is missing"
    kept.write(ChangeRecord(phase="restoring"))
    root.rename(kept.folder / "changed")
    assert finish_restoring(app, load_facts())
    assert (root / "torch.py").read_text() == "old" and not kept.folder.exists()
    assert not finish_restoring(app, load_facts())
