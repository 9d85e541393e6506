"""The diff reader and the applier, with git apply as the oracle where git is there."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.source.journal import Edit
from rekindle.source.patches.diff import FileDiff, Hunk, read_diff
from rekindle.source.patches.engine import Mismatch, apply_diff, render_diff, uses_crlf

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"x y\n", b"\xff\xfe\n"]), max_size=14)


def unified(before: bytes, after: bytes, context: int = 3) -> bytes:
    rows = difflib.diff_bytes(
        difflib.unified_diff, before.splitlines(True), after.splitlines(True), b"a/f", b"b/f", n=context
    )
    return b"".join(row if row.endswith(b"\n") else row + b"\n\\ No newline at end of file\n" for row in rows)


@settings(max_examples=200, deadline=None)
@given(before=LINES, after=LINES, cut=st.booleans())
def test_any_diff_applies_and_reverses(before: list[bytes], after: list[bytes], cut: bool) -> None:
    old, new = b"".join(before), b"".join(after)
    if cut:
        old, new = old.removesuffix(b"\n"), new.removesuffix(b"\n")
    if old == new:
        return
    (diff,) = read_diff(unified(old, new), origin="t")
    assert apply_diff(diff, old) == new
    assert apply_diff(diff.reversed(), new) == old


@settings(max_examples=200, deadline=None)
@given(before=LINES, after=LINES, prefix=st.integers(0, 5))
def test_crlf_files_keep_their_endings(before: list[bytes], after: list[bytes], prefix: int) -> None:
    old = b"p\n" * prefix + b"".join(before)
    new = b"p\n" * prefix + b"".join(after)
    if old == new or not old or not new:
        return
    (diff,) = read_diff(unified(old, new), origin="t")
    crlf = apply_diff(diff, old.replace(b"\n", b"\r\n"))
    assert crlf == new.replace(b"\n", b"\r\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git on PATH")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=LINES, after=LINES, moved=st.integers(0, 3), spoilt=st.booleans())
def test_same_as_git_apply(tmp_path: Path, before: list[bytes], after: list[bytes], moved: int, spoilt: bool) -> None:
    old, new = b"".join(before), b"".join(after)
    if old == new or not old or not new:
        return
    raw = unified(old, new)
    present = b"moved\n" * moved + (old.replace(b"b\n", b"B\n", 1) if spoilt else old)
    (tmp_path / "f").write_bytes(present)
    (tmp_path / "p").write_bytes(raw)
    done = subprocess.run(["git", "apply", "p"], cwd=tmp_path, capture_output=True, check=False)
    (diff,) = read_diff(raw, origin="t")
    try:
        ours = apply_diff(diff, present)
    except Mismatch:
        ours = None
    if done.returncode == 0:
        # Where a hunk fits in several places git may take another one, so only its verdict is compared then.
        assert ours is not None
        if moved == 0 and not spoilt:
            assert ours == (tmp_path / "f").read_bytes()
    elif moved == 0:
        assert ours is None or spoilt


def test_a_later_hunk_goes_where_the_earlier_ones_moved_it() -> None:
    """Of many places that fit, the one that is as far from the named line as the hunk before was."""
    lines = [b"first\n", *[b"same\n"] * 60]
    grown = [*lines[:1], b"new\n", b"new\n", b"new\n", *lines[1:20], b"changed\n", *lines[21:]]
    for before, after in ((lines, grown), (grown, lines)):
        (diff,) = read_diff(unified(b"".join(before), b"".join(after), context=1), origin="t")
        assert len(diff.hunks) == 2 and apply_diff(diff, b"".join(before)) == b"".join(after)
        moved = apply_diff(diff, b"above\n" * 9 + b"".join(before))
        assert moved == b"above\n" * 9 + b"".join(after)


def test_every_hunk_goes_to_its_own_line_where_all_lines_are_alike() -> None:
    same = (b"same\n",)
    hunks = (
        Hunk(4, same, (b"1\n", b"2\n", b"3\n")),
        Hunk(10, same * 2, ()),
        Hunk(15, (), (b"4\n",)),
        Hunk(20, same, (b"5\n",)),
    )
    after = (*same * 3, b"1\n", b"2\n", b"3\n", *same * 9, b"4\n", *same * 4, b"5\n", *same * 10)
    assert apply_diff(FileDiff("f", hunks), b"".join(same * 30)) == b"".join(after)
    with pytest.raises(Mismatch, match=r"hunk 2 \(line 10\) does not fit f"):
        apply_diff(FileDiff("f", (hunks[0], Hunk(10, (b"other\n",), ()))), b"".join(same * 30))


TEXT = st.none() | st.lists(st.sampled_from([b"a\n", b"b\n", b"\x0c\n", b"c\rd\n", b"\xc2\x85\n", b"e"]), max_size=9)


@settings(max_examples=200, deadline=None)
@given(before=TEXT, after=TEXT)
def test_a_change_that_is_shown_can_be_applied(before: list[bytes] | None, after: list[bytes] | None) -> None:
    """Also where a form feed or a lone carriage return stands in a line, or the last line does not end."""
    old, new = (None if side is None else b"".join(side) for side in (before, after))
    if (old or b"") == (new or b""):
        return
    (diff,) = read_diff(render_diff([Edit("f", old, new)]).encode(), origin="t")
    assert apply_diff(diff, old) == new


@pytest.mark.parametrize(
    ("content", "most"),
    [(b"a\r\nb\n", False), (b"a\r\nb\r\nc\n", True), (b"a\r\nb\nc\n", False), (b"", False), (b"a\r\n", True)],
)
def test_line_ends_are_those_of_most_lines(content: bytes, most: bool) -> None:
    assert uses_crlf(content) is most


@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_a_hunk_is_found_wherever_it_has_moved_to(at: int) -> None:
    (diff,) = read_diff(b"--- a/f\n+++ b/f\n@@ -5 +5 @@\n-old\n+new\n", origin="t")
    lines = [b"x\n"] * 10
    lines[at] = b"old\n"
    assert apply_diff(diff, b"".join(lines)) == b"".join(lines).replace(b"old", b"new")


def test_creation_and_deletion() -> None:
    (made,) = read_diff(b"--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+x\n+y\n", origin="t")
    assert made.creates and apply_diff(made, None) == b"x\ny\n"
    assert apply_diff(made.reversed(), b"x\ny\n") is None
    with pytest.raises(Mismatch, match="exists already"):
        apply_diff(made, b"")
    with pytest.raises(Mismatch, match=r"does not fit|other content"):
        apply_diff(made.reversed(), b"x\ny\nz\n")


def test_the_line_that_is_wrong_is_named() -> None:
    for raw, line in (
        (b'--- "a/f"\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n', 1),
        (b'--- a/f\n+++ "b/f"\n@@ -1 +1 @@\n-a\n+b\n', 2),
        (b"x\n--- a/f\n+++ b/\xff\n@@ -1 +1 @@\n-a\n+b\n", 3),
        (b"x\nrename from a\n", 2),
        (b"x\nx\n@@ -1 +1 @@\n-a\n+b\n", 3),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n", 3),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n*a\n", 4),
    ):
        with pytest.raises(BadInput, match=rf"^t:{line} "):
            read_diff(raw, origin="t")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"x\n--- a/f\n", "holds no diff"),
        (b"--- a/f\n+++ b/f\n", "has no hunk for f"),
        (
            b"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n@@ -1,0 +2 @@\n+b\n",
            "creates or deletes f in more than one hunk",
        ),
        (b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n@@ -2 +0,0 @@\n-b\n", "in more than one hunk"),
    ],
)
def test_what_is_wrong_with_a_diff_is_told(raw: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_diff(raw, origin="t")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no diff at all\n",
        b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n*a\n",
        b"--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        b"--- a/f\n+++ b/f\n",
        b"@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\n",
        b"diff --git a/f b/f\nGIT binary patch\nliteral 3\n",
        b'--- "a/f\\303"\n+++ "b/f\\303"\n@@ -1 +1 @@\n-a\n+b\n',
    ],
)
def test_damaged_diffs_are_refused(raw: bytes) -> None:
    with pytest.raises(BadInput):
        read_diff(raw, origin="t")
