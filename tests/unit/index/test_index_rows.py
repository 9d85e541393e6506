"""Rows and their written forms: what a record says of a wheel, what installers read of it, and what is remembered."""

from __future__ import annotations

import hashlib
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.simple_index import read_links
from rekindle.index.pages.simple import content_type, entry_of, link_of, project_pages, root_pages
from rekindle.index.wheelhouse import rows
from rekindle.index.wheelhouse.rows import load_pieces, nest_links, piece_of, piece_of_file, row_of, rows_of
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import encode, load
from rekindle.model.verify import ProofCard, ProofCheck, ProofRecord, VerifyReport, VerifyStatus
from rekindle.model.wheel import ArchSet, Kernels, LibraryGpu, Links, WheelCpu, WheelGpu, WheelReport
from rekindle.model.wheelhouse import Origin, SharedRecord, StoredWheel, VariantRow, WheelRow
from tiny_wheels import make_wheel

FILE = "torch-2.6.0+mine-cp311-cp311-manylinux_2_28_x86_64.whl"


def stored(**more: object) -> StoredWheel:
    known: dict[str, object] = {
        "file": FILE, "project": "torch", "version": "2.6.0+mine", "tags": (), "sha256": "ab" * 32, "bytes": 7,
        "metadata_sha256": "cd" * 32, "added": "2026-01-01T00:00:00Z", **more,
    }  # fmt: skip
    return StoredWheel(**known)  # type: ignore[arg-type]


def test_a_wheel_that_was_never_looked_into_has_only_its_name() -> None:
    row = row_of(stored(yanked="old", requires_python=">=3.9"))
    assert row == WheelRow(
        file=FILE, url=f"wheels/torch/{FILE}", project="torch", version="2.6.0+mine", bytes=7, sha256="ab" * 32,
        metadata_sha256="cd" * 32, requires_python=">=3.9", added="2026-01-01T00:00:00Z", yanked="old",
        pythons=("3.11",), systems=("linux",), machines=("x86_64",),
    )  # fmt: skip
    assert row.inspected is False and row.provenance is False


def test_what_an_inspection_found_is_in_the_row() -> None:
    sets = (ArchSet(archs=("sm_80",), count=3),)
    report = WheelReport(
        cuda="12.6",
        rocm="6.2",
        cpu=WheelCpu(runs_from="nehalem"),
        links=Links(glibc="2.28", external=("libcuda.so.1",)),
        gpu=WheelGpu(
            torch_kernels=Kernels(sass=("sm_80",), ptx=("compute_90",), gfx=("gfx906",)),
            libraries=(LibraryGpu(file="torch/lib/a.so", sass=("sm_80",), sets=sets, lto=("lto_90",)),),
        ),
    )
    row = row_of(stored(report=report, provenance_sha256="0" * 64))
    assert (row.sass, row.ptx, row.gfx) == (("sm_80",), ("compute_90",), ("gfx906",))
    assert (row.cuda, row.rocm, row.cpu, row.glibc, row.external) == (
        "12.6",
        "6.2",
        "nehalem",
        "2.28",
        ("libcuda.so.1",),
    )
    assert [(library.file, library.sass, library.sets) for library in row.libraries] == [
        ("torch/lib/a.so", ("sm_80",), sets)
    ]
    assert row.inspected is True and row.provenance is True
    # What the build says goes before what was read; where it says nothing, what was read stays.
    said = row_of(stored(report=report, origin=Origin(cuda="12.4")))
    assert (said.cuda, said.rocm) == ("12.4", "6.2")
    said = row_of(stored(report=report, origin=Origin(rocm="6.1")))
    assert (said.cuda, said.rocm) == ("12.6", "6.1")
    bare = row_of(stored(origin=Origin(cuda="12.4", rocm="6.1")))
    assert (bare.cuda, bare.rocm, bare.inspected) == ("12.4", "6.1", False)


ENDED: tuple[VerifyStatus, ...] = ("passed", "passed", "passed", "failed", "skipped", "skipped")
CHECKS = tuple(ProofCheck(id=f"c{number}", status=status) for number, status in enumerate(ENDED))


def shared(signer: str | None = None, **more: object) -> SharedRecord:
    said: dict[str, object] = {
        "package": "torch", "version": "2.6.0", "wheel_sha256": "ab" * 32, "verdict": "proven", "level": "smoke",
        "claims": ("cpu", "gpu"), "system": "linux", "arch": "x86_64", "tool": "rekindle 1",
        "checks": CHECKS,
        **more,
    }  # fmt: skip
    return SharedRecord(line=encode(ProofRecord(**said)).decode(), signer=signer)  # type: ignore[arg-type]


