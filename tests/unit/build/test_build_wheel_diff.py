"""Two wheels compared: identical inside, the same but for their builder, or the first byte that differs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.build.finish import compare_wheels
from rekindle.errors import BadInput


def wheel(path: Path, compression: int = zipfile.ZIP_DEFLATED, **more: Any) -> Path:
    files = {"a/__init__.py": b"x = 1\n", "a-1.dist-info/RECORD": b"r", "a-1.dist-info/sboms/a.cdx.json": b"s"}
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in {**files, **{k.replace("__", "/"): v for k, v in more.items()}}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def test_only_the_packing_differs(tmp_path: Path) -> None:
    found = compare_wheels(wheel(tmp_path / "a.whl"), wheel(tmp_path / "b.whl", zipfile.ZIP_STORED))
    assert found.verdict == "normalised" and found.rule is not None and "packed" in found.rule


def test_only_the_builder_differs(tmp_path: Path) -> None:
    changed: dict[str, Any] = {"a-1.dist-info__RECORD": b"q", "a-1.dist-info__sboms__a.cdx.json": b"t"}
    other = wheel(tmp_path / "b.whl", **changed)
    found = compare_wheels(wheel(tmp_path / "a.whl"), other)
    assert found.verdict == "normalised" and found.rule is not None and "bill of materials" in found.rule


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"a__lib.so": b"0123456789"}, "a/lib.so is only in the original"),
        ({"a__z.py": b""}, "a/z.py is only in the original"),
    ],
)
def test_a_file_too_many(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    found = compare_wheels(wheel(tmp_path / "a.whl"), wheel(tmp_path / "b.whl", **more))
    assert (found.verdict, found.difference) == ("different", words)
    back = compare_wheels(wheel(tmp_path / "b.whl", **more), wheel(tmp_path / "a.whl"))
    assert back.difference == words.replace("the original", "the rebuilt wheel")


@pytest.mark.parametrize(("data", "at"), [(b"012345678X", 9), (b"X123456789", 0), (b"01234567890", 10), (b"0", 1)])
def test_the_first_byte_that_differs(tmp_path: Path, data: bytes, at: int) -> None:
    found = compare_wheels(wheel(tmp_path / "a.whl", a__l=b"0123456789"), wheel(tmp_path / "b.whl", a__l=data))
    assert found == ("different", None, f"a/l from byte {at} on")


def test_a_difference_far_inside_a_large_file(tmp_path: Path) -> None:
    data = bytearray(3 << 20)
    one = wheel(tmp_path / "a.whl", a__l=bytes(data))
    data[(2 << 20) + 5] = 1
    assert (
        compare_wheels(one, wheel(tmp_path / "b.whl", a__l=bytes(data))).difference
        == f"a/l from byte {(2 << 20) + 5} on"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no provenance"),
        ("[]", "no provenance"),
        ('{"payload": "x"}', "envelope"),
        ('{"predicate": {}}', "another kind"),
        ('{"predicate": {"buildDefinition": {"buildType": "rekindle/build/v1"}}}', "holds no plan"),
    ],
)  # fmt: skip
def test_a_statement_that_cannot_be_repeated_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(BadInput, match=words):
        api.rebuild(tmp_path / "x.json", trust=True)


def test_a_statement_cannot_name_a_place(tmp_path: Path) -> None:
    plan = {"schema": 1, "answer": "build", "project": "spark"}
    definition = {"buildType": "rekindle/build/v1", "internalParameters": {"plan": plan}}
    said = {"subject": [{"name": "../x.whl", "digest": {"sha256": "0"}}], "predicate": {"buildDefinition": definition}}
    (tmp_path / "x.json").write_text(json.dumps(said))
    with pytest.raises(BadInput, match="a path"):
        api.rebuild(tmp_path / "x.json", trust=True)
    with pytest.raises(BadInput, match=r"cannot read .*missing\.json: No such file"):
        api.rebuild(tmp_path / "missing.json")
