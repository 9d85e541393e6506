"""Corners of the source room: how archives are packed, where links lead, lines and limits of files, who is meant."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, StageFailed
from rekindle.host.protocol import Completed
from rekindle.model.progress import Silent
from rekindle.source import archive, history, rewrite
from rekindle.source.archive import unpack
from rekindle.source.context import _just_below, find_compiler, gather
from rekindle.source.origins import source_entries
from rekindle.source.patches.diff import FileDiff, Hunk
from rekindle.source.paths import check_relative
from rekindle.source.tree import listed_by_setup


def _tar(*members: tuple[str, dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            content = fields.get("content", b"")
            info.size = len(content)
            info.type, info.linkname = fields.get("type", tarfile.REGTYPE), fields.get("linkname", "")
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


PLAIN = _tar(("t/a", {"content": b"text"}))


@pytest.mark.parametrize(
    "packed",
    [PLAIN, gzip.compress(PLAIN), bz2.compress(PLAIN), lzma.compress(PLAIN), lzma.compress(PLAIN, lzma.FORMAT_ALONE)],
    ids=["plain", "gzip", "bzip2", "xz", "lzma"],
)
def test_a_tar_is_read_whatever_it_is_packed_with(packed: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(packed)
    unpack(tmp_path / "t.tar", tmp_path / "out")
    assert (tmp_path / "out/a").read_bytes() == b"text"


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_a_hard_link_is_counted_from_the_top_and_a_symbolic_one_from_its_folder(tmp_path: Path) -> None:
    made = _tar(
        ("t/deep/a", {"content": b"text"}),
        ("t/deep/hard", {"type": tarfile.LNKTYPE, "linkname": "t/deep/a"}),
        ("t/deep/soft", {"type": tarfile.SYMTYPE, "linkname": "../deep/a"}),
    )
    (tmp_path / "t.tar").write_bytes(made)
    unpack(tmp_path / "t.tar", tmp_path / "out")
    assert (tmp_path / "out/deep/hard").read_bytes() == (tmp_path / "out/deep/soft").read_bytes() == b"text"


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize(
    ("names", "goal", "leads_out"),
    [
        (["t/a"], "..", True),
        (["t/a"], "../beside", True),
        (["t/a"], "../t/b", True),
        (["t/deep/a"], "..", False),
        (["t/deep/a"], "../../t", True),
        (["t/a"], ".", False),
        (["t/a"], "nowhere", False),
        (["t/a", "u/b"], "../u/b", False),
    ],
)
def test_a_link_counts_from_the_tree_that_is_left_when_its_top_is_taken_off(
    names: list[str], goal: str, leads_out: bool, tmp_path: Path
) -> None:
    others = [(name, {"content": b"x"}) for name in ("t/b", *names[1:])]
    (tmp_path / "t.tar").write_bytes(_tar((names[0], {"type": tarfile.SYMTYPE, "linkname": goal}), *others))
    if leads_out:
        with pytest.raises(BadInput, match="a link out of its tree"):
            unpack(tmp_path / "t.tar", tmp_path / "out")
    else:
        unpack(tmp_path / "t.tar", tmp_path / "out")
    assert (tmp_path / "out").exists() is not leads_out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "t.tar"][leads_out:]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "device"),
        (tarfile.GNUTYPE_SPARSE, "holes"),
    ],
)
def test_what_no_source_holds_is_refused_by_its_kind(kind: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(_tar(("t/a", {"type": kind})))
    with pytest.raises(BadInput, match=f"{words} .*is no source archive"):
        unpack(tmp_path / "t.tar", tmp_path / "out")


@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        (tarfile.SYMTYPE, "../../x"),
        (tarfile.LNKTYPE, "../x"),
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "a/../../x"),
    ],
)
def test_a_link_out_of_the_tree_is_refused(kind: bytes, goal: str, tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(_tar(("t/a", {"type": kind, "linkname": goal}), ("t/b", {})))
    with pytest.raises(BadInput):
        unpack(tmp_path / "t.tar", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_copies_in_the_place_of_links_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_NO_LINKS", True)
    monkeypatch.setattr(archive, "MAX_BYTES", 20_000)
    members: list[tuple[str, dict[str, Any]]]
    members = [("t/f/a", {"content": b"x" * 10_000}), ("t/one", {"type": tarfile.SYMTYPE, "linkname": "f"})]
    (tmp_path / "t.tar").write_bytes(_tar(*members, ("t/two", {"type": tarfile.SYMTYPE, "linkname": "f/a"})))
    unpack(tmp_path / "t.tar", tmp_path / "out")
    assert (tmp_path / "out/one/a").read_bytes() == (tmp_path / "out/two").read_bytes() == b"x" * 10_000
    (tmp_path / "t.tar").write_bytes(
        _tar(*members, *((f"t/{n}", {"type": tarfile.SYMTYPE, "linkname": "f"}) for n in "pq"))
    )
    with pytest.raises(BadInput, match="what its links lead to is more than"):
        unpack(tmp_path / "t.tar", tmp_path / "more")


@pytest.mark.parametrize(
    ("files", "size", "fits"),
    [
        (1, archive.RATIO_FROM, True),
        (1, archive.RATIO_FROM + 1, False),
        (archive.MAX_FILES, 1, True),
        (archive.MAX_FILES + 1, 1, False),
    ],
)
def test_how_much_a_small_archive_may_become(files: int, size: int, fits: bool) -> None:
    _held_to(lambda: archive._bounded(files, size, 1, Path("t.tar")), fits)


@pytest.mark.parametrize(("above", "fits"), [(0, True), (1, False)])
def test_how_tightly_a_large_archive_may_be_packed(above: int, fits: bool) -> None:
    packed = 5 << 20
    _held_to(lambda: archive._bounded(1, archive.MAX_RATIO * packed + above, packed, Path("t.tar")), fits)
    _held_to(lambda: archive._bounded(1, archive.MAX_BYTES + above, 1 << 30, Path("t.tar")), fits)


def _held_to(act: Callable[[], object], fits: bool) -> None:
    if fits:
        act()
    else:
        with pytest.raises(BadInput, match="stopped"):
            act()


def test_a_call_is_told_with_its_line() -> None:
    _, changed, left = rewrite.raise_versions(
        b"project(x)\n\ncmake_minimum_required(VERSION 3.0)\ncmake_minimum_required(VERSION ${v})\n", "CMakeLists.txt"
    )
    assert [(one.line, one.before, one.after) for one in changed] == [(3, "3.0", "3.5")]
    assert [(one.line, one.before) for one in left] == [(4, "${v}")]


def test_a_file_too_large_to_be_a_cmake_file_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MAX_FILE_BYTES", 40)
    text = b"cmake_minimum_required(VERSION 3.0)"
    for name, size in (("a.cmake", 40), ("b.cmake", 41)):
        (tmp_path / name).write_bytes(text.ljust(size))
    assert [change.file for change in rewrite.rewrite_cmake(tmp_path, dry_run=True).changes] == ["a.cmake"]


def test_going_back_counts_lines_as_they_are_after_the_patch() -> None:
    first, second = Hunk(3, (b"a\n",), (b"a\n", b"b\n", b"c\n")), Hunk(10, (b"d\n", b"e\n"), (b"d\n",))
    back = FileDiff("f", (first, second, Hunk(20, (b"x\n",), (b"y\n",)))).reversed()
    assert [hunk.start for hunk in back.hunks] == [3, 12, 21]
    assert back.hunks[0].before == first.after and back.hunks[0].after == first.before


def test_only_lists_that_apt_reads_count(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d/folder.list").mkdir(parents=True)
    for name in ("a.list", "b.list.save", "sources.list"):
        (tmp_path / "sources.list.d" / name).write_text(f"deb http://{name}.invalid/debian bookworm main\n")
    found = source_entries(tmp_path, "bookworm")
    assert [line.split()[3] for line in found] == ["http://a.list.invalid/debian", "http://sources.list.invalid/debian"]


def test_what_setup_looks_for_is_nothing_where_it_cannot_be_read(tmp_path: Path) -> None:
    assert listed_by_setup(tmp_path) == ()
    (tmp_path / "setup.py").write_text("print 'python 2'")
    assert listed_by_setup(tmp_path) == ()


class Numbered(BareHost):
    """A machine whose only compiler is called by its number."""

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("g++-11", "gcc-11") else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return ("/usr/bin/g++-11",) if "g++-" in pattern else ("/usr/bin/gcc-11",) if "gcc-" in pattern else ()

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        here = argv[0].endswith("-11")
        return Completed(argv=tuple(argv), code=0 if here else None, out="g++ (GCC) 11.4.0\n" if here else "")


def test_a_compiler_that_is_called_by_its_number_is_found_unless_another_is_named() -> None:
    assert find_compiler(Numbered()) == "gcc 11.4.0"
    assert find_compiler(Numbered(env={"CXX": "icpx"})) is None and find_compiler(BareHost()) is None


@pytest.mark.parametrize(
    ("lines", "said"), [(["first", "why it failed", "  ", ""], "code 3: why it failed"), ([], "code 3: no output")]
)
def test_a_failed_hipify_ends_with_its_last_words(
    lines: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_long(argv: list[str], *, cwd: Path, env: dict[str, str], on_line: Callable[[str], None]) -> int:
        for line in lines:
            on_line(line)
        assert argv == ["python3", str(tmp_path / history.SCRIPT)] and env["PYTHONUTF8"] == "1"
        return 3

    monkeypatch.setattr(history, "run_long", run_long)
    with pytest.raises(StageFailed, match=said):
        history._run(tmp_path, "python3", Silent())


@pytest.mark.parametrize(
    ("bound", "below"),
    [
        ("74", "73.999"),
        ("1.26", "1.25.999"),
        ("4.0", "3.999"),
        ("2.0.0", "1.999"),
        ("0.0", "0"),
        ("1.0", "0.999"),
        ("1.0.3", "1.0.2.999"),
    ],
)
def test_a_version_that_an_upper_bound_admits(bound: str, below: str) -> None:
    assert _just_below(bound) == below


def test_what_the_caller_says_counts_and_what_he_does_not_say_is_asked(tmp_path: Path) -> None:
    asked = gather(BareHost(), tmp_path, "2.0.1", given={"cuda": None, "rocm": "6.2"}).facts
    assert (asked["cuda"], asked["rocm"]) == ("none", "6.2")


@pytest.mark.parametrize(("above", "fits"), [(0, True), (1, False)])
def test_an_archive_may_be_as_large_as_the_limit(
    above: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 10_000)
    (tmp_path / "t.tar").write_bytes(_tar(("t/a", {"content": b"x" * (10_000 + above)}), ("t/b", {})))
    _held_to(lambda: unpack(tmp_path / "t.tar", tmp_path / "out"), fits)


def test_what_was_left_out_of_an_archive_is_counted(tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(PLAIN)
    assert unpack(tmp_path / "t.tar", tmp_path / "plain") == 0
    hidden = [(f"t/.git/{name}", {"content": b"x"}) for name in ("config", "HEAD")]
    (tmp_path / "t.tar").write_bytes(_tar(("t/a", {}), *hidden))
    assert unpack(tmp_path / "t.tar", tmp_path / "git") == 2 and not (tmp_path / "git/.git").exists()
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as file:
        for name in ("t/a", "t/.git/config"):
            file.writestr(name, "x")
    assert unpack(tmp_path / "t.zip", tmp_path / "zip") == 1 and not (tmp_path / "zip/.git").exists()


@pytest.mark.skipif(os.name == "nt", reason="a name of Windows' own")
def test_names_that_windows_reserves_may_be_unpacked_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "t.tar").write_bytes(_tar(("t/aux.c", {"content": b"text"})))
    unpack(tmp_path / "t.tar", tmp_path / "out")
    assert (tmp_path / "out/aux.c").read_bytes() == b"text"
    with pytest.raises(BadInput, match="not a plain path"):
        check_relative("t/aux.c", origin="a patch")


def test_how_long_a_path_in_a_tree_may_be() -> None:
    check_relative("x" * 4096, origin="t")
    with pytest.raises(BadInput, match="not a plain path"):
        check_relative("x" * 4097, origin="t")


def test_what_lies_below_a_link_stays_beside_a_copy_of_its_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_NO_LINKS", True)
    link = ("t/link", {"type": tarfile.SYMTYPE, "linkname": "real"})
    (tmp_path / "t.tar").write_bytes(_tar(("t/real/a", {}), link, ("t/link/b", {})))
    unpack(tmp_path / "t.tar", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out/link").iterdir()) == ["a", "b"]


def test_a_header_is_read_in_pieces_of_a_known_size() -> None:
    plain = archive._Plain(io.BytesIO(PLAIN))
    assert plain.read(0) == b"" and len(plain.read(512)) == 512
    for size in (-1, archive.MAX_READ + 1):
        with pytest.raises(tarfile.ReadError):
            plain.read(size)
    assert archive.MAX_READ == 16 << 20


def test_only_names_count_among_the_folders_that_setup_looks_for(tmp_path: Path) -> None:
    text = "def get_submodule_folders():\n    return [join(x, 'a') for x in ['b', 7, None, c]]\n"
    (tmp_path / "setup.py").write_text(text)
    assert listed_by_setup(tmp_path) == ("third_party/b",)


def test_a_diff_makes_nothing_executable_by_itself() -> None:
    assert not FileDiff("f", (Hunk(1, (b"a\n",), (b"b\n",)),)).executable


def test_a_long_rewrite_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Heard(Silent):
        said = 0

        def step(self, done: float, total: float | None, detail: str = "") -> None:
            self.said += 1

    (tmp_path / "CMakeLists.txt").write_bytes(b"cmake_minimum_required(VERSION 3.0)\n")
    monkeypatch.setattr(rewrite, "QUIET_SECONDS", -1.0)
    heard = Heard()
    rewrite.rewrite_cmake(tmp_path, dry_run=True, progress=heard)
    assert heard.said and rewrite.rewrite_cmake(tmp_path, dry_run=True).changes
    monkeypatch.setattr(rewrite, "QUIET_SECONDS", 600.0)
    short = Heard()
    rewrite.rewrite_cmake(tmp_path, dry_run=True, progress=short)
    assert not short.said
