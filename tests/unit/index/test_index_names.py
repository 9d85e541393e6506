"""Names from strangers: what is no wheel's name never reaches the disk."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.index.wheelhouse.reading import MAX_NAME, parse_name

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


@pytest.mark.parametrize(
    ("tag", "system", "machine"),
    [
        ("win32", "windows", "x86"), ("win_arm64", "windows", "aarch64"), ("win_odd", "windows", "win_odd"),
        ("linux_x86_64", "linux", "x86_64"), ("manylinux2014_i686", "linux", "i686"),
        ("musllinux_1_2_aarch64", "linux", "aarch64"), ("linux_armv7l", "linux", "armv7l"),
        ("manylinux_2_28_ppc64le", "linux", "ppc64le"), ("linux_s390x", "linux", "s390x"),
        ("macosx_11_0_universal2", "macos", "universal2"), ("macosx_10_9_x86_64", "macos", "x86_64"),
        ("android_21_arm64", "android_21_arm64", "aarch64"), ("linux_sparc", "linux", "linux_sparc"),
    ],
)  # fmt: skip
def test_platforms_in_users_terms(tag: str, system: str, machine: str) -> None:
    name = parse_name(f"a-1-cp311-cp311-{tag}.whl")
    assert (name.systems, name.machines, name.tag_strings) == ((system,), (machine,), (f"cp311-cp311-{tag}",))


@pytest.mark.parametrize(
    ("tag", "python"),
    [
        ("cp311-cp311", "3.11"), ("cp39-none", "3.9"), ("cp313-cp313t", "3.13t"), ("cp38-abi3", "cp38-abi3"),
        ("py3-none", "py3"), ("py310-none", "py310"), ("pp310-pypy310_pp73", "pp310"), ("py3-abi3", "py3"),
        ("cp3-none", "cp3"),
    ],
)  # fmt: skip
def test_pythons_in_users_terms(tag: str, python: str) -> None:
    assert parse_name(f"a-1-{tag}-any.whl").pythons == (python,)


def test_several_tags_are_sorted_as_people_count() -> None:
    name = parse_name("a-1-cp310.cp39.cp311-none-manylinux_2_28_x86_64.manylinux_2_28_aarch64.whl")
    assert name.pythons == ("3.9", "3.10", "3.11") and name.machines == ("aarch64", "x86_64")
    assert name.tag_strings == tuple(sorted(name.tag_strings)) and len(name.tag_strings) == 6
    assert name.tags == tuple(sorted(name.tags, key=str))


def test_a_name_has_a_bound_and_a_long_one_is_shown_in_part() -> None:
    tail = "-1-py3-none-any.whl"
    assert MAX_NAME == 200
    assert parse_name("a" * (200 - len(tail)) + tail).project == "a" * (200 - len(tail))
    with pytest.raises(BadInput, match="has at most 200 characters, this has 201") as told:
        parse_name("a" * (201 - len(tail)) + tail)
    assert told.value.message.endswith(": '" + "a" * 119)
    with pytest.raises(BadInput, match="no wheel's file name"):
        parse_name("_-1-py3-none-any.whl")
