"""Cleaning touches the build tree and nothing else; resuming puts right what a crash left."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from unittest import mock

import pytest

import needs
from rekindle.build.tree import (
    TRASH,
    TreeState,
    clean,
    differences,
    free_files,
    refuse_few_files,
    refuse_future,
    remove_empty_outputs,
    stop_before_full,
)
from rekindle.errors import BadInput, Interrupted
from rekindle.formats.ninja import has_objects


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "src"
    (root / "build/deep").mkdir(parents=True)
    (root / "build/CMakeCache.txt").write_text("")
    (root / "build/deep/a.o").write_text("x")
    (root / "setup.py").write_text("")
    return root


def test_all_of_it_and_nothing_else(tree: Path) -> None:
    assert clean(tree / "build")
    assert sorted(path.name for path in tree.iterdir()) == ["setup.py"]
    assert clean(tree / "build") is False


def test_read_only_files_go_too(tree: Path) -> None:
    (tree / "build/deep/a.o").chmod(0o400)
    (tree / "build/deep").chmod(0o500)
    assert clean(tree / "build")
    assert not (tree / "build").exists()
    assert not list(tree.glob(f"{TRASH}*"))


@needs.links()
def test_a_link_is_not_followed(tree: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "CMakeCache.txt").write_text("")
    (tree / "build").rename(tmp_path / "away")
    (tree / "build").symlink_to(precious)
    with pytest.raises(BadInput, match="is a link"):
        clean(tree / "build")
    assert (precious / "CMakeCache.txt").exists()


def test_a_link_inside_is_removed_and_its_target_kept(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tree / "build/link").symlink_to(tmp_path / "precious")
    (tree / "build/dirlink").symlink_to(tmp_path)
    clean(tree / "build")
    assert (tmp_path / "precious").read_text() == "x"


def test_what_is_no_build_tree_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "build/thesis.tex").write_text("years of work")
    with pytest.raises(BadInput, match="does not look like a build tree"):
        clean(tmp_path / "build")
    assert (tmp_path / "build/thesis.tex").exists()


def test_installed_files_go_but_only_inside_the_tree(tree: Path, tmp_path: Path) -> None:
    stale = tree / "torch/lib/libold.so"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    outside = tmp_path / "libsystem.so"
    outside.write_text("")
    escape = tree / "torch/../../libsystem.so"
    (tree / "build/install_manifest.txt").write_text(f"{stale}\n{outside}\n{escape}\nrelative/x\n")
    clean(tree / "build")
    assert not stale.exists()
    assert outside.exists()


def test_what_an_earlier_kill_left_is_removed(tree: Path) -> None:
    (tree / f"{TRASH}123").mkdir()
    clean(tree / "build")
    assert not list(tree.glob(f"{TRASH}*"))


def test_empty_objects_are_made_again(tmp_path: Path) -> None:
    (tmp_path / ".ninja_log").write_text("# ninja log v6\n0\t5\t1\ta.o\tx\n0\t6\t1\tb.o\ty\n0\t7\t1\tstamp\tz\n")
    (tmp_path / "a.o").write_text("")
    (tmp_path / "b.o").write_text("content")
    (tmp_path / "stamp").write_text("")
    assert remove_empty_outputs(tmp_path) == ["a.o"]
    assert (tmp_path / "stamp").exists()


def test_files_from_the_future(tree: Path) -> None:
    refuse_future(tree)
    ahead = time.time() + 3600
    os.utime(tree / "setup.py", (ahead, ahead))
    with pytest.raises(BadInput, match="60 minutes in the future"):
        refuse_future(tree)


def test_a_filling_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 50 << 30
    monkeypatch.setattr("rekindle.build.tree.shutil.disk_usage", lambda _: mock.Mock(free=free))
    stop_before_full(tmp_path)
    free = 100 << 20
    with pytest.raises(Interrupted, match="100 MiB are left"):
        stop_before_full(tmp_path)
    left = 300
    monkeypatch.setattr("rekindle.build.tree.free_files", lambda _: left)
    refuse_few_files(tmp_path)
    left = 299
    with pytest.raises(BadInput, match=r"only 299 more files fit"):
        refuse_few_files(tmp_path)


@pytest.mark.parametrize("log", [".ninja_log", "temp.linux-x86_64-cpython-311/.ninja_log"])
def test_what_was_compiled_is_seen_wherever_it_lies(tmp_path: Path, log: str) -> None:
    """torch compiles in build/, an extension in a folder per Python; neither is thrown away for another setting."""
    place = (tmp_path / log).parent
    place.mkdir(exist_ok=True)
    assert not has_objects(tmp_path)
    (tmp_path / log).write_text("# ninja log v5\n0\t9\t1\tbuild.ninja\tabc\n")
    assert not has_objects(tmp_path), "nothing was compiled yet"
    (tmp_path / log).write_text(f"# ninja log v5\n0\t9\t1\t{place}/deep/a.o\tabc\n")
    assert has_objects(tmp_path)
    (place / "deep").mkdir()
    (place / "deep/a.o").touch()
    assert remove_empty_outputs(tmp_path) == [(place / "deep/a.o").relative_to(tmp_path).as_posix()]
    assert not (place / "deep/a.o").exists()


def test_objects_without_a_log(tmp_path: Path) -> None:
    folder = tmp_path / "temp.linux-x86_64-cpython-311"
    folder.mkdir()
    (folder / "a.old").touch()
    assert not has_objects(tmp_path)
    (folder / "a.o").touch()
    assert has_objects(tmp_path)


def test_an_empty_file_elsewhere_is_not_ours(tmp_path: Path) -> None:
    """A log is part of a stranger's tree: it may name any file of this machine."""
    outside = tmp_path / "precious.so"
    outside.touch()
    tree = tmp_path / "tree/build"
    tree.mkdir(parents=True)
    lines = "".join(f"0\t{n}\t1\t{name}\t{n}a\n" for n, name in enumerate((outside, "../../precious.so"), 1))
    (tree / ".ninja_log").write_text(f"# ninja log v5\n{lines}")
    assert remove_empty_outputs(tree) == []
    assert outside.exists()


