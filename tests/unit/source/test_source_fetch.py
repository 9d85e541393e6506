"""Archives, local trees, Debian sources, pins: everything of fetch that needs no server."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import needs
import source_mini as mini
from bare_host import BareHost
from git_upstream import git
from rekindle.errors import BadInput
from rekindle.host.files import sha256_of
from rekindle.model.source import FetchOptions, JournalEdit
from rekindle.source import archive as archive_module
from rekindle.source import journal
from rekindle.source.archive import unpack
from rekindle.source.checkout import check_place, parse_mirror
from rekindle.source.fetch import default_place, fetch, fill_tree
from rekindle.source.origins import debian_package, load_origins, pinned_commit, source_entries
from rekindle.source.tree import find_submodules, listed_by_setup, missing_submodules


def tarball(path: Path, tree: Path, *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:xz") as file:
        file.add(tree, "pytorch-v1.13.1")
        for member in extra:
            file.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, **values: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(info, key, value)
    return info


def get(wanted: FetchOptions, target: Path, tmp_path: Path) -> Any:
    return fetch(wanted, target, cache=tmp_path / "cache", windows=False)


def test_an_archive_becomes_a_tree(tree: Path, tmp_path: Path) -> None:
    archive = tarball(tmp_path / "t.tar.xz", tree)
    wanted = FetchOptions(release="1.13.1", place=str(archive), sha256=sha256_of(archive))
    got = get(wanted, tmp_path / "out", tmp_path)
    assert (got.project, got.version) == ("torch", "1.13.1")
    assert got.origin is not None and sha256_of(archive) in got.origin
    assert mini.snapshot(tmp_path / "out") == mini.snapshot(tree)
    assert get(wanted, tmp_path / "out", tmp_path).notes == ("the tree was there already",)
    with pytest.raises(BadInput, match=r"is release 1\.13\.1, and 2\.6\.0 is wanted"):
        get(FetchOptions(release="2.6.0", place=str(archive)), tmp_path / "out", tmp_path)


@pytest.mark.parametrize(
    ("git", "project", "release", "revision", "place"),
    [
        (True, "torch", "2.6.0", None, "git"),
        (False, "torch", "2.6.0", None, "tarball"),
        (False, "torch", "2.6.0", "abc", "git"),
        (False, "torch", None, None, "git"),
        (False, "torchvision", "0.21.0", None, "git"),
    ],
)
def test_without_git_a_release_comes_as_its_archive(
    git: bool, project: str, release: str | None, revision: str | None, place: str
) -> None:
    """Only what an archive can be: a release of a project that publishes one with its submodules."""

    class Machine(BareHost):
        def which(self, name: str) -> str | None:
            return "git.exe" if git else None

    assert default_place(project, release, revision, Machine("windows")) == place


def test_where_there_are_no_links_their_goal_is_copied(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows: to a file, to a folder, to a link that comes later, to nowhere, to itself, to the folder above."""
    monkeypatch.setattr("rekindle.source.archive._NO_LINKS", True)
    links = {
        "torch/again.py": "greeting.py", "folder": "torch", "first": "second", "second": "setup.py", "nowhere": "gone",
        "self": "self", "torch/up": "..", "torch/deep/down": "../greeting.py",
    }  # fmt: skip
    extra = [member(f"pytorch-v1.13.1/{name}", type=tarfile.SYMTYPE, linkname=goal) for name, goal in links.items()]
    archive = tarball(tmp_path / "t.tar.xz", tree, *extra)
    unpack(archive, tmp_path / "out")
    out = tmp_path / "out"
    hello = (tree / "torch" / "greeting.py").read_bytes()
    for name in ("torch/again.py", "folder/greeting.py", "torch/deep/down"):
        assert (out / name).read_bytes() == hello, name
    assert (out / "first").read_bytes() == (out / "second").read_bytes() == (tree / "setup.py").read_bytes()
    assert not any((out / name).exists() for name in ("nowhere", "self", "torch/up"))
    assert not [path for path in out.rglob("*") if path.is_symlink()]


def test_a_wrong_archive_is_refused(tree: Path, tmp_path: Path) -> None:
    archive = tarball(tmp_path / "t.tar.xz", tree)
    with pytest.raises(BadInput, match="SHA-256"):
        get(FetchOptions(release="1.13.1", place=str(archive), sha256="0" * 64), tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "bad",
    [
        member("../evil", size=1),
        member("/etc/evil", size=1),
        member("a/../../evil", size=1),
        member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("a/link", type=tarfile.SYMTYPE, linkname="../../x"),
        member("hard", type=tarfile.LNKTYPE, linkname="../x"),
        member("dev", type=tarfile.CHRTYPE),
        member("pipe", type=tarfile.FIFOTYPE),
    ],
    ids=lambda info: info.name,
)
def test_members_stay_inside(tree: Path, tmp_path: Path, bad: tarfile.TarInfo) -> None:
    archive = tarball(tmp_path / "t.tar.xz", tree, bad)
    with pytest.raises(BadInput):
        unpack(archive, tmp_path / "deep" / "out")
    assert list((tmp_path / "deep").iterdir()) == [] and not (tmp_path / "evil").exists()


