"""The wheelhouse verbs joined: graft files, reports and statements that come along, variants, and where it is sent."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.model.document import encode
from rekindle.model.progress import Silent
from rekindle.model.wheelhouse import AddedWheel, SearchOptions, SiteBuilt, Synced
from tiny_wheels import make_wheel

indexing: Any = importlib.import_module("rekindle.api.index")


class Listener(Silent):
    def __init__(self) -> None:
        self.stages: list[tuple[str, str]] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append((name, detail))


def test_a_graft_file_is_checked_whole_and_wheels_beside_it_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    copy = tmp_path / "copy.graft"

    @contextlib.contextmanager
    def receive(house: object, wheel: Path, progress: object) -> Iterator[tuple[Path, str, int]]:
        heard.append(progress)
        yield copy, "ab" * 32, 7

    def admit(house: object, path: Path, sha256: str, graft: object) -> AddedWheel:
        assert (path, sha256, graft) == (copy, "ab" * 32, "what it says")
        return AddedWheel(file="x.graft", state="added", sha256=sha256, bytes=7)

    monkeypatch.setattr(indexing, "receive_graft", receive)
    monkeypatch.setattr(indexing, "admit_graft", admit)
    monkeypatch.setattr("rekindle.graft.pack.read_graft", lambda path: ("what it says", "its code"))
    wheel, listener = make_wheel(tmp_path, "tiny", "1.0"), Listener()
    done = api.index_add(str(tmp_path / "a b"), ["x.graft", str(wheel)], progress=listener)
    assert [each.file for each in done.wheels] == ["x.graft", wheel.name] and heard == [listener]
    assert done.root == str(tmp_path / "a b") and done.next.startswith("rekindle index build --root ")
    assert "'" in done.next or '"' in done.next, "a path with a space is one word"
    assert ("inspect", wheel.name) in listener.stages


def test_a_report_of_ones_own_is_taken_in_place_of_a_look(tmp_path: Path) -> None:
    wheel, other = (
        make_wheel(tmp_path, "tiny", "1.0"),
        make_wheel(tmp_path, "other", "1.0", files={"other/a": b"x" * 9}),
    )
    listener, report = Listener(), tmp_path / "report.json"
    report.write_bytes(encode(api.inspect(str(wheel))))
    api.index_add(str(tmp_path / "house"), [str(wheel)], report=str(report), progress=listener)
    assert "inspect" not in {name for name, _ in listener.stages}
    with pytest.raises(BadInput):
        api.index_add(str(tmp_path / "house"), [str(other)], report=str(report))
    api.index_build(str(tmp_path / "house"))
    assert [(row.project, row.inspected) for row in load_wheels(str(tmp_path / "house"))] == [("tiny", True)]


def test_several_wheels_without_a_report_are_added_side_by_side(tmp_path: Path) -> None:
    wheels = [str(make_wheel(tmp_path, "tiny", version)) for version in ("1.0", "2.0")]
    assert [one.state for one in api.index_add(str(tmp_path / "house"), wheels).wheels] == ["added", "added"]


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []

    def build_site(house: Any, **told: Any) -> SiteBuilt:
        seen.append(told)
        counts: dict[str, Any] = {"wheels": 1, "projects": 1, "pages_written": 1, "pages_kept": 0}
        return SiteBuilt(root=str(house.root), simple="simple", catalogue="x", **counts)

    monkeypatch.setattr("rekindle.index.pages.site.build_site", build_site)
    return seen


def test_variants_and_signatures_are_there_where_they_are_asked_for(
    sites: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "house")
    with pytest.raises(BadInput, match="is no wheelhouse yet"):
        api.index_build(root)
    with pytest.raises(BadInput, match="is no wheelhouse yet"):
        api.index_sync(root, str(tmp_path / "there"))
    api.index_add(root, [str(make_wheel(tmp_path, "tiny", "1.0"))], look_inside=False)
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    api.key_new("owner")
    listener = Listener()
    built = api.index_build(root)
    api.index_build(root, variants=True, sign="owner", seen=tmp_path / "seen.json", progress=listener)
    assert built.root == root and built.wheels == 1
    plain, signed = sites
    assert plain["variants"] is None and isinstance(plain["progress"], Silent) and "signer" not in plain
    assert signed["variants"] == load_facts() and signed["progress"] is listener
    assert signed["signer"] is signed["then"].keywords["key"] and callable(signed["then"])


@pytest.mark.parametrize("target", ["folder", "s3://bucket/prefix"])
def test_a_house_is_sent_to_a_folder_or_a_store(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "house")
    api.index_add(root, [str(make_wheel(tmp_path, "tiny", "1.0"))], look_inside=False)
    sent: list[tuple[object, object]] = []

    def send(house: object, where: object, progress: object) -> Synced:
        sent.append((where, progress))
        return Synced(root=root, target=target, sent=1, kept=0, bytes=7)

    for name in ("FolderTarget", "StoreTarget"):
        monkeypatch.setattr(f"rekindle.index.publishing.{name}", lambda place, house, name=name: (name, place))
    monkeypatch.setattr("rekindle.index.publishing.send_house", send)
    storing = "rekindle.host.object_store"
    monkeypatch.setattr(f"{storing}.read_place", lambda target, endpoint: (target, endpoint))
    monkeypatch.setattr(f"{storing}.read_credentials", lambda: "keys")
    monkeypatch.setattr(f"{storing}.ObjectStore", lambda place, keys: (place, keys))
    listener = Listener()
    assert api.index_sync(root, target, endpoint="https://e", progress=listener).target == target
    api.index_sync(root, target)
    first = ("FolderTarget", Path("folder"))
    stored = ("StoreTarget", ((target, "https://e"), "keys"))
    assert sent[0] == (first if target == "folder" else stored, listener) and isinstance(sent[1][1], Silent)


def test_a_search_is_for_the_cards_that_are_named(tmp_path: Path) -> None:
    root = str(tmp_path / "house")
    api.index_add(root, [str(make_wheel(tmp_path, "tiny", "1.0"))])
    api.index_build(root)
    options = SearchOptions(gpus=("GTX 1080",))
    assert api.index_search(root, options).wanted == {"gpu": "sm_61"} == api.index_search(root, gpus=["sm_61"]).wanted
    with pytest.raises(BadInput, match="was sold with several chips") as refused:
        api.index_search(root, gpus=["sm_61", "GeForce GT 730"])
    assert "name the one" in (refused.value.remedy or "") and "sm_35" in refused.value.message
