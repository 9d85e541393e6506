"""Applying: all or none, idempotent, byte for byte back, refused where it must be."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import needs
import source_mini as mini
from rekindle.errors import BadInput, StageFailed
from rekindle.model.source import JournalEdit, TreeRecord
from rekindle.source import journal
from rekindle.source.history import open_history
from rekindle.source.patches import Context, apply, choose, engine, parse_patch, read_patch, status, unapply
from rekindle.source.patches.header import Patch
from rekindle.source.tree import MARKS, recognise


def patch(diff: str = mini.DIFF, *, id: str = "greet", header: str = mini.HEADER) -> Patch:
    return parse_patch((header + diff).encode(), "torch", id=id, origin=f"{id}.patch")


OTHER = "--- a/torch/other.py\n+++ b/torch/other.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
WRONG = "--- a/torch/other.py\n+++ b/torch/other.py\n@@ -1,3 +1,3 @@\n a\n-nothing like it\n+B\n c\n"
NEW = (
    "diff --git a/tools/new.sh b/tools/new.sh\nnew file mode 100755\n"
    "--- /dev/null\n+++ b/tools/new.sh\n@@ -0,0 +1 @@\n+echo hi\n"
)


def test_applies_once_and_comes_out_whole(tree: Path) -> None:
    (tree / "torch/greeting.py").chmod(0o755)
    before = mini.snapshot(tree)
    wanted = [patch(), patch(OTHER, id="other"), patch(NEW, id="new")]
    first = apply(tree, wanted)
    assert [one.state for one in first.patches] == ["applied"] * 3
    assert b"goodbye\nand thanks\n" in (tree / "torch/greeting.py").read_bytes()
    # Windows has no such bit.
    assert os.name == "nt" or (tree / "torch/greeting.py").stat().st_mode & 0o777 == 0o755
    assert os.name == "nt" or (tree / "tools/new.sh").stat().st_mode & 0o777 == 0o755
    after = mini.snapshot(tree)
    again = apply(tree, wanted)
    assert again.changed == () and [one.state for one in again.patches] == ["applied"] * 3
    assert mini.snapshot(tree) == after
    unapply(tree)
    assert mini.snapshot(tree) == before
    assert unapply(tree).changed == ()


def test_dry_run_shows_the_diff_and_changes_nothing(tree: Path) -> None:
    before = mini.snapshot(tree)
    shown = apply(tree, [patch()], dry_run=True)
    assert shown.patches[0].state == "clean" and shown.changed == ("torch/greeting.py",)
    assert shown.diff is not None and "+goodbye\n" in shown.diff
    assert mini.snapshot(tree) == before and not (tree / ".rekindle").exists()


def test_one_conflict_stops_all(tree: Path) -> None:
    before = mini.snapshot(tree)
    with pytest.raises(StageFailed, match="other does not fit"):
        apply(tree, [patch(), patch(WRONG, id="other")])
    assert mini.snapshot(tree) == before
    assert [one.state for one in apply(tree, [patch(), patch(WRONG, id="other")], dry_run=True).patches] == [
        "clean",
        "conflict",
    ]


def test_a_change_the_tree_has_already_is_not_ours(tree: Path) -> None:
    (tree / "torch/other.py").write_text("a\nB\nc\n")
    result = apply(tree, [patch(OTHER, id="other")])
    assert result.patches[0].state == "already"
    unapply(tree)
    assert (tree / "torch/other.py").read_text() == "a\nB\nc\n"


def test_half_fixed_upstream_still_applies(tree: Path) -> None:
    (tree / "torch/other.py").write_text("a\nB\nc\n")
    both = patch(mini.DIFF + OTHER, id="both")
    assert apply(tree, [both]).changed == ("torch/greeting.py",)
    unapply(tree)
    assert (tree / "torch/other.py").read_text() == "a\nB\nc\n"
    assert (tree / "torch/greeting.py").read_text() == mini.GREETING


def test_two_patches_of_one_file_stack(tree: Path) -> None:
    before = mini.snapshot(tree)
    second = patch(
        "--- a/torch/greeting.py\n+++ b/torch/greeting.py\n@@ -3,2 +3,2 @@\n goodbye\n-and thanks\n+and many thanks\n",
        id="second",
    )
    apply(tree, [patch(), second])
    assert b"and many thanks" in (tree / "torch/greeting.py").read_bytes()
    unapply(tree)
    assert mini.snapshot(tree) == before


def test_later_edits_survive_unpatch(tree: Path) -> None:
    apply(tree, [patch()])
    file = tree / "torch/greeting.py"
    file.write_text(file.read_text().replace("seven", "SEVEN"))
    unapply(tree)
    assert file.read_text() == mini.GREETING.replace("seven", "SEVEN")


def test_an_edit_in_the_patched_lines_is_a_conflict(tree: Path) -> None:
    apply(tree, [patch()])
    file = tree / "torch/greeting.py"
    file.write_text(file.read_text().replace("goodbye", "farewell"))
    edited = mini.snapshot(tree)
    with pytest.raises(StageFailed, match="edited where patch greet"):
        unapply(tree)
    assert mini.snapshot(tree) == edited


def test_crlf_tree(tree: Path) -> None:
    file = tree / "torch/greeting.py"
    file.write_bytes(mini.GREETING.replace("\n", "\r\n").encode())
    before = mini.snapshot(tree)
    apply(tree, [patch()])
    assert b"goodbye\r\nand thanks\r\n" in file.read_bytes() and b"e\n" not in file.read_bytes().replace(b"\r\n", b"")
    unapply(tree)
    assert mini.snapshot(tree) == before


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "a/../../b", ".git/hooks/x", "C:/x", "a\\b", ".rekindle/x"])
def test_a_path_out_of_the_tree_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="not a plain path inside the tree"):
        patch(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n")


@needs.links()
def test_symbolic_links_are_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "greeting.py").write_text(mini.GREETING)
    (tree / "torch/greeting.py").unlink()
    (tree / "torch/greeting.py").symlink_to(outside / "greeting.py")
    with pytest.raises(BadInput, match="symbolic link"):
        apply(tree, [patch()])
    assert (outside / "greeting.py").read_text() == mini.GREETING


@pytest.mark.skipif(os.name == "nt", reason="modes of files")
def test_modes_are_remembered_and_enter_the_history(tree: Path) -> None:
    (tree / "torch/greeting.py").chmod(0o755)
    (tree / "torch/other.py").chmod(0o640)
    apply(tree, [patch(), patch(OTHER, id="other")])
    assert {file.path: file.mode for file in journal.read_record(tree).files} == {
        "torch/greeting.py": 0o755,
        "torch/other.py": 0o640,
    }
    listed = open_history(tree).run("ls-tree", "-r", "rekindle-base", "torch/greeting.py", "torch/other.py")
    assert [line.split()[0] for line in listed.splitlines()] == ["100755", "100644"]
    shown = open_history(tree).run("show", "rekindle-base:torch/greeting.py")
    assert "goodbye" not in shown, "the base is the tree as it was"


@pytest.mark.parametrize("missing", MARKS["torch"])
def test_what_a_tree_lacks_is_named(tree: Path, missing: str) -> None:
    (tree / missing).unlink()
    with pytest.raises(BadInput, match=f"it lacks {missing}$"):
        recognise(tree)


@pytest.mark.parametrize(("size", "fits"), [(4 << 20, True), ((4 << 20) + 1, False)])
def test_a_patch_is_a_small_file(tmp_path: Path, size: int, fits: bool) -> None:
    text = mini.HEADER + mini.DIFF
    file = tmp_path / "large.patch"
    file.write_text(text.replace("tests want it.", "tests want it." + "x" * (size - len(text))))
    if fits:
        assert read_patch(file, "torch").id == "large"
    else:
        with pytest.raises(BadInput):
            read_patch(file, "torch")


def test_a_wrong_line_of_a_header_is_told_by_its_number() -> None:
    for line, words in (("Colour: red", "no header field 'Colour'"), ("nothing", "no header line: 'nothing'")):
        with pytest.raises(BadInput, match=rf"greet\.patch:3.*{words}"):
            patch(header=mini.HEADER.replace("Origin: rekindle", line))


def test_a_file_too_large_to_be_a_source_is_not_patched(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (tree / "torch/greeting.py").stat().st_size
    monkeypatch.setattr(engine, "MAX_FILE_BYTES", size - 1)
    with pytest.raises(BadInput, match="no ordinary source file"):
        apply(tree, [patch()])
    monkeypatch.setattr(engine, "MAX_FILE_BYTES", size)
    assert apply(tree, [patch()]).changed


def test_not_a_torch_tree(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a source tree"):
        apply(tmp_path, [patch()])
    with pytest.raises(BadInput, match="not a directory"):
        status(tmp_path / "nowhere")


def test_read_only_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = mini.snapshot(tree)

    def read_only(*args: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(journal, "_make_folder", read_only)
    with pytest.raises(BadInput, match="Read-only file system; the tree is as it was"):
        apply(tree, [patch()])
    assert mini.snapshot(tree) == before
    assert apply(tree, [patch()], dry_run=True).patches[0].state == "clean"


@needs.tool("git")
def test_git_tree_gets_a_diff_base_and_refuses_dirt(tree: Path) -> None:
    git = ["git", "-C", str(tree), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "v"], check=True)
    subprocess.run([*git, "tag", "v1.13.1"], check=True)
    result = apply(tree, [patch()])
    assert result.version == "1.13.1" and result.diff_command is not None
    # The tree's name has a space: the command must survive being pasted.
    pasted = subprocess.run(["sh", "-c", result.diff_command], capture_output=True, text=True)
    assert pasted.returncode == 0 and "+goodbye" in pasted.stdout
    assert "goodbye" in subprocess.run([*git, "diff", "rekindle-base"], capture_output=True, text=True).stdout
    assert ".rekindle" not in subprocess.run([*git, "status", "--short"], capture_output=True, text=True).stdout
    unapply(tree)
    assert subprocess.run([*git, "status", "--short"], capture_output=True, text=True).stdout == ""
    (tree / "torch/greeting.py").write_text(mini.GREETING + "mine\n")
    with pytest.raises(StageFailed, match="uncommitted changes"):
        apply(tree, [patch()])


class Killed(BaseException):
    """Stands for SIGKILL: nothing after it runs."""


def test_a_change_that_was_cut_short_says_how_far_it_had_come(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, put = mini.snapshot(tree), journal._put

    def put_one(root: Path, edit: JournalEdit, staged: Path | None) -> None:
        if edit.path == "setup.py":
            raise Killed
        put(root, edit, staged)

    with monkeypatch.context() as patched:
        patched.setattr(journal, "repair", lambda root: None)
        patched.setattr(journal, "_put", put_one)
        edits = [journal.Edit("torch/other.py", b"a\nb\nc\n", b"x\n"), journal.Edit("setup.py", b"# setup\n", None)]
        with pytest.raises(Killed):
            journal.commit(tree, edits, TreeRecord())
    told = journal.repair(tree)
    assert told == "a change that was cut short was taken back (1 of 2 files had been written)"
    assert mini.snapshot(tree) == before and journal.repair(tree) is None


@pytest.mark.parametrize("after", range(12))
def test_a_kill_at_any_write_is_repaired(tree: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Stop dead after the n-th step that touches the disk; status must show the tree whole again."""
    before = mini.snapshot(tree)
    wanted = [patch(), patch(OTHER, id="other"), patch(NEW, id="new")]
    steps = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            if steps == after:
                raise Killed
            steps += 1
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patched:
        for name in ("_put", "_write", "_drop", "write_atomically"):
            patched.setattr(journal, name, counted(getattr(journal, name)))
        patched.setattr(journal, "repair", lambda root: None)
        try:
            apply(tree, wanted)
            died = False
        except Killed:
            died = True
    result = status(tree)
    now = mini.snapshot(tree)
    if died and not result.patches:
        assert now == before
    else:
        assert [one.state for one in result.patches] == ["applied"] * 3
    assert not (tree / ".rekindle/journal/journal.json").exists() or not journal.begun(tree)
    again = apply(tree, wanted)
    assert {one.state for one in again.patches} == {"applied"}
    unapply(tree)
    assert mini.snapshot(tree) == before


