"""Rules that hold for any tree and any patches: in and out is nothing, half way is never."""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import source_mini as mini
from rekindle.errors import StageFailed
from rekindle.source import journal
from rekindle.source.patches import apply, parse_patch, status, unapply
from rekindle.source.patches.header import Patch

LINE = st.sampled_from(["alpha", "beta", "gamma", "delta", "", "{", "}"])
CONTENT = st.lists(LINE, min_size=1, max_size=12).map(lambda lines: "\n".join(lines) + "\n")
# For each of two files: what it is, and what two patches in a row make of it.
STORY = st.tuples(CONTENT, CONTENT, CONTENT)


def patches_of(stories: dict[str, tuple[str, str, str]]) -> list[Patch]:
    """Two patches; the second builds on the first."""
    made = []
    for step in (0, 1):
        body = ""
        for path, versions in stories.items():
            rows = difflib.unified_diff(
                versions[step].splitlines(True), versions[step + 1].splitlines(True), f"a/{path}", f"b/{path}"
            )
            body += "".join(rows)
        if body:
            made.append(parse_patch((mini.HEADER + body).encode(), "torch", id=f"p{step}", origin=f"p{step}"))
    return made


def tree_with(stories: dict[str, tuple[str, str, str]], crlf: bool) -> Path:
    root = mini.make_tree(Path(tempfile.mkdtemp()))
    for path, versions in stories.items():
        text = versions[0].replace("\n", "\r\n") if crlf else versions[0]
        (root / path).write_bytes(text.encode())
    return root


@settings(max_examples=25, deadline=None)
@given(one=STORY, two=STORY, crlf=st.booleans())
def test_in_and_out_is_nothing(one: tuple[str, str, str], two: tuple[str, str, str], crlf: bool) -> None:
    stories = {"torch/one.py": one, "torch/two.py": two}
    root = tree_with(stories, crlf)
    try:
        before = mini.snapshot(root)
        wanted = patches_of(stories)
        apply(root, wanted)
        for path, versions in stories.items():
            assert (root / path).read_bytes().replace(b"\r\n", b"\n").decode() == versions[2]
        assert apply(root, wanted).changed == ()
        unapply(root)
        assert mini.snapshot(root) == before
    except StageFailed:
        # A patch that fits both ways may be taken for one that is there; then nothing at all may have changed.
        assert mini.snapshot(root) == before
    finally:
        shutil.rmtree(root)


class Cut(BaseException):
    """The power goes."""


@settings(max_examples=25, deadline=None)
@given(one=STORY, two=STORY, after=st.integers(0, 14), unpatching=st.booleans())
def test_never_half_way(one: tuple[str, str, str], two: tuple[str, str, str], after: int, unpatching: bool) -> None:
    """Cut at any write of patch or unpatch: the next status sees all of it or nothing."""
    stories = {"torch/one.py": one, "torch/two.py": two}
    root = tree_with(stories, crlf=False)
    names = ("_put", "_write", "_drop", "write_atomically", "repair")
    originals = {name: getattr(journal, name) for name in names}
    left = after

    def counted(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if name == "repair":
                # Dead programs repair nothing; a living one may.
                return originals[name](*args, **kwargs) if left >= 0 else None
            left -= 1
            if left < 0:
                raise Cut
            return originals[name](*args, **kwargs)

        return call

    try:
        pristine = mini.snapshot(root)
        wanted = patches_of(stories)
        try:
            apply(root, wanted)
            patched = mini.snapshot(root)
        except StageFailed:
            return
        if not unpatching:
            unapply(root)
        for name in names:
            setattr(journal, name, counted(name))
        try:
            if unpatching:
                unapply(root)
            else:
                apply(root, wanted)
        except Cut:
            pass
        finally:
            for name, function in originals.items():
                setattr(journal, name, function)
        shown = status(root)
        applied = {patch.state for patch in shown.patches} == {"applied"} if shown.patches else False
        assert mini.snapshot(root) == (patched if applied else pristine)
        unapply(root)
        assert mini.snapshot(root) == pristine
    finally:
        shutil.rmtree(root)
