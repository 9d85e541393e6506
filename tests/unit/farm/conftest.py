"""A farm whose sccache-dist is a stand-in, in a folder of its own, ended after each test."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.farm.scheduler import farm_down
from rekindle.model.farm import FarmFolder
from rekindle.toolkits import sccache
from stand_in_farm import write_stand_in


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmFolder]:
    if sys.platform != "linux":
        pytest.skip("a farm's scheduler and workers run on Linux")
    program = write_stand_in(tmp_path / "bin")
    monkeypatch.setattr(sccache, "_find_beside_python", lambda name: None)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    place = FarmFolder(tmp_path / "farm")
    monkeypatch.setenv("REKINDLE_FARM", str(place.root))
    yield place
    farm_down(farm=place.root)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
