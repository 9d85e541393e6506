"""The list of a house and what it is read from: which files it names, what it counts, and how addresses are read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.ranges import Unreachable
from rekindle.formats.statement import PROOF_RECORD, WHEEL_LIST, read_envelope, seal
from rekindle.host.keys import checker, new_key, read_private, trusted_keys
from rekindle.index.wheelhouse import catalogue, listing
from rekindle.index.wheelhouse.catalogue import (
    fetch_document,
    graft_location,
    house_address,
    is_url,
    load_grafts,
    load_wheels,
    location,
    receive_graft,
)
from rekindle.index.wheelhouse.listing import (
    LIST_FILE,
    SeenLists,
    catalogue_digest,
    house_key,
    list_in,
    load_seen,
    parse_time,
    public_files,
    remember_list,
    write_list,
)
from rekindle.index.wheelhouse.rows import load_pieces
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.claims import WheelList
from rekindle.model.document import encode
from rekindle.model.graft import GraftRow
from rekindle.model.progress import Silent
from rekindle.model.wheelhouse import WheelCatalogue, WheelRow
from tiny_wheels import make_wheel

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)


class Signed:
    def __init__(self, folder: Path) -> None:
        self.house, self.keys, self.seen = Wheelhouse(folder / "house"), folder / "keys", folder / "seen.json"
        new_key("owner", self.keys)
        wheels = [make_wheel(folder / "made", name, "1.0") for name in ("tiny", "other")]
        api.index_add(str(self.house.root), [str(wheel) for wheel in wheels], look_inside=False)
        api.index_yank(str(self.house.root), wheels[1].name, "")
        api.index_build(str(self.house.root))

    def write(self, *, days: int = 30, now: datetime = NOW, seen: Path | None = None) -> WheelList:
        key, known = read_private("owner", self.keys), checker(trusted_keys(self.keys))
        pieces = load_pieces(self.house)
        return write_list(self.house, pieces, key, days=days, now=now, believed=known, seen=seen or self.seen)

    def read(self) -> WheelList:
        return list_in(read_envelope((self.house.root / LIST_FILE).read_bytes(), LIST_FILE), LIST_FILE)


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    return Signed(tmp_path)


def test_a_list_names_every_public_file_and_nothing_else(signed: Signed) -> None:
    root = signed.house.root
    wheel = "wheels/tiny/tiny-9.0-py3-none-any.whl"
    for stray in (
        "wheels/tiny/notes.txt", wheel, f"{wheel}.metadata", "grafts/tiny/stray.graft", "simple/stranger/index.html",
        "wheel/stranger/index.html", "tiny-9.0.tar.gz", "a.zip", "b.whl",
    ):  # fmt: skip
        (root / stray).parent.mkdir(parents=True, exist_ok=True)
        (root / stray).write_bytes(b"x")
    (root / "index.html").write_bytes(b"front")
    (root / "variant").resolve().mkdir()
    for kept in ("variants/tiny/x.whl", "variant/simple/tiny/index.html", "grafts/index.json"):
        (root / kept).parent.mkdir(parents=True, exist_ok=True)
        (root / kept).write_bytes(b'{"schema": 1, "grafts": []}')
    beside = root / "wheels" / "tiny" / "tiny-1.0-py3-none-any.whl.provenance"
    beside.write_bytes(b"{}")
    made = signed.write()
    assert made == signed.read()
    assert [(wheel.file, wheel.yanked) for wheel in made.wheels] == [
        ("other-1.0-py3-none-any.whl", True), ("tiny-1.0-py3-none-any.whl", False),
    ]  # fmt: skip
    pages = {
        f"{folder}/{name}"
        for folder in ("simple/tiny", "simple/other", "simple")
        for name in ("index.html", "index.json")
    }
    people = {
        f"wheel/{name}/{page}"
        for name in ("tiny", "other")
        for page in ("index.html", f"{name}-1.0-py3-none-any.whl.html")
    }
    metadata = {f"wheels/{name}/{name}-1.0-py3-none-any.whl.metadata" for name in ("tiny", "other")}
    assert set(made.files) == {
        *pages, *people, *metadata, "wheel/index.html", "wheel/style.css", "wheel/house.js", "catalogue.json",
        "index.html", "variants/tiny/x.whl", "variant/simple/tiny/index.html", "grafts/index.json",
        "wheels/tiny/tiny-1.0-py3-none-any.whl.provenance",
    }  # fmt: skip
    assert set(public_files(root)) > set(made.files) and {"tiny-9.0.tar.gz", "a.zip", "b.whl"} <= set(
        public_files(root)
    )
    assert all(path.is_file() for path in public_files(root).values())


def test_lists_count_up_expire_and_belong_to_one_house(signed: Signed) -> None:
    first = signed.write(days=1)
    assert (first.name, first.serial, first.made, first.expires) == (
        "house", 1, "2026-06-01T12:00:00Z", "2026-06-02T12:00:00Z",
    )  # fmt: skip
    assert re.fullmatch(r"[0-9a-f]{32}", first.house)
    second = signed.write(days=3650, now=NOW + timedelta(days=1))
    assert (second.serial, second.house) == (2, first.house)
    assert parse_time(second.expires) - parse_time(second.made) == timedelta(days=3650)
    # Who notes elsewhere goes on from the list itself; who lost the list from what was noted.
    assert signed.write(seen=signed.seen.with_name("elsewhere.json")).serial == 3
    assert signed.write().serial == 4
    (signed.house.root / LIST_FILE).unlink()
    fresh = signed.write()
    assert fresh.serial == 1 and fresh.house != first.house, "without a list a new house begins"


def test_a_list_of_the_older_form_gets_a_number_and_keeps_its_name(signed: Signed) -> None:
    key = read_private("owner", signed.keys)
    older = WheelList(
        name="as it was", serial=7, made="2026-01-01T00:00:00Z", expires="2027-01-01T00:00:00Z", wheels=()
    )
    assert older.house == ""
    (signed.house.root / LIST_FILE).write_bytes(seal(WHEEL_LIST, encode(older), key.id, key.sign))
    made = signed.write()
    assert (made.name, made.serial) == ("as it was", 8) and re.fullmatch(r"[0-9a-f]{32}", made.house)
    assert house_key("owner", older) == "owner/as it was" and house_key("owner", made) == f"owner/{made.house}"


def test_something_else_that_is_signed_is_no_list(signed: Signed) -> None:
    signed.write()
    key, place = read_private("owner", signed.keys), signed.house.root / LIST_FILE
    payload = encode(signed.read())
    place.write_bytes(seal(PROOF_RECORD, payload, key.id, key.sign))
    with pytest.raises(BadInput, match="not a list of wheels"):
        signed.write()
    with pytest.raises(BadInput, match="is no time"):
        parse_time("yesterday")
    assert parse_time("2026-06-01T12:00:00Z") == NOW


def test_what_was_seen_is_noted_once_and_never_set_back(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    assert load_seen(path) == SeenLists()

    def listed(serial: int, house: str = "h") -> WheelList:
        return WheelList(name="n", house=house, serial=serial, made="", expires="", wheels=())

    remember_list(path, "ann", listed(3), b"three", "/a")
    seen, stamp = load_seen(path), path.stat().st_mtime_ns
    assert (seen.lists, seen.places) == ({"ann/h": 3}, {"/a": "ann/h"}) and len(seen.digests["ann/h"]) == 64
    remember_list(path, "ann", listed(3), b"three", "/a")
    assert path.stat().st_mtime_ns == stamp, "nothing new is not written"
    remember_list(path, "ann", listed(3), b"three", "/mirror")
    assert load_seen(path).places == {"/a": "ann/h", "/mirror": "ann/h"}, "the same list at another place"
    remember_list(path, "ann", listed(2), b"two", "/old")
    assert "/old" not in load_seen(path).places and load_seen(path).lists == {"ann/h": 3}
    remember_list(path, "ann", listed(4), b"four", "/a")
    remember_list(path, "bob", listed(1, "b"), b"one", "/a")
    last = load_seen(path)
    assert last.lists == {"ann/h": 4, "bob/b": 1} and last.places["/a"] == "bob/b"
    assert last.digests["ann/h"] != seen.digests["ann/h"]
    path.write_bytes(b"nonsense")
    assert load_seen(path) == SeenLists()


def test_the_digest_of_a_catalogue_is_that_of_its_rows() -> None:
    rows = b'[{"a": 1},{"b":2}]'
    digest = catalogue_digest(b'{"generated":"x","wheels":' + rows + b"}")
    assert len(digest) == 64 and digest == catalogue_digest(b'{"wheels": ' + rows + b', "generated": "y", "more": 1}')
    assert digest != catalogue_digest(b'{"wheels":[{"b":2},{"a": 1}]}') != catalogue_digest(b'{"wheels":[]}') != ""
    for nonsense in (b"", b"[]", b"{}", b'{"wheels": {}}', b"\xff", b'{"wheels": ['):
        assert catalogue_digest(nonsense) == ""


def test_bounds_of_what_is_fetched() -> None:
    assert listing.MAX_LIST_BYTES == 64 << 20 == 67_108_864 and catalogue.MAX_BYTES == 268_435_456


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("https://h/x", "https://h/x/"), ("https://h/x/", "https://h/x/"), ("https://h/x//", "https://h/x/"),
        ("https://h/x/simple", "https://h/x/"), ("https://h/x/simple/", "https://h/x/"),
        ("http://h/catalogue.json", "http://h/"),
    ],
)  # fmt: skip
def test_a_house_has_one_address_whichever_page_was_named(place: str, address: str) -> None:
    assert house_address(place) == address and is_url(place)
    row = WheelRow(
        file="a b.whl",
        url="wheels/a/a.whl",
        project="a",
        version="1",
        bytes=1,
        sha256="ab",
        metadata_sha256="",
        added="",
    )
    assert location(place, row) == f"a @ {address}wheels/a/a.whl#sha256=ab"


def test_a_folder_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_url(str(tmp_path)) and not is_url("https") and not is_url("ftp://h/x")
    row = WheelRow(
        file="a.whl", url="wheels/a/a.whl", project="a", version="1", bytes=1, sha256="ab", metadata_sha256="", added=""
    )
    monkeypatch.chdir(tmp_path)
    assert location("house", row) == str(tmp_path.resolve() / "house" / "wheels" / "a" / "a.whl")
    assert load_grafts(str(tmp_path)) == ()
    with pytest.raises(BadInput, match="is no wheelhouse"):
        load_wheels(str(tmp_path))


def unreachable(status: int | None) -> Unreachable:
    error = Unreachable("no answer")
    error.status = status
    return error


def test_a_graft_is_named_by_its_place_and_its_digest(tmp_path: Path) -> None:
    row = GraftRow(
        file="a+b.graft", url="grafts/a/a+b.graft", project="a", wheel="w", wheel_sha256="", version="1", archs=(),
        bytes=1, sha256="ab", added="",
    )  # fmt: skip
    assert graft_location("https://h/simple/", row) == "https://h/grafts/a/a%2Bb.graft#sha256=ab"
    assert graft_location(str(tmp_path), row) == str(tmp_path.resolve() / "grafts" / "a" / "a+b.graft")


@pytest.mark.parametrize("status", [403, 404, 410])
def test_what_a_server_has_not_is_none(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(url: str, **_: object) -> bytes:
        raise unreachable(status)

    monkeypatch.setattr(catalogue, "read_page", gone)
    assert fetch_document("https://h/x.json", WheelCatalogue) is None and load_grafts("https://h/") == ()
    with pytest.raises(BadInput, match="has no catalogue"):
        load_wheels("https://h/")


@pytest.mark.parametrize("status", [None, 401, 405, 411, 500])
def test_a_server_that_does_not_answer_is_an_error(status: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(url: str, **_: object) -> bytes:
        raise unreachable(status)

    monkeypatch.setattr(catalogue, "read_page", broken)
    for ask in (load_wheels, load_grafts):
        with pytest.raises(BadInput, match="no answer"):
            ask("https://h/")


def test_documents_come_from_the_addresses_of_the_house(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def page(url: str, *, timeout: float, most: int) -> bytes:
        asked.append(url)
        assert timeout > 0 and most == catalogue.MAX_BYTES
        return b'{"schema": 1, "grafts": []}' if "grafts" in url else b'{"schema": 1, "generated": "", "wheels": []}'

    monkeypatch.setattr(catalogue, "read_page", page)
    assert load_wheels("https://h/x/simple/") == () == load_grafts("https://h/x")
    assert asked == ["https://h/x/catalogue.json", "https://h/x/grafts/index.json"]
    with pytest.raises(BadInput, match="names no host"):
        fetch_document("https:///x", WheelCatalogue)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a" * 194 + ".graft", True),
        ("a" * 195 + ".graft", False),
        ("a b.graft", False),
        (".a.graft", False),
        ("a.graft.zip", False),
    ],
)
def test_names_of_grafts_are_narrow_and_have_a_bound(tmp_path: Path, name: str, good: bool) -> None:
    (tmp_path / name).write_bytes(b"x")
    house = Wheelhouse(tmp_path / "house")
    if good:
        with receive_graft(house, tmp_path / name, Silent()) as (copy, _, size):
            assert copy.name == name and size == 1
        return
    with pytest.raises(BadInput, match="no graft file's name"):
        receive_graft(house, tmp_path / name, Silent())
