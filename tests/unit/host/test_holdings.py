"""What we keep is found and counted once; what goes is ours, unheld and inside its place."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import msgspec
import platformdirs
import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.host import made
from rekindle.host.workspace import Workspace, disk_bytes, find_holdings, remove
from rekindle.model.holdings import Holding


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    data, cache = tmp_path / "data/rekindle", tmp_path / "cache/rekindle"
    monkeypatch.setattr(made, "own_directories", lambda: (data, cache))
    return data


def fill(folder: Path, count: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number}.bin").write_bytes(os.urandom(100_000))
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """One of every part, at a place of the user's choice."""
    made = Workspace(tmp_path / "Werk bänk")
    with made.lock("test"):
        for name in ("source/torch-2.7.1", "envs/torch-x", "build/b", "wheels", "cache/git", "logs", "reports"):
            fill(made.root / name)
    return made


def kinds() -> list[str]:
    return sorted(one.kind for one in find_holdings())


def test_every_part_is_found_and_every_byte_counted_once(workspace: Workspace, home: Path) -> None:
    fill(home.parent.parent / "cache/rekindle/facts")
    fill(home / "plans")
    assert kinds() == [
        "build", "cache", "cache", "environment", "logs", "reports", "source", "wheels", "workspace"
    ]  # fmt: skip
    inside = [one for one in find_holdings() if one.path.startswith(str(workspace.root))]
    assert sum(one.bytes for one in inside) == disk_bytes(workspace.root) > 700_000


