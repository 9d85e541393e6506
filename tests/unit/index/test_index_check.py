"""A tampering session against a wheelhouse: whatever is done to it, its signed list notices."""

from __future__ import annotations

import base64
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.host.keys import checker, new_key, read_private, trusted_keys
from rekindle.index.server import open_server
from rekindle.index.wheelhouse.checking import check_house
from rekindle.index.wheelhouse.listing import LIST_FILE, write_list
from rekindle.index.wheelhouse.rows import load_pieces
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.claims import IndexCheck
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)


class Site:
    def __init__(self, folder: Path) -> None:
        self.keys, self.root, self.seen = folder / "keys", folder / "häuser", folder / "seen.json"
        self.own = folder / "own.json"
        new_key("owner", self.keys)
        for number in ("1.0", "2.0"):
            api.index_add(str(self.root), [str(make_wheel(folder, "tiny", number))], look_inside=False)
        self.sign()

    def sign(self, *, days: int = 30, now: datetime = NOW) -> None:
        api.index_build(str(self.root))
        key, house = read_private("owner", self.keys), Wheelhouse(self.root)
        known = checker(trusted_keys(self.keys))
        write_list(house, load_pieces(house), key, days=days, now=now, believed=known, seen=self.own)

    def check(self, *, now: datetime = NOW, root: str | None = None, keys: Path | None = None) -> IndexCheck:
        known = trusted_keys(keys or self.keys)
        return check_house(
            root or str(self.root), checker(known), keys_known=bool(known), seen=self.seen, now=now, progress=Silent()
        )

    def wheel(self, version: str = "1.0") -> Path:
        return self.root / "wheels" / "tiny" / f"tiny-{version}-py3-none-any.whl"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def kinds(answer: IndexCheck) -> list[str]:
    assert answer.good == (not answer.problems) and bool(answer.next) == bool(answer.problems)
    return [problem.kind for problem in answer.problems]


def test_what_was_signed_is_good_and_says_by_whom(site: Site) -> None:
    answer = site.check()
    assert kinds(answer) == [] and answer.signed_by == "owner" and (answer.serial, answer.wheels) == (1, 2)


def test_a_removed_wheel(site: Site) -> None:
    site.wheel().unlink()
    assert kinds(site.check()) == ["removed"]


def test_a_wheel_removed_with_all_its_traces(site: Site) -> None:
    site.wheel().unlink()
    (site.root / "records" / "tiny" / f"{site.wheel().name}.json").unlink()
    api.index_build(str(site.root))
    found = kinds(site.check())
    assert found[:2] == ["removed", "page"] and set(found) == {"removed", "page"}


@pytest.mark.parametrize(("cut", "lead", "tail"), [(-1, b"", b""), (None, b"", b"\0"), (None, b"x", b"")])
def test_a_replaced_wheel(site: Site, cut: int | None, lead: bytes, tail: bytes) -> None:
    raw = site.wheel().read_bytes()
    site.wheel().write_bytes(lead + raw[len(lead) : cut] + tail)
    answer = site.check()
    assert kinds(answer) == ["replaced"] and site.wheel().name in answer.problems[0].text


def test_an_older_version_put_in_place_of_a_newer_one(site: Site) -> None:
    site.wheel("2.0").write_bytes(site.wheel("1.0").read_bytes())
    assert kinds(site.check()) == ["replaced"]


def test_a_wheel_nobody_signed_for(site: Site) -> None:
    site.wheel("3.0").write_bytes(b"evil")
    assert kinds(site.check()) == ["unlisted"]


def test_a_page_that_names_another_digest_or_another_file(site: Site) -> None:
    page = site.root / "simple" / "tiny" / "index.html"
    text = page.read_text()
    digest = text.split("#sha256=")[1][:64]
    page.write_text(text.replace(digest, "0" * 64))
    assert kinds(site.check()) == ["page"]
    page.write_text(text.replace("tiny-1.0", "tiny-9.9"))
    assert kinds(site.check()) == ["page", "page"]
    page.unlink()
    assert kinds(site.check()) == ["page"]


def test_the_whole_house_set_back_to_an_older_edition(site: Site, tmp_path: Path) -> None:
    old = (site.root / LIST_FILE).read_bytes()
    site.sign(now=NOW + timedelta(days=1))
    assert kinds(site.check(now=NOW + timedelta(days=1))) == []
    (site.root / LIST_FILE).write_bytes(old)
    answer = site.check(now=NOW + timedelta(days=1))
    assert kinds(answer) == ["older-list"] and "number 2 was seen" in answer.problems[0].text


