"""A wheel that changes between the first look and the verdict: the file that is there now was not the one tried."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import Exit, StageFailed, Unprepared
from rekindle.host.files import file_state, sha256_of
from rekindle.host.live import LiveHost
from rekindle.model.build import BundleReport
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
    sha256, state = sha256_of(wheel), file_state(wheel)
    assert prove.about_wheel(VerifyReport(), wheel, sha256, state).wheel_sha256 == sha256
    wheel.write_bytes(wheel.read_bytes() + b"x")
    for _ in range(2):
        with pytest.raises(StageFailed, match="was changed while it was verified"):
            prove.about_wheel(VerifyReport(), wheel, sha256, state)
        wheel.unlink(missing_ok=True)


@pytest.mark.skipif(sys.platform == "win32", reason="a file's time of change is kept by POSIX systems")
def test_one_that_was_put_back_in_time_is_noticed_before_anything_of_it_runs(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel that was judged is moved away while another is installed under its name, and then moved back."""

    def install(*_: Any, **__: Any) -> Path:
        aside = wheel.rename(tmp_path / "aside")
        wheel.write_bytes(b"a stranger's")
        wheel.unlink()
        aside.rename(wheel)
        return Path(sys.executable)

    monkeypatch.setattr(prove, "prepare_environment", install)
    monkeypatch.setattr(prove, "run_checks", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(StageFailed, match="was changed while it was verified"):
        try_it(wheel)


def test_a_wheel_that_is_swapped_while_it_is_bundled_leaves_nothing(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a fat wheel made of a stranger's would be taken for one that was built here."""
    bundling: Any = importlib.import_module("rekindle.api.bundle_wheel")
    made = tmp_path / "fat.whl"
    marked: list[str] = []

    def make_fat(*_: Any) -> BundleReport:
        made.write_bytes(b"made of the stranger's")
        wheel.write_bytes(b"a wheel of ours again")
        return BundleReport(wheel=str(wheel), system="linux", bytes_before=1, out=str(made), sha256="00")

    monkeypatch.setattr(bundling, "make_fat", make_fat)
    monkeypatch.setattr(bundling, "was_made_here", lambda _: True)
    monkeypatch.setattr(bundling, "mark_made", marked.append)
    with pytest.raises(StageFailed, match="was changed while it was bundled"):
        bundling.bundle(wheel)
    assert not made.exists() and not marked
