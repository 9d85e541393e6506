"""Places with names nobody expects: the work is done there, with the same bytes, or refused before it begins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from canary import in_process

from rekindle.build.environment import prefix_map, render_cache_script
from rekindle.build.preflight import Asked, preflight
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.plan import BuildRecipe, Plan

ODD = b"r\xe4der"


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b[31m", "a\x7f", os.fsdecode(ODD)])
def test_a_name_that_is_no_text_is_no_workspace(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be a workspace"):
        Workspace(tmp_path / name)
    code, said = in_process("demo", "--yes", "--workspace", str(tmp_path / name))
    assert code == 2 and "cannot be a workspace" in said and len(said.strip().splitlines()) == 2


@pytest.mark.parametrize("name", ["mit leer", "übung", "it's", "日本", "a,b", "#1 (x) & y", "a\u00a0b"])
def test_other_names_are_fine(name: str, tmp_path: Path) -> None:
    assert Workspace(tmp_path / name).root == tmp_path / name


@pytest.mark.parametrize("name", ["a b", "it's", "a$b", "a;b", "a:b", 'a"b', "a\\b", "a<b", "a>b"])
def test_letters_that_build_tools_read_otherwise_are_told_first(name: str, tmp_path: Path) -> None:
    plan = Plan(answer="build", project="spark", variant="cpu", build=BuildRecipe(source="spark"))
    first = preflight(LiveHost(), Asked(plan=plan, python="no such python", place=tmp_path / name))[0]
    assert (first.id == "place" and first.status == "fail") == (name not in ("a b", "it's"))


@pytest.mark.parametrize("name", ["a b", "ü", "it's", "a,b", "a#b", "a%b"])
def test_such_a_place_is_kept_out_of_what_is_compiled(name: str) -> None:
    flag = prefix_map(Path("/x") / name)
    assert flag == f"-ffile-prefix-map=/x/{name}=."
    assert f'"$<$<COMPILE_LANGUAGE:C,CXX>:{flag}>"' in render_cache_script({}, flag)


@pytest.mark.parametrize("name", ["a$b", 'a"b', "a\\b", "a;b", "a<b", "a>b", "a=b", "a\nb"])
def test_where_the_flag_would_be_read_otherwise_there_is_none(name: str) -> None:
    assert prefix_map(Path("/x") / name) is None


def test_nvcc_is_told_only_what_it_takes_whole() -> None:
    assert "Xcompiler" in render_cache_script({}, prefix_map(Path("/x/y")), steady_cuda=True)
    for name in ("a b", "a,b", "it's"):
        assert "Xcompiler" not in render_cache_script({}, prefix_map(Path("/x") / name), steady_cuda=True)


def test_a_document_may_speak_of_a_file_that_is_no_text(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(ODD)
    place.mkdir()
    code, said = in_process("doctor", "--json", "--workspace", str(place))
    assert code in (0, 1), said[-400:]
    assert json.loads(said[said.index("{") :])["schema"] == 1


def test_a_crash_report_can_hold_what_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.cli.crash import write_crash_report

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = write_crash_report(RuntimeError("x"), ["inspect", os.fsdecode(ODD)])
    assert "r\\udce4der" in report.read_text(encoding="utf-8")
