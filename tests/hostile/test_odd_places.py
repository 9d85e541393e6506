"""Places with names nobody expects: the work is done there, with the same bytes, or refused before it begins."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from canary import in_process

from rekindle.build.environment import FLAG_FILE, flag_file, prefix_map, render_cache_script
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.register import check_build
from rekindle.toolkits.compilers import keep_place_out
from rekindle.toolkits.programs import probe_program

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
    first = check_build(LiveHost(), PlannedBuild(plan=plan, python="no such python", place=tmp_path / name))[0]
    assert (first.id == "place" and first.status == "fail") == (name not in ("a b", "it's"))


@pytest.mark.parametrize("name", ["a, b", "it's"])
@pytest.mark.parametrize(("cuda", "told"), [("13.0", True), (None, False)])
def test_what_nvcc_would_read_as_two_folders_is_told_first(
    name: str, cuda: str | None, told: bool, tmp_path: Path
) -> None:
    plan = Plan(answer="build", project="spark", variant="cpu", cuda=cuda, build=BuildRecipe(source="spark"))
    first = check_build(LiveHost(), PlannedBuild(plan=plan, python="no such python", place=tmp_path / name))[0]
    assert (first.id == "place" and "nvcc" in str(first.found)) == told


@pytest.mark.parametrize("name", ["a b", "ü", "it's", "a,b", "a#b", "a%b"])
def test_such_a_place_is_kept_out_of_what_is_compiled(name: str) -> None:
    flag = prefix_map(Path("/x") / name)
    assert flag == f"-ffile-prefix-map=/x/{name}=."
    assert f'"$<$<COMPILE_LANGUAGE:C,CXX>:{flag}>"' in render_cache_script({}, flag)


@pytest.mark.parametrize("name", ["a$b", 'a"b', "a\\b", "a;b", "a<b", "a>b", "a\nb"])
def test_where_the_flag_would_be_read_otherwise_there_is_none(name: str) -> None:
    assert prefix_map(Path("/x") / name) is None


@pytest.mark.parametrize("name", ["y", "a b", "a,b", "it's", "a=b"])
def test_nvcc_reads_the_place_from_a_file_and_its_command_does_not_name_it(name: str) -> None:
    flag = prefix_map(Path("/x") / name)
    assert flag is not None
    (line,) = [one for one in render_cache_script({}, flag, steady_cuda=True).splitlines() if "Xcompiler" in one]
    assert f"-Xcompiler=@{FLAG_FILE}>" in line
    assert "/x/" not in line


@pytest.mark.parametrize("compiler", ["gcc", "clang-15"])
@pytest.mark.parametrize("name", ["a b", "it's", "über,all"])
def test_compilers_read_the_flag_back_from_its_file(compiler: str, name: str, tmp_path: Path) -> None:
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"needs {compiler}")
    place = tmp_path / name
    place.mkdir()
    (place / "x.c").write_text("__FILE__\n")
    (place / FLAG_FILE).write_text(flag_file(prefix_map(place) or ""))
    command = [path, f"@{FLAG_FILE}", "-E", "-P", str(place / "x.c")]
    said = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
    assert said.stdout.strip() in ('"./x.c"', '"x.c"')


@pytest.mark.parametrize("compiler", ["gcc", "clang-15"])
def test_a_place_with_an_equals_sign_is_asked_of_the_compiler(compiler: str, tmp_path: Path) -> None:
    """gcc 12 ends the path at the last one, clang 15 at the first: what is answered is what is then seen."""
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"needs {compiler}")
    tool = probe_program(LiveHost(), compiler, path)
    assert tool is not None
    assert keep_place_out(LiveHost(), [tool], tmp_path / "plain")
    place = tmp_path / "a=b"
    can = keep_place_out(LiveHost(), [tool, tool], place)
    assert list(place.iterdir()) == []
    (place / "x.c").write_text("const char *at = __FILE__;\n")
    command = [path, str(prefix_map(place)), "-c", str(place / "x.c"), "-o", str(place / "x.o")]
    subprocess.run(command, check=True, cwd=place)
    assert can == (b"=b/" not in (place / "x.o").read_bytes())
    assert not keep_place_out(LiveHost(), [dataclasses.replace(tool, version="9.5.0")], tmp_path / "plain")
    assert keep_place_out(LiveHost(), [dataclasses.replace(tool, version="10.0.0")], tmp_path / "plain")


def test_a_document_may_speak_of_a_file_that_is_no_text(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(ODD)
    place.mkdir()
    code, said = in_process("doctor", "--json", "--workspace", str(place))
    assert code in (0, 1), said[-400:]
    assert json.loads(said[said.index("{") :])["schema"] == 1


def test_a_crash_report_can_hold_what_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.cli.main import write_crash_report

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = write_crash_report(RuntimeError("x"), ["inspect", os.fsdecode(ODD)])
    assert "r\\udce4der" in report.read_text(encoding="utf-8")
