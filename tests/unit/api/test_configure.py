"""Variables that a machine's torch needs are set before torch is imported, and one's own stay."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rekindle
from rekindle.api import variables
from rekindle.errors import BadInput

NEEDED = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.delenv("HSA_OVERRIDE_GFX_VERSION", raising=False)
    monkeypatch.delenv("UV_CONSTRAINT", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(variables, "_planned", lambda: dict(NEEDED))


def test_what_the_plan_asks_for_is_set_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert rekindle.configure() == NEEDED and os.environ["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"
    assert rekindle.configure() == {}, "a second call finds it done"


def test_a_value_of_ones_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "9.0.0")
    assert rekindle.configure() == {} and os.environ["HSA_OVERRIDE_GFX_VERSION"] == "9.0.0"


def test_after_torch_was_imported_it_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(BadInput, match="imported already") as caught:
        rekindle.configure()
    assert "before the first import" in (caught.value.remedy or "")
    monkeypatch.setattr(variables, "_planned", dict)
    assert rekindle.configure() == {}, "nothing to set is never too late"


def test_an_adopted_environment_knows_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    file = tmp_path / "rekindle" / "adopted.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"env": {"HIP_VISIBLE_DEVICES": "0", "UV_CONSTRAINT": "x"}}), encoding="utf-8")
    monkeypatch.delitem(os.environ, "HIP_VISIBLE_DEVICES", raising=False)
    assert rekindle.configure() == {"HIP_VISIBLE_DEVICES": "0"}
    file.write_text("[]", encoding="utf-8")
    assert rekindle.configure() == NEEDED


def test_a_machine_that_cannot_be_planned_for_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> dict[str, str]:
        raise BadInput("no such machine")

    monkeypatch.setattr(variables, "_planned", refuse)
    with pytest.warns(UserWarning, match="no such machine") as told:
        assert rekindle.configure() == {}
    assert told[0].filename == __file__, "it points at who called"
    with pytest.warns(UserWarning, match="no such machine"):
        assert variables.configure() == {}
    assert rekindle.configure(quiet=True) == {}
