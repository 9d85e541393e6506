"""Kept folders: what is noted, what is put back and what stays, besides the whole way there and back."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from rekindle.errors import NotReady
from rekindle.host.files import rename_patiently
from rekindle.interpreters import kept_places
from rekindle.interpreters.kept_places import ChangeRecord, KeptPlaces


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "file").write_text("old", encoding="utf-8")
    return place


def replace_file(path: Path, text: str) -> None:
    """As installers write: a new file in the old one's place."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


def test_what_fails_is_put_back_and_what_ends_well_stays(place: Path) -> None:
    kept = KeptPlaces([place])
    with pytest.raises(KeyboardInterrupt), kept.changing():
        replace_file(place / "deep/file", "half")
        raise KeyboardInterrupt
    assert (place / "deep/file").read_text() == "old" and os.listdir(place.parent) == ["place"]
    with kept.changing():
        replace_file(place / "deep/file", "new")
    assert (place / "deep/file").read_text() == "new" and kept.record == ChangeRecord(phase="changing")
    assert kept.recover() is True, "nobody said that it was whole"
    assert (place / "deep/file").read_text() == "old" and kept.recover() is False


def test_what_a_kill_left_is_put_back_before_the_next_change(place: Path) -> None:
    KeptPlaces([place]).keep()
    replace_file(place / "deep/file", "half")
    again = KeptPlaces([place])
    again.keep()
    assert (place / "deep/file").read_text() == "old"
    again.restore()
    assert (place / "deep/file").read_text() == "old" and os.listdir(place.parent) == ["place"]


def test_a_copy_that_was_not_finished_counts_for_nothing(place: Path) -> None:
    kept = KeptPlaces([place])
    (kept.folder / "part" / "0").mkdir(parents=True)
    assert kept.record is None
    kept.restore()
    assert (place / "deep/file").exists()
    kept.keep()
    assert not (kept.folder / "part").exists() and kept.record is not None


def test_two_changes_of_one_place_are_told_apart(place: Path) -> None:
    first, second = KeptPlaces([place]), KeptPlaces([place], "-again")
    first.keep()
    replace_file(place / "deep/file", "first")
    second.keep()
    replace_file(place / "deep/file", "second")
    second.restore()
    assert (place / "deep/file").read_text() == "first"
    first.restore()
    assert (place / "deep/file").read_text() == "old"


def test_a_file_may_be_a_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    kept = KeptPlaces([tmp_path / "a", tmp_path / "b"])
    kept.keep()
    (tmp_path / "a").unlink()
    replace_file(tmp_path / "b", "3")
    kept.restore()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "1", "b": "2"}


def test_a_place_that_went_is_put_back_and_a_disk_of_its_own_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptPlaces([place])
    kept.keep()
    kept_places.remove(place)
    kept.restore()
    assert (place / "deep/file").read_text() == "old"
    real = Path.stat

    def stat(self: Path, **more: bool) -> object:
        return SimpleNamespace(st_dev=-1) if self == place else real(self, **more)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(NotReady, match="is a disk of its own") as refused:
        kept.keep()
    assert str(place.parent) in (refused.value.remedy or "") and not kept.folder.exists()


def test_a_place_that_cannot_be_renamed_is_emptied_for_the_old_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a container's image is on another layer than what is written now."""
    kept = KeptPlaces([place])
    kept.keep()
    replace_file(place / "deep/file", "new")
    real, number = rename_patiently, errno.EACCES

    def rename(source: Path, goal: Path) -> None:
        if source == place:
            raise OSError(number, os.strerror(number))
        real(source, goal)

    monkeypatch.setattr(kept_places, "rename_patiently", rename)
    with pytest.raises(OSError, match="denied"):
        kept.restore()
    assert (place / "deep/file").read_text() == "new" and kept.record is not None, "nothing is lost"
    number = errno.EXDEV
    kept.restore()
    assert (place / "deep/file").read_text() == "old" and os.listdir(place.parent) == ["place"]


