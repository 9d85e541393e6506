"""Wheels come out the same whatever order, times and modes went in; their attestations are complete and constant."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle.build.finish import bill_of_materials, finish_wheel, provenance, third_party
from rekindle.errors import StageFailed
from rekindle.formats.statement import fill_places, hide_places
from rekindle.model.document import decode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import AppliedPatch, PatchState, SourceTree

FILES = {
    "torch/__init__.py": b"x = 1\n",
    "torch/lib/libc10.so": b"\x7fELF" + b"\0" * 5000,
    "torch/bin/tool": b"#!/bin/sh\n",
    "torch-1.dist-info/METADATA": b"Name: torch\n",
    "torch-1.dist-info/RECORD": b"stale",
}


def wheel(path: Path, names: list[str], when: tuple[int, ...]) -> Path:
    with zipfile.ZipFile(path, "w") as out:
        for name in names:
            info = zipfile.ZipInfo(name, date_time=when)  # type: ignore[arg-type]
            info.external_attr = (0o100775 if "bin/" in name else 0o100600) << 16
            out.writestr(info, FILES[name])
    return path


def test_the_same_bytes_from_the_same_content(tmp_path: Path) -> None:
    one = wheel(tmp_path / "a.whl", list(FILES), (2020, 1, 1, 0, 0, 0))
    two = wheel(tmp_path / "b.whl", list(reversed(FILES)), (2024, 5, 6, 7, 8, 10))
    for source, target in ((one, "1.whl"), (two, "2.whl")):
        finish_wheel(source, tmp_path / "out" / target, epoch=0, add={"sboms/x.json": b"{}"})
    assert (tmp_path / "out/1.whl").read_bytes() == (tmp_path / "out/2.whl").read_bytes()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1.whl", "2.whl"]


def test_the_record_is_true(tmp_path: Path) -> None:
    finish_wheel(
        wheel(tmp_path / "a.whl", list(FILES), (2020, 1, 1, 0, 0, 0)), tmp_path / "o.whl", epoch=0, add={"x": b"y"}
    )
    with zipfile.ZipFile(tmp_path / "o.whl") as made:
        rows = list(csv.reader(io.StringIO(made.read("torch-1.dist-info/RECORD").decode())))
        assert {row[0] for row in rows} == set(made.namelist())
        for name, digest, size in rows:
            if name.endswith("RECORD"):
                assert (digest, size) == ("", "")
                continue
            data = made.read(name)
            coded = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={coded}", len(data))
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in made.infolist()}
    assert modes["torch/bin/tool"] == 0o755
    assert modes["torch/lib/libc10.so"] == 0o644


def test_no_wheel_is_said(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as out:
        out.writestr("a", "b")
    with pytest.raises(StageFailed, match="has 0 "):
        finish_wheel(tmp_path / "x.whl", tmp_path / "o.whl", epoch=0, add={})
    assert not (tmp_path / "o.whl").exists()


def test_attestations(tmp_path: Path) -> None:
    (tmp_path / "third_party/fmt").mkdir(parents=True)
    (tmp_path / "third_party/fmt/x").write_text("")
    (tmp_path / "third_party/empty").mkdir()
    (tmp_path / ".gitmodules").write_text(
        '[submodule "third_party/fmt"]\n path = third_party/fmt\n url = https://x/fmt\n'
    )
    assert third_party(tmp_path) == {"fmt": "https://x/fmt"}
    states: tuple[PatchState, ...] = ("applied", "already", "clean", "conflict", "not-needed", "unknown")
    patches = tuple(AppliedPatch(id=f"p-{state}", state=state, sha256="ab") for state in states)
    tree = SourceTree(project="torch", version="2.0", root=str(tmp_path), digest="cd", patches=patches)
    first = bill_of_materials(tree, "2.0+rekindle.cpu", {"numpy": "1.26"}, {"ninja": "1.13"})
    assert first == bill_of_materials(tree, "2.0+rekindle.cpu", {"numpy": "1.26"}, {"ninja": "1.13"})
    bill = json.loads(first)
    assert {c["name"] for c in bill["components"]} == {"fmt", "numpy", "ninja"}
    assert bill["serialNumber"].startswith("urn:uuid:")
    # What is in the tree, by us or by others, and nothing that is not.
    told = [patch["diff"]["text"]["content"] for patch in bill["metadata"]["component"]["pedigree"]["patches"]]
    assert told == ["p-applied sha256:ab", "p-already sha256:ab"]
    statement = json.loads(provenance(Plan(answer="build"), "dd", tree, [("w.whl", "ee")], {"A": "1"}, {}, {}))
    materials = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [each["uri"] for each in materials if each["uri"].startswith("patch:")] == [
        "patch:p-applied",
        "patch:p-already",
    ]
    assert statement["subject"] == [{"name": "w.whl", "digest": {"sha256": "ee"}}]
    assert {"uri": "torch", "digest": {"sha256": "cd"}} in statement["predicate"]["buildDefinition"][
        "resolvedDependencies"
    ]


def test_a_statement_names_no_place_of_this_machine(tmp_path: Path) -> None:
    """What is published says neither whose home nor which workspace it was; whoever repeats it fills in their own."""
    home = tmp_path / "ann"
    tree = SourceTree(project="torch", version="2.0", root=str(home / "tree"), digest="cd", origin=str(home / "old"))
    plan = Plan(answer="build", build=BuildRecipe(source="git", env={"CUDA_HOME": str(home / "cuda-12")}))
    env = {"CMAKE_C_COMPILER_LAUNCHER": str(home / "w" / "tools" / "launch"), "CC": f"{home}2/gcc", "X": str(home)}
    env["INCLUDES"] = f"{home}/tree/a:{home}/tree-2"
    places = {"workspace": str(home / "w"), "home": str(home)}
    raw = provenance(plan, "dd", tree, [("w.whl", "ee")], env, {}, places)
    assert str(home) not in raw.decode().replace(f"{home}2", "")
    settings = json.loads(raw)["predicate"]["buildDefinition"]["internalParameters"]
    assert settings["environment"] == {
        "CMAKE_C_COMPILER_LAUNCHER": "<workspace>/tools/launch",
        "CC": f"{home}2/gcc",
        "X": "<home>",
        "INCLUDES": "<source>/a:<home>/tree-2",
    }
    filled = fill_places(settings["plan"], places)
    assert decode(json.dumps(filled).encode(), Plan, origin="x") == plan
    windows = {"at": "C:\\Users\\ann\\w\\x"}
    assert hide_places(windows, {"home": "C:\\Users\\ann"}) == {"at": "<home>\\w\\x"}
    assert fill_places(hide_places(windows, {"home": "C:\\Users\\ann"}), {"home": "D:\\me"}) == {"at": "D:\\me\\w\\x"}


def test_only_what_its_owner_may_run_is_a_program(tmp_path: Path) -> None:
    modes = {"torch/run": 0o700, "torch/theirs": 0o655, "torch/data": 0o666, "torch-1.dist-info/METADATA": 0o644}
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as out:
        for name, mode in modes.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o100000 | mode) << 16
            out.writestr(info, b"x")
        out.writestr("torch/folder/", b"")
    finish_wheel(tmp_path / "a.whl", tmp_path / "o.whl", epoch=0, add={"rekindle.json": b"{}"})
    with zipfile.ZipFile(tmp_path / "o.whl") as made:
        told = {info.filename: info.external_attr >> 16 & 0o777 for info in made.infolist()}
    assert {name for name, mode in told.items() if mode == 0o755} == {"torch/run"}
    assert {mode for name, mode in told.items() if name != "torch/run"} == {0o644}
    assert "torch/folder/" not in told, "an empty folder is nothing that is installed"
    assert list(told)[:3] == ["torch/data", "torch/run", "torch/theirs"], "by name, metadata last"


def test_two_kinds_of_metadata_are_no_wheel(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as out:
        for name in ("a-1.dist-info/METADATA", "b-1.dist-info/METADATA", "b-1.dist-info/licenses/x"):
            out.writestr(name, b"x")
    with pytest.raises(StageFailed, match="has 2 "):
        finish_wheel(tmp_path / "a.whl", tmp_path / "o.whl", epoch=0, add={})


def test_what_lies_in_the_tree_of_others_is_what_is_really_there(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    for name in ("third_party/fmt", "third_party/plain", "extern/deep", "../outside"):
        (root / name).mkdir(parents=True)
        (root / name / "x").write_text("")
    (root / "third_party/file").write_text("")
    modules = {"third_party/fmt": "https://x/fmt", "extern/deep": None, "../outside": "https://x/evil", "gone": "y"}
    text = "".join(
        f'[submodule "{path}"]\n path = {path}\n' + (f" url = {url}\n" if url else "") for path, url in modules.items()
    )
    (root / ".gitmodules").write_text(text)
    assert third_party(root) == {"fmt": "https://x/fmt", "plain": "", "deep": ""}
    (root / ".gitmodules").write_text("no section")
    assert third_party(root) == {"fmt": "", "plain": ""}


@needs.links()
def test_a_link_is_no_part_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("")
    (tmp_path / "tree" / "third_party").mkdir(parents=True)
    (tmp_path / "tree" / "third_party" / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert third_party(tmp_path / "tree") == {}


def test_a_bill_tells_where_parts_are_from_and_what_only_built_it(tmp_path: Path) -> None:
    for name in ("fmt", "plain"):
        (tmp_path / "third_party" / name).mkdir(parents=True)
        (tmp_path / "third_party" / name / "x").write_text("")
    (tmp_path / ".gitmodules").write_text('[submodule "f"]\n path = third_party/fmt\n url = https://x/fmt\n')
    tree = SourceTree(project="torch", version="2.0", root=str(tmp_path))
    bill = json.loads(bill_of_materials(tree, "2.0+ours", {"NumPy": "1.26"}, {"ninja": "1.13"}))
    assert bill["components"] == [
        {
            "type": "library", "name": "fmt", "scope": "required",
            "externalReferences": [{"type": "vcs", "url": "https://x/fmt"}],
        },
        {"type": "library", "name": "plain", "scope": "required"},
        {
            "type": "library", "name": "NumPy", "version": "1.26", "scope": "excluded",
            "purl": "pkg:pypi/numpy@1.26",
        },
        {"type": "application", "name": "ninja", "version": "1.13", "scope": "excluded"},
    ]  # fmt: skip
    product = bill["metadata"]["component"]
    assert product["purl"] == "pkg:pypi/torch@2.0+ours" and "pedigree" not in product
    spark = json.loads(bill_of_materials(SourceTree(project="spark", version="1", root=str(tmp_path)), "1", {}, {}))
    assert spark["metadata"]["component"]["name"] == "spark-miniature"


def test_a_statement_names_the_release_and_only_what_has_a_digest(tmp_path: Path) -> None:
    patches = (
        AppliedPatch(id="known", state="applied", sha256="ab"),
        AppliedPatch(id="unknown", state="applied"),
    )
    tree = SourceTree(
        project="torch", version="2.0a0", root=str(tmp_path), commit="c" * 40, digest="d", patches=patches
    )

    def stated(plan: Plan, tree: SourceTree) -> dict[str, Any]:
        told = json.loads(provenance(plan, "dd", tree, [("w.whl", "ee")], {}, {}, {}))
        built: dict[str, Any] = told["predicate"]["buildDefinition"]
        return built

    built = stated(Plan(answer="build", torch="2.0.1"), tree)
    assert built["externalParameters"] == {"project": "torch", "version": "2.0.1"}
    assert built["resolvedDependencies"] == [
        {"uri": "torch", "digest": {"gitCommit": "c" * 40}},
        {"uri": "patch:known", "digest": {"sha256": "ab"}},
    ]
    bare = SourceTree(project="torch", version="2.0a0", root=str(tmp_path))
    built = stated(Plan(answer="build"), bare)
    assert built["externalParameters"]["version"] == "2.0a0" and not built["resolvedDependencies"]
