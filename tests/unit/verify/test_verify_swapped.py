"""A wheel that changes between the first look and the verdict: the file that is there now was not the one tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import Exit, StageFailed, Unprepared
from rekindle.host.files import sha256_of
from rekindle.host.live import LiveHost
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport
from rekindle.verify import prove
from rekindle.verify.target import Trial
from tiny_wheels import make_wheel


def try_it(wheel: Path) -> VerifyReport:
    return prove.prove_wheel(LiveHost(), wheel, Trial(dependencies=False), progress=Silent())


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "torch", "2.6.0")


@pytest.mark.parametrize("swapped", [True, False])
def test_the_installers_complaint_about_half_a_file_is_not_the_answer(
    swapped: bool, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(*_: Any, **__: Any) -> Path:
        if swapped:
            wheel.write_bytes(b"other")
        raise Unprepared(["uv"], 1, ["Failed to read from zip file"])

    monkeypatch.setattr(prove, "prepare_environment", install)
    with pytest.raises(StageFailed if swapped else Unprepared) as caught:
        try_it(wheel)
    assert ("was changed while it was verified" in caught.value.message) == swapped
    assert caught.value.exit_code == (Exit.NO if swapped else Exit.USAGE)


def test_a_file_that_is_gone_or_another_ends_the_report(wheel: Path) -> None:
    sha256 = sha256_of(wheel)
    assert prove.about_wheel(VerifyReport(), wheel, sha256).wheel_sha256 == sha256
    wheel.write_bytes(wheel.read_bytes() + b"x")
    for _ in range(2):
        with pytest.raises(StageFailed, match="was changed while it was verified"):
            prove.about_wheel(VerifyReport(), wheel, sha256)
        wheel.unlink(missing_ok=True)