def test_proofs_of_the_house_and_of_people_are_told_apart() -> None:
    own = VerifyReport(passed=3, failed=1, skipped=2, environment={"gpu0": "a card"})
    cards = (ProofCard(name="GTX 1080", arch="sm_61"), ProofCard(name="K40c", arch="sm_35"))
    records = (
        shared("ann", cards=cards, driver="580.65", python="3.11", distro="ubuntu 24.04"),
        shared(),
        SharedRecord(line="{}", signer="ann"),
        SharedRecord(line="{}"),
    )
    row = row_of(stored(proofs=(own,), records=records))
    first, second = row.proofs
    assert (first.passed, first.failed, first.skipped, first.environment) == (3, 1, 2, {"gpu0": "a card"})
    assert (second.passed, second.failed, second.skipped) == (3, 1, 2)
    assert second.environment == {
        "gpu0": "GTX 1080, sm_61", "gpu1": "K40c, sm_35", "shared": "signed by ann", "system": "ubuntu 24.04",
        "driver": "580.65", "python": "3.11", "tool": "rekindle 1",
    }  # fmt: skip
    (heard,) = row.hearsay
    assert heard.environment == {"shared": "nobody believed here signed it", "system": "linux", "tool": "rekindle 1"}


def offered(**more: object) -> WheelRow:
    return msgspec.structs.replace(row_of(stored()), **more)


