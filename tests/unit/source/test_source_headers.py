"""Headers from the package index: found at hand or by the real pip, known by their checksum, and put in whole."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
import source_mini as mini
from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.progress import Silent
from rekindle.model.supply import FromIndex, ThirdParty, TreePart
from rekindle.source import journal, supply
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
        ({"code": None, "timed_out": True}, "no answer in 1800 seconds"),
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
    monkeypatch.setattr(supply, "parts_for", lambda _release, **_: (made,))
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
    monkeypatch.setattr(supply, "parts_for", lambda _release, **_: (newer,))
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
    monkeypatch.setattr(supply, "parts_for", lambda _release, **_: (short,))
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


@pytest.mark.parametrize("release", ["2.6.0", "2.12.1"])
def test_the_shipped_rows_name_files_of_the_index_by_their_checksum(release: str) -> None:
    rows = [row for row in parts_for(release) if row.way == "index"]
    newer = ["cutlass", "flash-attention", "nccl", "cudnn", "cusparselt", "cudnn_frontend"]
    assert [row.name for row in rows] == {"2.6.0": ["cutlass"], "2.12.1": newer}[release]
    for row in rows:
        assert row.index is not None
        others = ((own.file, own.sha256) for own in row.index.processors.values())
        for file, sha256 in ((row.index.file, row.index.sha256), *others):
            assert file.startswith(row.index.package.replace("-", "_")) and row.index.version in file
            assert len(sha256) == 64
        assert row.needs and row.index.backend == "cuda"
        assert all(any(need.startswith(f"{into}/") for into in row.index.take) for need in row.needs)
        assert all(f"{Path(name).parent}/{beside}" in row.needs for name, beside in row.index.links.items())


def test_libraries_have_a_file_for_both_processors_and_a_name_for_the_build() -> None:
    def named(processor: str) -> dict[str, str]:
        rows = parts_for("2.12.1", cuda="13.0", processor=processor)
        return {row.index.root: row.index.file for row in rows if row.index and row.index.links and row.index.root}

    for processor in ("x86_64", "aarch64"):
        assert set(named(processor)) == {"NCCL_ROOT", "CUDNN_ROOT", "CUSPARSELT_ROOT"}
        assert all(file.endswith(f"_{processor}.whl") for file in named(processor).values())
    ways = {row.name: row.way for row in parts_for("2.12.1", cuda="12.9", processor="x86_64")}
    assert (ways["nccl"], ways["cudnn_frontend"], ways.get("cudnn")) == ("off", "off", None), "they are for CUDA 13"


@needs.links()
def test_a_library_gets_the_name_the_linker_looks_for(
    tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(wheels / FILE, "a") as file:
        file.writestr("lib/lib/libsome.so.2", b"x" * (1 << 20))
        file.writestr("lib/lib/libsmall.so.2", b"x" * ((1 << 20) - 1))
    index = wanted(wheels, take={"lib": "lib/lib"}, links={"lib/libsome.so": "libsome.so.2"})
    large = msgspec.structs.replace(row, needs=("lib/libsome.so.2",), index=index)
    monkeypatch.setattr(supply, "parts_for", lambda _release, **_: (large,))
    assert filled(tree, looking(tmp_path, wheels), "cuda").ready
    place = tree / "third_party/some/lib"
    assert os.readlink(place / "libsome.so") == "libsome.so.2"
    assert (place / "libsome.so").stat().st_size == 1 << 20
    assert (place / "libsome.so.2").stat().st_nlink == 2, "once on the disk"
    assert (place / "libsmall.so.2").stat().st_nlink == 1, "a small file may be edited"


def test_where_the_disk_knows_no_second_names_it_is_copied(
    tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("not on this file system")

    monkeypatch.setattr(supply, "_LARGE", 0)
    monkeypatch.setattr("os.link", refuse)
    assert filled(tree, looking(tmp_path, wheels), "cuda").ready
    assert (tree / "third_party/some/include/some/some.h").read_text() == "// some\n"


def test_the_toolkit_and_the_processor_choose_the_row(
    tree: Path, row: ThirdParty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def rows(_release: str, **how: Any) -> tuple[ThirdParty, ...]:
        asked.append(how)
        return (row,)

    monkeypatch.setattr(supply, "parts_for", rows)
    fill_tree(tree, cache=tmp_path, filling=Filling(backend="cpu", cuda="13.0"), host=Deaf())
    assert {"cuda": "13.0", "processor": Deaf().machine} in asked


def test_what_stood_in_for_it_makes_room(tree: Path, row: ThirdParty, wheels: Path, tmp_path: Path) -> None:
    part = filled(tree, None, "cpu")
    record = journal.read_record(tree)
    old = msgspec.structs.replace(part, way="stand-in", origin="rekindle")
    journal.write_record(tree, msgspec.structs.replace(record, supply=(old,)))
    assert survey(tree, RELEASE) == (old,)
    assert filled(tree, looking(tmp_path, wheels), "cuda").way == "index"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("p-1-py3-none-any.whl", []),
        ("p-1-py3-none-manylinux_2_27_aarch64.whl", ["--platform=manylinux_2_27_aarch64"]),
        (
            "p-1-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
            [
                "--platform=manylinux_2_27_x86_64",
                "--platform=manylinux_2_28_x86_64",
                "--python-version=312",
                "--implementation=cp",
                "--abi=cp312",
            ],
        ),
    ],
)
def test_pip_is_asked_for_the_very_wheel(file: str, words: list[str], wheels: Path, tmp_path: Path) -> None:
    host = Saying(err="ERROR: no\n")
    with pytest.raises(StageFailed) as told:
        looking(tmp_path, host=host).file(wanted(wheels, file=file))
    assert [word for word in host.asked[0] if word.startswith(("--platform", "--python", "--impl", "--abi"))] == words
    assert all(word in (told.value.remedy or "") for word in words)


def test_an_archive_that_pip_would_build_is_fetched_from_its_address(wheels: Path, tmp_path: Path) -> None:
    one = wanted(wheels, url=(wheels / FILE).as_uri())
    assert looking(tmp_path, offline=False).file(one).read_bytes() == (wheels / FILE).read_bytes()
    host = Saying(err="ERROR: no\n")
    with pytest.raises(StageFailed, match="cannot be had") as told:
        looking(tmp_path / "other", host=host).file(one)
    assert f"curl -L --create-dirs -o wheels/{FILE} {one.url}" in (told.value.remedy or ""), "offline: how to bring it"
    with pytest.raises(StageFailed):
        looking(tmp_path / "third", offline=False).file(wanted(wheels, url=one.url, sha256="0" * 64))
