"""Names from strangers: what is no wheel's name never reaches the disk."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.index.wheelhouse.reading import parse_name

TORCH = "torch-2.6.0+cu124-cp311-cp311-manylinux1_x86_64.whl"


def test_a_real_name_is_understood() -> None:
    name = parse_name(TORCH)
    assert (name.project, str(name.version)) == ("torch", "2.6.0+cu124")
    assert (name.pythons, name.systems, name.machines) == (("3.11",), ("linux",), ("x86_64",))


@pytest.mark.parametrize(
    ("file", "pythons", "systems", "machines"),
    [
        ("a-1-cp313-cp313t-win_amd64.whl", ("3.13t",), ("windows",), ("x86_64",)),
        ("a-1-py2.py3-none-any.whl", ("py2", "py3"), ("any",), ("any",)),
        ("a-1-cp38-abi3-macosx_11_0_arm64.whl", ("cp38-abi3",), ("macos",), ("aarch64",)),
        ("a-1-cp39.cp310-none-manylinux_2_28_aarch64.whl", ("3.9", "3.10"), ("linux",), ("aarch64",)),
    ],
)
def test_tags_in_users_terms(
    file: str, pythons: tuple[str, ...], systems: tuple[str, ...], machines: tuple[str, ...]
) -> None:
    name = parse_name(file)
    assert (name.pythons, name.systems, name.machines) == (pythons, systems, machines)


@pytest.mark.parametrize(
    "file",
    [
        "../torch-2.6.0-cp311-cp311-linux_x86_64.whl",
        "a/b-1-py3-none-any.whl",
        "..\\b-1-py3-none-any.whl",
        "<script>alert(1)</script>-1-py3-none-any.whl",
        "a-1-py3-none-any.whl\n",
        "a\0-1-py3-none-any.whl",
        "a-1-py3-none-any.zip",
        ".a-1-py3-none-any.whl",
        "a-1.whl",
        "",
        "CON:-1-py3-none-any.whl",
        "a" * 300 + "-1-py3-none-any.whl",
        "ü-1-py3-none-any.whl",
        'a"onmouseover="x-1-py3-none-any.whl',
    ],
)
def test_hostile_names_are_refused(file: str) -> None:
    with pytest.raises(BadInput):
        parse_name(file)


@given(st.text(alphabet=string.printable + "\0ü/\\<>\"'&%", max_size=80))
def test_whatever_is_accepted_is_a_harmless_file_name(prefix: str) -> None:
    for file in (prefix, f"{prefix}-1-py3-none-any.whl"):
        try:
            name = parse_name(file)
        except BadInput:
            continue
        assert name.file == file
        assert not set(name.file) & set("/\\<>\"'&%: \t\r\n\0")
        assert not name.file.startswith(".") and ".." not in name.project
        assert set(name.project) <= set(string.ascii_lowercase + string.digits + "-")
