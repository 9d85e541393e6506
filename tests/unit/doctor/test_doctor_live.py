"""The doctor on whatever machine runs the tests: it ends, says something true, and keeps the contract."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from rekindle import api
from rekindle.cli import main as front
from rekindle.errors import Exit
from rekindle.model.document import load
from rekindle.model.machine import Machine


def test_json_keeps_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["doctor", "--json"]) in (Exit.YES, Exit.NO)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert {"os", "cpu", "memory_gib", "disk_free_gib", "gpus", "drivers", "toolkits", "compilers", "pythons"} <= set(
        document
    )
    assert set(document["ready"]) == {"build", "use"}
    for check in document["checks"]:
        assert check["status"] in ("ok", "warn", "fail", "skip")
        assert check["status"] != "fail" or check["fix"], check


def test_it_sees_this_machine(tmp_path: Path) -> None:
    saved = tmp_path / "machine.json"
    examination = api.doctor(save=saved)
    assert examination.os.arch == {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    assert examination.memory_gib and examination.memory_gib > 0.1
    assert examination.pythons
    again = load(saved, Machine)
    assert again.os == examination.os and again.pythons == examination.pythons