def test_only_what_lies_outside_is_noted_and_the_first_bytes_count(place: Path, tmp_path: Path) -> None:
    kept, out = KeptPlaces([place]), tmp_path / "new/deep/out"
    kept.keep()
    kept.change_files({out: "1", place / "deep/more": "x"})
    kept.change_files({out: "2"}, [(str(tmp_path / "new"), str(tmp_path / "moved"))])
    record = kept.record
    assert record is not None and record.files == {str(out): None}
    assert set(record.made) == {str(out.parent), str(out.parent.parent)}
    assert record.moved == ((str(tmp_path / "new"), str(tmp_path / "moved")),)
    assert (tmp_path / "moved/deep/out").read_text() == "2"
    kept.note_files([], record.moved)
    assert kept.record == record, "what is noted already is not noted twice"


def test_files_are_put_back_and_what_somebody_else_made_stays(place: Path, tmp_path: Path) -> None:
    kept, same, other = KeptPlaces([place]), tmp_path / "same", tmp_path / "other"
    for file in (same, other):
        file.write_bytes(b"\xff old")
    kept.keep()
    kept.change_files({same: b"new", other: b"new", tmp_path / "made/file": "new", tmp_path / "made too/file": "new"})
    same.write_bytes(b"\xff old")
    os.utime(same, (1, 1))
    other.unlink()
    (tmp_path / "made too/mine").touch()
    kept.put_files_back()
    assert same.stat().st_mtime == 1, "what is as it was is not written"
    assert other.read_bytes() == b"\xff old" and not (tmp_path / "made").exists()
    assert os.listdir(tmp_path / "made too") == ["mine"]
    kept.put_files_back()
    assert (place / "deep/file").read_text() == "old"


def test_a_folder_is_moved_back_only_where_its_place_is_free(place: Path, tmp_path: Path) -> None:
    kept = KeptPlaces([place])
    kept.keep()
    moves = [(str(tmp_path / name), str(tmp_path / f"{name}.off")) for name in ("a", "b", "c")]
    for source, _ in moves:
        Path(source).mkdir()
    kept.change_files({}, moves)
    (tmp_path / "b").mkdir()
    (tmp_path / "c.off").rmdir()
    kept.restore()
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "b.off", "place"]


def test_a_later_change_is_undone_with_the_first(place: Path, tmp_path: Path) -> None:
    first, later = KeptPlaces([place]), KeptPlaces([place], "-again")
    both, second = tmp_path / "both", tmp_path / "second"
    for name in ("m", "n"):
        (tmp_path / name).mkdir()
    both.write_text("0")
    first.keep()
    first.change_files({both: "1", tmp_path / "x/1": ""}, [(str(tmp_path / "m"), str(tmp_path / "m.off"))])
    first.settle({"torch": "1"}, KeptPlaces([place], "-none"))
    later.keep()
    later.change_files({both: "2", second: "2", tmp_path / "y/1": ""}, [(str(tmp_path / "n"), str(tmp_path / "n.off"))])
    first.settle({"torch": "2"}, later)
    record = first.record
    assert record is not None and (record.phase, record.notes) == ("changed", {"torch": "2"})
    assert first.recover() is False and later.record is None and not later.folder.exists()
    first.restore()
    assert sorted(os.listdir(tmp_path)) == ["both", "m", "n", "place"] and both.read_text() == "0"


def test_what_cannot_be_removed_yet_hinders_no_new_change(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows keeps a library that is in use."""
    kept = KeptPlaces([place])
    (kept.folder / "changed").mkdir(parents=True)
    with monkeypatch.context() as busy:
        busy.setattr("shutil.rmtree", lambda *_words, **_more: None)
        kept.keep()
    replace_file(place / "deep/file", "new")
    kept.restore()
    assert (place / "deep/file").read_text() == "old" and os.listdir(place.parent) == ["place"]