@pytest.mark.parametrize(("ahead", "refused"), [(119.5, False), (120.0, False), (120.5, True)])
def test_two_minutes_ahead_are_no_clock_that_jumped(
    ahead: float, refused: bool, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000.0
    for file in tree.rglob("*"):
        os.utime(file, (now, now))
    os.utime(tree / "build/CMakeCache.txt", (now + ahead, now + ahead))
    monkeypatch.setattr(time, "time", lambda: now)
    if refused:
        with pytest.raises(BadInput, match=r"CMakeCache\.txt is 2 minutes in the future"):
            refuse_future(tree)
    else:
        refuse_future(tree)


@pytest.mark.parametrize(("limit", "free", "told"), [(9, 7, 7), (1, 0, 0), (0, 7, None)])
def test_how_many_files_fit_where_the_file_system_sets_a_number(
    limit: int, free: int, told: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: mock.Mock(f_files=limit, f_favail=free), raising=False)
    assert free_files(tmp_path) == told
    monkeypatch.delattr(os, "statvfs")
    assert free_files(tmp_path) is None, "Windows has no such number"


@pytest.mark.parametrize(("free", "stops"), [(1 << 30, False), ((1 << 30) - 1, True)])
def test_a_gibibyte_is_left_free(free: int, stops: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.build.tree.shutil.disk_usage", lambda _: mock.Mock(free=free))
    if stops:
        with pytest.raises(Interrupted, match="1024 MiB are left"):
            stop_before_full(tmp_path)
    else:
        stop_before_full(tmp_path)


@pytest.mark.parametrize(("left", "stops"), [(50, False), (49, True)])
def test_fifty_files_more_must_fit(left: int, stops: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.build.tree.free_files", lambda _: left)
    monkeypatch.setattr("rekindle.build.tree.shutil.disk_usage", lambda _: mock.Mock(free=50 << 30))
    if stops:
        with pytest.raises(Interrupted, match="only 49 more files fit"):
            stop_before_full(tmp_path)
    else:
        stop_before_full(tmp_path)


def test_a_tree_that_is_in_use_is_refused_with_who_uses_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*words: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr("rekindle.build.tree.rename_patiently", busy)
    with pytest.raises(BadInput) as refused:
        clean(tree / "build")
    assert refused.value.message == f"cannot remove {tree / 'build'}: Device or resource busy", "nobody has it open"
    with (tree / "build/deep/a.o").open(), pytest.raises(BadInput, match=rf"; held by .*\(process {os.getpid()}\)"):
        clean(tree / "build")
    assert (tree / "build/deep/a.o").exists()


def test_an_empty_tree_is_none(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    assert clean(tmp_path / "build") is False and (tmp_path / "build").is_dir()
    assert clean(tmp_path / "none") is False


def test_how_an_old_tree_was_made_does_not_make_it_another() -> None:
    old = TreeState(project="torch", version="1", settings={"env MAX_JOBS": "2", "env USE_CUDA": "0"})
    new = TreeState(project="torch", version="1", settings={"env USE_CUDA": "0"})
    assert differences(old, new) == []
    gone = TreeState(project="torch", version="1", settings={})
    assert differences(old, gone) == ["env USE_CUDA was '0' and is now None"]