def test_a_full_disk_leaves_the_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = mini.snapshot(tree)

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "_write", full)
    with pytest.raises(BadInput, match="No space left"):
        apply(tree, [patch()])
    assert mini.snapshot(tree) == before


def test_choices_carry_their_reason(tree: Path) -> None:
    header = mini.HEADER.replace(" version >=1.12", " version >=1.12\n cmake >=4")
    conditional = patch(header=header)

    def verdict(**facts: str) -> tuple[str, str]:
        (choice,) = choose([conditional], Context({"version": "1.13.0", **facts}, tree))
        return choice.verdict, choice.why

    assert verdict(cmake="4.4.1")[0] == "needed"
    assert verdict(cmake="3.31") == ("not-needed", "needs cmake >=4; here it is 3.31")
    assert verdict() == ("unknown", "depends on cmake >=4, which is not known here")
    shown = apply(tree, choose([conditional], Context({"version": "1.13.0"}, tree)))
    assert shown.patches[0].state == "unknown" and shown.changed == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_patch_as_windows_keeps_it(tree: Path, tmp_path: Path, encoding: str, end: str) -> None:
    """From Notepad or PowerShell: a mark, UTF-16, CRLF. The tree's own line ends decide what is written."""
    plain, kept = tmp_path / "plain.patch", tmp_path / "kept.patch"
    plain.write_bytes((mini.HEADER + mini.DIFF).encode())
    kept.write_bytes((mini.HEADER + mini.DIFF).replace("\n", end).encode(encoding))
    assert read_patch(kept, "torch").sha256 == read_patch(plain, "torch").sha256
    apply(tree, [read_patch(kept, "torch")])
    assert b"goodbye" in (tree / "torch/greeting.py").read_bytes()
    assert b"\r" not in (tree / "torch/greeting.py").read_bytes()


