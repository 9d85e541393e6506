"""The CMake version rewriter: numbers, ranges, comments, strings, endings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.source.rewrite import find_calls, raise_versions, rewrite_cmake


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cmake_minimum_required(VERSION 3.1.3)", "cmake_minimum_required(VERSION 3.5)"),
        ("CMAKE_MINIMUM_REQUIRED(VERSION 2.8 FATAL_ERROR)", "CMAKE_MINIMUM_REQUIRED(VERSION 3.5 FATAL_ERROR)"),
        (
            "cmake_minimum_required ( VERSION 3.0\n  FATAL_ERROR )",
            "cmake_minimum_required ( VERSION 3.5\n  FATAL_ERROR )",
        ),
        ("cmake_policy(VERSION 2.8.12)", "cmake_policy(VERSION 3.5)"),
        ("cmake_minimum_required(VERSION 2.8...3.1)", "cmake_minimum_required(VERSION 2.8...3.5)"),
        ("cmake_minimum_required(VERSION 3.4.1) # since 2014", "cmake_minimum_required(VERSION 3.5) # since 2014"),
        ("cmake_minimum_required(VERSION #[[old]] 3.0)", "cmake_minimum_required(VERSION #[[old]] 3.5)"),
    ],
)
def test_raised(before: str, after: str) -> None:
    new, changed, left = raise_versions(before.encode(), "f")
    assert new.decode() == after and len(changed) == 1 and not left
    assert raise_versions(new, "f")[0] == new


@pytest.mark.parametrize(
    "text",
    [
        "cmake_minimum_required(VERSION 3.13)",  # a naive pattern made 3.53 of this
        "cmake_minimum_required(VERSION 3.5)",
        "cmake_minimum_required(VERSION 3.5.0 FATAL_ERROR)",
        "cmake_minimum_required(VERSION 3.18 FATAL_ERROR)",
        "cmake_minimum_required(VERSION 3.1...3.18)",
        "cmake_minimum_required(VERSION 2.8.12...4.0)",
        "cmake_minimum_required(VERSION 10.0)",
        "# cmake_minimum_required(VERSION 2.8)",
        "#[[\ncmake_minimum_required(VERSION 2.8)\n]]",
        "cmake_policy(SET CMP0048 NEW)",
        "cmake_policy(PUSH)",
        "if(CMAKE_VERSION VERSION_LESS 3.1)\nendif()",
        "my_cmake_minimum_required(VERSION 2.8)",
        "project(x VERSION 2.8)",
    ],
)
def test_untouched(text: str) -> None:
    new, changed, left = raise_versions(text.encode(), "f")
    assert new == text.encode() and not changed and not left


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cmake_minimum_required(VERSION ${LOWEST})", "not a plain version"),
        ('cmake_minimum_required(VERSION "3.0")', "not a plain version"),
        ('file(WRITE x "cmake_minimum_required(VERSION 2.8)")', "inside a string"),
        ("file(WRITE x [==[cmake_minimum_required(VERSION 2.8)]==])", "inside a string"),
    ],
)
def test_seen_but_left(text: str, why: str) -> None:
    new, changed, left = raise_versions(text.encode(), "f")
    assert new == text.encode() and not changed and why in (left[0].why or "")


def test_calls_are_found_with_their_place_whatever_their_case() -> None:
    content = b"project(x)\nCMake_Minimum_Required(VERSION 3.0)\ncmake_policy(VERSION 2.8)\n"
    calls = list(find_calls(content, frozenset({"cmake_minimum_required", "cmake_policy"})))
    assert [(call.name, call.start) for call in calls] == [("cmake_minimum_required", 11), ("cmake_policy", 47)]
    assert [word.text for word in calls[0].words] == [b"VERSION", b"3.0"]


def test_a_call_inside_a_string_is_shown_in_part() -> None:
    inside = "cmake_minimum_required(VERSION 3.0) " + "x" * 60
    _, changed, left = raise_versions(f'set(a "{inside}")\n'.encode(), "CMakeLists.txt")
    assert not changed and [(change.before, change.why) for change in left] == [(inside[:80], "inside a string")]


def test_endings_and_strange_bytes_stay() -> None:
    raw = b"\xef\xbb\xbf# na\xefve\r\ncmake_minimum_required(VERSION 2.8)\r\n\r\nproject(a)\n"
    assert raise_versions(raw, "f")[0] == raw.replace(b"2.8", b"3.5")


@given(st.binary(max_size=400))
def test_any_bytes_at_all(raw: bytes) -> None:
    new, changed, _ = raise_versions(raw, "f")
    assert changed or new == raw


@given(
    st.integers(0, 5),
    st.integers(0, 40),
    st.sampled_from(["cmake_minimum_required", "cmake_policy"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_compared_as_numbers(major: int, minor: int, command: str, end: str) -> None:
    raw = f"a(){end}{command}(VERSION {major}.{minor}){end}b(){end}".encode()
    new, changed, _ = raise_versions(raw, "f")
    assert bool(changed) == ((major, minor) < (3, 5))
    assert new == (raw.replace(f"VERSION {major}.{minor})".encode(), b"VERSION 3.5)") if changed else raw)


def make(root: Path) -> dict[str, bytes]:
    files = {
        "CMakeLists.txt": b"cmake_minimum_required(VERSION 3.13)\n",
        "sub/CMakeLists.txt": b"cmake_minimum_required(VERSION 2.8.12)\ncmake_policy(VERSION 2.8.12)\n",
        "sub/deps.cmake": b"CMAKE_MINIMUM_REQUIRED(VERSION 3.0)\r\n",
        "third_party/x/test/CMakeLists.txt": b"cmake_minimum_required(VERSION 2.8)\n",
        "third_party/x/CMakeLists.txt": b"cmake_minimum_required(VERSION 2.8)\n",
        "notes.txt": b"cmake_minimum_required(VERSION 2.8)\n",
        ".git/x.cmake": b"cmake_minimum_required(VERSION 2.8)\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return files


def test_a_whole_tree(tmp_path: Path) -> None:
    files = make(tmp_path)
    shown = rewrite_cmake(tmp_path, dry_run=True)
    assert {(one.file, one.before) for one in shown.changes} == {
        ("sub/CMakeLists.txt", "2.8.12"),
        ("sub/deps.cmake", "3.0"),
        ("third_party/x/CMakeLists.txt", "2.8"),
    }
    assert shown.diff and "+cmake_minimum_required(VERSION 3.5)" in shown.diff
    assert len(shown.changes) == 4 and [one.file for one in shown.left] == ["third_party/x/test/CMakeLists.txt"]
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    done = rewrite_cmake(tmp_path)
    assert done.changes == shown.changes and done.diff is None and done.files_read == shown.files_read > 0
    assert (tmp_path / "sub/deps.cmake").read_bytes() == b"CMAKE_MINIMUM_REQUIRED(VERSION 3.5)\r\n"
    assert not (tmp_path / ".rekindle").exists()
    assert rewrite_cmake(tmp_path).changes == () and not (tmp_path / ".rekindle").exists()


@pytest.mark.parametrize(
    ("folder", "left"),
    [
        ("third_party/x/test", True),
        ("third_party/x/test/deep", True),
        ("Vendor/Examples", True),
        ("test/third_party/x", False),
        ("test/deep", False),
        ("third_party", False),
    ],
)
def test_only_tests_of_third_parties_are_left_alone(folder: str, left: bool, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.0)\n")
    found = rewrite_cmake(tmp_path, dry_run=True)
    assert (len(found.left), len(found.changes)) == ((1, 0) if left else (0, 1))


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 2.8)\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(outside)
    (tree / "CMakeLists.txt").symlink_to(outside / "CMakeLists.txt")
    assert rewrite_cmake(tree).changes == ()
    assert (outside / "CMakeLists.txt").read_text() == "cmake_minimum_required(VERSION 2.8)\n"


def test_a_tree_without_cmake_has_nothing_to_read(tmp_path: Path) -> None:
    assert rewrite_cmake(tmp_path).files_read == 0


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a directory"):
        rewrite_cmake(tmp_path / "no")
    with pytest.raises(BadInput, match="no CMake version"):
        rewrite_cmake(tmp_path, floor="new")