class Link(HTMLParser):
    """The attributes of the one link of a text, and what it is called."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said: dict[str, str | None] = {}
        self.name = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "a" and not self.said
        self.said = dict(attrs)

    def handle_data(self, data: str) -> None:
        self.name += data


def test_an_entry_has_what_the_standard_asks_and_nothing_that_is_not_known() -> None:
    place = f"../../wheels/torch/{FILE.replace('+', '%2B')}"
    digest = {"sha256": "cd" * 32}
    entry = entry_of(offered())
    assert entry == {
        "filename": FILE, "url": place, "hashes": {"sha256": "ab" * 32}, "core-metadata": digest,
        "dist-info-metadata": digest, "yanked": False, "size": 7, "upload-time": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    full = entry_of(offered(requires_python=">=3.9", provenance=True, yanked="wrong"))
    assert full == entry | {"requires-python": ">=3.9", "provenance": f"{place}.provenance", "yanked": "wrong"}
    assert entry_of(offered(yanked=""))["yanked"] is True
    plain = Link(link_of(entry))
    metadata = f"sha256={'cd' * 32}"
    assert plain.name == FILE and plain.said == {
        "href": f"{place}#sha256={'ab' * 32}", "data-core-metadata": metadata, "data-dist-info-metadata": metadata,
    }  # fmt: skip
    told = Link(link_of(full)).said
    assert told == plain.said | {
        "data-requires-python": ">=3.9", "data-provenance": f"{place}.provenance", "data-yanked": "wrong",
    }  # fmt: skip
    assert Link(link_of(entry_of(offered(yanked="")))).said["data-yanked"] == ""


def test_both_forms_of_a_page_are_read_alike() -> None:
    entries = [
        entry_of(offered(version=version, file=f"torch-{version}.whl", url=f"torch-{version}.whl"))
        for version in ("1.0", "2.0")
    ]
    wheels = [("2.0", link_of(each), msgspec.json.encode(each)) for each in entries] + [
        ("1.0", link_of(entries[0]), b"{}")
    ]
    pages = project_pages("torch", wheels[:2])
    assert set(pages) == {"index.html", "index.json"}
    read = [read_links(raw, "https://h/simple/torch/") for raw in pages.values()]
    assert read[0] == read[1] and [link.name for link in read[0]] == ["torch-1.0.whl", "torch-2.0.whl"]
    whole = json.loads(pages["index.json"])
    assert whole == {"meta": {"api-version": "1.1"}, "name": "torch", "versions": ["2.0"], "files": entries}
    assert json.loads(project_pages("torch", wheels)["index.json"])["versions"] == ["1.0", "2.0"]
    assert b"<title>Links for torch</title>" in pages["index.html"]
    listed = root_pages(["a", "b<c"])
    assert json.loads(listed["index.json"]) == {
        "meta": {"api-version": "1.0"},
        "projects": [{"name": "a"}, {"name": "b<c"}],
    }
    assert b'<a href="a/">a</a><br>' in listed["index.html"] and b'<a href="b%3Cc/">b&lt;c</a>' in listed["index.html"]


def test_what_a_file_is_called_over_http() -> None:
    assert content_type("a-1.whl") == "application/zip" and content_type("x.json") == "application/json"
    assert content_type("x.exe") == content_type("x") == "application/octet-stream"


def test_a_page_one_folder_further_down_leads_to_the_same_files() -> None:
    """Also to the statement beside a wheel; what a stranger wrote is no link, even if it looks like one."""
    evil = '="../../x" "url":"../../y"'
    piece = piece_of(offered(provenance=True, yanked=evil))
    deeper = nest_links(piece)
    place = f"../../../wheels/torch/{FILE.replace('+', '%2B')}"
    said, entry = Link(deeper.link).said, json.loads(deeper.simple)
    assert said["href"] == f"{place}#sha256={'ab' * 32}" and entry["url"] == place
    assert said["data-provenance"] == entry["provenance"] == f"{place}.provenance"
    assert said["data-yanked"] == entry["yanked"] == evil
    assert msgspec.structs.replace(deeper, link=piece.link, simple=piece.simple) == piece


def test_pieces_of_wheels_variants_and_files_beside_them() -> None:
    row = offered()
    piece = piece_of(row, (1, 2, 3))
    assert (piece.stamp, piece.project, piece.version, piece.file, piece.proven) == (
        (1, 2, 3),
        "torch",
        "2.6.0+mine",
        FILE,
        False,
    )
    assert rows_of([piece, piece]) == [row, row] and json.loads(piece.simple) == entry_of(row)
    assert piece_of(offered(yanked="")).digest != piece.digest == piece_of(offered()).digest
    known = {name: getattr(row, name) for name in VariantRow.__struct_fields__ if hasattr(row, name)}
    variant = VariantRow(**known | {"label": "x", "properties": {}, "plain": FILE, "provenance": None})
    made = piece_of(variant)
    assert made.row == b"" and rows_of([made, piece]) == [row], "the catalogue names only the plain wheel"
    assert (made.line, made.file, made.proven) == ("", "", False) and json.loads(made.simple)["filename"] == FILE
    body = b'{"variants": {}}'
    file = piece_of_file("torch", "2.6.0", "a b.json", "variants/torch/a b.json", body)
    digest = hashlib.sha256(body).hexdigest()
    assert rows_of([file]) == [] and json.loads(file.simple) == {
        "filename": "a b.json", "url": "../../variants/torch/a%20b.json", "hashes": {"sha256": digest},
        "size": len(body), "yanked": False,
    }  # fmt: skip
    assert Link(file.link).said == {"href": f"../../variants/torch/a%20b.json#sha256={digest}"}
    other = piece_of_file("torch", "2.6.0", "a b.json", "variants/torch/a b.json", body + b" ")
    assert (file.project, file.version) == ("torch", "2.6.0") and file.digest != other.digest


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    names = [("tiny", "2.0"), ("tiny", "1.0"), ("a-first", "1.0"), ("zoo", "0.1")]
    api.index_add(str(tmp_path / "house"), [str(make_wheel(tmp_path, *name)) for name in names], look_inside=False)
    return Wheelhouse(tmp_path / "house")


def test_pieces_come_by_project_and_then_by_file(house: Wheelhouse) -> None:
    found = [(piece.project, piece.version) for piece in load_pieces(house)]
    assert found == [("a-first", "1.0"), ("tiny", "1.0"), ("tiny", "2.0"), ("zoo", "0.1")]


def test_records_that_did_not_change_are_not_read_again(house: Wheelhouse, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_pieces(house)
    memory = house.site / "pieces.msgpack"
    stamp = memory.stat()
    read: list[str] = []

    def noted(path: Path, kind: type[StoredWheel]) -> StoredWheel:
        read.append(path.name)
        return load(path, kind)

    monkeypatch.setattr("rekindle.index.wheelhouse.rows.load", noted)
    assert load_pieces(house) == first and read == []
    assert (memory.stat().st_ino, memory.stat().st_mtime_ns) == (stamp.st_ino, stamp.st_mtime_ns), "nor written again"
    api.index_yank(str(house.root), "tiny-1.0-py3-none-any.whl", "old")
    assert [row.yanked for row in rows_of(load_pieces(house))] == [None, "old", None, None]
    assert read == ["tiny-1.0-py3-none-any.whl.json"]
    # Of another form of the memory nothing is taken.
    form, kept = msgspec.msgpack.decode(memory.read_bytes())
    memory.write_bytes(msgspec.msgpack.encode((form - 1, kept)))
    load_pieces(house)
    assert len(read) == 5
    (house.records / "zoo" / "zoo-0.1-py3-none-any.whl.json").unlink()
    assert [piece.project for piece in load_pieces(house)] == ["a-first", "tiny", "tiny"] and len(read) == 5


def test_a_reader_who_may_not_write_remembers_nothing(house: Wheelhouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert len(load_pieces(house)) == 4
    assert not (house.site / "pieces.msgpack").exists()


def test_a_house_has_a_bound(house: Wheelhouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows.MAX_ENTRIES == 1_000_000
    monkeypatch.setattr(rows, "MAX_ENTRIES", 4)
    assert len(load_pieces(house)) == 4
    monkeypatch.setattr(rows, "MAX_ENTRIES", 3)
    with pytest.raises(BadInput, match="more than 3 wheels"):
        load_pieces(house)
