"""The x86-64 root: links stay inside, a broken one is made again, an unfinished one is none."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import filelock
import pytest

from rekindle.emulate import root as roots
from rekindle.emulate.qemu import EmulatedMachine
from rekindle.errors import MissingTool, Unprepared
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.model.progress import Silent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links")


def package(folder: Path) -> None:
    """What two Debian packages would leave behind, old layout: absolute links, no /lib64."""
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/python3.11").write_text("")
    (folder / "lib/x86_64-linux-gnu").mkdir(parents=True)
    (folder / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2").write_text("loader")
    (folder / "etc").mkdir()
    (folder / "etc/absolute").symlink_to("/usr/bin/python3.11")
    (folder / "usr/share").mkdir()
    (folder / "etc/folder").symlink_to("/usr/share")


def test_links_lead_inside_and_the_loader_is_where_programs_ask_for_it(tmp_path: Path) -> None:
    package(tmp_path)
    roots._repair_links(tmp_path)
    for name in ("etc/absolute", "etc/folder", "lib64/ld-linux-x86-64.so.2"):
        target = tmp_path / name
        assert target.resolve().is_relative_to(tmp_path) and target.exists()
        assert not os.path.isabs(os.readlink(target)) if target.is_symlink() else True


def test_a_merged_usr_gets_its_links(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "usr/lib64").mkdir()
    (tmp_path / "usr/lib64/ld-linux-x86-64.so.2").write_text("loader")
    roots._repair_links(tmp_path)
    assert (tmp_path / "lib64/ld-linux-x86-64.so.2").read_text() == "loader" and (tmp_path / "lib").exists()


@pytest.mark.parametrize("folder", ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib64"])
def test_a_loader_whose_link_leads_nowhere_is_linked_again(tmp_path: Path, folder: str) -> None:
    for each in ("lib64", "lib", folder):
        (tmp_path / each).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / "ld-linux-x86-64.so.2").write_text("loader")
    (tmp_path / "lib64/ld-linux-x86-64.so.2").symlink_to("../gone")
    roots._repair_links(tmp_path)
    assert (tmp_path / "lib64/ld-linux-x86-64.so.2").read_text() == "loader"


class Debian(LiveHost):
    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("apt-get", "dpkg-deb") else None


def test_an_unfinished_root_is_made_again_and_a_failure_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path / "amd64-root")  # no mark of completion
    assert roots._read_root(tmp_path / "amd64-root") is None

    def offline(host: Host, work: Path, python: str, emulated: EmulatedMachine) -> list[Path]:
        raise Unprepared(["apt-get"], 100, ["E: Unable to fetch"])

    monkeypatch.setattr(roots, "_download_packages", offline)
    with pytest.raises(Unprepared):
        roots.prepare_root(Debian(), tmp_path, Silent())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("root-")], "no leavings"

    monkeypatch.setattr(roots, "_download_packages", lambda host, work, python, emulated: [Path("a.deb")])
    monkeypatch.setattr(roots, "_run_tool", lambda host, argv, **_: package(Path(argv[-1])))
    monkeypatch.setattr(roots, "compile_ahead", lambda *_: None)
    made = roots.prepare_root(Debian(), tmp_path, Silent())
    assert made.version == (3, 11) and made.home == tmp_path / "amd64-root/usr"
    monkeypatch.setattr(roots, "_download_packages", offline)
    assert roots.prepare_root(Debian(), tmp_path, Silent()) == made, "kept: nothing is fetched again"


def test_a_folder_that_cannot_be_cleared_does_not_spoil_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network's disk may hold a file a little longer."""
    real = os.rmdir

    def busy(path: Any, *args: Any, **options: Any) -> None:
        if Path(path).name.startswith("root-"):
            raise OSError(errno.EBUSY, "busy")
        real(path, *args, **options)

    monkeypatch.setattr(roots, "_download_packages", lambda host, work, python, emulated: [Path("a.deb")])
    monkeypatch.setattr(roots, "_run_tool", lambda host, argv, **_: package(Path(argv[-1])))
    monkeypatch.setattr(roots, "compile_ahead", lambda *_: None)
    monkeypatch.setattr(os, "rmdir", busy)
    assert roots.prepare_root(Debian(), tmp_path, Silent()).root == tmp_path / "amd64-root"


def test_a_root_that_another_run_made_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Awaited(filelock.FileLock):
        def acquire(self, *args: Any, **options: Any) -> Any:
            package(tmp_path / "amd64-root")
            (tmp_path / "amd64-root" / roots.COMPLETE).write_text("5\n")
            return super().acquire(*args, **options)

    monkeypatch.setattr(filelock, "FileLock", Awaited)
    monkeypatch.setattr(roots, "_download_packages", lambda *_: pytest.fail("nothing is fetched twice"))
    assert roots.prepare_root(Debian(), tmp_path, Silent()).root == tmp_path / "amd64-root"


def test_a_machine_without_apt_is_told_so(tmp_path: Path) -> None:
    class Other(LiveHost):
        def which(self, name: str) -> str | None:
            return None

    with pytest.raises(MissingTool, match="apt-get"):
        roots.prepare_root(Other(), tmp_path, Silent())
