"""Tables that lie beside a module: one reader, typed, read once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rekindle.model.toml import read_beside
from rekindle.model.version import flavour_name


class Row(msgspec.Struct):
    size: int


def test_a_table_is_read_once_and_as_what_was_asked(tmp_path: Path) -> None:
    module = str(tmp_path / "module.py")
    (tmp_path / "sizes.toml").write_text('["ä"]\nsize = 3\n', encoding="utf-8")
    rows = read_beside(module, "sizes.toml", dict[str, Row])
    assert rows == {"ä": Row(size=3)} and read_beside(module, "sizes.toml", dict[str, dict[str, int]])["ä"]["size"] == 3
    (tmp_path / "sizes.toml").unlink()
    assert read_beside(module, "sizes.toml", dict[str, Row]) is rows
    with pytest.raises(FileNotFoundError):
        read_beside(module, "other.toml", dict[str, Row])


def test_a_table_of_another_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sizes.toml").write_text('a = "three"\n')
    with pytest.raises(msgspec.ValidationError, match="int"):
        read_beside(str(tmp_path / "module.py"), "sizes.toml", dict[str, int])


@pytest.mark.parametrize(
    ("cuda", "rocm", "name"),
    [
        ("12.8.93", None, "cu128"),
        ("9.2", None, "cu92"),
        ("13.0", "6.4", "cu130"),
        (None, "6.4", "rocm6.4"),
        (None, None, "cpu"),
    ],
)
def test_a_flavour_has_one_spelling(cuda: str | None, rocm: str | None, name: str) -> None:
    assert flavour_name(cuda, rocm) == name
