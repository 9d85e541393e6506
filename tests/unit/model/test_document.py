"""Documents read back as they were written, and refuse what they do not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.model.arch import Sm
from rekindle.model.document import Part, decode, encode, load, load_kept, read_bounded
from rekindle.model.machine import Gpu, Machine, Os
from rekindle.model.plan import Change, Plan


def test_machine_round_trip() -> None:
    machine = Machine(os=Os(system="linux"), gpus=(Gpu(vendor="nvidia", name="K40c", arch=Sm(3, 5)),))
    raw = encode(machine)
    assert b'"sm_35"' in raw
    assert decode(raw, Machine) == machine


def test_change_says_from_in_json() -> None:
    plan = Plan(answer="none", changes=(Change(what="cuda", from_="12.3", to="12.8", why="sm_120"),))
    assert b'"from": "12.3"' in encode(plan)
    assert decode(encode(plan), Plan) == plan


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'{"os": {"system": "beos"}}',
        b'{"os": {"system": "linux"}, "surprise": 1}',
        b"\xff\xfe",
    ],
)
def test_garbage_is_bad_input(raw: bytes) -> None:
    with pytest.raises(BadInput):
        decode(raw, Machine)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("torch", "two", "expected a version - at `$.torch`"),
        ("variant", "cu 128", "expected a short tag such as cu128 or 9.0 - at `$.variant`"),
        ("numpy", "@ file:x", "expected versions such as >=1.26,<2 - at `$.numpy`"),
        ("project", "-x", "expected a name (letters, digits, dots, dashes) - at `$.project`"),
        ("cuda", "9" * 65, "of length <= 64 - at `$.cuda`"),
    ],
)
def test_what_is_wrong_with_a_text_is_said_in_words(field: str, value: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        decode(encode({"answer": "none", field: value}), Plan, origin="plan.json")
    assert caught.value.message.startswith("plan.json is not a valid plan document: ") and words in caught.value.message
    assert "regex" not in caught.value.message


def test_a_document_is_written_for_reading() -> None:
    assert encode({"a": [1, {"b": Sm(9, 0)}], "p": Path("x")}) == (
        b'{\n  "a": [\n    1,\n    {\n      "b": "sm_90"\n    }\n  ],\n  "p": "x"\n}\n'
    )
    with pytest.raises(NotImplementedError, match="no JSON form for object"):
        encode({"a": object()})


def test_wrong_architecture_is_bad_input() -> None:
    with pytest.raises(BadInput):
        decode(b'{"os": {"system": "linux"}, "gpus": [{"vendor": "nvidia", "arch": "8_9"}]}', Machine)


class Place(Part, frozen=True, kw_only=True):
    """A part with a path in it."""

    where: Path


def test_a_path_is_written_as_text_and_comes_back_as_a_path(tmp_path: Path) -> None:
    assert decode(encode(Place(where=tmp_path / "ä b")), Place) == Place(where=tmp_path / "ä b")
    with pytest.raises(NotImplementedError, match="no JSON form for complex"):
        decode(b"1", complex)


def test_what_was_noted_to_save_time_may_be_gone_or_damaged(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    assert load_kept(file, Machine) is None
    machine = Machine(os=Os(system="linux"), gpus=(Gpu(vendor="nvidia", arch=Sm(3, 5)),))
    file.write_bytes(encode(machine))
    assert load_kept(file, Machine) == machine
    for damaged in (b"", b"{", b"\xff\xfe", b"[]", b'{"os": {"system": "beos"}}', encode(machine)[:-9]):
        file.write_bytes(damaged)
        assert load_kept(file, Machine) is None


def test_a_document_of_64_mib_is_read_and_a_larger_one_is_none_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(b'{"answer": "none"}'.ljust(64 * 1024 * 1024))
    assert load(file, Plan).answer == "none"
    with file.open("ab") as more:
        more.write(b" ")
    with pytest.raises(BadInput, match=r"larger than 64 MiB, so it is no document of ours"):
        load(file, Plan)


def test_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        load(tmp_path / "nothing.json", Machine)


def test_a_file_of_the_user_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "given"
    for size, fits in ((1 << 20, True), ((1 << 20) + 1, False)):
        path.write_bytes(bytes(size))
        if fits:
            assert len(read_bounded(path, 1 << 20, "table")) == size
        else:
            with pytest.raises(BadInput, match="larger than 1 MiB, so it is no table of ours"):
                read_bounded(path, 1 << 20, "table")
    with pytest.raises(BadInput, match=r"cannot read .*nowhere: No such file") as caught:
        read_bounded(tmp_path / "nowhere", 9, "table", remedy="write one")
    assert caught.value.remedy == "write one"
