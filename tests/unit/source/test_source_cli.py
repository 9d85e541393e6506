"""The command line: one JSON document, exit codes, one-line refusals, human words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import needs
import source_mini as mini
from rekindle.cli.main import main

# Every fact a patch may ask about, so that no program of this machine decides.
CONTEXT = [
    "--os", "linux", "--arch", "x86_64", "--compiler", "gcc 11.4", "--cmake", "3.25", "--setuptools", "59.5",
    "--numpy", "1.26", "--glibc", "2.36", "--cuda", "none", "--rocm", "none", "--backend", "cpu",
]  # fmt: skip


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    folder = tmp_path / "own patches"
    folder.mkdir()
    (folder / "greet.patch").write_text(mini.HEADER + mini.DIFF, encoding="utf-8")
    return folder


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any], str]:
    code = main(["source", *argv])
    out, err = capsys.readouterr()
    return code, json.loads(out) if "--json" in argv else {"text": out}, err


def test_patch_status_unpatch(tree: Path, patches: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--source", str(tree), "--patches", str(patches), *CONTEXT]
    before = mini.snapshot(tree)
    code, shown, _ = run(capsys, "patch", *common, "--dry-run", "--json")
    assert code == 0 and "+goodbye" in shown["diff"] and mini.snapshot(tree) == before
    code, done, err = run(capsys, "patch", *common, "--json", "-q")
    assert code == 0 and done["schema"] == 1 and done["changed"] == ["torch/greeting.py"] and err == ""
    states = {patch["id"]: patch["state"] for patch in done["patches"]}
    assert states["greet"] == "applied" and set(states.values()) == {"applied", "not-needed"}
    code, text, _ = run(capsys, "status", *common)
    assert code == 0 and "greet: applied" in text["text"] and "torch 1.13.0" in text["text"].splitlines()[0]
    code, text, _ = run(capsys, "patch", *common, "--dry-run")
    assert code == 0 and "The change" not in text["text"]
    code, _, _ = run(capsys, "unpatch", "--source", str(tree))
    assert code == 0 and mini.snapshot(tree) == before


def test_a_conflict_is_an_answer(tree: Path, patches: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "torch/greeting.py").write_text("nothing like it\n")
    before = mini.snapshot(tree)
    common = ["patch", "--source", str(tree), "--patches", str(patches), *CONTEXT]
    code, document, _ = run(capsys, *common, "--json")
    assert code == 1 and document["changed"] == []
    assert [patch["state"] for patch in document["patches"] if patch["id"] == "greet"] == ["conflict"]
    code, text, _ = run(capsys, *common)
    assert code == 1 and "nothing was changed" in text["text"].splitlines()[0]
    assert mini.snapshot(tree) == before


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["status", "--source", "/nowhere"], "not a directory"),
        (["patch", "--source", "."], "is not a source tree"),
        (["patch"], "is not a source tree"),
        (["rewrite-cmake", "--root", "/nowhere"], "not a directory"),
        (["rewrite-cmake"], "--root"),
        (["fetch", "--source", "x"], "which release"),
        (["fetch", "--release", "2.0.0", "--from", "debian", "--source", "x"], "Debian has no torch 2.0.0"),
        (["fetch", "--release", "2.0.0", "--mirror", "nonsense", "--source", "x"], "no mirror"),
        (["fetch", "--release", "2.0.0", "--from", "/nowhere", "--source", "x"], "no directory and no archive"),
        (["fetch", "--release", "2.0.0", "--sha256", "1", "--from", "http://h.invalid/a.tar.gz", "--source", "x"],
         "no SHA-256"),
        (["hipify", "--source", "."], "is not a source tree"),
        (["save-patches", "--source", ".", "--output", "o"], "is not a source tree"),
        (["nonsense"], "invalid choice"),
        ([], "STEP"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["source", *argv, *(["--workspace", "ws"] if argv[:1] == ["fetch"] else [])]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and "Traceback" not in err
    assert sum(not line.startswith("  ") for line in err.splitlines() if ": " in line) >= 1
    assert not (tmp_path / "x").exists()


def test_rewrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 2.8)\nproject(x)\n")
    code, document, _ = run(capsys, "rewrite-cmake", "--root", str(tmp_path), "--dry-run", "--json")
    assert code == 0 and document["dry_run"] and document["changes"][0]["after"] == "3.5"
    code, text, _ = run(capsys, "rewrite-cmake", "--root", str(tmp_path))
    assert code == 0 and "1 CMake version raised, in 1 of 1 CMake files" in text["text"]
    assert (tmp_path / "CMakeLists.txt").read_text().startswith("cmake_minimum_required(VERSION 3.5)\n")


def test_which_tree_is_meant(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([str(tree)], ["--source", str(tree)], ["--root", str(tree)]):
        code, document, _ = run(capsys, "unpatch", *argv, "--json")
        assert code == 0 and document["root"] == str(tree)
    workspace = tmp_path / "ws"
    assert main(["source", "status", "--workspace", str(workspace)]) == 2
    assert "holds no source tree" in capsys.readouterr().err
    (workspace / "source").mkdir(parents=True)
    tree.rename(workspace / "source/torch-1.13.1")
    code, document, _ = run(capsys, "status", "--workspace", str(workspace), *CONTEXT, "--json")
    assert code == 0 and document["root"].endswith("torch-1.13.1")


def test_fetch_of_a_local_tree(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["fetch", "--from", str(tree), "--source", str(tmp_path / "copy"), "--workspace", str(tmp_path / "ws")]
    code, document, _ = run(capsys, *argv, "--json")
    assert code == 0 and document["project"] == "torch" and document["origin"] == str(tree)
    assert mini.snapshot(tmp_path / "copy") == mini.snapshot(tree)


@needs.tool("git")
def test_a_torchvision_that_fits(tree: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without a pin the facts say which torchvision belongs to torch 1.13; the address shows that it was asked for."""
    argv = ["fetch", "--project", "torchvision", "--match", str(tree), "--source", str(tmp_path / "v")]
    mirror = ["--mirror", f"https://github.com/=file://{tmp_path}/none/", "--workspace", str(tmp_path / "ws")]
    assert main(["source", *argv, *mirror]) == 3
    assert "v0.14.0 of https://github.com/pytorch/vision.git" in capsys.readouterr().err
