"""Checkouts of a repository with nested submodules: which revision, what is kept, what comes when it is run again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import needs
from git_upstream import TORCH, UPSTREAM, git, make_upstream
from rekindle.errors import BadInput, Interrupted, MissingTool
from rekindle.model.progress import Silent
from rekindle.model.source import FetchOptions
from rekindle.source.checkout import Mirror, check_out
from rekindle.source.fetch import fetch
from rekindle.source.tree import missing_submodules

pytestmark = needs.tool("git")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_upstream(tmp_path_factory.mktemp("srv"))


@pytest.fixture
def mirror(upstream: Path) -> Mirror:
    return Mirror(UPSTREAM, f"{upstream.as_uri()}/")


def wanted(*mirrors: Mirror, release: str = "2.6.0", **more: Any) -> FetchOptions:
    words = tuple(f"{mirror.prefix}={mirror.instead}" for mirror in mirrors)
    return FetchOptions(place=TORCH, release=release, mirrors=words, **more)


def test_a_commit_instead_of_a_tag(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    commit = git(upstream / "pytorch", "rev-parse", "v2.6.0^{commit}")
    url = TORCH
    assert check_out(url, tmp_path / "t", commit, mirrors=[mirror], progress=Silent()) == commit


def test_a_release_that_does_not_exist(mirror: Mirror, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"v9\.9\.9 is not in that repository"):
        check_out(TORCH, tmp_path / "t", "v9.9.9", mirrors=[mirror], progress=Silent())


def test_a_missing_submodule_is_named_and_then_continued(mirror: Mirror, upstream: Path, tmp_path: Path) -> None:
    """gloo cannot be had at first: the error names it, the rest stays, the same command finishes."""
    shutil.move(upstream / "gloo", upstream / "gloo.away")
    try:
        with pytest.raises(Interrupted, match=r"third_party/gloo \(not checked out\)"):
            fetch(wanted(mirror), tmp_path / "t", cache=tmp_path / "c", windows=False)
    finally:
        shutil.move(upstream / "gloo.away", upstream / "gloo")
    assert (tmp_path / "t/third_party/fbgemm/CMakeLists.txt").is_file()
    tree = fetch(wanted(mirror), tmp_path / "t", cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == () and (tmp_path / "t/third_party/gloo/CMakeLists.txt").is_file()


def test_edits_in_a_submodule_survive_another_fetch(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    fetch(wanted(mirror), target, cache=tmp_path / "c", windows=False)
    (target / "third_party/fbgemm/CMakeLists.txt").write_text("mine\n")
    shutil.rmtree(target / "third_party/gloo")
    tree = fetch(wanted(mirror), target, cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == ()
    assert (target / "third_party/fbgemm/CMakeLists.txt").read_text() == "mine\n"


def test_a_submodule_at_another_commit_is_named(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    fetch(wanted(mirror), target, cache=tmp_path / "c", windows=False)
    inner = target / "third_party/gloo"
    (inner / "x").write_text("")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "mine")
    assert missing_submodules(target) == ("third_party/gloo (at another commit than recorded)",)


def test_local_changes_are_not_thrown_away(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    fetch(wanted(mirror), target, cache=tmp_path / "c", windows=False)
    (target / "setup.py").write_text("mine\n")
    newer = wanted(mirror, release="2.6.1")
    with pytest.raises(BadInput, match=r"changes of its own \(setup\.py\)"):
        fetch(newer, target, cache=tmp_path / "c", windows=False)
    assert (target / "setup.py").read_text() == "mine\n"


def test_a_reference_serves_without_the_server(mirror: Mirror, tmp_path: Path) -> None:
    """Objects come from the checkout that is there: the second fetch copies none of them."""
    first = tmp_path / "first"
    fetch(wanted(mirror), first, cache=tmp_path / "c", windows=False)
    second = tmp_path / "second"
    tree = fetch(wanted(mirror, reference=first), second, cache=tmp_path / "c", windows=False)
    assert tree.missing_submodules == ()
    own = git(second, "count-objects", "-v")
    assert "count: 0" in own and "in-pack: 0" in own


def test_what_is_there_is_not_fetched_again(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    first = check_out(TORCH, target, "v2.6.0", mirrors=[mirror], progress=Silent())
    assert check_out(TORCH, target, "v2.6.0", progress=Silent()) == first, "no mirror leads to it any more"
    assert git(target, "rev-list", "--count", "HEAD") == "1" and git(target, "rev-parse", "rekindle-base") == first
    assert (target / "third_party/fbgemm/third_party/asmjit/CMakeLists.txt").is_file()


def test_submodules_may_be_left_out(mirror: Mirror, tmp_path: Path) -> None:
    check_out(TORCH, tmp_path / "t", "v2.6.0", mirrors=[mirror], submodules=False, progress=Silent())
    assert not (tmp_path / "t/third_party/gloo/CMakeLists.txt").exists() and (tmp_path / "t/version.txt").exists()


def test_a_checkout_moves_to_another_release(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    for release, later in (("v2.6.0", False), ("v2.6.1", True), ("v2.6.0", False)):
        commit = check_out(TORCH, target, release, mirrors=[mirror], progress=Silent())
        assert (target / "later.txt").exists() == later and git(target, "rev-parse", "HEAD") == commit


def test_files_that_a_kill_left_unwritten_are_written(mirror: Mirror, tmp_path: Path) -> None:
    target = tmp_path / "t"
    check_out(TORCH, target, "v2.6.0", mirrors=[mirror], progress=Silent())
    (target / "version.txt").unlink()
    (target / ".git/index.lock").write_text("")
    check_out(TORCH, target, "v2.6.0", progress=Silent())
    assert (target / "version.txt").read_text() == "2.6.0a0\n"


def test_a_submodule_whose_clone_was_killed_is_fetched_anew(mirror: Mirror, tmp_path: Path) -> None:
    """The outer one has no commit yet; the nested one has its clone and none of its files."""
    target = tmp_path / "t"
    check_out(TORCH, target, "v2.6.0", mirrors=[mirror], progress=Silent())
    modules = target / ".git/modules/third_party"
    shutil.rmtree(modules / "gloo/objects")
    (modules / "gloo/objects").mkdir()
    nested = target / "third_party/fbgemm/third_party/asmjit"
    (nested / "CMakeLists.txt").unlink()
    check_out(TORCH, target, "v2.6.0", mirrors=[mirror], progress=Silent())
    assert missing_submodules(target) == ()
    for path in ("gloo", "fbgemm", "fbgemm/third_party/asmjit"):
        assert (target / "third_party" / path / "CMakeLists.txt").is_file(), path


def test_a_reference_must_be_a_repository(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot serve as --reference"):
        check_out(TORCH, tmp_path / "t", "v2.6.0", reference=tmp_path, progress=Silent())


def test_without_git_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.host.live.LiveHost.which", lambda *_: None)
    with pytest.raises(MissingTool, match="git is not installed"):
        check_out(TORCH, tmp_path / "t", "v2.6.0", progress=Silent())
    assert not (tmp_path / "t").exists()
