"""Every patch we ship, on the small pre-images in tests/trees: applies, stays, reverses, is refused elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import needs
import rekindle
import source_mini as mini
from rekindle.errors import StageFailed
from rekindle.source.patches import Choice, Context, Patch, apply, choose, load_patches, status, unapply
from rekindle.source.patches.engine import apply_diff

TREES = Path(__file__).parents[2] / "trees"
MARKS = {
    "torch": {"c10/CMakeLists.txt": "", "torch/__init__.py": ""},
    "torchvision": {"torchvision/__init__.py": ""},
    "torchaudio": {"src/torchaudio/__init__.py": ""},
    "spark": {"spark/__init__.py": ""},
}
ALL = [patch for project in MARKS for patch in load_patches(project)]
OURS = [patch for patch in ALL if patch.project == "torch"]


def tree_for(patch: Patch, root: Path) -> Path:
    images = TREES / patch.project / patch.id
    assert images.is_dir(), f"{images} is missing: put the files {patch.id} touches there, short and as they are before"
    shutil.copytree(images, root)
    for name, content in {"version.txt": "2.0.0a0\n", "setup.py": "", **MARKS[patch.project]}.items():
        path = root / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return root


@pytest.mark.parametrize("patch", OURS, ids=lambda patch: patch.id)
def test_applies_stays_and_reverses(patch: Patch, tmp_path: Path) -> None:
    tree = tree_for(patch, tmp_path / "tree")
    before = mini.snapshot(tree)
    needed = choose([patch], Context(patch.example, tree))
    assert needed[0].verdict == "needed", needed[0].why
    assert apply(tree, needed).patches[0].state == "applied"
    after = mini.snapshot(tree)
    assert set(patch.paths) == {name for name in after if after[name] != before.get(name)}
    # Its own conditions may no longer hold, and it is still shown as ours.
    again = choose([patch], Context(patch.example, tree))
    assert status(tree, again).patches[0].state == "applied"
    assert apply(tree, again).changed == ()
    unapply(tree)
    assert mini.snapshot(tree) == before


@pytest.mark.parametrize("patch", OURS, ids=lambda patch: patch.id)
def test_is_not_taken_where_nothing_calls_for_it(patch: Patch, tmp_path: Path) -> None:
    tree = tree_for(patch, tmp_path / "tree")
    old = {"version": "1.11.0", "os": "linux", "compiler": "gcc 9.4", "cmake": "3.18", "setuptools": "59.5"}
    harmless = old | {"numpy": "1.23", "fmt": "7.0", "arch": "x86_64"}
    assert choose([patch], Context(harmless, tree))[0].verdict == "not-needed"


@pytest.mark.parametrize("patch", OURS, ids=lambda patch: patch.id)
def test_is_refused_on_other_text(patch: Patch, tmp_path: Path) -> None:
    tree = tree_for(patch, tmp_path / "tree")
    for path in patch.paths:
        (tree / path).write_text("something else\n")
    before = mini.snapshot(tree)
    with pytest.raises(StageFailed, match=patch.id):
        apply(tree, [Choice(patch, "needed", "asked")])
    assert mini.snapshot(tree) == before


@pytest.mark.parametrize("patch", OURS, ids=lambda patch: patch.id)
def test_is_recognised_where_the_tree_has_it(patch: Patch, tmp_path: Path) -> None:
    tree = tree_for(patch, tmp_path / "tree")
    apply(tree, [patch])
    shutil.rmtree(tree / ".rekindle")
    assert apply(tree, [patch]).patches[0].state == "already"
    assert unapply(tree).changed == ()


@pytest.mark.parametrize("patch", OURS, ids=lambda patch: patch.id)
def test_keeps_crlf(patch: Patch, tmp_path: Path) -> None:
    tree = tree_for(patch, tmp_path / "tree")
    for path in patch.paths:
        file = tree / path
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    before = mini.snapshot(tree)
    apply(tree, [patch])
    for path in patch.paths:
        content = (tree / path).read_bytes()
        assert content.count(b"\n") == content.count(b"\r\n")
    unapply(tree)
    assert mini.snapshot(tree) == before


@pytest.mark.parametrize("patch", ALL, ids=lambda patch: patch.id)
@needs.tool("git")
def test_git_apply_agrees(patch: Patch, tmp_path: Path) -> None:
    """Exported scripts have git and not us: its result must be ours, byte for byte."""
    images = TREES / patch.project / patch.id
    if patch.project == "spark":
        images = Path(rekindle.__file__).parent / "spark/tree"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for root in (ours, theirs):
        for path in patch.paths:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(images / path, root / path)
    for diff in patch.files:
        after = apply_diff(diff, (ours / diff.path).read_bytes())
        (ours / diff.path).write_bytes(after or b"")
    (tmp_path / "p").write_bytes(patch.raw)
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", str(tmp_path / "p")],
        cwd=theirs,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert mini.snapshot(ours) == mini.snapshot(theirs)


@pytest.mark.parametrize("patch", ALL, ids=lambda patch: f"{patch.project}-{patch.id}")
def test_has_an_example_of_a_build_that_needs_it(patch: Patch) -> None:
    assert patch.example, f"{patch.id}.patch: its header lacks Example, a build that needs it (docs/patches.md)"
    known = [condition for block in patch.applies for condition in block if condition.key != "file"]
    told = Context(patch.example)
    assert any(all(one.holds(told) for one in block if one in known) for block in patch.applies)


@pytest.mark.parametrize("patch", ALL, ids=lambda patch: f"{patch.project}-{patch.id}")
def test_says_why_and_how_we_know(patch: Patch) -> None:
    assert patch.title and patch.why and len(patch.title) < 100
    assert patch.project == "spark" or patch.evidence
