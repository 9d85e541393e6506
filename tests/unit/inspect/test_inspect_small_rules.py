"""Guards by name, walks along calls, roads of both encodings: what stands just inside and outside of each rule."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from rekindle.inspect import branches
from rekindle.inspect.baseline import FEW, LEAST_BYTES, MANY, PER_WINDOW, WINDOWS, spread_of, window_shares
from rekindle.inspect.branches import Roads, arm64_roads, x86_roads
from rekindle.inspect.declared import arch_lists_in, find_arch_list, longest_list, read_declared
from rekindle.inspect.guards import Guard, Guards, QuestionNames, load_guards, short
from rekindle.inspect.reach import ROOT, UNREACHED, Edges, chain_to
from rekindle.inspect.reader import DirectorySource, WheelSource

START = 0x1000


def guard(
    ident: str, name: str | None, file: str | None, words: tuple[str, ...] = (), library: str | None = None
) -> Guard:
    def made(text: str | None) -> re.Pattern[str] | None:
        return re.compile(text) if text else None

    return Guard(ident, "", "", made(name), made(file), made(library), frozenset(), words)


def test_a_guard_covers_by_name_or_file() -> None:
    both = guard("x", "fast", "avx")
    assert both.covers("is_fast", "")
    assert both.covers("plain", "x_avx.c")
    assert not both.covers("plain", "x.c")
    assert not guard("x", None, "^$|avx").covers("plain", "")
    words = guard("x", "F", None, ("fa",))
    assert words.covers("FA", "")
    assert not words.covers("F", "")
    assert words.covers("F", "", "fa")
    assert not words.covers("FA", "", "x")


def test_the_first_guard_then_the_library() -> None:
    rows = (guard("a", "one", None), guard("b", "one|two", None), guard("c", None, None, (), "libx"))
    all_ = Guards(rows, QuestionNames(re.compile("q"), ("q",)), re.compile("v"), ("avx",))
    assert [getattr(all_.find(*names), "id", None) for names in (("one", ""), ("two", ""), ("three", ""))] == [
        "a", "b", None,
    ]  # fmt: skip
    found = all_.find("three", "", "libx.so")
    assert found is not None
    assert found.id == "c"
    assert all_.telling("is_AVX_here")
    assert not all_.telling("is_here")
    assert not all_.telling("x" * 260 + "avx" + "x" * 260)


def test_files_named_for_a_cpu() -> None:
    rows = (guard("capability-copy", None, "AVX2"), guard("other", None, "SSE"))
    all_ = Guards(rows, QuestionNames(re.compile("q"), ("q",)), re.compile("v"), ())
    assert all_.marks_copies("a.AVX2.cpp")
    assert not all_.marks_copies("a.SSE.cpp")
    unfiled = Guards((guard("capability-copy", "x", None),), all_.check_function, all_.check_variable, ())
    assert not unfiled.marks_copies("x")


def test_a_check_needs_word_and_pattern() -> None:
    check = QuestionNames(re.compile("Has"), ("has",))
    assert check.search("Has_avx")
    assert not check.search("has_avx")
    assert not QuestionNames(re.compile("Has"), ("other",)).search("Has_avx")
    assert load_guards().check_function.search("cpuinfo_initialize")


def test_the_ends_of_a_long_name() -> None:
    fits = "a" * 239 + "b" + "c" * 80
    assert short(fits) == fits
    assert short("a" * 240 + "X" + "b" * 80) == "a" * 240 + "b" * 80


def ints(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def test_a_walk_along_calls() -> None:
    edges = Edges(ints(0, 0, 1, 2, 4, 3, 0), ints(1, 2, 3, 3, 5, 0, 1))
    assert edges.of(0) == [1, 2]
    assert edges.of(3) == [0]
    assert edges.of(5) == []
    assert edges.reversed().of(3) == [1, 2]
    free = np.zeros(6, bool)
    assert edges.walk(ints(0), free).tolist()[:3] == [ROOT, 0, 0]
    assert edges.walk(ints(0), free).tolist()[4:] == [UNREACHED, UNREACHED]
    assert edges.walk(ints(0), free)[3] in (1, 2)
    blocked = free.copy()
    blocked[[1, 2]] = True
    assert edges.walk(ints(0), blocked).tolist() == [ROOT, 0, 0, UNREACHED, UNREACHED, UNREACHED]
    assert edges.walk(ints(4, 1), free).tolist() == [3, ROOT, 0, 1, ROOT, 4]
    assert edges.walk(ints(), free).tolist() == [UNREACHED] * 6
    parent = ints(ROOT, 0, 1, 2, UNREACHED)
    assert chain_to(3, parent) == [2, 1, 0]
    assert chain_to(0, parent) == []
    assert chain_to(4, parent) == []


def x86(code: str, *places: int) -> Roads:
    raw = bytes.fromhex(code)
    padded = np.frombuffer(raw + bytes(32), np.uint8)
    return x86_roads(padded, ints(*places), START, START + len(raw))


def test_a_place_on_every_road() -> None:
    # je +1; nop; nop; ret
    one = x86("7401 90 90 c3", 0, 2, 3, 4)
    assert [one.passes(START + at) for at in (0, 2, 3, 4)] == [True, False, True, True]
    # jmp +1; int3; ret
    skip = x86("eb01 cc c3", 0, 2, 3)
    assert [skip.passes(START + at) for at in (0, 2, 3)] == [True, False, True]
    # a jump out of the function is a way out
    out = x86("eb02 90 c3", 0, 2, 3)
    assert not out.passes(START + 2)
    before = x86("74fd 90 c3", 0, 2, 3)
    assert not before.passes(START + 2)


def test_calls_after_a_test_are_rivals() -> None:
    a, b = 0x2000, 0x3000

    def call(at: int, aim: int, head: str = "e8") -> str:
        return head + (aim - START - at - 5).to_bytes(4, "little", signed=True).hex()

    # je to the second; call a; ret; call b; ret
    both = x86("7406" + call(2, a) + "c3" + call(8, b) + "c3", 0, 2, 7, 8, 13)
    assert both.rivals == {a: {b}, b: {a}}
    same = x86("7406" + call(2, a) + "c3" + call(8, a) + "c3", 0, 2, 7, 8, 13)
    assert not same.rivals
    # a return, or a further test, on one side
    assert not x86("7401 c3" + call(3, b) + "c3", 0, 2, 3, 8).rivals
    assert not x86("7402 7400" + call(4, b) + "c3", 0, 2, 4, 9).rivals
    # a jump over nothing on the way, at most three of them
    for jumps, seen in ((3, True), (4, False)):
        code = "74" + f"{2 * jumps + 6:02x}" + "eb00" * jumps + call(2 + 2 * jumps, a) + "c3"
        at = [0, *(2 + 2 * n for n in range(jumps)), 2 + 2 * jumps, 7 + 2 * jumps]
        second = 8 + 2 * jumps
        assert bool(x86(code + call(second, b) + "c3", *at, second, second + 5).rivals) is seen
    # a jump out of the function is a call too
    away = x86("7405" + call(2, a, "e9") + call(7, b, "e9"), 0, 2, 7)
    assert away.rivals == {a: {b}, b: {a}}


def test_so_many_instructions_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branches, "MOST_INSTRUCTIONS", 2)
    # The return stands in the second place, or in the third, where nobody looks any more.
    assert not x86("90 c3 90", 0, 1, 2).passes(START + 2)
    assert x86("90 90 c3 90", 0, 1, 2, 3).passes(START + 3)
    words = b"".join(word.to_bytes(4, "little") for word in (0xD503201F, 0xD65F03C0, 0xD503201F))
    assert not arm64_roads(np.frombuffer(words, np.uint8), START, START + 12).passes(START + 8)
    later = words[:4] + words
    assert arm64_roads(np.frombuffer(later, np.uint8), START, START + 16).passes(START + 12)


def arm(*words: int) -> Roads:
    code = np.frombuffer(b"".join(word.to_bytes(4, "little") for word in words), np.uint8)
    return arm64_roads(code, START, START + len(code))


def test_arm_distances_have_a_sign() -> None:
    nop, ret = 0xD503201F, 0xD65F03C0
    # b -1: out of the function, backward; b +2: over one instruction
    assert not arm(0x17FFFFFF, nop, ret).passes(START + 4)
    assert not arm(0x14000002, nop, ret).passes(START + 4)
    assert arm(0x14000002, nop, ret).passes(START + 8)
    # bl -4 words: a call before this function; tbz with its sign bit set goes back to the start
    assert arm(0x97FFFFFC, ret).unavoidable(START - 16)
    assert arm(nop, nop, 0x3607FFE0, nop, ret).passes(START + 12)
    assert arm(nop, nop, 0x54FFFFE0, nop, ret).passes(START + 12)
    # blr comes back
    assert arm(0xD63F0000, nop, ret).passes(START + 4)


def test_where_code_was_compiled_for_it() -> None:
    size = np.full(WINDOWS * PER_WINDOW, LEAST_BYTES, np.int64)
    many = int(MANY * WINDOWS)
    uses = {window * PER_WINDOW: ["sve"] for window in range(many + 1)}
    assert spread_of(uses, size, None).everywhere == {"sve"}
    assert spread_of({n: uses[n] for n in list(uses)[:many]}, size, None).everywhere == frozenset()
    few = {window * PER_WINDOW: ["sve"] for window in range(int(FEW * WINDOWS) + 1)}
    assert spread_of(few, size, None).few == frozenset()
    assert spread_of(dict(list(few.items())[:-1]), size, None).few == {"sve"}
    last = WINDOWS * PER_WINDOW - 1
    assert window_shares({0: ["a"], last: ["a"]}, size) == {"a": 2 / WINDOWS}
    assert window_shares({0: ["a"], PER_WINDOW - 2: ["a"], PER_WINDOW: ["a"]}, size) == {"a": 2 / WINDOWS}


def names(*lists: tuple[str, ...]) -> str:
    text = "\0".join(" ".join(one) for one in lists)
    return " ".join(target.name for target in find_arch_list(b"\0" + text.encode() + b"\0"))


def test_the_longest_list_wins() -> None:
    assert names(("sm_70", "sm_80"), ("sm_90",)) == "sm_70 sm_80"
    assert names(("compute_70", "sm_80")) == "compute_70 sm_80"
    assert names(("gfx906", "gfx90a"), ("sm_70",)) == "gfx906 gfx90a"
    assert names() == ""
    assert longest_list(set()) == ()
    mixed = longest_list(arch_lists_in(b"\0sm_70 compute_75\0"))
    assert [target.kind for target in mixed] == ["sass", "ptx"]
    assert [target.kind for target in next(iter(arch_lists_in(b"gfx906;gfx90a\0")))] == ["gfx", "gfx"]


def wheel(folder: Path, name: str, **files: str) -> WheelSource:
    import zipfile

    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data", "")
        for file, text in files.items():
            archive.writestr(file.replace("__", "/").replace("DOT", "."), text)
    return WheelSource(lambda: path.open("rb"), name, path.stat().st_size)


def test_what_the_name_of_a_wheel_says(tmp_path: Path) -> None:
    bare = read_declared(wheel(tmp_path, "odd-1.0-1-cp311-cp311-linux_x86_64.whl"))
    assert (bare.name, bare.version, bare.tags) == ("odd", "1.0", ("cp311-cp311-linux_x86_64",))
    assert bare.claims == {"platform": "linux_x86_64"}
    five = read_declared(wheel(tmp_path, "odd-1.0-py3-none-any.whl"))
    assert (five.name, five.tags) == ("odd", ("py3-none-any",))
    four = read_declared(wheel(tmp_path, "odd-1.0-py3-any.whl"))
    assert (four.name, four.version, four.tags, four.claims) == (None, None, (), {})
    inside = {
        "trueDOTdist-info__METADATA": "Name: true\nVersion: 2.0\nVersion: 3.0\nRequires-Python: >=3.9\n\n",
        "trueDOTdist-info__WHEEL": "Tag: py3-none-any\nTag: cp39-none-any\n\n",
    }
    told = read_declared(wheel(tmp_path, "odd-1.0-py3-none-win32.whl", **inside))
    assert (told.name, told.version, told.requires_python) == ("true", "2.0", ">=3.9")
    assert told.tags == ("py3-none-any", "cp39-none-any")


def test_what_a_version_file_says(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    text = "hip = '6.4'\ncuda = 12\nrocm = None\n__version__: str = '2.0' # said\ncuda: Optional[str] = oops()\n"
    (tmp_path / "torch" / "version.py").write_text(text, encoding="utf-8")
    found = read_declared(DirectorySource(tmp_path))
    assert (found.version, found.cuda, found.rocm) == ("2.0", None, "6.4")
    (tmp_path / "torch" / "version.py").write_text("rocm = '7.0'\n__version__ = 3\n", encoding="utf-8")
    found = read_declared(DirectorySource(tmp_path))
    assert (found.version, found.rocm) == (None, "7.0")


def test_the_same_list_each_time_of_several_that_are_equally_long() -> None:
    data = b"\0sm_50 sm_60\0 x \0sm_80 sm_90\0 x \0sm_70 sm_75\0"
    assert [one.name for one in find_arch_list(data)] == ["sm_80", "sm_90"]
    assert longest_list(set()) == ()
    assert [one.name for one in find_arch_list(b"\0sm_80\0")] == ["sm_80"]
    assert find_arch_list(b"\0sm_80\0 x \0sm_90\0") == ()


def test_a_list_at_the_very_beginning() -> None:
    assert [one.name for found in arch_lists_in(b"sm_80\0") for one in found] == ["sm_80"]
    assert arch_lists_in(b"sm_80\0word") == arch_lists_in(b"sm_80\0"), "nothing stands before the first byte"
    assert not arch_lists_in(b"asm_80\0")


@pytest.mark.parametrize(("size", "name"), [(1 << 22, "demo"), ((1 << 22) + 1, None)])
def test_metadata_has_four_megabytes_at_most(tmp_path: Path, size: int, name: str | None) -> None:
    (tmp_path / "demo-1.0.dist-info").mkdir()
    head = b"Name: demo\nVersion: 1.0\n\n"
    (tmp_path / "demo-1.0.dist-info" / "METADATA").write_bytes(head + b" " * (size - len(head)))
    assert read_declared(DirectorySource(tmp_path)).name == name


def test_only_a_version_file_of_the_package_itself_counts(tmp_path: Path) -> None:
    """``torch/version.py``, not one of a package inside it."""
    for place in ("demo/inner", "demo-1.0.dist-info"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "demo-1.0.dist-info" / "METADATA").write_text("Name: demo\nVersion: 1.0\n\n", encoding="utf-8")
    (tmp_path / "demo" / "inner" / "version.py").write_text("__version__ = '9.0+cu118'\n", encoding="utf-8")
    assert read_declared(DirectorySource(tmp_path)).version == "1.0"
    (tmp_path / "demo" / "version.py").write_text("__version__ = '1.0+cu121'\n", encoding="utf-8")
    assert read_declared(DirectorySource(tmp_path)).version == "1.0+cu121"


def test_a_guard_says_no_plainly() -> None:
    assert guard("x", "fast", None, ("fast",)).covers("slow", "") is False
