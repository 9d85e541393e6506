"""The first bytes of a file, however large it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rekindle.host.files import read_head


def test_so_many_bytes_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(b"12345")
    assert [read_head(path, limit) for limit in (0, 4, 5, 6)] == [b"", b"1234", b"12345", b"12345"]
    with pytest.raises(FileNotFoundError):
        read_head(tmp_path / "none", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a file without end")
def test_a_file_without_end_is_not_read_to_its_end() -> None:
    assert read_head(Path("/dev/zero"), 9) == bytes(9)
    assert len(read_head(Path("/dev/zero"))) == 1024 * 1024
