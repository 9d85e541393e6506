"""A miniature tree that looks like torch from outside, and a patch for it; used by the tests beside it."""

from __future__ import annotations

from pathlib import Path

HEADER = """Description: say goodbye instead of hello
 Because the tests want it.
Origin: rekindle
Applies-To:
 version >=1.12
Last-Update: 2026-11-15
---
"""

GREETING = "\n".join(["one", "two", "hello", "four", "five", "six", "seven"]) + "\n"

DIFF = """--- a/torch/greeting.py
+++ b/torch/greeting.py
@@ -1,5 +1,6 @@
 one
 two
-hello
+goodbye
+and thanks
 four
 five
"""


def make_tree(root: Path, version: str = "1.13.0a0") -> Path:
    for name, content in {
        "version.txt": version + "\n",
        "setup.py": "# setup\n",
        "torch/__init__.py": "",
        "c10/CMakeLists.txt": "project(c10)\n",
        "torch/greeting.py": GREETING,
        "torch/other.py": "a\nb\nc\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    return root


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file's bytes and mode, without our own folder and git's."""
    return {
        path.relative_to(root).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".rekindle", ".git"} & set(path.relative_to(root).parts)
    }
