"""Files of Debian source packages: what is there is kept, apt is asked for one part, the pool serves what is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import BadInput, CommandFailed, MissingTool, StageFailed
from rekindle.model.progress import Silent
from rekindle.source import origins
from rekindle.source.origins import DebianSource, debian_package

ORIG, PACKAGING = ".orig.tar.*", ".debian.tar.*"


@pytest.fixture
def package() -> DebianSource:
    return debian_package("torch", "2.6.0")


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt/sources.list").write_text("deb http://mirror.invalid/debian trixie main\n")
    return tmp_path / "apt"


class Apt:
    """Stands for apt-get: notes what it is asked and leaves ``brings`` in the folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, brings: str | None = None, ok: bool = True) -> None:
        self.asked: list[list[str]] = []
        self.brings, self.ok = brings, ok
        monkeypatch.setattr(origins, "run_long", self.run)
        monkeypatch.setattr("rekindle.source.origins.shutil.which", lambda name: f"/usr/bin/{name}")

    def run(self, argv: list[str], *, cwd: Path, env: dict[str, str], on_line: Any) -> int:
        self.asked.append(argv)
        on_line("Get:1 http://mirror.invalid")
        on_line("E: something")
        fetching = "source" in argv
        if fetching and self.brings:
            (cwd / self.brings).write_text("x")
        return 0 if self.ok or not fetching else 100


def fetch(package: DebianSource, tmp_path: Path, ending: str = ORIG) -> Path:
    return origins.fetch_file(package, tmp_path / "deep" / "c", ending, progress=Silent(), apt=tmp_path / "apt")


def names(package: DebianSource) -> tuple[str, str]:
    plain = package.release.rsplit("-", 1)[0]
    return f"{package.package}_{plain}.orig.tar.xz", f"{package.package}_{package.release}.debian.tar.xz"


@pytest.mark.parametrize(("ending", "which", "word"), [(ORIG, 0, "--tar-only"), (PACKAGING, 1, "--diff-only")])
def test_one_part_is_asked_for_and_then_kept(
    package: DebianSource,
    apt: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    which: int,
    word: str,
) -> None:
    name = names(package)[which]
    stand_in = Apt(monkeypatch, name)
    assert fetch(package, tmp_path, ending).name == name
    update, source = stand_in.asked
    assert update[-1] == "update" and source[-3:] == [word, "--download-only", f"{package.package}={package.release}"]
    assert fetch(package, tmp_path, ending).name == name and len(stand_in.asked) == 2


def test_half_a_download_and_a_signature_are_not_the_file(
    package: DebianSource, apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Apt(monkeypatch)
    (tmp_path / "deep" / "c").mkdir(parents=True)
    for ending in (".asc", ".part", ".part.json"):
        (tmp_path / "deep" / "c" / (names(package)[0] + ending)).write_text("")
    with pytest.raises(StageFailed, match=r"apt brought no \.orig\.tar of"):
        fetch(package, tmp_path)


def test_a_failure_counts_only_where_the_file_did_not_come(
    package: DebianSource, apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Apt(monkeypatch, ok=False)
    with pytest.raises(CommandFailed, match="E: something"):
        fetch(package, tmp_path)
    Apt(monkeypatch, names(package)[0], ok=False)
    assert fetch(package, tmp_path).is_file()


def test_without_apt_or_a_debian_archive_nothing_comes(
    package: DebianSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Apt(monkeypatch)
    with pytest.raises(StageFailed, match="none of this machine's apt sources"):
        fetch(package, tmp_path)
    monkeypatch.setattr("rekindle.source.origins.shutil.which", lambda name: None)
    with pytest.raises(MissingTool, match="no apt-get here"):
        fetch(package, tmp_path)


def test_what_no_suite_lists_comes_from_the_pool(
    package: DebianSource, apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    Apt(monkeypatch)
    name = names(package)[0]
    gone = msgspec.structs.replace(package, suite=None, pool="pool/main/p", sha256={"other": "0" * 64, name: "a" * 64})
    asked: list[tuple[str, str | None]] = []

    def download(url: str, target: Path, *, sha256: str | None) -> Path:
        asked.append((url, sha256))
        if "second" not in url:
            raise StageFailed("gone")
        return target

    monkeypatch.setattr(origins, "download", download)
    with pytest.raises(StageFailed, match="gone"):
        fetch(gone, tmp_path)
    (apt / "sources.list").write_text(
        "deb http://mirror.invalid/debian/ trixie main\ndeb http://second.invalid/debian trixie main\n"
    )
    asked.clear()
    assert fetch(gone, tmp_path).name == name
    assert asked == [(f"http://{host}.invalid/debian/pool/main/p/{name}", "a" * 64) for host in ("mirror", "second")]
    with pytest.raises(StageFailed, match="cannot be had"):
        fetch(msgspec.structs.replace(gone, sha256={}), tmp_path)


def test_headers_of_a_third_party_come_from_the_packaging(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no package is known that holds nothing"):
        origins.find_packaged("1.13.1", tmp_path, Silent(), "nothing")
