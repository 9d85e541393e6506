"""The miniature tree as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from source_mini import make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "arbre é")
