"""What the wheelhouse's verbs join: reports, proofs and statements with their wheel, keys and memory with a list."""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.statement import write_statement
from rekindle.host.files import sha256_of
from rekindle.host.keys import new_key
from rekindle.index import server
from rekindle.index.wheelhouse import checking, listing
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.model.document import encode
from tiny_wheels import make_wheel


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    root = str(tmp_path / "house")
    api.index_add(root, [str(make_wheel(tmp_path, "tiny", "1.0"))])
    return root


def test_a_report_or_a_proof_is_about_one_wheel(tmp_path: Path) -> None:
    wheels = [str(make_wheel(tmp_path, "tiny", version)) for version in ("1.0", "2.0")]
    (tmp_path / "report.json").write_bytes(encode(api.inspect(wheels[0])))
    for given in ({"report": str(tmp_path / "report.json")}, {"proofs": [str(tmp_path / "proof.json")]}):
        with pytest.raises(BadInput, match="several were given"):
            api.index_add(str(tmp_path / "house"), wheels, **given)
    one = api.index_add(str(tmp_path / "house"), wheels[:1], report=str(tmp_path / "report.json"))
    assert [each.state for each in one.wheels] == ["added"]
    both = api.index_add(str(tmp_path / "house"), wheels, look_inside=False)
    assert [each.state for each in both.wheels] == ["already", "added"]


def test_a_wheel_is_looked_into_unless_told_otherwise_and_known_by_its_own_name(house: str, tmp_path: Path) -> None:
    api.index_add(house, [str(make_wheel(tmp_path, "tiny", "2.0"))], look_inside=False)
    api.index_build(house)
    assert {row.version: row.inspected for row in load_wheels(house)} == {"1.0": True, "2.0": False}
    assert not [path for path in Path(house).rglob("*.json") if b".incoming" in path.read_bytes()]


def test_a_statement_that_nobody_believed_signed_is_told_and_not_served(house: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tiny", "3.0")
    said = wheel.with_name(f"{wheel.name}.intoto.json")
    subject = [(wheel.name, sha256_of(wheel))]
    said.write_bytes(write_statement(subject, kind="k", asked={}, settings={}, materials=[], tools={}))
    new_key("maker", tmp_path / "elsewhere")
    api.key_sign(said, "maker", folder=tmp_path / "elsewhere")
    for trusted in (False, True):
        if trusted:
            api.key_trust(tmp_path / "elsewhere" / "maker.pub")
        (added,) = api.index_add(str(tmp_path / f"house-{trusted}"), [str(wheel)]).wheels
        assert any("no key that is believed here" in warning for warning in added.warnings) is not trusted


def note_calls(monkeypatch: pytest.MonkeyPatch, module: object, name: str, calls: list[dict[str, Any]]) -> None:
    real = getattr(module, name)

    def call(*words: Any, **told: Any) -> Any:
        calls.append(told)
        return real(*words, **told)

    monkeypatch.setattr(module, name, call)


def test_a_signed_list_is_good_for_a_quarter_and_its_edition_is_remembered(
    house: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_key("owner", tmp_path / "keys")
    written: list[dict[str, Any]] = []
    note_calls(monkeypatch, listing, "write_list", written)
    own, other = tmp_path / "cache" / "rekindle" / "lists-seen.json", tmp_path / "other.json"
    api.index_build(house, sign="owner")
    api.index_build(house, sign="owner", days=7, seen=other)
    assert [(told["days"], told["seen"]) for told in written] == [(90, own), (7, other)]
    checked: list[dict[str, Any]] = []
    note_calls(monkeypatch, checking, "check_house", checked)
    good = api.index_check(house)
    api.index_check(house, seen=other, new_house=True, keys=[str(tmp_path / "keys" / "owner.pub")])
    assert [(told["seen"], told["new_house"], told["keys_known"]) for told in checked] == [
        (own, False, True),
        (other, True, True),
    ]
    assert good.good and abs((datetime.now(UTC) - checked[0]["now"]).total_seconds()) < 3600


def test_what_was_withdrawn_says_why_and_where(house: str) -> None:
    done = api.index_yank(house, "tiny-1.0-py3-none-any.whl", "made by mistake")
    assert (done.root, done.file, done.yanked) == (house, "tiny-1.0-py3-none-any.whl", "made by mistake")


def test_it_is_served_until_somebody_stops_it(house: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.index_build(house)
    said: list[str] = []
    answered: list[bytes] = []

    def once(self: Any, poll_interval: float) -> None:
        import threading

        thread = threading.Thread(target=self.handle_request)
        thread.start()
        with urllib.request.urlopen(f"{self.url}simple/tiny/") as answer:
            answered.append(answer.read())
        thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(server.Server, "serve_forever", once)
    served = api.index_serve(house, host="127.0.0.1", port=0, say=said.append)
    assert served.root == house and served.url in said[0] and served.requests == 1 and b"tiny-1.0" in answered[0]


def test_a_search_names_what_runs_and_the_line_that_installs_it(house: str) -> None:
    api.index_build(house)
    found = api.index_search(house, gpus=["sm_61"])
    assert found.root == house and found.looked_at == 1 and found.wanted == {"gpu": "sm_61"}
    assert found.matches == () and found.refused
    (match,) = api.index_search(house).matches
    assert match.command == f"pip install {Path(house).absolute()}/wheels/tiny/tiny-1.0-py3-none-any.whl"
    with pytest.raises(BadInput, match="was sold with several chips"):
        api.index_search(house, gpus=["GeForce GT 730"])
