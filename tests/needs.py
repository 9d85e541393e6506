"""How an integration test says what it needs; the summary then shows what was skipped and why."""

from __future__ import annotations

import shutil

import pytest


def tool(*names: str) -> pytest.MarkDecorator:
    """Skip unless every program is on PATH."""
    missing = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)} on PATH")
