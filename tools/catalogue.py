"""Writes docs/diagnoses.md from the rules of ``explain``. Run it after changing a rule; a test compares."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from rekindle.explain.catalogue import render_markdown  # noqa: E402
from rekindle.host.files import write_atomically  # noqa: E402

if __name__ == "__main__":
    write_atomically(ROOT / "docs" / "diagnoses.md", render_markdown())
    print("docs/diagnoses.md written")
