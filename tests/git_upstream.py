"""A torch-like repository with nested submodules, recorded under an address that only a mirror leads to."""

from __future__ import annotations

import subprocess
from pathlib import Path

UPSTREAM = "https://git.invalid/"
TORCH = f"{UPSTREAM}pytorch/.git"


def git(where: Path, *args: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *settings, *args], cwd=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(folder: Path, files: dict[str, str], submodules: dict[str, str] | None = None) -> str:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for path, url in (submodules or {}).items():
        # Added from disk, then recorded under the address a server would have.
        git(folder, "submodule", "--quiet", "add", str(folder.parent / url.removeprefix(UPSTREAM)), path)
        git(folder, "config", "-f", ".gitmodules", f"submodule.{path}.url", url)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return git(folder, "rev-parse", "HEAD")


def make_upstream(root: Path) -> Path:
    """pytorch.git with gloo and fbgemm, and asmjit inside fbgemm; a later commit moves on from the tag."""
    repository(root / "asmjit", {"CMakeLists.txt": "project(asmjit)\n"})
    repository(root / "gloo", {"CMakeLists.txt": "project(gloo)\n"})
    repository(root / "fbgemm", {"CMakeLists.txt": "project(fbgemm)\n"}, {"third_party/asmjit": f"{UPSTREAM}asmjit"})
    marks = {"version.txt": "2.6.0a0\n", "setup.py": "", "torch/__init__.py": "", "c10/CMakeLists.txt": ""}
    modules = {"third_party/gloo": f"{UPSTREAM}gloo", "third_party/fbgemm": f"{UPSTREAM}fbgemm"}
    repository(root / "pytorch", marks, modules)
    git(root / "pytorch", "tag", "v2.6.0")
    (root / "pytorch/later.txt").write_text("later\n")
    git(root / "pytorch", "add", "-A")
    git(root / "pytorch", "commit", "-qm", "later")
    git(root / "pytorch", "tag", "v2.6.1")
    return root
