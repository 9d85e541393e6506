"""What is sent elsewhere: in which order, what is read again, what is sent again, and what a cut leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.host.files import sha256_of
from rekindle.host.object_store import ObjectStore, StorePlace
from rekindle.index import publishing
from rekindle.index.publishing import MEMORY, FolderTarget, StoreTarget, send_house
from rekindle.index.wheelhouse.store import Wheelhouse, copy_whole
from rekindle.model.progress import Silent
from rekindle.model.wheelhouse import Synced
from tiny_wheels import make_wheel

WHEEL = "wheels/tiny/tiny-1.0-py3-none-any.whl"


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    root = tmp_path / "house"
    for name, version in (("tiny", "1.0"), ("tiny", "2.0"), ("other", "1.0")):
        api.index_add(str(root), [str(make_wheel(tmp_path / "made", name, version))])
    api.index_build(str(root), variants=True)
    return Wheelhouse(root)


class Shelf:
    """Stands for a store: remembers each object with its headers, and what it was asked."""

    def __init__(self) -> None:
        self.place = StorePlace(endpoint="https://h", bucket="b", prefix="p")
        self.held: dict[str, tuple[bytes, str, Mapping[str, str]]] = {}
        self.asked: list[tuple[str, str]] = []
        self.begun: list[str | None] = []
        self.cut_at: str | None = None

    def objects(self) -> dict[str, tuple[str, int]]:
        return {name: (f"tag of {hash(raw)}", len(raw)) for name, (raw, _, _) in self.held.items()}

    def digest(self, name: str) -> str | None:
        self.asked.append(("digest", name))
        return self.held[name][1]

    def put(
        self,
        name: str,
        path: Path,
        sha256: str,
        headers: Mapping[str, str],
        *,
        begun: str | None,
        began: Callable[[str], None],
    ) -> str:
        self.begun.append(begun)
        if name == self.cut_at:
            began(f"upload of {name}")
            raise KeyboardInterrupt
        self.asked.append(("put", name))
        raw = path.read_bytes()
        self.held[name] = (raw, sha256, headers)
        return f"tag of {hash(raw)}"

    def remove(self, name: str) -> None:
        self.asked.append(("remove", name))
        del self.held[name]

    def close(self) -> None:
        self.asked.append(("close", ""))

    def did(self, what: str) -> list[str]:
        return [name for asked, name in self.asked if asked == what]


def send(house: Wheelhouse, shelf: Shelf) -> Synced:
    shelf.asked, shelf.begun = [], []
    return send_house(house, StoreTarget(cast("ObjectStore", shelf), house), Silent())


def test_a_store_gets_every_file_once_the_way_in_last(house: Wheelhouse) -> None:
    (house.root / "index.html").write_bytes(b"front")
    (house.root / "wheel" / ".hidden").mkdir()
    (house.root / "wheel" / ".hidden" / "x").write_bytes(b"x")
    shelf = Shelf()
    done = send(house, shelf)
    sent = shelf.did("put")
    assert len(sent) == len(set(sent)) and not [name for name in sent if "hidden" in name or "records" in name]
    pages = [name for name in sent if name.endswith("index.html") and "/" in name]
    assert {f"{name.rpartition('/')[0]}/" for name in pages} == {name for name in sent if name.endswith("/")}
    assert "index.html" in sent and "/" not in sent and sent[-2:] == ["catalogue.json", "index.html"]
    order = [
        min(sent.index(name) for name in sent if name.startswith(lead)) for lead in ("wheels/", "variants/", "wheel/")
    ]
    assert order == sorted(order) and order[0] == 0
    for lead in ("simple", "variant/simple", "wheel"):
        lists = max(
            sent.index(name) for name in sent if name.startswith(f"{lead}/") and name.count("/") > lead.count("/") + 1
        )
        assert sent.index(f"{lead}/index.html") > lists, lead
    assert (done.sent, done.kept, done.removed, done.target) == (len(sent) - len(pages), 0, (), "s3://b/p")
    assert done.bytes == sum(len(raw) for raw, _, _ in shelf.held.values()) and done.root == str(house.root)
    assert shelf.did("close") == [""]
    for name, (raw, sha256, headers) in shelf.held.items():
        source = house.root / (f"{name}index.html" if name.endswith("/") else name)
        assert raw == source.read_bytes() and sha256 == sha256_of(source)
        lasting = name.startswith(("wheels/", "variants/"))
        assert headers["cache-control"] == ("public, max-age=31536000, immutable" if lasting else "no-cache"), name
    assert shelf.held["simple/tiny/"][2]["content-type"] == "text/html; charset=utf-8"
    assert shelf.held[WHEEL][2]["content-type"] == "application/zip"


def test_a_second_run_asks_for_nothing_and_a_lost_memory_for_digests(house: Wheelhouse) -> None:
    shelf = Shelf()
    first = send(house, shelf)
    again = send(house, shelf)
    assert (again.sent, again.kept, again.bytes) == (0, first.sent, 0)
    assert shelf.asked == [("close", "")]
    (memory,) = house.site.glob("sync-*.json")
    memory.unlink()
    assert send(house, shelf).sent == 0 and set(shelf.did("digest")) == set(shelf.held)
    assert send(house, shelf).sent == 0 and shelf.did("digest") == [], "now it is remembered"
    # Somebody else's object of the same size, without and with a memory of ours.
    raw, _, headers = shelf.held[WHEEL]
    for forget in (True, False):
        shelf.held[WHEEL] = (b"?" * len(raw), "0" * 64, headers)
        memory.unlink() if forget else None
        assert send(house, shelf).sent == 1 and shelf.did("put") == [WHEEL] and shelf.held[WHEEL][0] == raw
    shelf.held[WHEEL] = (raw + b"?", shelf.held[WHEEL][1], headers)
    assert send(house, shelf).sent == 1 and shelf.held[WHEEL][0] == raw, "of another size it is another"
    del shelf.held[WHEEL]
    assert send(house, shelf).sent == 1 and WHEEL in shelf.held


def test_a_changed_page_is_sent_and_a_damaged_wheel_never(house: Wheelhouse) -> None:
    shelf = Shelf()
    send(house, shelf)
    page = house.root / "simple" / "tiny" / "index.html"
    page.write_bytes(page.read_bytes().replace(b"tiny-1.0", b"tiny-9.0"))
    assert send(house, shelf).sent == 1 and shelf.did("put") == ["simple/tiny/index.html", "simple/tiny/"]
    wheel = house.root / WHEEL
    good = wheel.read_bytes()
    del shelf.held[WHEEL]
    wheel.write_bytes(good[:-1] + b"?")
    with pytest.raises(BadInput, match="is not what its record says"):
        send(house, shelf)
    assert WHEEL not in shelf.held and shelf.did("close") == [""]


def test_what_was_cut_short_goes_on_with_its_upload_unless_the_file_changed(house: Wheelhouse) -> None:
    shelf = Shelf()
    for change in (False, True):
        shelf.held.clear()
        for memory in house.site.glob("sync-*.json"):
            memory.unlink()
        shelf.cut_at = "catalogue.json"
        with pytest.raises(KeyboardInterrupt):
            send(house, shelf)
        assert set(shelf.begun) == {None}
        shelf.cut_at = None
        if change:
            place = house.root / "catalogue.json"
            place.write_bytes(place.read_bytes() + b" ")
        send(house, shelf)
        assert shelf.did("put") == ["catalogue.json"] and shelf.begun == [
            None if change else "upload of catalogue.json"
        ]
        del shelf.held["catalogue.json"]
        send(house, shelf)
        assert shelf.begun == [None], "what is whole is not gone on with"


def test_pages_of_what_is_gone_are_removed_and_everything_else_stays(house: Wheelhouse) -> None:
    shelf = Shelf()
    send(house, shelf)
    for name in (
        "wheels/gone.whl",
        "simple/gone/index.html",
        "simple/gone/",
        "wheel/gone.html",
        "variant/x",
        "notes",
        "wheelx/y",
    ):
        shelf.held[name] = (b"x", "", {})
    done = send(house, shelf)
    assert (
        list(done.removed)
        == shelf.did("remove")
        == ["simple/gone/", "simple/gone/index.html", "variant/x", "wheel/gone.html"]
    )
    assert {"wheels/gone.whl", "notes", "wheelx/y"} <= set(shelf.held)
    assert send(house, shelf).removed == ()


def copy(house: Wheelhouse, folder: Path) -> Synced:
    return send_house(house, FolderTarget(folder, house), Silent())


def test_a_folder_that_was_written_is_not_read_again(
    house: Wheelhouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a" / "b"
    first = copy(house, folder)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert first.sent == len(files) - 1 and first.kept == 0 and MEMORY in files and first.target == str(folder)
    assert first.bytes == sum(path.stat().st_size for name, path in files.items() if name != MEMORY)
    read: list[Path] = []

    def noted(path: Path) -> str:
        read.append(path)
        return sha256_of(path)

    monkeypatch.setattr(publishing, "sha256_of", noted)
    again = copy(house, folder)
    assert (again.sent, again.kept, again.bytes) == (0, first.sent, 0)
    assert not [path for path in read if path.is_relative_to(folder)] and house.root / WHEEL not in read
    # Without its memory, and where somebody touched a file, it is read, and nothing is written.
    for disturb in ((folder / MEMORY).unlink, (folder / WHEEL).touch):
        disturb()
        read.clear()
        assert copy(house, folder).sent == 0 and folder / WHEEL in read
        read.clear()
        assert copy(house, folder).sent == 0 and folder / WHEEL not in read
    (folder / WHEEL).write_bytes(b"short")
    read.clear()
    assert copy(house, folder).sent == 1 and folder / WHEEL not in read, "by its size it is another"
    assert (folder / WHEEL).read_bytes() == (house.root / WHEEL).read_bytes()


def test_a_folder_loses_the_pages_of_what_is_gone(house: Wheelhouse, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    copy(house, folder)
    for name in ("simple/gone/index.html", "wheel/gone.html", "wheels/gone.whl", "notes.txt", "simple/.kept/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    assert copy(house, folder).removed == ("wheel/gone.html", "simple/gone/index.html")
    left = [name for name in ("wheels/gone.whl", "notes.txt", "simple/.kept/x") if (folder / name).exists()]
    assert len(left) == 3 and not (folder / "simple" / "gone" / "index.html").exists()


def test_a_cut_remembers_what_was_copied(house: Wheelhouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Path] = []

    def cut(source: Path, target: Path, progress: Silent) -> tuple[str, int]:
        if len(done) == 3:
            raise OSError(28, "No space left on device")
        done.append(source)
        return copy_whole(source, target, progress)

    monkeypatch.setattr(publishing, "copy_whole", cut)
    with pytest.raises(BadInput, match=r"cannot bring .* up to date: .*No space left"):
        copy(house, tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / MEMORY).read_bytes())) == 3
    monkeypatch.setattr(publishing, "copy_whole", lambda *_: ("0" * 64, 1))
    with pytest.raises(BadInput, match="is not what its record says"):
        copy(house, tmp_path / "out")


def test_a_place_in_the_house_or_a_house_without_a_site_is_refused(house: Wheelhouse, tmp_path: Path) -> None:
    for place in (house.root, house.root / "deep" / "inside"):
        with pytest.raises(BadInput, match="lies in the wheelhouse itself"):
            FolderTarget(place, house)
    assert str(FolderTarget(tmp_path / "house2", house)) == str(tmp_path / "house2")
    assert str(FolderTarget(tmp_path, house)) == str(tmp_path), "a folder around the house is another place"
    (house.root / "simple" / "index.html").unlink()
    with pytest.raises(BadInput, match="has no site yet"):
        copy(house, tmp_path / "out")