def test_a_cut_utf16_patch_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_bytes(b"\xff\xfeD\x00e")
    with pytest.raises(BadInput, match="UTF-16"):
        read_patch(tmp_path / "x.patch", "torch")


@pytest.mark.parametrize("with_git", [False, pytest.param(True, marks=needs.tool("git"))])
def test_the_digest_stands_for_the_content(tree: Path, tmp_path: Path, with_git: bool) -> None:
    if with_git:
        git = ["git", "-C", str(tree), "-c", "user.name=t", "-c", "user.email=t@t"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "v"]):
            subprocess.run([*git, *command], check=True)
    clean = status(tree).digest
    assert clean is not None and status(tree).digest == clean
    patched = apply(tree, [patch()]).digest
    assert patched != clean and status(tree).digest == patched
    (tree / "torch/other.py").write_bytes(b"mine\n")
    assert status(tree).digest not in (clean, patched)
    (tree / "torch/other.py").write_bytes(b"a\nb\nc\n")
    assert unapply(tree).digest == clean


def test_only_patches_in_the_tree_have_a_hash(tree: Path) -> None:
    header = mini.HEADER.replace(" version >=1.12", " version >=9")
    unneeded = patch(OTHER, id="other", header=header)
    result = apply(tree, choose([patch(), unneeded], Context({"version": "1.13.0"}, tree)))
    assert [(one.state, one.sha256 is not None) for one in result.patches] == [("applied", True), ("not-needed", False)]


def test_another_form_of_a_patch_of_the_tree_is_a_conflict_that_says_what_to_do(tree: Path) -> None:
    apply(tree, [patch()])
    (shown,) = apply(tree, [patch(OTHER)], dry_run=True).patches
    assert shown.state == "conflict" and "source unpatch" in (shown.detail or "")


def test_a_tree_whose_kept_patches_are_gone_is_still_put_back(tree: Path) -> None:
    before = mini.snapshot(tree)
    apply(tree, [patch()])
    (tree / ".rekindle/patches/greet.patch").unlink()
    unapply(tree)
    assert mini.snapshot(tree) == before
