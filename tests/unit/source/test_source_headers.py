"""Headers from the package index: found at hand or by the real pip, known by their checksum, and put in whole."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
import source_mini as mini
from rekindle.compat.supply import parts_for
from rekindle.errors import BadInput, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.progress import Silent
from rekindle.model.supply import FromIndex, ThirdParty, TreePart
from rekindle.source import supply
from rekindle.source.fetch import Filling, fill_tree
from rekindle.source.patches import status
from rekindle.source.supply import Headers, fill, survey, with_parts

RELEASE = "1.13.1"
FILE = "some_headers-3.5.1.0-py3-none-any.whl"
METADATA = "Metadata-Version: 2.1\nName: some-headers\nVersion: 3.5.1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-16", "how": "measured"}


class Deaf(LiveHost):
    """No program may be started: whatever is found must be at hand."""

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        raise AssertionError(f"{argv} was started")


class Saying(LiveHost):
    """Every pip answers alike."""

    def __init__(self, **said: Any) -> None:
        super().__init__()
        self.said: dict[str, Any] = {"code": 1, **said}
        self.asked: list[Sequence[str]] = []

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name == "pip3" else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(argv)
        return Completed(argv=tuple(argv), **self.said)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / FILE, "w") as file:
        file.writestr("lib/source/include/some/some.h", "// some\n")
        file.writestr("lib/source/tools/util/include/util.h", "// util\n")
        file.writestr("lib/source/examples/main.cu", "no header")
        for name, text in {"METADATA": METADATA, "WHEEL": WHEEL, "LICENSE.txt": "free", "RECORD": ""}.items():
            file.writestr(f"some_headers-3.5.1.0.dist-info/{name}", text)
    return folder


def wanted(folder: Path, **other: Any) -> FromIndex:
    fields: dict[str, Any] = {
        "package": "some-headers",
        "version": "3.5.1.0",
        "file": FILE,
        "sha256": hashlib.sha256((folder / FILE).read_bytes()).hexdigest(),
        "backend": "cuda",
        "take": {
            "include": "lib/source/include",
            "tools/util/include": "lib/source/tools/util/include",
            "LICENSE.txt": "some_headers-3.5.1.0.dist-info/LICENSE.txt",
        },
    }
    return FromIndex(**{**fields, **other})


def looking(tmp_path: Path, *links: Path, host: LiveHost | None = None, offline: bool = True) -> Headers:
    places = tuple(map(str, links))
    return Headers(host=host or Deaf(), cache=tmp_path / "cache", progress=Silent(), links=places, offline=offline)


def test_a_file_at_hand_is_taken_without_pip_and_kept(wheels: Path, tmp_path: Path) -> None:
    one = wanted(wheels)
    found = looking(tmp_path, wheels).folders(one)
    assert (found["include"] / "some/some.h").read_text() == "// some\n"
    assert found["LICENSE.txt"].read_text() == "free"
    (wheels / FILE).unlink()
    assert looking(tmp_path).folders(one) == found, "the second time from the cache, with nothing at hand"


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_the_real_pip_brings_it_without_an_index(wheels: Path, tmp_path: Path) -> None:
    # A page of links is pip's to read; a folder is read by ourselves.
    page = tmp_path / "page.html"
    page.write_text(f'<a href="{(wheels / FILE).as_uri()}">{FILE}</a>')
    got = looking(tmp_path, page, host=LiveHost()).file(wanted(wheels))
    assert got.read_bytes() == (wheels / FILE).read_bytes()
    assert [path.name for path in got.parent.iterdir()] == [FILE], "nothing is left beside it"


def test_pip_refuses_another_content(wheels: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f'<a href="{(wheels / FILE).as_uri()}">{FILE}</a>')
    with pytest.raises(StageFailed, match="cannot be had from the package index") as told:
        looking(tmp_path, page, host=LiveHost()).file(wanted(wheels, sha256="0" * 64))
    assert "pip download --no-deps -d wheels some-headers==3.5.1.0" in (told.value.remedy or "")
    assert list((tmp_path / "cache/index").iterdir()) == []


def test_another_content_at_hand_or_in_the_cache_is_not_taken(wheels: Path, tmp_path: Path) -> None:
    one = wanted(wheels)
    looking(tmp_path, wheels).file(one)
    (tmp_path / "cache/index" / FILE).write_bytes(b"spoiled")
    assert looking(tmp_path, wheels).file(one).read_bytes() == (wheels / FILE).read_bytes(), "fetched again"
    (tmp_path / "cache/index" / FILE).unlink()
    (wheels / FILE).write_bytes(b"another")
    with pytest.raises(StageFailed, match=f"not {one.sha256}"):
        looking(tmp_path, wheels).file(one)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"err": "x: No module named pip"}, "there is no pip here"),
        ({"err": "WARNING: a\nERROR: No matching distribution found\n"}, "No matching distribution found"),
        ({"err": ""}, "pip gave no reason"),
        ({"code": None, "timed_out": True}, "no answer in 300 seconds"),
        ({"code": 0}, "another file"),
    ],
)
def test_why_it_cannot_be_had(said: dict[str, Any], why: str, wheels: Path, tmp_path: Path) -> None:
    host = Saying(**said)
    with pytest.raises(StageFailed, match=why) as told:
        looking(tmp_path, host=host).file(wanted(wheels))
    assert "--find-links wheels" in (told.value.remedy or "")
    assert all("--require-hashes" in argv and "--no-index" in argv for argv in host.asked)
    no_pip = "No module named pip" in said.get("err", "")
    assert [argv[0] for argv in host.asked] == [sys.executable, "/usr/bin/pip3"][: 2 if no_pip else 1]


def test_the_index_is_asked_unless_told_otherwise(wheels: Path, tmp_path: Path) -> None:
    host = Saying(err="ERROR: no\n")
    with pytest.raises(StageFailed):
        looking(tmp_path, host=host, offline=False).file(wanted(wheels))
    assert "--no-index" not in host.asked[0]


@pytest.mark.parametrize(
    "other",
    [{"take": {"../../out": "lib/source/include"}}, {"take": {"include": "../../../etc"}}, {"file": "../x.whl"}],
)
def test_no_path_leads_out(other: dict[str, Any], wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a plain path inside the tree"):
        looking(tmp_path, wheels).folders(wanted(wheels, **other))


def test_a_member_that_leads_out_unpacks_nothing(wheels: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheels / FILE, "a") as file:
        file.writestr("lib/../../../escaped.h", "out")
    with pytest.raises(BadInput, match="not a plain path"):
        looking(tmp_path, wheels).folders(wanted(wheels))
    assert not list(tmp_path.rglob("escaped.h"))
    assert not (tmp_path / "cache/headers").exists() or list((tmp_path / "cache/headers").iterdir()) == []


# In a tree.


@pytest.fixture
def row(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> ThirdParty:
    made = ThirdParty(
        name="some", torch=">=1", way="index", needs=("include/some/some.h",), index=wanted(wheels), **KNOWN
    )
    monkeypatch.setattr(supply, "parts_for", lambda _release: (made,))
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = mini.make_tree(tmp_path / "pytorch")
    (root / ".gitmodules").write_text('[submodule "s"]\n\tpath = third_party/some\n\turl = https://example.org/s.git\n')
    return root


def filled(root: Path, headers: Headers | None, backend: str | None) -> TreePart:
    (part,) = fill(root, RELEASE, host=Deaf(), packaging=None, progress=Silent(), headers=headers, backend=backend)
    return part


def test_a_build_with_cuda_gets_them(tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path) -> None:
    part = filled(tree, looking(tmp_path, wheels), "cuda")
    assert (part.way, part.ready) == ("index", True)
    assert FILE in (part.origin or "") and row.index and row.index.sha256 in (part.origin or "")
    place = tree / "third_party/some"
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    assert names == ["LICENSE.txt", "include/some/some.h", "tools/util/include/util.h"], "and no examples"
    assert with_parts(status(tree)).missing_submodules == ()
    before = mini.snapshot(tree)
    assert filled(tree, None, "cuda").way == "index"
    assert mini.snapshot(tree) == before, "again changes nothing"


def test_other_builds_fetch_nothing_and_a_later_one_with_cuda_does(
    tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path
) -> None:
    for backend in ("cpu", "rocm"):
        assert filled(tree, looking(tmp_path), backend).way == "off"
    digest = status(tree).digest
    assert filled(tree, looking(tmp_path, wheels), "cuda").way == "index"
    assert not (tree / "third_party/some/CMakeLists.txt").exists(), "our mark is gone"
    assert status(tree).digest != digest
    assert filled(tree, looking(tmp_path), "cpu").way == "index", "what is there stays"


def test_another_file_than_the_table_names_by_now_is_replaced(
    tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tree, looking(tmp_path, wheels), "cuda")
    (tree / "third_party/some/include/some/old.h").write_text("gone in the next")
    with zipfile.ZipFile(wheels / FILE, "a") as file:
        file.writestr("lib/source/include/some/new.h", "// new\n")
    newer = msgspec.structs.replace(row, index=wanted(wheels))
    monkeypatch.setattr(supply, "parts_for", lambda _release: (newer,))
    assert filled(tree, looking(tmp_path), "cpu").way == "index", "a build for the CPU needs neither"
    part = filled(tree, looking(tmp_path, wheels), "cuda")
    assert newer.index and newer.index.sha256 in (part.origin or "")
    names = sorted(path.name for path in (tree / "third_party/some/include/some").iterdir())
    assert names == ["new.h", "some.h"]
    assert survey(tree, RELEASE) == (part,)


def test_where_nobody_said_what_for_they_are_fetched_if_they_can_be_had(
    tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path
) -> None:
    host = Saying(err="ERROR: no network\n")
    part = filled(tree, looking(tmp_path, host=host), None)
    assert (part.way, part.ready) == ("off", True), "a build for the CPU goes on"
    assert "no network" in (part.detail or "") and "--find-links" in (part.fix or "")
    (kept,) = survey(tree, RELEASE)
    assert kept == part, "status tells the same later"
    assert filled(tree, looking(tmp_path, wheels), None).way == "index"


@pytest.mark.parametrize("before", ["empty", "off"])
def test_a_build_with_cuda_that_cannot_have_them_says_so(
    before: str, tree: Path, row: ThirdParty, tmp_path: Path
) -> None:
    if before == "off":
        filled(tree, None, "cpu")
    missing = looking(tmp_path, host=Saying(err="ERROR: no network\n"))
    part = filled(tree, missing, "cuda")
    assert not part.ready
    told = with_parts(status(tree), (part,))
    assert any("third_party/some (" in name and "no network" in name for name in told.missing_submodules)
    assert [one.fix for one in told.parts] == [part.fix]


def test_a_package_without_the_header_is_not_taken(
    tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = msgspec.structs.replace(row, needs=("include/some/other.h",))
    monkeypatch.setattr(supply, "parts_for", lambda _release: (short,))
    part = filled(tree, looking(tmp_path, wheels), "cuda")
    assert not part.ready and "has no include/some/other.h" in (part.detail or "")
    assert not (tree / "third_party/some").exists()


@needs.links()
def test_a_link_in_its_place_is_refused(tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "third_party").mkdir(exist_ok=True)
    (tree / "third_party/some").symlink_to(outside)
    with pytest.raises(BadInput, match="symbolic link"):
        filled(tree, looking(tmp_path, wheels), "cuda")
    assert list(outside.iterdir()) == []


def test_a_whole_tree_by_the_same_way(tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path) -> None:
    filling = Filling(backend="cuda", find_links=(str(wheels),), offline=True)
    got = fill_tree(tree, cache=tmp_path / "cache", filling=filling, host=Deaf())
    assert [(part.way, part.ready) for part in got.parts] == [("index", True)]
    assert got.missing_submodules == ()


def test_the_shipped_rows_name_files_of_the_index_by_their_checksum() -> None:
    rows = [row for row in parts_for("2.6.0") if row.way == "index"]
    assert [row.name for row in rows] == ["cutlass"]
    for row in rows:
        assert row.index is not None
        assert row.index.file.startswith(row.index.package.replace("-", "_")) and row.index.version in row.index.file
        assert len(row.index.sha256) == 64 and row.needs and row.index.backend == "cuda"
        assert all(any(need.startswith(f"{into}/") for into in row.index.take) for need in row.needs)
