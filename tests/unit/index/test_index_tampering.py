"""What can be done to a signed wheelhouse so that an installer takes something else: each is seen, and named."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.statement import WHEEL_LIST, read_envelope, seal
from rekindle.host.keys import new_key, read_private
from rekindle.index.wheelhouse import checking
from rekindle.index.wheelhouse.listing import LIST_FILE, MAX_SERIAL, list_in
from rekindle.model.claims import IndexCheck, WheelList
from rekindle.model.document import encode
from tiny_wheels import make_wheel

OTHER = "0" * 64


class House:
    """Two wheels of one project, one of them withdrawn, and a wheel of another project; signed by ``owner``."""

    def __init__(self, folder: Path, name: str = "house") -> None:
        self.folder, self.root = folder, folder / name
        for project, version in (("tiny", "1.0"), ("tiny", "2.0"), ("other", "1.0")):
            wheel = make_wheel(folder / "made", project, version, requires_python=">=3.8")
            api.index_add(str(self.root), [str(wheel)], look_inside=False)
        api.index_yank(str(self.root), "tiny-1.0-py3-none-any.whl", "made by mistake")
        self.sign()

    def sign(self) -> None:
        api.index_build(str(self.root), sign="owner", seen=self.folder / "own.json")

    def check(self, root: str | None = None, *, new_house: bool = False) -> IndexCheck:
        return api.index_check(root or str(self.root), seen=self.folder / "seen.json", new_house=new_house)

    def page(self, name: str) -> Path:
        return self.root / "simple" / "tiny" / name

    def edit(self, place: str, old: str, new: str) -> None:
        path = self.root / place
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def digest(self, version: str = "2.0") -> str:
        rows = json.loads(self.page("index.json").read_bytes())["files"]
        return next(str(row["hashes"]["sha256"]) for row in rows if f"-{version}-" in row["filename"])


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    new_key("owner", tmp_path / "keys")
    return House(tmp_path)


HTML, JSON = "simple/tiny/index.html", "simple/tiny/index.json"
FILE = "tiny-2.0-py3-none-any.whl"


def read_list(raw: bytes, origin: str) -> WheelList:
    """The payload of a list, whoever signed it."""
    return list_in(read_envelope(raw, origin), origin)


def _comment(house: House) -> None:
    digest = house.digest()
    house.edit(HTML, digest, OTHER)
    house.edit(HTML, "</body>", f"<!-- #sha256={digest} --></body>")


def _duplicate(house: House) -> None:
    evil = f'<a href="../../wheels/tiny/{FILE}#sha256={OTHER}">{FILE}</a>'
    house.edit(HTML, "</body>", f"{evil}</body>")


def _json_row(house: House, change: Callable[[dict[str, object]], None]) -> None:
    page = house.page("index.json")
    read = json.loads(page.read_bytes())
    change(next(row for row in read["files"] if row["filename"] == FILE))
    page.write_text(json.dumps(read))


def _extra_version(house: House) -> None:
    page = house.page("index.json")
    read = json.loads(page.read_bytes())
    name = "tiny-9.0-py3-none-any.whl"
    read["files"].append({"filename": name, "url": f"https://evil.example/{name}", "hashes": {"sha256": OTHER}})
    read["versions"].append("9.0")
    page.write_text(json.dumps(read))


def _new_file(house: House, place: str) -> None:
    path = house.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"evil")


TAMPERINGS: dict[str, tuple[Callable[[House], None], str]] = {
    "a good digest in a comment": (_comment, "gives another digest"),
    "a duplicate link": (_duplicate, "offers tiny-2.0-py3-none-any.whl 2 times"),
    "a base": (lambda h: h.edit(HTML, "<title>", '<base href="https://evil.example/a/b/"><title>'), "evil.example"),
    "a spoilt fragment": (lambda h: h.edit(HTML, f"#sha256={h.digest()}", "#sha256=12"), "gives no digest"),
    "another fragment": (lambda h: h.edit(HTML, f"#sha256={h.digest()}", f"#md5={'1' * 32}"), "gives no digest"),
    "another address in the JSON": (
        lambda h: _json_row(h, lambda row: row.update(url=f"https://evil.example/{FILE}")),
        "which nobody signed for (https://evil.example",
    ),
    "another digest in the JSON": (
        lambda h: _json_row(h, lambda row: row.update(hashes={"sha256": OTHER})),
        "gives another digest",
    ),
    "no digest in the JSON": (lambda h: _json_row(h, lambda row: row.update(hashes={})), "gives no digest"),
    "another name in the JSON": (
        lambda h: _json_row(h, lambda row: row.update(filename="tiny-3.0-py3-none-any.whl")),
        "under another name",
    ),
    "an extra version in the JSON": (_extra_version, "names version 9.0"),
    "an unsigned project": (lambda h: _new_file(h, "simple/evil/index.html"), "simple/evil/index.html is there"),
    "changed metadata": (
        lambda h: h.edit(f"wheels/tiny/{FILE}.metadata", "Name: tiny", "Name: tiny\nRequires-Dist: evil"),
        f"{FILE}.metadata is another file",
    ),
    "another digest of the metadata": (
        lambda h: _json_row(h, lambda row: row.update({"core-metadata": {"sha256": OTHER}})),
        "digest for the metadata",
    ),
    "a loose wheel": (lambda h: _new_file(h, "wheels/tiny/tiny-3.0-py3-none-any.whl"), "nobody signed for it"),
    "a loose source archive": (lambda h: _new_file(h, "wheels/tiny/tiny-3.0.tar.gz"), "nobody signed for it"),
    "a loose wheel in the root": (lambda h: _new_file(h, "tiny-3.0-py3-none-any.whl"), "nobody signed for it"),
    "an edited catalogue": (lambda h: h.edit("catalogue.json", h.digest(), OTHER), "catalogue.json is another"),
    "a yank removed from the page": (
        lambda h: h.edit(HTML, ' data-yanked="made by mistake"', ""),
        "offers tiny-1.0-py3-none-any.whl, which was withdrawn",
    ),
    "a yank removed from the JSON": (
        lambda h: h.edit(JSON, '"yanked":"made by mistake"', '"yanked":false'),
        "offers tiny-1.0-py3-none-any.whl, which was withdrawn",
    ),
    "a yank that was never made": (
        lambda h: _json_row(h, lambda row: row.update(yanked=True)),
        "says tiny-2.0-py3-none-any.whl was withdrawn",
    ),
    "another Python": (lambda h: _json_row(h, lambda row: row.update({"requires-python": ">=99"})), "Python >=99"),
    "the list of projects": (
        lambda h: h.edit("simple/index.html", "</body>", '<a href="evil/">evil</a></body>'),
        "simple/index.html is another file",
    ),
    "a page for people": (lambda h: h.edit(f"wheel/tiny/{FILE}.html", "</body>", "x</body>"), "is another file"),
    "a page that lost its JSON": (lambda h: h.page("index.json").unlink(), "the JSON page of tiny is gone"),
    "a link with a question": (lambda h: h.edit(HTML, f"{FILE}#", f"{FILE}?x#"), f"{FILE}?x)"),
    "a link by a detour": (
        lambda h: h.edit(HTML, f"wheels/tiny/{FILE}#", f"wheels/x%2f..%2ftiny/{FILE}#"),
        "which nobody signed for",
    ),
    "a JSON page about another project": (lambda h: h.edit(JSON, '"name":"tiny"', '"name":"evil"'), "is about evil"),
    "a JSON page without a digest of the metadata": (
        lambda h: _json_row(h, lambda row: row.update({"core-metadata": True, "dist-info-metadata": True})),
        "digest for the metadata",
    ),
    "a JSON page without the Python": (
        lambda h: _json_row(h, lambda row: row.update({"requires-python": None})),
        "needs Python None, signed is >=3.8",
    ),
    "a list of projects that is gone": (lambda h: (h.root / "simple/index.html").unlink(), "simple/index.html is gone"),
    "a JSON page of nonsense": (lambda h: _new_file(h, JSON), "does not offer tiny-1.0"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_a_tampering_is_seen_and_named(house: House, kind: str) -> None:
    assert house.check().problems == ()
    tamper, words = TAMPERINGS[kind]
    tamper(house)
    answer = house.check()
    assert not answer.good
    assert any(words in problem.text for problem in answer.problems), answer.problems
    house.sign()
    if kind.startswith("a loose"):
        assert not house.check().good, "what somebody laid there is not signed for"


def test_a_build_without_changes_needs_no_new_signature(house: House) -> None:
    api.index_build(str(house.root))
    assert house.check().problems == ()


def test_a_server_that_tells_installers_something_else(house: House) -> None:
    """It gives the signed files to who asks for them by name, and another page to who asks as pip does."""

    class Liar(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = house.root / self.path.strip("/")
            body, kind = b"", "text/html"
            if self.path == "/simple/tiny/" and "json" in self.headers.get("Accept", ""):
                rows = json.loads(house.page("index.json").read_bytes())
                rows["files"][1]["hashes"]["sha256"] = OTHER
                body, kind = json.dumps(rows).encode(), "application/vnd.pypi.simple.v1+json"
            elif place.is_dir():
                body = (place / "index.html").read_bytes()
            elif place.is_file():
                body = place.read_bytes()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answer = house.check(f"http://127.0.0.1:{server.server_address[1]}/")
        server.shutdown()
    assert [problem.text for problem in answer.problems] == [f"the page of tiny gives another digest for {FILE}"]


def test_a_list_of_the_older_form_covers_no_pages(house: House) -> None:
    key = read_private("owner")
    old = read_list((house.root / LIST_FILE).read_bytes(), LIST_FILE)
    older = msgspec.structs.replace(old, house="", files={})
    (house.root / LIST_FILE).write_bytes(seal(WHEEL_LIST, encode(older), key.id, key.sign))
    assert any("older form" in problem.text for problem in house.check().problems)
    house.sign()
    assert house.check().problems == ()


def test_two_houses_of_one_name_and_key_are_told_apart(house: House, tmp_path: Path) -> None:
    other = House(tmp_path / "elsewhere")
    for _ in range(3):
        other.sign()
    assert other.check().good and house.check().good
    assert api.index_check(str(house.root), seen=other.folder / "seen.json").good, "its numbers are its own"
    first, second = (read_list((each.root / LIST_FILE).read_bytes(), "x") for each in (house, other))
    assert first.name == second.name and first.house != second.house


def test_another_house_of_the_same_owner_in_its_place_is_seen(house: House, tmp_path: Path) -> None:
    other = House(tmp_path / "elsewhere")
    assert house.check().good
    house.root.rename(tmp_path / "away")
    other.root.rename(house.root)
    answer = house.check()
    assert [problem.kind for problem in answer.problems] == ["other-house"]
    assert any("--new-house" in step for step in answer.next)
    assert [problem.kind for problem in house.check().problems] == ["other-house"], "it is not taken by itself"
    assert house.check(new_house=True).good and house.check().good


def test_two_lists_of_one_number_are_not_both_successors(house: House) -> None:
    list_file = house.root / LIST_FILE
    assert house.check().good
    key, listed = read_private("owner"), read_list(list_file.read_bytes(), LIST_FILE)
    list_file.write_bytes(seal(WHEEL_LIST, encode(msgspec.structs.replace(listed, wheels=())), key.id, key.sign))
    assert "older-list" in [problem.kind for problem in house.check().problems]


@pytest.mark.parametrize("serial", [0, -4, MAX_SERIAL + 1, 10**30])
def test_numbers_of_lists_have_bounds(house: House, serial: int) -> None:
    key, list_file = read_private("owner"), house.root / LIST_FILE
    listed = read_list(list_file.read_bytes(), LIST_FILE)
    payload = json.dumps({**json.loads(encode(listed)), "serial": serial}).encode()
    list_file.write_bytes(seal(WHEEL_LIST, payload, key.id, key.sign))
    for ask in (house.check, house.sign):
        with pytest.raises(BadInput):
            ask()


def test_the_last_number_has_no_successor(house: House) -> None:
    key, list_file = read_private("owner"), house.root / LIST_FILE
    listed = msgspec.structs.replace(read_list(list_file.read_bytes(), LIST_FILE), serial=MAX_SERIAL)
    list_file.write_bytes(seal(WHEEL_LIST, encode(listed), key.id, key.sign))
    with pytest.raises(BadInput, match="count from 1"):
        house.sign()


def test_only_a_believed_list_has_a_successor(house: House, tmp_path: Path) -> None:
    list_file = house.root / LIST_FILE
    listed = read_list(list_file.read_bytes(), LIST_FILE)
    new_key("stranger", tmp_path / "others")
    stranger = read_private("stranger", tmp_path / "others")
    foreign = msgspec.structs.replace(listed, serial=10**9)
    list_file.write_bytes(seal(WHEEL_LIST, encode(foreign), stranger.id, stranger.sign))
    with pytest.raises(BadInput, match="not signed by owner"):
        house.sign()
    api.key_trust(stranger.path.with_suffix(".pub"))
    house.sign()
    assert read_list(list_file.read_bytes(), LIST_FILE).serial == 10**9 + 1


def test_a_list_set_back_on_the_owners_own_disk_is_not_signed_twice(house: House) -> None:
    old = (house.root / LIST_FILE).read_bytes()
    house.sign()
    (house.root / LIST_FILE).write_bytes(old)
    house.sign()
    assert read_list((house.root / LIST_FILE).read_bytes(), LIST_FILE).serial == 3


def test_bounds_that_readers_rely_on() -> None:
    assert MAX_SERIAL == 9_007_199_254_740_991, "what every reader of JSON holds exactly"
    assert checking.TIMEOUT_SECONDS == 60.0 and checking.MAX_GRAFT == 4 << 30
    assert checking.CLOCK_SLACK.total_seconds() == 600


def _problems(house: House) -> list[tuple[str, str | None]]:
    return [(problem.kind, problem.file) for problem in house.check().problems]


def test_each_problem_names_its_file_and_is_told_once(house: House) -> None:
    metadata, provenance = f"wheels/tiny/{FILE}.metadata", "wheels/tiny/tiny-1.0-py3-none-any.whl.provenance"
    (house.root / provenance).write_bytes(b"{}")
    house.sign()
    assert _problems(house) == []
    for place, kind in ((metadata, "metadata"), (provenance, "metadata"), ("wheel/style.css", "page")):
        good = (house.root / place).read_bytes()
        (house.root / place).write_bytes(good + b" ")
        assert _problems(house) == [(kind, place.rpartition("/")[2])], place
        (house.root / place).unlink()
        assert _problems(house) == [(kind, place.rpartition("/")[2])], place
        (house.root / place).write_bytes(good)
    _duplicate(house)
    (house.root / "wheels" / "other" / "x.whl").write_bytes(b"stray")
    assert _problems(house) == [("page", FILE), ("page", FILE), ("unlisted", "x.whl")]


def test_what_is_behind_the_signed_bytes_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the signed size ends with a piece that is read; and what is too large is not read to its end."""
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    new_key("owner", tmp_path / "keys")
    house = House(tmp_path)
    place = house.root / "wheels" / "tiny" / FILE
    signed, read = place.read_bytes(), 0

    def pieces(file: IO[bytes], name: str, most: int) -> Iterator[bytes]:
        nonlocal read
        assert name.endswith(".whl")
        while piece := file.read(len(signed)):
            read += len(piece)
            yield piece

    monkeypatch.setattr(checking, "read_pieces", pieces)
    assert house.check().problems == ()
    for behind in (b"x", signed, b"x" * 1000 * len(signed)):
        place.write_bytes(signed + behind)
        read = 0
        assert [(problem.kind, problem.file) for problem in house.check().problems] == [("replaced", FILE)]
        assert read < 100 * len(signed)


