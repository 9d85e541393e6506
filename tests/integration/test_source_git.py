"""Fetching from a real git server on this machine: submodules, mirrors, cuts, references."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import needs
from git_upstream import TORCH, UPSTREAM, git, make_upstream
from rekindle.errors import Interrupted
from rekindle.model.source import FetchOptions
from rekindle.source.checkout import Mirror
from rekindle.source.fetch import fetch

pytestmark = [pytest.mark.integration, needs.tool("git")]


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_upstream(tmp_path_factory.mktemp("srv"))


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


def wanted(*mirrors: Mirror, **more: Any) -> FetchOptions:
    words = tuple(f"{mirror.prefix}={mirror.instead}" for mirror in mirrors)
    return FetchOptions(place=TORCH, release="2.6.0", mirrors=words, **more)


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


def test_no_server_is_an_interruption(tmp_path: Path) -> None:
    nowhere = Mirror(UPSTREAM, "git://127.0.0.1:9/")
    with pytest.raises(Interrupted, match="git fetch did not succeed"):
        fetch(wanted(nowhere), tmp_path / "t", cache=tmp_path / "c", windows=False)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_in_the_middle_and_continued(server: Mirror, tmp_path: Path) -> None:
    """Kill -9 at several moments; the same call always ends with a whole tree."""
    target = tmp_path / "t"
    code = (
        "import sys; from pathlib import Path\n"
        "from rekindle.source.fetch import fetch; from rekindle.model.source import FetchOptions\n"
        "fetch(FetchOptions(place=sys.argv[2], release='2.6.0', mirrors=(f'{sys.argv[3]}={sys.argv[4]}',)),"
        " Path(sys.argv[1]), cache=Path(sys.argv[1] + '.c'), windows=False)\n"
    )
    argv = [sys.executable, "-c", code, str(target), TORCH, server.prefix, server.instead]
    for delay in (0.35, 0.5, 0.7, 0.9):
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
    tree = fetch(wanted(server), target, cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == ()
    assert (target / "third_party/fbgemm/third_party/asmjit/CMakeLists.txt").is_file()
    assert git(target, "status", "--short") == ""
