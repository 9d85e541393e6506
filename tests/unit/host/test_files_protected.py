"""What the user protected stays; what somebody holds for a moment is waited for (tests/windows tries that for real)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.host.files import whole_file, write_for_user


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("mine")
    file.chmod(0o444)
    with pytest.raises(BadInput, match="read-only"):
        write_for_user(file, "theirs")
    assert file.read_text() == "mine" and list(tmp_path.iterdir()) == [file]


def test_a_file_that_may_be_written_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("old")
    file.chmod(0o200)
    write_for_user(file, "new")
    assert file.read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has one bit for all")
@pytest.mark.parametrize("mode", [0o200, 0o020, 0o002])
def test_whoever_may_write_it_it_is_not_protected(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "x"
    file.write_text("old")
    file.chmod(mode)
    write_for_user(file, "new")
    assert file.read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has one bit for all")
def test_a_program_that_nobody_may_write_is_protected(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("old")
    file.chmod(0o555)
    with pytest.raises(BadInput, match="read-only"):
        write_for_user(file, "new")


def test_a_whole_file_appears_at_once_and_nothing_of_half_a_one_stays(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "x.whl"
    for content in ("first", "second"):
        with whole_file(file) as part:
            part.write_text(content)
            assert part.parent == file.parent and (content == "second") is file.exists()
        assert file.read_text() == content and list(file.parent.iterdir()) == [file]
    file.with_name(".x.whl.part").write_text("of a run that was killed")
    with pytest.raises(OSError, match="full"), whole_file(file) as part:
        assert not part.exists()
        part.write_text("half")
        raise OSError("disk full")
    assert file.read_text() == "second" and list(file.parent.iterdir()) == [file]
