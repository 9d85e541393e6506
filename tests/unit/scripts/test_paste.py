"""Lines to paste: read back by the shells they are for."""

from __future__ import annotations

import ctypes
import os
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.scripts.quoting import paste_line, paste_with, pasted

# What a Windows path or a pip requirement may hold.
WORDS = st.text(alphabet="ab 1ü中-_./\\:=+,@<>&|^()[]!~';%", max_size=12)


@given(st.lists(WORDS, min_size=1))
def test_a_posix_shell_reads_the_same_words(words: list[str]) -> None:
    assert shlex.split(paste_line(words, windows=False)) == words


@pytest.mark.parametrize("word", ["setuptools<74", "a&b", "a|b", "a b", "a(b)", "a;b", "", "a'b", "x^y", "50%"])
def test_what_cmd_would_take_apart_is_quoted(word: str) -> None:
    assert pasted(word, windows=True) == f'"{word}"'


@pytest.mark.parametrize("word", ["C:\\a\\b.whl", "torch==2.6.0+cu124", "https://example.org/whl", "--source", "ü.txt"])
def test_what_is_plain_stays_plain(word: str) -> None:
    assert pasted(word, windows=True) == word


def test_a_quote_cannot_end_the_word() -> None:
    assert pasted('a" & del b', windows=True) == '"a & del b"'


def test_a_backslash_cannot_open_it() -> None:
    assert pasted("C:\\a b\\", windows=True) == '"C:\\a b\\\\"'


def test_variables_for_one_line() -> None:
    line = paste_with({"PIP_EXTRA_INDEX_URL": "https://e.org/a b"}, "rekindle build", windows=False)
    assert line == "PIP_EXTRA_INDEX_URL='https://e.org/a b' rekindle build"
    assert paste_with({"A": "b c"}, "x", windows=True) == 'set "A=b c" && x'
    assert paste_with({}, "x", windows=True) == paste_with({}, "x", windows=False) == "x"


@pytest.mark.skipif(os.name != "nt", reason="Windows' own reader of command lines")
@given(st.lists(WORDS, min_size=1))
def test_windows_reads_the_same_words(words: list[str]) -> None:
    split = getattr(ctypes, "windll").shell32.CommandLineToArgvW
    split.restype = ctypes.POINTER(ctypes.c_wchar_p)
    count = ctypes.c_int()
    found = split("x.exe " + paste_line(words), ctypes.byref(count))
    assert [found[number] for number in range(1, count.value)] == words


def test_where_no_shell_is_named_it_is_this_machine_s() -> None:
    here = os.name == "nt"
    for word in ("a b", "it's", "C:\\a b\\", "plain"):
        assert pasted(word) == pasted(word, windows=here)
    assert paste_with({"A": "b c"}, "x") == paste_with({"A": "b c"}, "x", windows=here)
    assert paste_line(["a b", "c"]) == paste_line(["a b", "c"], windows=here)
