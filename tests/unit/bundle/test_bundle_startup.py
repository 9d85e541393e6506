"""The lines put into ``__init__.py``: in front of everything but what must come first, and they do what they say."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from rekindle.bundle.dlls import MARK, with_search

WAY = ("..", "pkg.libs")


@pytest.mark.parametrize(
    ("source", "before"),
    [
        (b"", b""),
        (b"import os\n", b""),
        (b'"""Doc."""\nimport os\n', b'"""Doc."""\n'),
        (b'"""Doc."""', b'"""Doc."""\n'),
        (b'"""Two\nlines."""\nfrom __future__ import annotations\n\nx = 1\n',
         b'"""Two\nlines."""\nfrom __future__ import annotations\n'),
        (b"#!/usr/bin/env python\n# -*- coding: latin-1 -*-\n# \xe4\nimport os\n",
         b"#!/usr/bin/env python\n# -*- coding: latin-1 -*-\n# \xe4\n"),
        (b"\xef\xbb\xbf# BOM\nimport os\n", b"\xef\xbb\xbf# BOM\n"),
        (b"'doc'\r\nx = 1\r\n", b"'doc'\r\n"),
    ],
)  # fmt: skip
def test_it_stands_in_front_of_the_first_statement(source: bytes, before: bytes) -> None:
    made = with_search(source, WAY, "order")
    assert made is not None and made.startswith(before + MARK.encode())
    assert made.endswith(source[len(before) :])
    compile(made, "__init__.py", "exec")
    assert (b"\r\n" in made) == (b"\r\n" in source)
    assert made.count(b"\r\n") in (0, made.count(b"\n"))


@pytest.mark.parametrize(
    "source",
    [
        b"'doc'; import os\n",
        b"#" * ((4 << 20) + 1),
        b"def (\n",
        b"x = '\0'\n",
        b"x = " + b"(" * 5000,
        b"\xff\xfe",
        MARK.encode() + b"\n",
    ],
)
def test_where_there_is_no_place_nothing_is_written(source: bytes) -> None:
    assert with_search(source, WAY, "order") is None


class _Loader:
    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, path: str) -> None:
        self.loaded.append(Path(path).name)


@pytest.mark.parametrize(
    ("version", "conda", "told", "loaded"),
    [
        ((3, 7), False, False, ["base.dll", "top.dll", "late.dll"]),
        ((3, 8), False, True, ["late.dll"]),
        ((3, 9), True, False, ["base.dll", "top.dll", "late.dll"]),
        ((3, 10), True, True, ["late.dll"]),
    ],
)
def test_windows_is_told_where_to_look_or_the_dlls_are_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int],
    conda: bool,
    told: bool,
    loaded: list[str],
) -> None:
    (tmp_path / "pkg.libs").mkdir()
    (tmp_path / "pkg.libs" / "order").write_text("base.dll\t\ntop.dll\t\nlate.dll\tnow\n")
    if conda:
        (tmp_path / "conda-meta").mkdir()
    folders: list[str] = []
    loader = _Loader()
    monkeypatch.setattr("os.add_dll_directory", folders.append, raising=False)
    monkeypatch.setitem(sys.modules, "ctypes", types.SimpleNamespace(WinDLL=loader))
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    made = with_search(b"x = 1\n", WAY, "order")
    space: dict[str, object] = {"__file__": str(tmp_path / "pkg" / "__init__.py")}
    exec(compile(made or b"", "__init__.py", "exec"), space)
    assert folders == ([str(tmp_path / "pkg.libs")] if told else [])
    assert loader.loaded == loaded
    assert space["x"] == 1 and not [name for name in space if "rekindle" in name], "it leaves no names behind"


def test_a_package_without_its_libraries_still_starts(tmp_path: Path) -> None:
    """Frozen into one file, or copied without the folder: what is missing is the loader's to say."""
    made = with_search(b"x = 1\n", WAY, "order")
    space: dict[str, object] = {"__file__": str(tmp_path / "pkg" / "__init__.py")}
    exec(compile(made or b"", "__init__.py", "exec"), space)
    assert space["x"] == 1


def test_a_file_of_the_largest_size_is_still_read() -> None:
    """One byte more is refused, above."""
    largest = b"#" * (4 << 20)
    made = with_search(largest, WAY, "order")
    assert made is not None and made.startswith(largest + b"\n" + MARK.encode())
