"""A tree's digest: the same after a build, another after an edit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rekindle.source import journal, tree
from rekindle.source.patches import status
from rekindle.spark.unpack import unpack


def test_what_a_build_leaves_behind_is_no_change(tmp_path: Path) -> None:
    root = tmp_path / "spark"
    unpack(root)
    before = status(root).digest
    made = ("spark/version.py", "spark/lib/libspark_core.so", "build/CMakeCache.txt", "tools/__pycache__/x.pyc")
    for name in (*made, ".rekindle-build.lock"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"made by a build")
    (root / "spark_miniature.egg-info").mkdir()
    (root / "spark_miniature.egg-info" / "PKG-INFO").write_text("x")
    assert status(root).digest == before
    (root / "setup.py").write_text("# edited\n")
    assert status(root).digest != before


@pytest.mark.parametrize("small", [True, False])
def test_of_a_tree_too_large_to_read_its_origin_counts_and_of_a_small_one_its_content(
    small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "spark"
    unpack(root)
    if not small:
        monkeypatch.setattr(tree, "SMALL_FILES", 1)
    before = status(root).digest
    (root / "setup.py").write_text("# edited\n")
    edited = status(root).digest
    journal.write_record(root, msgspec.structs.replace(journal.read_record(root), origin="elsewhere"))
    assert (edited != before, status(root).digest != edited) == (small, not small)
