"""Odd surroundings: no language, a private umask, a home nobody can write, folders with odd names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from canary import LONG

from tiny_wheels import make_wheel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX surroundings")
PLAN = ("plan", "--gpu", "Tesla K40c", "--os", "linux", "-q")
NO_LANGUAGE = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
# Even root cannot write there.
NO_HOME = {name: "/proc/rekindle" for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
NAMES = ("a b", "ümläut", "-rf", "--json", "new\nline", "$(x)", "a'b\"c", "%41", "…")


def rekindle(*argv: str, cwd: Path, env: dict[str, str], umask: int = 0o22) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "rekindle", *argv], cwd=cwd, env={**os.environ, **env}, umask=umask,
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip


def check(done: subprocess.CompletedProcess[bytes]) -> None:
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode in (0, 1, 2), said
    assert "bug in rekindle" not in said and "Traceback" not in said


def verbs(folder: Path) -> list[tuple[str, ...]]:
    """What reads and writes: each with files of its own in ``folder``."""
    wheel = make_wheel(folder, "torch", "2.6.0", files={"torch/__init__.py": "ä = 'ö'\n".encode()})
    (folder / "log.txt").write_bytes(b"c++: fatal error: Killed signal terminated program cc1plus\n\xff\xfe\n")
    (folder / "matrix.toml").write_text('project = "spark"\n[axes]\npython = ["3.11"]\nvariant = ["cpu"]\n', "utf-8")
    place = f"./{wheel.name}"
    return [
        PLAN, ("doctor", "-q"), ("inspect", place, "-q"), ("inspect", place, "--html", "./page.html", "-q"),
        ("explain", "./log.txt", "-q"), ("index", "add", place, "--root", "./house", "-q"),
        ("index", "build", "--root", "./house", "-q"), ("index", "check", "--root", "./house", "-q"),
        ("export", "sh", "--gpu", "Tesla K40c", "--os", "linux", "--out", "./x.sh", "-q"),
        ("matrix", "plan", "./matrix.toml", "-q"), ("verify", "--claims", place, "-q"), ("bundle", place, "-q"),
        ("guard", "-q"), ("list", "-q"), ("key", "new"),
    ]  # fmt: skip


# Python 3.11 without UTF-8 mode reads the paths in its own site-packages as ASCII, and dies before Rekindle begins.
ASCII = pytest.mark.skipif(
    not sys.executable.isascii(), reason="Python itself cannot start from such a folder in ASCII"
)


@pytest.mark.parametrize(
    "name",
    [pytest.param("no-language", marks=ASCII), pytest.param("no-home", marks=LONG), pytest.param("umask", marks=LONG)],
)
def test_every_verb_in_odd_surroundings(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "ein ört"
    folder.mkdir()
    own = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_DATA_HOME": str(tmp_path / "data")}
    env = own | {"no-language": NO_LANGUAGE, "no-home": NO_HOME, "umask": {}}[name]
    for argv in verbs(folder):
        check(rekindle(*argv, cwd=folder, env=env, umask=0o77 if name == "umask" else 0o22))


@LONG
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_folders_with_odd_names(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for argv in verbs(folder)[2:9]:
        check(rekindle(*argv, cwd=folder, env={"XDG_CONFIG_HOME": str(tmp_path / "config")}))
