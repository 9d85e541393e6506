"""hipify with a stand-in for the tree's tool, and save-patches: on trees with git and without."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import needs
import source_mini as mini
from rekindle.errors import BadInput, StageFailed
from rekindle.source import history
from rekindle.source.history import open_history, save_patches
from rekindle.source.patches import Patch, apply, load_patches, parse_patch, read_patch, status, unapply

# Does what build_amd.py does, small: changes a file, makes new ones (one of them ignored by git).
TOOL = """
import pathlib, os
pathlib.Path("torch/other.py").write_text("hip\\n")
pathlib.Path("torch/hip").mkdir(exist_ok=True)
pathlib.Path("torch/hip/kernel.hip").write_text("kernel\\n")
pathlib.Path("torch/hip/ignored.tmp").write_text("ignored\\n")
if os.environ.get("BREAK_HIPIFY"):
    raise SystemExit("broken on purpose")
print("done")
"""


OTHER = "--- a/torch/other.py\n+++ b/torch/other.py\n@@ -1 +1 @@\n-a\n+z\n"


def git(tree: Path, *args: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settings, *args], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(params=["git", "plain", "git without a commit"])
def hip_tree(tree: Path, request: pytest.FixtureRequest) -> Path:
    tool = tree / history.SCRIPT
    tool.parent.mkdir(parents=True)
    tool.write_text(TOOL)
    (tree / ".gitignore").write_text("*.tmp\n")
    if request.param != "plain":
        git(tree, "init", "-q")
    if request.param == "git":
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "upstream")
        git(tree, "tag", "v1.13.1")
    return tree


def greet() -> Patch:
    return parse_patch((mini.HEADER + mini.DIFF).encode(), "torch", id="greet", origin="greet.patch")


@needs.tool("git")
def test_hipify_is_a_step_of_its_own_and_can_be_undone(hip_tree: Path) -> None:
    before = mini.snapshot(hip_tree)
    apply(hip_tree, [greet()])
    patched = mini.snapshot(hip_tree)
    done = history.hipify(hip_tree)
    assert done.hipified and set(done.changed) == {
        "torch/other.py",
        "torch/hip/kernel.hip",
        "torch/hip/ignored.tmp",
    }
    marks = open_history(hip_tree)
    ours = marks.run("diff", "--name-only", "rekindle-base", "rekindle-patched").split()
    hips = marks.run("diff", "--name-only", "rekindle-patched", "rekindle-hipified").split()
    assert ours == ["torch/greeting.py"] and set(hips) == set(done.changed)
    assert history.hipify(hip_tree).changed == ()
    with pytest.raises(StageFailed, match="hipified on top"):
        unapply(hip_tree)
    undone = history.undo_hipify(hip_tree)
    assert undone == status(hip_tree) and [patch.state for patch in undone.patches] == ["applied"]
    assert mini.snapshot(hip_tree) == patched and not status(hip_tree).hipified
    unapply(hip_tree)
    assert mini.snapshot(hip_tree) == before


@needs.tool("git")
def test_a_hipify_that_failed_is_cleaned_up(hip_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = mini.snapshot(hip_tree)
    monkeypatch.setenv("BREAK_HIPIFY", "1")
    with pytest.raises(StageFailed, match="broken on purpose"):
        history.hipify(hip_tree)
    assert not status(hip_tree).hipified
    monkeypatch.delenv("BREAK_HIPIFY")
    assert history.hipify(hip_tree).hipified
    history.undo_hipify(hip_tree)
    assert mini.snapshot(hip_tree) == before


@needs.tool("git")
def test_no_tool_and_foreign_changes(tree: Path, hip_tree: Path) -> None:
    if (hip_tree / ".git").exists() and git(hip_tree, "tag"):
        (hip_tree / "setup.py").write_text("mine\n")
        with pytest.raises(StageFailed, match=r"setup\.py has uncommitted changes"):
            history.hipify(hip_tree)
    (tree / history.SCRIPT).unlink()
    with pytest.raises(BadInput, match="cannot be hipified"):
        history.hipify(tree)


@needs.tool("git")
def test_commits_become_patches_that_apply(tree: Path, tmp_path: Path) -> None:
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "upstream")
    git(tree, "tag", "rekindle-base")
    upstream = mini.snapshot(tree)
    (tree / "torch/other.py").write_text("a\nb changed\nc\n")
    git(tree, "commit", "-aqm", "Change b: it was wrong\n\nThe long reason.\n\nIn two paragraphs.")
    (tree / "torch/new é.py").write_text("new\n")
    (tree / "torch/greeting.py").unlink()
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "Add one, drop one")
    (tree / "torch/picture.png").write_bytes(b"\x89PNG\0\1\2")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "A binary")
    mine = mini.snapshot(tree)
    out = tmp_path / "patches"
    saved = save_patches(tree, out)
    assert [Path(file).name for file in saved.files] == [
        "0001-change-b-it-was-wrong.patch",
        "0002-add-one-drop-one.patch",
    ]
    assert len(saved.skipped) == 1 and "A binary" in saved.skipped[0]
    first = read_patch(Path(saved.files[0]), "torch")
    assert first.title == "Change b: it was wrong" and "two paragraphs" in first.why
    assert str(first.applies[0][0]) == "version ==1.13.0"
    git(tree, "checkout", "-q", "rekindle-base")
    assert mini.snapshot(tree) == upstream
    apply(tree, load_patches("torch", out))
    del mine["torch/picture.png"]
    assert mini.snapshot(tree) == mine
    unapply(tree)
    assert mini.snapshot(tree) == upstream
    assert save_patches(tree, out, base="HEAD").files == ()


@needs.tool("git")
@pytest.mark.skipif(os.name == "nt", reason="modes")
def test_the_base_of_a_tree_without_git_is_the_tree_before_our_patches(tree: Path) -> None:
    (tree / "torch/greeting.py").chmod(0o755)
    apply(tree, [greet(), parse_patch((mini.HEADER + OTHER).encode(), "torch", id="other", origin="o")])
    base = open_history(tree)
    assert base.run("show", "rekindle-base:torch/greeting.py") == mini.GREETING
    modes = [line.split()[0] for line in base.run("ls-tree", "-r", "rekindle-base", "torch").splitlines()]
    assert modes == ["100644", "100755", "100644"]


@needs.tool("git")
def test_save_needs_a_history(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no git history"):
        save_patches(tree, tmp_path / "p")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "upstream")
    with pytest.raises(BadInput, match="rekindle-base"):
        save_patches(tree, tmp_path / "p")


@needs.links()
def test_of_a_tree_only_its_own_files_are_watched(tmp_path: Path) -> None:
    for name in ("a.py", "part/.git", "part/b.py", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "linked").symlink_to("part")
    assert set(history._snapshot(tmp_path)) == {"a.py", "part/b.py"}