def test_a_list_changed_after_signing_and_one_of_a_stranger(site: Site, tmp_path: Path) -> None:
    path = site.root / LIST_FILE
    envelope = json.loads(path.read_bytes())
    payload = base64.b64decode(envelope["payload"]).replace(b'"serial": 1', b'"serial": 9')
    path.write_text(json.dumps({**envelope, "payload": base64.b64encode(payload).decode()}))
    assert kinds(site.check()) == ["wrong-key"]
    site.root.joinpath(LIST_FILE).unlink()
    site.sign()
    new_key("stranger", tmp_path / "others")
    assert kinds(site.check(keys=tmp_path / "others")) == ["wrong-key"]
    assert kinds(site.check(keys=tmp_path / "none")) == ["wrong-key"]


def test_no_list_at_all(site: Site) -> None:
    (site.root / LIST_FILE).unlink()
    assert kinds(site.check()) == ["unsigned"]


@pytest.mark.parametrize(
    ("shift", "found"),
    [
        (timedelta(days=30) - timedelta(seconds=1), []),
        (timedelta(days=30), ["expired"]),
        (timedelta(days=400), ["expired"]),
        (-timedelta(minutes=10), []),
        (-timedelta(minutes=10, seconds=1), ["clock"]),
        (-timedelta(days=3650), ["clock"]),
    ],
)
def test_an_expired_list_and_a_clock_in_the_past(site: Site, shift: timedelta, found: list[str]) -> None:
    assert kinds(site.check(now=NOW + shift)) == found


def test_a_list_of_nonsense_is_one_line(site: Site) -> None:
    for raw in (b"", b"{", b"[]", b'{"payload": 1}', b'{"payloadType":"x","payload":"!!","signatures":[]}'):
        (site.root / LIST_FILE).write_bytes(raw)
        with pytest.raises(BadInput, match="envelope"):
            site.check()


def test_the_same_over_http(site: Site) -> None:
    with open_server(Wheelhouse(site.root), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            assert kinds(site.check(root=server.url)) == []
            site.wheel().write_bytes(b"other")
            site.wheel("2.0").unlink()
            assert sorted(kinds(site.check(root=server.url))) == ["removed", "replaced"]
        finally:
            server.shutdown()
            thread.join()


def test_names_in_a_list_cannot_lead_out_of_the_house(site: Site) -> None:
    from rekindle.index.wheelhouse.checking import House

    house = House(str(site.root))
    assert house.open("wheels", "..", "x") is None and house.open("wheels", "a/b", "x") is None
    assert house.open("", LIST_FILE) is None


def test_days_have_bounds(site: Site) -> None:
    for days in (0, 3651):
        with pytest.raises(BadInput, match="days"):
            site.sign(days=days)
    site.sign(days=1)
    site.sign(days=3650)


def test_a_signed_statement_is_served_as_pep_740_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.host.files import sha256_of

    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    api.key_new("maker")
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    statement = {"_type": "s", "subject": [{"name": wheel.name, "digest": {"sha256": sha256_of(wheel)}}]}
    (tmp_path / f"{wheel.name}.intoto.json").write_text(json.dumps(statement))
    api.key_sign(tmp_path / f"{wheel.name}.intoto.json", "maker")
    root = tmp_path / "house"
    api.index_add(str(root), [str(wheel)], look_inside=False)
    api.index_build(str(root))
    row = json.loads((root / "simple/tiny/index.json").read_bytes())["files"][0]
    assert row["provenance"] == f"../../wheels/tiny/{wheel.name}.provenance"
    assert "data-provenance" in (root / "simple/tiny/index.html").read_text()
    made = json.loads((root / "wheels/tiny" / f"{wheel.name}.provenance").read_bytes())
    inner = made["attestation_bundles"][0]["attestations"][0]["envelope"]
    assert json.loads(base64.b64decode(inner["statement"])) == statement and made["version"] == 1
    other = make_wheel(tmp_path / "b", "tiny", "1.0", files={"tiny/__init__.py": b"other"})
    (tmp_path / "b" / f"{wheel.name}.intoto.dsse.json").write_bytes(
        (tmp_path / f"{wheel.name}.intoto.dsse.json").read_bytes()
    )
    with pytest.raises(BadInput, match="about another file"):
        api.index_add(str(tmp_path / "house2"), [str(other)], look_inside=False)