def test_a_link_is_as_old_as_itself_not_as_what_it_leads_to(workspace: Workspace, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.write_text("new")
    folder = workspace.root / "build"
    (folder / "link").symlink_to(new)
    hour_ago = time.time() - 3600
    for path in (*folder.iterdir(), folder):
        os.utime(path, (hour_ago, hour_ago), follow_symlinks=False)
    (age,) = (holding.age_seconds for holding in find_holdings() if holding.kind == "build")
    assert 3500 < age < 3700


def test_what_is_of_tomorrow_is_new_today(workspace: Workspace) -> None:
    tomorrow = time.time() + 90_000
    for path in (workspace.root / "logs", *(workspace.root / "logs").iterdir()):
        os.utime(path, (tomorrow, tomorrow))
    assert [one.age_seconds for one in find_holdings() if one.kind == "logs"] == [0]


def test_our_own_books_are_no_workspaces(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which wheels were made here is needed after every clean: without it they count as strangers'."""
    monkeypatch.setattr(platformdirs, "user_data_dir", lambda *_, **__: str(home))
    made.mark_made("ab" * 32)
    made.note_made("environment", home.parent / "gone")
    shutil.rmtree(home.parent / "gone")
    assert list(find_holdings()) == []
    assert not api.clean(everything=True).removed
    assert made.was_made_here("ab" * 32)


def test_a_file_with_two_names_counts_once_and_a_link_leads_nowhere(tmp_path: Path) -> None:
    folder = fill(tmp_path / "x")
    before = disk_bytes(folder)
    os.link(folder / "0.bin", folder / "again.bin")
    (folder / "link").symlink_to(fill(tmp_path / "large", 20))
    assert disk_bytes(folder) - before < 50_000
    blocks = sum(os.lstat(path).st_blocks for path in (folder, folder / "0.bin"))
    assert disk_bytes(folder) == 512 * blocks


def test_by_default_only_what_can_be_made_again_goes(workspace: Workspace) -> None:
    done = api.clean()
    assert sorted(one.kind for one in done.removed) == ["build", "cache", "logs"] and not done.kept
    assert kinds() == ["environment", "reports", "source", "wheels", "workspace"]


def test_a_workspace_goes_whole_and_off_the_list(workspace: Workspace) -> None:
    done = api.clean([str(workspace.root)])
    assert not workspace.root.exists() and not done.kept and list(find_holdings()) == []
    assert list(made.noted_folders()) == []


def test_everything_goes_but_a_wheelhouse(workspace: Workspace, tmp_path: Path) -> None:
    house = fill(tmp_path / "house")
    made.note_made("wheelhouse", house)
    api.clean(everything=True)
    assert kinds() == ["wheelhouse"] and (house / "0.bin").exists()
    api.clean(["wheelhouse"])
    assert not house.exists()


def test_only_what_is_old_enough(workspace: Workspace) -> None:
    assert api.clean(["logs"], older_than_days=1, dry_run=True).removed == ()
    assert len(api.clean(["logs"], dry_run=True).removed) == 1
    for path in (workspace.logs, workspace.logs / "0.bin"):
        os.utime(path, (0, 0))
    assert len(api.clean(["logs"], older_than_days=1, dry_run=True).removed) == 1


def test_a_dry_run_and_a_no_remove_nothing(workspace: Workspace) -> None:
    before = disk_bytes(workspace.root)
    assert api.clean(everything=True, dry_run=True).freed_bytes > 700_000
    with pytest.raises(BadInput, match="nothing was removed"):
        api.clean(everything=True, confirm=lambda _: False)
    assert disk_bytes(workspace.root) == before


def test_a_workspace_that_somebody_works_in_stays(workspace: Workspace) -> None:
    with workspace.lock("build"):
        done = api.clean(["build"])
    assert done.removed == () and "in use by" in done.kept[0].why
    assert (workspace.build / "b").exists()


def test_what_we_did_not_make_is_never_touched(tmp_path: Path) -> None:
    mine = fill(tmp_path / "mine")
    with pytest.raises(BadInput, match="not among the things"):
        api.clean([str(mine)])
    claimed = Holding(kind="environment", name="mine", path=str(mine), bytes=1, age_seconds=1)
    assert remove(claimed) == "it was not made by rekindle" and (mine / "0.bin").exists()


def test_a_forged_list_removes_nothing(tmp_path: Path) -> None:
    """The list names the place, but only the mark inside makes it ours."""
    mine = fill(tmp_path / "mine")
    made.note_made("environment", fill(tmp_path / "gone"))
    note = next(made.list_folder().iterdir())
    note.write_text(note.read_text().replace("gone", "mine"))
    assert list(find_holdings()) == [] and (mine / "0.bin").exists()


def test_a_link_inside_a_workspace_is_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    outside = fill(tmp_path / "outside")
    (workspace.build / "b/link").symlink_to(outside)
    (workspace.source / "mine").symlink_to(outside)
    api.clean([str(workspace.root)])
    assert (outside / "0.bin").exists() and not workspace.root.exists()


def test_the_environment_that_is_active_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    env = fill(tmp_path / "env")
    made.note_made("environment", env)
    monkeypatch.setenv("VIRTUAL_ENV", str(env))
    assert "active" in api.clean(["environment"]).kept[0].why and env.exists()


def test_on_the_command_line(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert "keeps" in said and "torch-2.7.1" in said and "rekindle clean" in said
    assert main(["clean"]) == 2  # nobody can answer here
    assert "--yes" in capsys.readouterr().err
    assert main(["clean", "--older-than", "soon"]) == 2
    assert main(["clean", "--yes"]) == 0
    assert "free again" in capsys.readouterr().out and not (workspace.build).exists()


def test_what_cannot_be_removed_says_why(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rekindle.host.workspace.shutil.rmtree", refuse)
    (kept,) = [item for item in api.clean(["build"]).kept if item.path.endswith("build")]
    assert kept.why == "Permission denied"
    assert workspace.build.is_dir()


def test_a_part_of_no_workspace_goes_without_a_lock(home: Path) -> None:
    """A cache has nobody who works in it; a workspace is held while it goes."""
    folder = fill(home / "cache-of-ours")
    made.note_made("cache", folder)
    holding = Holding(kind="cache", name="x", path=str(folder), bytes=1, age_seconds=1)
    with Workspace(folder).lock("test"):
        busy = msgspec.structs.replace(holding, kind="workspace")
        assert "is in use by" in str(remove(busy)) and folder.exists()
    assert remove(holding) is None and not folder.exists()


def test_a_file_in_a_part_s_place_stays(workspace: Workspace) -> None:
    """Parts are folders: what else bears the name of one by now was put there by somebody."""
    shutil.rmtree(workspace.build)
    workspace.build.write_text("mine")
    part = Holding(kind="build", name="build", path=str(workspace.build), bytes=1, age_seconds=1)
    assert remove(msgspec.structs.replace(part, workspace=str(workspace.root))) is not None
    assert workspace.build.read_text() == "mine"


def test_only_folders_of_our_own_are_workspaces(home: Path, tmp_path: Path) -> None:
    fill(home / "mine")
    (home / "linked").symlink_to(fill(tmp_path / "elsewhere"))
    (home / "note.txt").write_text("x")
    assert {Path(item.path).name for item in find_holdings()} == {"mine"}


def test_what_leads_out_of_its_place_is_never_touched(workspace: Workspace, tmp_path: Path) -> None:
    outside = fill(tmp_path / "outside")
    (tmp_path / "link").symlink_to(workspace.root)
    there = str(workspace.root)

    def why(path: Path, root: str | None) -> str | None:
        return remove(Holding(kind="build", name="x", path=str(path), bytes=1, age_seconds=1, workspace=root))

    assert why(outside, there) == why(workspace.root / "../outside", there) == "it leads out of its workspace"
    assert (
        why(tmp_path / "link", None) == why(workspace.build, str(tmp_path / "link")) == "it is a link to another place"
    )
    assert (outside / "0.bin").exists() and (workspace.build / "b").exists()