def test_zip_and_damaged_archives(tree: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as file:
        for name, (content, _) in mini.snapshot(tree).items():
            file.writestr(f"top/{name}", content)
    unpack(tmp_path / "t.zip", tmp_path / "z")
    assert {name: content for name, (content, _) in mini.snapshot(tmp_path / "z").items()} == {
        name: content for name, (content, _) in mini.snapshot(tree).items()
    }
    whole = tarball(tmp_path / "t.tar.xz", tree).read_bytes()
    for number, damaged in enumerate((b"", b"no archive", whole[: len(whole) // 2])):
        broken = tmp_path / f"{number}.tar.xz"
        broken.write_bytes(damaged)
        with pytest.raises(BadInput, match="cannot unpack"):
            unpack(broken, tmp_path / f"out{number}")
        assert not (tmp_path / f"out{number}").exists()


@needs.links()
def test_a_local_tree_is_copied_without_its_build(tree: Path, tmp_path: Path) -> None:
    (tree / "build").mkdir()
    (tree / "build/junk.o").write_text("")
    (tree / "torch/link.py").symlink_to("other.py")
    got = get(FetchOptions(place=str(tree)), tmp_path / "copy", tmp_path)
    assert got.version == "1.13.0" and (tmp_path / "copy/torch/link.py").is_symlink()
    assert not (tmp_path / "copy/build").exists()
    with pytest.raises(BadInput, match="inside"):
        get(FetchOptions(place=str(tree)), tree / "inner", tmp_path)
    with pytest.raises(BadInput, match="torchvision was wanted"):
        get(FetchOptions(place=str(tree), project="torchvision"), tmp_path / "other", tmp_path)


@needs.tool("git")
def test_a_copy_of_a_checkout_says_which_commit_it_is(tree: Path, tmp_path: Path) -> None:
    assert get(FetchOptions(place=str(tree)), tmp_path / "plain", tmp_path).commit is None
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "mine")
    copied = get(FetchOptions(place=str(tree)), tmp_path / "copy", tmp_path)
    assert copied.commit == git(tree, "rev-parse", "HEAD")


def test_where_a_checkout_may_go(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    with pytest.raises(BadInput, match="no git checkout"):
        check_place(tmp_path / "full", windows=False)
    assert check_place(tmp_path / ("long" * 30), windows=True) != []
    assert check_place(tmp_path / ("long" * 30), windows=False) == []
    assert parse_mirror("https://github.com/=file:///srv/").instead == "file:///srv/"
    with pytest.raises(BadInput, match="no mirror"):
        parse_mirror("https://mirror.example/")


def test_debian_sources_come_from_the_machine(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# comment\ndeb [arch=amd64 signed-by=/k.gpg] http://mirror.invalid/debian bookworm main contrib\n"
        "deb http://mirror.invalid/debian bookworm-updates main\n"
        "deb http://security.mirror.invalid/debian-security bookworm-security main\n"
        "deb-src http://other.invalid/debian bookworm main\n"
        "deb http://apps.invalid/repo stable/ ./\n"
    )
    (tmp_path / "sources.list.d/d.sources").write_text(
        "Types: deb\n# words\nURIs: http://second.invalid/debian\nSuites: trixie trixie-updates\n"
        "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "Types: deb\nURIs: http://off.invalid/debian\nSuites: trixie\nComponents: main\nEnabled: no\n"
    )
    (tmp_path / "sources.list.d/d.save").write_text("deb http://old.invalid/debian trixie main\n")
    entries = source_entries(tmp_path, "trixie")
    assert entries == [
        "Types: deb-src\nURIs: http://mirror.invalid/debian\nSuites: trixie\nComponents: main\nSigned-By: /k.gpg",
        "Types: deb-src\nURIs: http://second.invalid/debian\nSuites: trixie\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg",
    ]


def test_the_table_of_origins() -> None:
    assert load_origins().project.keys() == {"torch", "torchvision", "torchaudio"}
    assert debian_package("torch", "2.6.0").suite == "trixie"
    with pytest.raises(BadInput, match=r"known: 1\.13\.1, 2\.6\.0"):
        debian_package("torch", "2.0.0")


def test_pins_of_a_torch_tree(tree: Path) -> None:
    assert pinned_commit(tree, "torchvision") is None
    pin = tree / ".github/ci_commit_pins/vision.txt"
    pin.parent.mkdir(parents=True)
    pin.write_text("d7d90f56117ce0955332846a5f90b8d1346c4c09\n")
    assert pinned_commit(tree, "torchvision") == "d7d90f56117ce0955332846a5f90b8d1346c4c09"
    pin.write_text("main\n")
    assert pinned_commit(tree, "torchvision") is None


def test_submodules_without_git(tree: Path) -> None:
    assert missing_submodules(tree) == ()
    (tree / "setup.py").write_text(
        "def get_submodule_folders():\n    return [join(third_party, n) for n in ['gloo', 'onnx']]\n"
    )
    assert listed_by_setup(tree) == ("third_party/gloo", "third_party/onnx")
    assert missing_submodules(tree) == ("third_party/gloo (not there)", "third_party/onnx (not there)")
    (tree / ".gitmodules").write_text(
        '[submodule "a"]\n\tpath = third_party/a\n\turl = https://x/a\n[submodule "b"]\n\tpath = third_party/b\n'
    )
    (tree / "third_party/a").mkdir(parents=True)
    assert missing_submodules(tree) == ("third_party/a (empty)", "third_party/b (not there)")
    (tree / "third_party/a/x").write_text("")
    (tree / "third_party/a/.gitmodules").write_text('[submodule "c"]\n\tpath = deep/c\n')
    assert missing_submodules(tree) == ("third_party/a/deep/c (not there)", "third_party/b (not there)")
    (tree / ".gitmodules").write_text('[submodule "a"]\n\tpath = ../../evil\n')
    with pytest.raises(BadInput, match="not a plain path"):
        find_submodules(tree)


@needs.tool("git")
def test_a_submodule_that_is_not_checked_out_is_named_once_and_not_filled(tree: Path, tmp_path: Path) -> None:
    (tree / ".gitmodules").write_text('[submodule "a"]\n\tpath = third_party/a\n\turl = https://x/a\n')
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},third_party/a")
    git(tree, "commit", "-qm", "one")
    (tree / "third_party/a").mkdir(parents=True)
    assert missing_submodules(tree) == ("third_party/a (not checked out)",)
    assert fill_tree(tree, cache=tmp_path / "cache").missing_submodules == ("third_party/a (not checked out)",)


def test_a_tree_that_is_there_is_filled_later_where_that_is_wanted(tree: Path, tmp_path: Path) -> None:
    (tree / ".gitmodules").write_text('[submodule "a"]\n\tpath = ios\n\turl = https://x/a\n')
    place = str(tarball(tmp_path / "a.tar.xz", tree))
    for wanted in (False, False, True):
        got = get(FetchOptions(release="1.13.1", place=place, submodules=wanted), tmp_path / "t", tmp_path)
        assert (tmp_path / "t/ios/CMakeLists.txt").exists() is wanted
        assert got.missing_submodules == (() if wanted else ("ios (not there)",))


def test_what_an_archive_hides_for_git_is_told(tree: Path, tmp_path: Path) -> None:
    plain = get(
        FetchOptions(release="1.13.1", place=str(tarball(tmp_path / "a.tar.xz", tree))), tmp_path / "a", tmp_path
    )
    hidden = tarball(tmp_path / "b.tar.xz", tree, member("pytorch-v1.13.1/.git/config"))
    told = get(FetchOptions(release="1.13.1", place=str(hidden)), tmp_path / "b", tmp_path)
    assert plain.notes == ()
    assert told.notes == ("1 files of a .git in the archive were left out: git would run what its settings name",)


def test_an_archive_of_which_nothing_was_said_is_named_for_the_next_time(tree: Path, tmp_path: Path) -> None:
    archive = tarball(tmp_path / "t.tar.xz", tree)
    address = archive.as_uri()
    said = get(FetchOptions(release="1.13.1", place=address), tmp_path / "a", tmp_path).notes
    assert any(f"--sha256 {sha256_of(archive)}" in note for note in said)
    known = FetchOptions(release="1.13.1", place=address, sha256=sha256_of(archive))
    for number, wanted in enumerate((known, FetchOptions(release="1.13.1", place=str(archive)))):
        notes = get(wanted, tmp_path / f"b{number}", tmp_path).notes
        assert not any("--sha256" in note for note in notes), "the user's own file, or one that was checked"


def test_what_a_tar_claims_to_hold_has_a_limit() -> None:
    plain = archive_module._Plain(io.BytesIO(b"plain"))
    limit = 2 * archive_module.MAX_BYTES
    assert plain.seek(limit) == limit
    with pytest.raises(tarfile.ReadError, match="claims"):
        plain.seek(limit + 1)
    assert plain.read(archive_module.MAX_READ) == b""
    for size in (archive_module.MAX_READ + 1, -1):
        with pytest.raises(tarfile.ReadError, match="one header wants"):
            plain.read(size)


def test_a_deletion_that_was_done_already_is_done(tmp_path: Path) -> None:
    (tmp_path / "gone").write_text("x")
    edit = JournalEdit(path="gone", before="x", after=None, mode=None)
    for _ in range(2):
        journal._put(tmp_path, edit, None)
        assert not (tmp_path / "gone").exists()
