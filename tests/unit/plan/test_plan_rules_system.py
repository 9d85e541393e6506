"""R3xx to R5xx asked directly: Python, glibc, memory and disk."""

from __future__ import annotations

import pytest
from planning import ask, build, said


@pytest.mark.parametrize(("disk", "refused"), [(29.9, True), (30.0, False), (None, False)])
def test_disk_for_a_build(disk: float | None, refused: bool) -> None:
    assert bool(said("R502", build("2.6.0", cuda="12.4"), ask("sm_86", disk=disk))) is refused