def test_names_that_lead_out_of_a_house_open_nothing(house: House) -> None:
    found = checking.House(str(house.root))
    for part in ("", ".", "..", "a/b", "/etc", "a\\b", "\\"):
        assert found.open(part) is None and found.open("wheels", part, FILE) is None and found.read(part) is None
    (house.root / "odd..name").write_bytes(b"x")
    assert found.read("odd..name") == b"x" and found.open("wheels") is None and found.read("none") is None


def test_a_wrong_key_is_told_apart_from_no_key(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "nobody"))
    (none,) = house.check().problems
    assert none.kind == "wrong-key" and none.text.startswith("no key is known to check its list with")
    new_key("stranger", tmp_path / "nobody")
    (wrong,) = house.check().problems
    assert wrong.kind == "wrong-key" and wrong.text.startswith("a key that is not believed signed it")
    with pytest.raises(BadInput, match="is no directory"):
        house.check(str(house.root / "catalogue.json"))


def test_a_check_that_fails_is_not_remembered_and_one_of_tampered_files_is(house: House, tmp_path: Path) -> None:
    seen = house.folder / "seen.json"
    (house.root / "wheels" / "tiny" / FILE).write_bytes(b"other")
    assert [problem.kind for problem in house.check().problems] == ["replaced"]
    noted = seen.read_bytes()
    assert str(house.root) in noted.decode(), "its list is the newest all the same"
    other = House(tmp_path / "elsewhere")
    house.root.rename(tmp_path / "away")
    other.root.rename(house.root)
    (problem,) = house.check().problems
    assert problem.kind == "other-house" and seen.read_bytes() == noted
    assert problem.text == "another wheelhouse of owner lay here when it was checked last; this is house"


