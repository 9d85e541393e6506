"""Fetching from a real git server on this machine: submodules, mirrors, cuts, references."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle.errors import BadInput, Interrupted
from rekindle.model.progress import Silent
from rekindle.source.checkout import Mirror, check_out
from rekindle.source.fetch import Wanted, fetch
from rekindle.source.tree import missing_submodules

pytestmark = [pytest.mark.integration, needs.tool("git")]
UPSTREAM = "https://git.invalid/"


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


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytorch.git with gloo and fbgemm, and asmjit inside fbgemm; a later commit moves on from the tag."""
    root = tmp_path_factory.mktemp("srv")
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


@pytest.fixture
def server(upstream: Path) -> Iterator[Mirror]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    daemon = subprocess.Popen(
        ["git", "daemon", "--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={port}",
         f"--base-path={upstream}", str(upstream)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield Mirror(UPSTREAM, f"git://127.0.0.1:{port}/")
    daemon.terminate()
    daemon.wait()


def wanted(*mirrors: Mirror, **more: Any) -> Wanted:
    return Wanted(place=f"{UPSTREAM}pytorch/.git", version="2.6.0", mirrors=mirrors, **more)


def test_a_tag_with_all_submodules(server: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "pytorch é"
    tree = fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    assert (tree.project, tree.version, tree.missing_submodules) == ("torch", "2.6.0", ())
    assert (target / "third_party/fbgemm/third_party/asmjit/CMakeLists.txt").is_file()
    assert not (target / "later.txt").exists()
    assert git(target, "rev-list", "--count", "HEAD") == "1"
    assert git(target, "rev-parse", "rekindle-base") == tree.commit
    assert git(target, "status", "--short") == ""
    again = fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    assert again.commit == tree.commit


def test_a_commit_instead_of_a_tag(server: Mirror, upstream: Path, tmp_path: Path) -> None:
    commit = git(upstream / "pytorch", "rev-parse", "v2.6.0^{commit}")
    url = f"{UPSTREAM}pytorch/.git"
    assert check_out(url, tmp_path / "t", commit, mirrors=[server], progress=Silent()) == commit


def test_a_release_that_does_not_exist(server: Mirror, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"v9\.9\.9 is not in that repository"):
        check_out(f"{UPSTREAM}pytorch/.git", tmp_path / "t", "v9.9.9", mirrors=[server], progress=Silent())


def test_a_missing_submodule_is_named_and_then_continued(server: Mirror, upstream: Path, tmp_path: Path) -> None:
    """gloo cannot be had at first: the error names it, the rest stays, the same command finishes."""
    shutil.move(upstream / "gloo", upstream / "gloo.away")
    try:
        with pytest.raises(Interrupted, match=r"third_party/gloo \(not checked out\)"):
            fetch(wanted(server), tmp_path / "t", cache=tmp_path / "c", windows=False)
    finally:
        shutil.move(upstream / "gloo.away", upstream / "gloo")
    assert (tmp_path / "t/third_party/fbgemm/CMakeLists.txt").is_file()
    tree = fetch(wanted(server), tmp_path / "t", cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == () and (tmp_path / "t/third_party/gloo/CMakeLists.txt").is_file()


def test_edits_in_a_submodule_survive_another_fetch(server: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    (target / "third_party/fbgemm/CMakeLists.txt").write_text("mine\n")
    shutil.rmtree(target / "third_party/gloo")
    tree = fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == ()
    assert (target / "third_party/fbgemm/CMakeLists.txt").read_text() == "mine\n"


def test_a_submodule_at_another_commit_is_named(server: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    inner = target / "third_party/gloo"
    (inner / "x").write_text("")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "mine")
    assert missing_submodules(target) == ("third_party/gloo (at another commit than recorded)",)


def test_local_changes_are_not_thrown_away(server: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    (target / "setup.py").write_text("mine\n")
    newer = Wanted(place=f"{UPSTREAM}pytorch/.git", version="2.6.1", mirrors=(server,))
    with pytest.raises(BadInput, match=r"changes of its own \(setup\.py\)"):
        fetch(newer, target, cache=tmp_path / "c", windows=False)
    assert (target / "setup.py").read_text() == "mine\n"


def test_no_server_is_an_interruption(tmp_path: Path) -> None:
    nowhere = Mirror(UPSTREAM, "git://127.0.0.1:9/")
    with pytest.raises(Interrupted, match="git fetch did not succeed"):
        fetch(wanted(nowhere), tmp_path / "t", cache=tmp_path / "c", windows=False)


def test_a_reference_serves_without_the_server(server: Mirror, tmp_path: Path) -> None:
    """Objects come from the checkout that is there: the second fetch copies none of them."""
    first = tmp_path / "first"
    fetch(wanted(server), first, cache=tmp_path / "c", windows=False)
    second = tmp_path / "second"
    tree = fetch(wanted(server, reference=first), second, cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == ()
    own = git(second, "count-objects", "-v")
    assert "count: 0" in own and "in-pack: 0" in own


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_in_the_middle_and_continued(server: Mirror, tmp_path: Path) -> None:
    """Kill -9 at several moments; the same call always ends with a whole tree."""
    target = tmp_path / "t"
    code = (
        "import sys; from pathlib import Path\n"
        "from rekindle.source.fetch import Wanted, fetch; from rekindle.source.checkout import Mirror\n"
        "fetch(Wanted(place=sys.argv[2], version='2.6.0', mirrors=(Mirror(sys.argv[3], sys.argv[4]),)),"
        " Path(sys.argv[1]), cache=Path(sys.argv[1] + '.c'), windows=False)\n"
    )
    argv = [sys.executable, "-c", code, str(target), f"{UPSTREAM}pytorch/.git", server.prefix, server.instead]
    for delay in (0.35, 0.5, 0.7, 0.9):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
    tree = fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == ()
    assert (target / "third_party/fbgemm/third_party/asmjit/CMakeLists.txt").is_file()
    assert git(target, "status", "--short") == ""
