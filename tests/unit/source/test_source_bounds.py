"""Where the source room draws its lines: sizes, places, what is staged, what a plan says, what is kept in a cache."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import needs
import source_mini as mini
from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.git import Git
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Silent
from rekindle.model.source import TreeRecord
from rekindle.model.supply import FromIndex
from rekindle.scripts.quoting import paste_line
from rekindle.source import archive, checkout, history, journal, rewrite, supply, tree
from rekindle.source.archive import unpack
from rekindle.source.checkout import check_place, parse_mirror
from rekindle.source.context import choose_for, find_compiler, from_plan, gather
from rekindle.source.fetch import Filling, fill_tree
from rekindle.source.origins import _apt
from rekindle.source.patches import Context, git_line, load_patches, status
from rekindle.source.supply import Headers
from rekindle.source.tree import check_wanted, exact_version, tree_digest

MIB = 1 << 20


def test_the_limits_of_what_a_stranger_may_send() -> None:
    assert (archive.MAX_FILES, archive.MAX_BYTES, archive.MAX_RATIO) == (300_000, 8 << 30, 60)
    assert (archive.RATIO_FROM, rewrite.MAX_FILE_BYTES) == (256 * MIB, 16 * MIB)
    assert (tree.SMALL_FILES, tree.SMALL_BYTES) == (2000, 32 * MIB)


@pytest.mark.parametrize(("lacks", "fits"), [(0, True), (1, False)])
def test_an_archive_needs_room_for_eight_times_its_size(
    lacks: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tarfile

    packed = tmp_path / "t.tar"
    with tarfile.open(packed, "w") as file:
        file.add(mini.make_tree(tmp_path / "t"), "t")
    free = packed.stat().st_size * 8 - lacks
    monkeypatch.setattr("rekindle.source.archive.shutil.disk_usage", lambda place: SimpleNamespace(free=free))
    if fits:
        unpack(packed, tmp_path / "deep" / "out")
        assert (tmp_path / "deep/out/setup.py").is_file()
    else:
        with pytest.raises(BadInput, match="too little free space: about 0 MiB are needed"):
            unpack(packed, tmp_path / "out")


def test_where_an_archive_may_go(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a file"):
        unpack(tmp_path, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    with pytest.raises(BadInput, match="exists and is not empty"):
        unpack(tmp_path / "x.tar", tmp_path / "full")


@pytest.mark.parametrize(("longer", "notes"), [(0, 0), (1, 1)])
def test_a_place_may_be_so_long_on_windows(longer: int, notes: int, tmp_path: Path) -> None:
    place = tmp_path.resolve() / "x"
    place = place.with_name("x" * (1 + 260 - 150 - len(str(place)) + longer)) if len(str(place)) < 110 else place
    if len(str(place)) != 110 + longer:
        pytest.skip("this machine's own folder for tests is longer")
    assert len(check_place(place, windows=True)) == notes and check_place(place, windows=False) == []


def test_a_place_that_is_somebody_s_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="is not a directory"):
        check_place(tmp_path / "file", windows=False)
    with pytest.raises(BadInput, match="is no git checkout"):
        check_place(tmp_path, windows=False)
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / ".git").mkdir(parents=True)
    for name in ("new", "old", "none"):
        assert check_place(tmp_path / name, windows=False) == []


@pytest.mark.parametrize("text", ["https://a/", "=https://b/", "https://a/="])
def test_half_a_mirror_is_none(text: str) -> None:
    with pytest.raises(BadInput, match="is no mirror"):
        parse_mirror(text)
    assert parse_mirror("https://a/=https://b/?c=d") == ("https://a/", "https://b/?c=d")


@pytest.mark.parametrize(("size", "small"), [(32 * MIB, True), (32 * MIB + 1, False)])
def test_the_content_of_a_small_tree_counts(size: int, small: bool, tmp_path: Path) -> None:
    root = mini.make_tree(tmp_path / "t")
    has = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    record, large = TreeRecord(origin="here"), root / "large"
    large.write_bytes(b"\0" * (size - has))
    first = tree_digest(root, None, record, "torch", "1.0")
    (root / "setup.py").write_text("# other\n")
    assert (tree_digest(root, None, record, "torch", "1.0") != first) == small
    elsewhere = msgspec.structs.replace(record, origin="there")
    assert (tree_digest(root, None, elsewhere, "torch", "1.0") != first) or small


def test_so_many_files_are_a_small_tree(tmp_path: Path) -> None:
    root = mini.make_tree(tmp_path / "t")
    for number in range(2000 - 6):
        (root / f"{number}.h").touch()
    record = TreeRecord()
    first = tree_digest(root, None, record, "torch", "1.0")
    (root / "torch/greeting.py").write_text("other")
    assert tree_digest(root, None, record, "torch", "1.0") != first
    (root / "one more.h").touch()
    more = tree_digest(root, None, record, "torch", "1.0")
    (root / "torch/greeting.py").write_text("another")
    assert tree_digest(root, None, record, "torch", "1.0") == more


@pytest.mark.parametrize("name", ["a.so", "b.pyc", "torch/version.py", "build/x", "x.egg-info/y", "__pycache__/z"])
def test_what_a_build_writes_changes_no_digest(name: str, tmp_path: Path) -> None:
    root = mini.make_tree(tmp_path / "t")
    before = tree_digest(root, None, TreeRecord(), "torch", "1.0")
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("x")
    assert tree_digest(root, None, TreeRecord(), "torch", "1.0") == before
    (root / "torch/new.py").write_text("x")
    assert tree_digest(root, None, TreeRecord(), "torch", "1.0") != before


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [("1.13.0", "1.13.1+cu117", True), ("1.13.0", "1.12.1", False), ("2.1.0", "1.1.0", False), ("1.13.0", None, True)],
)
def test_a_tree_of_another_release_is_refused(version: str, wanted: str | None, fits: bool, tmp_path: Path) -> None:
    if fits:
        check_wanted(tmp_path, version, wanted)
    else:
        with pytest.raises(BadInput, match=f"is release {version}, and {wanted} is wanted"):
            check_wanted(tmp_path, version, wanted)


@pytest.mark.parametrize(
    ("tag", "version"),
    [("v1.13.1", "1.13.1"), ("1.13.1", "1.13.1"), ("v1.13.1-rc2", "1.13.1"), ("v1.13", "1.0"), ("nightly", "1.0")],
)
def test_a_tag_names_the_release(tag: str, version: str) -> None:
    assert exact_version("1.0", tag) == version and exact_version("1.0", None) == "1.0"


def test_a_git_command_is_spelt_for_this_machine(tree: Path) -> None:
    git = Git(tree)
    assert git_line(git, "diff", "a b") == paste_line(["git", *git.place, "diff", "a b"], windows=os.name == "nt")


TOOL = """
import os, pathlib
pathlib.Path("torch/other.py").write_text(os.environ.get("HIP_WORD", "hip"))
pathlib.Path("stale.tmp").unlink(missing_ok=True)
pathlib.Path("torch/greeting.py").unlink(missing_ok=True)
print("done")
"""


@pytest.fixture
def hip_tree(tree: Path) -> Path:
    (tree / history.SCRIPT).parent.mkdir(parents=True)
    (tree / history.SCRIPT).write_text(TOOL)
    (tree / ".gitignore").write_text("*.tmp\n")
    settings = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "upstream"]):
        subprocess.run(["git", *settings, *words], cwd=tree, check=True)
    return tree


@needs.tool("git")
def test_hipify_may_take_files_away_ignored_ones_too(hip_tree: Path) -> None:
    (hip_tree / "stale.tmp").write_text("of an earlier run")
    done = history.hipify(hip_tree)
    assert set(done.changed) == {"torch/other.py", "torch/greeting.py", "stale.tmp"} and done.notes == ()
    marks = history.open_history(hip_tree)
    hips = marks.run("diff", "--name-only", history.PATCHED_TAG, history.HIPIFIED_TAG).split()
    assert hips == ["torch/greeting.py", "torch/other.py"] and not marks.dirty()
    history.undo_hipify(hip_tree)
    assert (hip_tree / "torch/greeting.py").read_text() == mini.GREETING


@needs.tool("git")
def test_a_hipify_that_was_cut_behind_its_marks_sets_them_anew(hip_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(journal, "write_record", killed)
        with pytest.raises(KeyboardInterrupt):
            history.hipify(hip_tree)
    marks = history.open_history(hip_tree)
    first = marks.run("rev-parse", history.HIPIFIED_TAG)
    monkeypatch.setenv("HIP_WORD", "another")
    assert history.hipify(hip_tree).hipified
    head, base = (marks.run("rev-parse", name) for name in (history.HIPIFIED_TAG, history.PATCHED_TAG))
    assert head == marks.run("rev-parse", "HEAD") and base == marks.run("rev-parse", "HEAD~1")
    assert head != first and marks.run("show", f"{history.HIPIFIED_TAG}:torch/other.py") == "another"


@needs.tool("git")
def test_many_files_are_staged_a_batch_at_a_time(hip_tree: Path) -> None:
    git = Git(hip_tree)
    names = [f"n{number:04d}.h" for number in range(1001)]
    for name in names[:-1]:
        (hip_tree / name).touch()
    history.stage(git, [*names, names[0], "torch/other.py"])
    assert git.run("diff", "--cached", "--name-only").split() == names[:-1]


def test_what_apt_fetches_is_shown_and_its_errors_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    heard: list[str] = []

    class Heard(Silent):
        def step(self, done: float, total: float | None, detail: str = "") -> None:
            heard.append(detail)

    def run_long(argv: list[str], *, cwd: Path, env: Mapping[str, str], on_line: Any) -> int:
        for line in ("Hit:1 http://a", "Get:2 http://b/x", "W: careful", "E: no"):
            on_line(line)
        assert env["LC_ALL"] == "C.UTF-8"
        return 0

    monkeypatch.setattr("rekindle.source.origins.run_long", run_long)
    _apt(["apt-get", "update"], tmp_path, Heard())
    assert heard == ["2 http://b/x"]


SHA = "0123456789abcdef" * 4
WANTED: dict[str, Any] = {
    "file": "x-1-py3-none-any.whl", "sha256": SHA, "package": "x", "version": "1", "take": {"include": "x/include"},
}  # fmt: skip


def test_what_was_unpacked_into_the_cache_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first sixteen letters of its checksum, also by another version of rekindle."""
    wanted = msgspec.convert(WANTED, FromIndex)
    kept = tmp_path / "headers" / SHA[:16] / "x" / "include"
    kept.mkdir(parents=True)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / wanted.file).write_bytes(b"packed")
    monkeypatch.setattr(supply, "sha256_of", lambda path: SHA)
    headers = Headers(host=LiveHost(), cache=tmp_path, progress=Silent())
    assert headers.folders(wanted) == {"include": kept.resolve()}
    with pytest.raises(BadInput, match=r"x-1-py3-none-any\.whl has no x/lib"):
        headers.folders(msgspec.structs.replace(wanted, take={"lib": "x/lib"}))