def test_a_house_is_the_same_however_its_place_is_written(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checking.House("https://h/x/").place == checking.House("https://h/x").place == "https://h/x"
    monkeypatch.chdir(house.root)
    assert checking.House(".").place == checking.House(str(house.root)).place == str(house.root.resolve())
    assert checking.House(".").remote is False and checking.House("http://h").remote is True


def test_over_http_a_page_nobody_signed_is_seen_whatever_it_links(house: House) -> None:
    """The same links, and something else in it; and a folder that answers nobody."""

    class Teller(BaseHTTPRequestHandler):
        folder: bytes | None = b""
        accepts: list[str | None] = []

        def do_GET(self) -> None:
            place = house.root / unquote(self.path).strip("/")
            body = place.read_bytes() if place.is_file() else None
            if self.path == "/simple/tiny/":
                self.accepts.append(self.headers.get("Accept"))
                body = None if self.folder is None else house.page("index.html").read_bytes() + self.folder
            elif self.path == "/simple/other/":
                body = (house.root / "simple" / "other" / "index.html").read_bytes()
            elif body is not None and self.headers.get("Accept") not in (None, "*/*", "identity"):
                body = b"asked for a file as if it were a page"
            self.send_response(200 if body is not None else self.gone)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        gone = 404

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Teller) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            assert house.check(address).problems == ()
            assert len(Teller.accepts) == 2 and "json" in str(Teller.accepts[0]) and Teller.accepts[1] == "text/html"
            Teller.folder = b"<!-- and more -->"
            told = {problem.text for problem in house.check(address).problems}
            assert told == {"installers are given another page of tiny than was signed"}
            Teller.folder = None
            for Teller.gone in (404, 403, 410):
                told = {problem.text for problem in house.check(address).problems}
                assert told == {"the page of tiny is gone: installers find none of its wheels"}
            for Teller.gone in (401, 405, 411):
                with pytest.raises(BadInput):
                    house.check(address)
        finally:
            server.shutdown()
