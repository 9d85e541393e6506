"""Source trees and archives from strangers: looking at one, fetching or copying it runs nothing that it names."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest
from canary import Canary, rekindle

from rekindle.errors import BadInput
from rekindle.host.git import Git
from rekindle.model.source import FetchOptions
from rekindle.source.archive import unpack
from rekindle.source.fetch import fetch
from rekindle.source.history import open_history
from rekindle.source.patches import status
from rekindle.source.paths import check_relative, inside

HOOKS = (
    "post-index-change",
    "post-checkout",
    "reference-transaction",
    "pre-commit",
    "post-commit",
    "fsmonitor-watchman",
)
# Each setting of a .git/config that makes some git command run a program; {} is the program.
SETTINGS = {
    "fsmonitor": "[core]\n\tfsmonitor = {}\n",
    "hooks": "[core]\n\thooksPath = .git/myhooks\n",
    "filter": '[filter "x"]\n\tclean = {} %f\n\tsmudge = {} %f\n\trequired = true\n',
    "process": '[filter "x"]\n\tprocess = {}\n\trequired = true\n',
    "external diff": "[diff]\n\texternal = {}\n",
    "diff driver": '[diff "x"]\n\tcommand = {}\n\ttextconv = {}\n',
    "ssh": '[core]\n\tsshCommand = {}\n[remote "origin"]\n\turl = ssh://nobody@127.0.0.1/x\n\tpromisor = true\n'
    "[extensions]\n\tpartialClone = origin\n",
    "ext": '[protocol "ext"]\n\tallow = always\n[remote "origin"]\n\turl = ext::{}\n\tpromisor = true\n'
    "[extensions]\n\tpartialClone = origin\n",
    "upload-pack": '[remote "origin"]\n\turl = /nowhere\n\tuploadpack = {}\n\tpromisor = true\n'
    "[extensions]\n\tpartialClone = origin\n",
    "submodule update": '[submodule "third_party/x"]\n\tactive = true\n\turl = /nowhere\n\tupdate = !{}\n',
    "alias": "[alias]\n\tstatus = !{}\n\trev-parse = !{}\n",
    "pager and editor": "[core]\n\tpager = {}\n\teditor = {}\n[pager]\n\tstatus = true\n\ttag = true\n",
    "signing": "[tag]\n\tgpgSign = true\n\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {}\n",
    "include": "[include]\n\tpath = more\n",
    "gc": "[gc]\n\tauto = 1\n\trecentObjectsHook = {}\n",
}


def mini(root: Path) -> Path:
    for name, content in {
        "version.txt": "2.6.0\n",
        "setup.py": "# setup\n",
        "torch/__init__.py": "",
        "c10/CMakeLists.txt": "project(c10)\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


def git(root: Path, *args: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(root), *identity, *args], check=True, capture_output=True)


def hostile_tree(root: Path, kind: str, canary: Canary) -> Path:
    """A repository whose own settings name the canary, with files that git must look at anew."""
    mini(root)
    git(root, "init", "-q")
    (root / ".gitattributes").write_text("* filter=x diff=x\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    text = SETTINGS[kind].replace("{}", str(canary.program))
    if kind == "include":
        (root / ".git/more").write_text(SETTINGS["fsmonitor"].replace("{}", str(canary.program)), encoding="utf-8")
    with (root / ".git/config").open("a", encoding="utf-8") as file:
        file.write(text)
    for place in ("hooks", "myhooks") if kind == "hooks" else ():
        for name in HOOKS:
            hook = root / ".git" / place / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_bytes(canary.program.read_bytes())
            hook.chmod(0o755)
    if "partialClone" in text:
        # A missing object is what makes git ask the remote.
        objects = sorted((root / ".git/objects").rglob("*"))
        for path in objects:
            if path.is_file() and len(path.name) == 38 and path.stat().st_size < 60:
                path.unlink()
    # Same size, other content, later time: git has to read the file to know.
    (root / "setup.py").write_text("# SETUP\n", encoding="utf-8")
    later = time.time() + 10
    os.utime(root / "setup.py", (later, later))
    return root


@pytest.mark.parametrize("kind", SETTINGS)
def test_looking_at_a_tree_runs_nothing_of_it(tmp_path: Path, kind: str) -> None:
    canary = Canary(tmp_path / "canary")
    root = hostile_tree(tmp_path / "tree", kind, canary)
    status(root)
    ours = Git(root)
    ours.dirty()
    ours.tag_at_head()
    ours.ask("diff", "HEAD", "--no-ext-diff", "--no-textconv")
    ours.ask("submodule", "status", "--recursive")
    ours.ask("tag", "rekindle-test")
    assert canary.sang == ""


@pytest.mark.parametrize("kind", ["fsmonitor", "hooks", "filter", "process", "external diff", "signing"])
def test_working_in_a_tree_runs_nothing_of_it(tmp_path: Path, kind: str) -> None:
    canary = Canary(tmp_path / "canary")
    root = hostile_tree(tmp_path / "tree", kind, canary)
    history = open_history(root)
    from rekindle.source.history import commit, stage

    stage(history, ["setup.py"])
    commit(history, "one more")
    history.tag("rekindle-test")
    history.run("reset", "--hard", "--quiet", "HEAD~1")
    assert canary.sang == ""


def test_submodules_never_run_their_update_command(tmp_path: Path) -> None:
    canary = Canary(tmp_path / "canary")
    inner = mini(tmp_path / "inner")
    git(inner, "init", "-q")
    git(inner, "add", ".")
    git(inner, "commit", "-q", "-m", "one")
    root = mini(tmp_path / "tree")
    git(root, "init", "-q")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "third_party/x")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "config", "submodule.third_party/x.update", f"!{canary.program}")
    git(root, "-C", "third_party/x", "checkout", "-q", "--orphan", "other")
    from rekindle.model.progress import Silent
    from rekindle.source.checkout import Mirror, _run

    mirrors = [Mirror(str(inner), str(inner))]
    _run(Git(root), ["submodule", "update", "--init", "--checkout", "--force", "--recursive"], mirrors, Silent())
    assert canary.sang == ""


def test_a_tree_of_another_user_is_refused_as_git_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = mini(tmp_path / "tree")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    assert status(root).commit
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(BadInput, match="another user"):
        status(root)
    with pytest.raises(BadInput, match="another user"):
        fetch(FetchOptions(place=str(root), release="2.6.0"), tmp_path / "copy", cache=tmp_path / "c", windows=False)
    assert not (tmp_path / "copy").exists()


def test_settings_that_move_the_work_tree_are_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "setup.py").write_text("mine\n", encoding="utf-8")
    root = mini(tmp_path / "tree")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "config", "core.worktree", str(victim))
    with pytest.raises(BadInput, match="another work tree"):
        Git(root).run("reset", "--hard", "--quiet")
    assert (victim / "setup.py").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("form", ["x.tar.gz", "x.tar.xz", "x.zip"])
def test_an_archive_brings_no_git(tmp_path: Path, form: str) -> None:
    canary = Canary(tmp_path / "canary")
    root = hostile_tree(tmp_path / "tree", "fsmonitor", canary)
    archive = tmp_path / form
    if form.endswith("zip"):
        with zipfile.ZipFile(archive, "w") as file:
            for path in root.rglob("*"):
                if path.is_file():
                    file.write(path, f"torch/{path.relative_to(root)}")
            file.writestr("torch/third_party/GIT~1/config", "x")
    else:
        with tarfile.open(archive, cast("Any", f"w:{form.rsplit('.', 1)[1]}")) as file:
            file.add(root, "torch")
            info = tarfile.TarInfo("torch/third_party/.Git\u200c/config")
            info.size = 1
            file.addfile(info, io.BytesIO(b"x"))
    done = rekindle(
        "source", "fetch", "--from", str(archive), "--release", "2.6.0", "--source", str(tmp_path / "out"), "--json",
        "--workspace", str(tmp_path / "ws"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "left out" in done.stdout
    assert not [path for path in (tmp_path / "out").rglob("*") if "git" in path.name.lower() and path.is_dir()]
    assert rekindle("source", "status", "--source", str(tmp_path / "out")).returncode == 0
    assert canary.sang == ""


@pytest.mark.parametrize(
    "name",
    [
        ".git/config", "a/.GIT/hooks/x", "git~1/config", "a/GIT~2/x", ".git./x", ".git /x", ".git::$INDEX_ALLOCATION/x",
        ".g\u200cit/config", "a:stream", "aux.c", "a/NUL", "com1.txt", "CONIN$", "lpt¹.h", "a./b",
        "a /b", "..", "a/../b", "/etc/passwd", "C:/x", "\\\\host\\x", "a\\b", "a\nb", "a\x7fb", "", ".", "a//b",
        ".rekindle/x", "x" * 5000,
    ],
)  # fmt: skip
def test_patches_may_not_name_what_git_refuses(name: str) -> None:
    with pytest.raises(BadInput):
        check_relative(name, origin="a patch")


@pytest.mark.parametrize("name", ["setup.py", "a/.gitignore", ".gitmodules", "git/x", "auxiliary.c", "com.py"])
def test_ordinary_names_pass(name: str, tmp_path: Path) -> None:
    check_relative(name, origin="a patch")
    assert inside(tmp_path, name, origin="a patch") == tmp_path / name


def bomb(path: Path, size: int) -> Path:
    with tarfile.open(path, "w:xz", preset=0) as file:
        info = tarfile.TarInfo("torch/zeros")
        info.size = size
        file.addfile(info, _Zeros(size))
    return path


class _Zeros:
    def __init__(self, left: int) -> None:
        self.left = left

    def read(self, size: int = -1) -> bytes:
        size = min(size, self.left)
        self.left -= size
        return bytes(size)


def test_an_archive_that_unpacks_to_far_too_much_is_stopped(tmp_path: Path) -> None:
    archive = bomb(tmp_path / "bomb.tar.xz", 300 << 20)
    with pytest.raises(BadInput, match="times its size"):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.tar.xz"]


def test_a_tar_header_cannot_ask_for_gigabytes(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type = tarfile.GNUTYPE_LONGNAME
    info.size = 1 << 30
    archive = tmp_path / "long.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(BadInput, match="cannot unpack"):
        unpack(archive, tmp_path / "out")


def test_a_zip_with_too_many_entries_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.source.archive.MAX_FILES", 10)
    archive = tmp_path / "many.zip"
    for count, fine in ((10, True), (11, False)):
        with zipfile.ZipFile(archive, "w") as file:
            for number in range(count):
                file.writestr(f"torch/{number}", "x")
        if fine:
            unpack(archive, tmp_path / "out")
        else:
            with pytest.raises(BadInput, match="more than 10 files"):
                unpack(archive, tmp_path / "out2")