@needs.posix("hard links")
@pytest.mark.parametrize(("size", "shared"), [(MIB, True), (MIB - 1, False)])
def test_a_large_library_is_shared_with_the_cache(size: int, shared: bool, tmp_path: Path) -> None:
    (tmp_path / "lib").write_bytes(b"x" * size)
    supply._share(str(tmp_path / "lib"), str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"x" * size
    assert ((tmp_path / "copy").stat().st_nlink == 2) == shared


class Said(BareHost):
    """Every program says the same."""

    def __init__(self, out: str, err: str = "", system: str = "linux", **env: str) -> None:
        super().__init__(system, env)
        self.out, self.err = out, err
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(list(argv))
        return Completed(argv=tuple(argv), code=0, out=self.out, err=self.err)


@pytest.mark.parametrize(
    ("host", "asked", "compiler"),
    [
        (Said("g++ (GCC) 11.4.0\n"), ["c++", "--version"], "gcc 11.4.0"),
        (Said("clang version 17.0.6\n", CXX="clang++ -m64"), ["clang++", "--version"], "clang 17.0.6"),
        (
            Said("clang version 17.0.6\n", system="windows", CXX="clang-cl"),
            ["clang-cl", "--version"],
            "clang-cl 17.0.6",
        ),
        (Said("", "Microsoft (R) C/C++ Compiler Version 19.40.33807\n", "windows"), ["cl"], "msvc 19.40.33807"),
    ],
)
def test_the_compiler_that_a_build_would_take(host: Said, asked: list[str], compiler: str) -> None:
    assert find_compiler(host) == compiler and host.asked == [asked]


def test_what_a_plan_says_of_its_build() -> None:
    recipe = BuildRecipe(
        source="x",
        compiler="gcc-12",
        env={"CMAKE_POLICY_VERSION_MINIMUM": "3.5"},
        pins={"setuptools": "<74", "numpy": "==1.26.4", "cmake": ">=3.18", "wheel": "<1"},
    )
    plan = Plan(answer="build", torch="2.0.1", python="3.10", cuda="11.8", cudnn="8.7.0", build=recipe)
    assert from_plan(plan) == {
        "python": "3.10", "cuda": "11.8", "rocm": "none", "cudnn": "8.7.0", "backend": "cuda", "policy-minimum": "3.5",
        "compiler": "gcc 12", "setuptools": "73.999", "numpy": "1.26.4",
    }  # fmt: skip
    assert from_plan(Plan(answer="install", python="3.11")) == {"python": "3.11"} and from_plan(None) == {}
    assert from_plan(Plan(answer="build", python="3.11")) == {"python": "3.11"}


def test_what_the_plan_says_wins_over_the_machine_and_the_caller_over_both(tmp_path: Path) -> None:
    recipe = BuildRecipe(source="x", cmake={"CMAKE_POLICY_VERSION_MINIMUM": "3.5"})
    plan = Plan(answer="build", torch="2.0.1", rocm="5.4", build=recipe)
    host = BareHost(env={"CMAKE_POLICY_VERSION_MINIMUM": "3.10"})
    facts = gather(host, tmp_path, "2.0.1", plan=plan).facts
    assert (facts["rocm"], facts["cuda"], facts["backend"], facts["policy-minimum"]) == ("5.4", "none", "rocm", "3.5")
    given = gather(host, tmp_path, "2.0.1", plan=plan, given={"rocm": "6.2", "cmake": None}).facts
    assert (given["rocm"], given["cmake"]) == ("6.2", None)
    alone = gather(host, tmp_path, "2.0.1").facts
    assert (alone["backend"], alone["policy-minimum"], alone["fmt"]) == ("cpu", "3.10", "none")


def test_patches_by_their_names(tmp_path: Path) -> None:
    context = Context({"version": "1.13.1"})
    (tmp_path / "greet.patch").write_text(mini.HEADER + mini.DIFF)
    chosen = choose_for(tmp_path, "torch", context, only=["greet"], folder=tmp_path)
    assert [each.patch.id for each in chosen if each.verdict == "needed"] == ["greet"] and len(chosen) > 1
    with pytest.raises(BadInput, match="there is no patch 'gret' for torch") as refused:
        choose_for(tmp_path, "torch", context, only=["gret"], folder=tmp_path)
    assert refused.value.remedy == "did you mean greet?"
    with pytest.raises(BadInput, match="there is no patch") as refused:
        choose_for(tmp_path, "torch", context, only=["zzzzzz"], folder=tmp_path)
    assert "source status -v" in (refused.value.remedy or "")
    (tmp_path / "empty").mkdir()
    for folder, words in ((tmp_path / "empty", r"holds no \*\.patch file"), (tmp_path / "gone", "is not a directory")):
        with pytest.raises(BadInput, match=words):
            choose_for(tmp_path, "torch", context, folder=folder)
    assert checkout.ATTEMPTS == 3


def test_a_patch_of_one_s_own_takes_the_place_of_ours(tmp_path: Path) -> None:
    ours = load_patches("torch")[0].id
    (tmp_path / f"{ours}.patch").write_text(mini.HEADER + mini.DIFF)
    chosen = [
        each.patch for each in choose_for(tmp_path, "torch", Context({}), folder=tmp_path) if each.patch.id == ours
    ]
    assert [patch.title for patch in chosen] == ["say goodbye instead of hello"]


def test_what_hipify_says_is_shown_and_how_far_it_is_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[float, float | None, str]] = []

    class Heard(Silent):
        def step(self, done: float, total: float | None, detail: str = "") -> None:
            heard.append((done, total, detail))

    def run_long(argv: list[str], *, cwd: Path, env: Mapping[str, str], on_line: Any) -> int:
        on_line(" one \n")
        on_line("")
        return 0

    monkeypatch.setattr(history, "run_long", run_long)
    history._run(tmp_path, "python3", Heard())
    assert heard == [(0, None, "one"), (0, None, "one")]


def test_without_a_word_the_index_is_asked_and_no_backend_is_assumed() -> None:
    assert Filling() == Filling(backend=None, cuda=None, find_links=(), offline=False)


def test_a_tree_of_another_project_has_no_third_parties_of_torch(tmp_path: Path) -> None:
    root = tmp_path / "vision"
    for name in ("setup.py", "torchvision/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "version.txt").write_text("0.15.2\n")
    (root / ".gitmodules").write_text('[submodule "a"]\n\tpath = third_party/a\n\turl = https://e.org/a\n')
    shown = supply.with_parts(status(root))
    assert (shown.project, shown.parts) == ("torchvision", ())
    assert shown.missing_submodules == ("third_party/a (not there)",)
    assert fill_tree(root, cache=tmp_path / "cache") == shown
