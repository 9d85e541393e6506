"""Files that are only written where they changed, are noticed where they did, and are waited for on Windows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rekindle.errors import StageFailed
from rekindle.host.files import file_state, refuse_changed, rename_patiently, text_at, write_if_changed


def test_a_file_of_the_same_content_keeps_its_time(tmp_path: Path) -> None:
    file = tmp_path / "new" / "plan.txt"
    write_if_changed(file, "ä plan")
    os.utime(file, (1000, 1000))
    for same in ("ä plan", "ä plan".encode()):
        write_if_changed(file, same)
        assert file.stat().st_mtime == 1000
    write_if_changed(file, b"another")
    assert file.read_bytes() == b"another" and file.stat().st_mtime > 1000


def test_a_file_that_was_changed_meanwhile_is_not_the_one_that_was_judged(tmp_path: Path) -> None:
    file = tmp_path / "torch.whl"
    file.write_text("torch")
    before = file_state(file)
    refuse_changed(file, before)
    file.write_text("TORCH")
    with pytest.raises(StageFailed, match=r"torch\.whl was changed while it was verified") as refused:
        refuse_changed(file, before)
    assert refused.value.remedy == "run the same command again"
    with pytest.raises(StageFailed, match="while it was copied"):
        refuse_changed(file, before, "copied")
    file.unlink()
    assert file_state(file) == ()
    with pytest.raises(StageFailed):
        refuse_changed(file, before)


def test_a_file_of_the_same_size_and_time_in_its_place_is_another(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_text("1")
    other.write_text("2")
    os.utime(file, (1000, 1000))
    os.utime(other, (1000, 1000))
    before = file_state(file)
    other.replace(file)
    assert file_state(file) != before


@pytest.mark.parametrize(
    ("held", "pauses"), [(0, []), (1, [1.0]), (5, [1.0, 2.0, 4.0, 8.0, 16.0]), (6, [1.0, 2.0, 4.0, 8.0, 16.0])]
)
def test_what_a_scanner_holds_for_a_moment_is_waited_for_on_windows(
    held: int, pauses: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    left = held
    usual = Path.replace

    def replace(source: Path, target: Path) -> Path:
        nonlocal left
        if left:
            left -= 1
            raise PermissionError("somebody holds it")
        return usual(source, target)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("rekindle.host.files.time.sleep", waited.append)
    monkeypatch.setattr(Path, "replace", replace)
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    old.write_text("old")
    if held > 5:
        with pytest.raises(PermissionError):
            rename_patiently(new, old, 1.0)
        assert old.read_text() == "old"
    else:
        rename_patiently(new, old, 1.0)
        assert old.read_text() == "new" and not new.exists()
    assert waited == pauses


def test_elsewhere_a_refusal_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("rekindle.host.files.time.sleep", lambda _: pytest.fail("nobody waits here"))
    with pytest.raises(FileNotFoundError):
        rename_patiently(tmp_path / "none", tmp_path / "target")


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert text_at(tmp_path / "none") == text_at(tmp_path) == ""
    (tmp_path / "odd").write_bytes(b"a\xffb")
    assert text_at(tmp_path / "odd") == "a�b"
