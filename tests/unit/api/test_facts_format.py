"""``facts format``: which files are brought into form, and what is written."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.facts.tables import HERE
from rekindle.model.progress import Silent


def test_a_table_is_written_once_and_then_stays(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("a   =   1\n[row.b]\nsource = ['x']\n", encoding="utf-8")
    looked = api.facts_format([file], write=False)
    assert (looked.files, looked.changed, looked.written) == (("mine.toml",), ("mine.toml",), False)
    assert file.read_text(encoding="utf-8").startswith("a   =")
    done = api.facts_format([file])
    assert done.changed == ("mine.toml",) and done.written and file.read_text(encoding="utf-8").startswith("a = 1\n")
    assert api.facts_format([file]).changed == ()
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert api.facts_format([file]).changed == ("mine.toml",) and b"\r" not in file.read_bytes()


@pytest.mark.parametrize("text", ["a = [1, 2]", "[row]\na = 1", "# why\n[row.a]\n# inside\nb = 1"])
def test_what_has_no_rows_is_no_facts_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"mine\.toml: (a|row) is no table of rows|line 3 is a comment inside"):
        api.facts_format([tmp_path / "mine.toml"])


@pytest.mark.parametrize("raw", [b"a = \xff", b"a = = 1", b"[x\n"])
def test_what_is_no_table_is_told_by_its_name(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(raw)
    with pytest.raises(BadInput, match=r"mine\.toml is not valid TOML"):
        api.facts_format([tmp_path / "mine.toml"])


def test_without_names_all_tables_of_this_installation_are_looked_at() -> None:
    looked = api.facts_format(write=False)
    assert looked.files == tuple(sorted(path.name for path in HERE.glob("*.toml"))) and looked.changed == ()


def test_measuring_again_is_the_work_of_the_tools_beside_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def measure(**told: Any) -> str:
        asked.append(told)
        return "measured"

    tool = SimpleNamespace(measure_facts=measure)
    tools = str(Path(__file__).parents[3] / "tools")
    monkeypatch.setitem(sys.modules, "measure_facts", tool)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != tools])
    listener = Silent()
    for _ in range(2):
        assert str(api.facts_check(torch=["2.7.0"], progress=listener)) == "measured"
    assert asked[0] == {"torch": ["2.7.0"], "cuda": (), "companions": (), "images": (), "listener": listener}
    assert sys.path.count(tools) == 1
    api.facts_check()
    assert isinstance(asked[-1]["listener"], Silent)
