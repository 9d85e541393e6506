"""What ``verify --claims`` reads of a wheel and of what lies beside it, and what it says comes next."""

from __future__ import annotations

import importlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.statement import IN_TOTO, provenance_object, seal
from rekindle.host.files import sha256_of
from rekindle.host.keys import read_private
from rekindle.model.claims import ClaimsReport
from rekindle.model.wheel import WheelReport
from tiny_wheels import make_wheel

claiming: Any = importlib.import_module("rekindle.api.claims")
INFO = "tiny-1.0.dist-info"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    return make_wheel(tmp_path / "house", "tiny", "1.0")


def state(wheel: Path, **changes: Any) -> Path:
    """The statement that a build would lay beside the wheel."""
    kinds = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1"}
    subject = [{"name": wheel.name, "digest": {"sha256": sha256_of(wheel)}}]
    path = wheel.with_name(f"{wheel.name}.intoto.json")
    path.write_text(json.dumps({**kinds, "subject": subject, **changes}), encoding="utf-8")
    return path


def signature(report: ClaimsReport) -> tuple[str, str]:
    return report.checks[0].status, report.checks[0].detail


def test_only_small_files_at_their_own_place_speak_about_the_wheel(wheel: Path) -> None:
    bill = f"{INFO}/sboms/torch.cdx.json"
    others = ("sboms/a.json", "tiny/sboms/a.json", f"{INFO}/sboms.json", f"{INFO}/deep/sboms/a.json")
    inside = (f"deep/{INFO}/sboms/a.json", "version.py", "tiny/deep/version.py", "tiny/other.py")
    with zipfile.ZipFile(wheel, "a") as archive:
        for name in (bill, *others, *inside):
            archive.writestr(name, name)
    assert claiming._small_files(wheel) == (b"", {bill: bill.encode()})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny/version.py", "__version__ = '1.0'")
    assert claiming._small_files(wheel)[0] == b"__version__ = '1.0'"


def test_no_more_bills_are_read_than_a_wheel_can_need(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        for number in range(66):
            archive.writestr(f"{INFO}/sboms/{number:02}.json", "{}")
    kept = claiming._small_files(wheel)[1]
    assert list(kept) == [f"{INFO}/sboms/{number:02}.json" for number in range(64)]


def test_machine_code_is_looked_at_unless_it_is_left_out(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def inspect(target: str, *, cpu: bool, progress: object) -> WheelReport:
        asked.append(cpu)
        return WheelReport(name="tiny", version="1.0")

    monkeypatch.setattr(claiming, "inspect", inspect)
    api.verify_claims(wheel)
    api.verify_claims(wheel, cpu=False)
    assert asked == [True, False]


def test_what_comes_next_follows_from_what_was_found(wheel: Path, tmp_path: Path) -> None:
    (unsigned,) = api.verify_claims(wheel).next
    assert "nobody answers for it" in unsigned
    api.key_new("maker", folder=tmp_path / "theirs")
    api.key_sign(state(wheel), "maker", folder=tmp_path / "theirs")
    (unknown,) = api.verify_claims(wheel).next
    assert "rekindle key trust" in unknown
    api.key_trust(tmp_path / "theirs" / "maker.pub")
    assert api.verify_claims(wheel).next == ()
    make_wheel(wheel.parent, "tiny", "1.0", files={"tiny/__init__.py": b"import evil\n"})
    (wrong,) = api.verify_claims(wheel).next
    assert wrong.startswith("do not install it")


def test_of_the_statements_beside_a_wheel_the_signed_one_counts_and_then_the_wheelhouses(wheel: Path) -> None:
    assert signature(api.verify_claims(wheel)) == ("skipped", "no statement lies beside the wheel")
    plain = state(wheel)
    assert signature(api.verify_claims(wheel)) == ("skipped", "nobody signed it")
    api.key_new("maker")
    key = read_private("maker")
    served = wheel.with_name(f"{wheel.name}.provenance")
    served.write_bytes(provenance_object(seal(IN_TOTO, plain.read_bytes(), key.id, key.sign), "x"))
    assert api.verify_claims(wheel).signed_by == "maker"
    served.write_bytes(plain.read_bytes())
    with pytest.raises(BadInput, match="is no signed envelope"):
        api.verify_claims(wheel)
    served.write_bytes(b"nonsense")
    with pytest.raises(BadInput):
        api.verify_claims(wheel)
    api.key_sign(plain, "maker")
    assert api.verify_claims(wheel).signed_by == "maker", "the one beside it comes first"
    elsewhere = wheel.with_name("said.json")
    elsewhere.write_bytes(plain.read_bytes())
    with pytest.raises(BadInput, match=r"said\.json is no signed envelope"):
        api.verify_claims(wheel, statement=elsewhere)


def test_a_signed_letter_about_something_else_is_no_statement(wheel: Path) -> None:
    api.key_new("maker")
    key = read_private("maker")
    letter = wheel.with_name("letter.json")
    letter.write_bytes(seal("application/other", state(wheel).read_bytes(), key.id, key.sign))
    with pytest.raises(BadInput, match="not a statement about a wheel"):
        api.verify_claims(wheel, statement=letter)


def test_whose_signature_it_should_have_been_is_named(wheel: Path, tmp_path: Path) -> None:
    for name in ("maker", "other"):
        api.key_new(name, folder=tmp_path / name)
    api.key_sign(state(wheel), "maker", folder=tmp_path / "maker")
    (maker,) = api.key_list(folder=tmp_path / "maker").keys
    (other,) = api.key_list(folder=tmp_path / "other").keys
    good = api.verify_claims(wheel, keys=[Path(maker.public)]).checks[0]
    assert (good.status, good.claimed, good.found) == ("passed", maker.id, "signed by maker")
    wrong = api.verify_claims(wheel, keys=[Path(other.public)]).checks[0]
    assert (wrong.status, wrong.claimed, wrong.found) == ("failed", maker.id, f"other {other.id}")
    nobody = api.verify_claims(wheel)
    assert signature(nobody) == ("skipped", "no key is known to check it with")
    statement = next(check for check in nobody.checks if check.id == "statement")
    assert statement.status == "passed", "it is read all the same"


def test_only_a_statement_can_be_signed(wheel: Path) -> None:
    api.key_new("maker")
    for text in ("{", "[]", '"subject"', '["subject"]', "7", json.dumps({"predicate": {}}), "[" * 100_000):
        (wheel.parent / "x.json").write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match="is no in-toto statement"):
            api.key_sign(wheel.parent / "x.json", "maker")
    with pytest.raises(BadInput, match="there is no statement beside"):
        api.key_sign(wheel, "maker")
    state(wheel)
    done = api.key_sign(wheel, "maker")
    assert done.signed == str(wheel.with_name(f"{wheel.name}.intoto.dsse.json"))
