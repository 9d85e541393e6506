"""Small choices around Pythons: whose pip fills a folder, which index is asked, what goes when a folder is removed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.host.protocol import Completed
from rekindle.interpreters.environment import our_pip_fills
from rekindle.interpreters.installer import read_pip_settings
from rekindle.interpreters.kept_places import remove
from rekindle.model.interpreter import Interpreter


@pytest.mark.parametrize(
    ("system", "version", "fills"),
    [
        (sys.platform, "{0}.{1}.9", True),
        ("other", "{0}.{1}.9", False),
        (sys.platform, "{0}.99.1", False),
        (sys.platform, "2.{1}.9", False),
    ],
)
def test_our_pip_fills_folders_of_its_own_kind_alone(system: str, version: str, fills: bool) -> None:
    python = Interpreter(version=version.format(*sys.version_info), system=system)
    assert our_pip_fills(python) is fills


class Pip(BareHost):
    def __init__(self, listed: str, default: Completed) -> None:
        super().__init__()
        self.listed, self.default = listed, default

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        return Completed(argv=tuple(argv), code=0, out=self.listed) if "config" in argv else self.default


def default(out: str, code: int = 0) -> Completed:
    return Completed(argv=(), code=code, out=out)


@pytest.mark.parametrize(
    ("listed", "said", "index", "told"),
    [
        ("", default("https://d.invalid/simple\n"), "https://d.invalid/simple", False),
        ("", default("\n"), None, False),
        ("", default("https://d.invalid", 1), None, False),
        ("global.index-url='https://m.invalid'\n", default("https://d.invalid"), "https://m.invalid", True),
        ("global.index-url='https://g'\n:env:.index-url='https://e'\n", default(""), "https://e", True),
        ("global.index-url='https://g'\nglobal.no-index='true'\n", default(""), None, False),
    ],
)
def test_the_index_that_pip_asks(listed: str, said: Completed, index: str | None, told: bool) -> None:
    found = read_pip_settings(Pip(listed, said))
    assert (found.index, found.index_was_told) == (index, told)


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file").write_text("x")
    (tmp_path / "link").symlink_to(folder)
    remove(tmp_path / "link")
    assert (folder / "deep/file").exists() and not (tmp_path / "link").is_symlink()
    remove(folder / "deep/file")
    remove(folder)
    remove(folder)
    assert list(tmp_path.iterdir()) == []
