"""Writes the documentation as a site into build/site, with the finder inside it.

Usage: python tools/make_site.py [--no-finder]      (zensical is fetched by uv; mkdocs.yml says what goes where)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "docs"
GENERATOR = "zensical>=0.0.70"


def copy_pages() -> None:
    """The pages as the generator reads them: a fence names its language and nothing else."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in PAGES.rglob("*.md"):
        text = re.sub(r"(?m)^(\s*```\w+) .*$", r"\1", page.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    copy_pages()
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    # --strict: a link or an anchor that leads nowhere ends it.
    argv = [uv, "run", "--isolated", "--no-project", "--with", GENERATOR, "zensical", "build", "--strict"]
    made = subprocess.run(argv, cwd=ROOT)
    if not made.returncode and "--no-finder" not in sys.argv[1:]:
        page = ROOT / "build" / "site" / "finder-page.html"
        made = subprocess.run([sys.executable, "-m", "rekindle", "index", "page", "--out", str(page)], cwd=ROOT)
    raise SystemExit(made.returncode)


if __name__ == "__main__":
    main()
