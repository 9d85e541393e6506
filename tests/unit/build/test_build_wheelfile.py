"""Wheels come out the same whatever order, times and modes went in; their attestations are complete and constant."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest

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
