"""``.gitmodules`` as git writes it."""

from __future__ import annotations

import configparser

import pytest

from rekindle.formats.gitmodules import read_gitmodules

TEXT = """[submodule "third_party/a"]
\tignore = dirty
\tpath = third_party/a
\turl = https://example.invalid/a.git
[submodule "b"]
    path = third_party/b
[submodule "nowhere"]
    url = https://example.invalid/c.git
"""


def test_paths_and_origins_are_read() -> None:
    assert read_gitmodules(TEXT) == {"third_party/a": "https://example.invalid/a.git", "third_party/b": None}
    assert read_gitmodules("") == {}


def test_what_is_no_such_file_is_an_error() -> None:
    with pytest.raises(configparser.Error):
        read_gitmodules("path = x\n")
