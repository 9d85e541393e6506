"""Whole views as a person reads them: each word, mark and line stands where it belongs, with and without -v."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.model.build import Brought, BundleReport, Left, PartSize, Trimmed
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.document import Document
from rekindle.model.guard import Culprit, GuardReport, Replaced
from rekindle.model.matrix import (
    Attempt,
    CellRow,
    CellState,
    MatrixRun,
    MatrixStatus,
    Published,
    RefusedCell,
    Simulation,
)
from rekindle.model.plan import Reason
from rekindle.model.source import AppliedPatch, CMakeChange, CMakeRewrite, SavedPatches, SourceTree
from rekindle.model.supply import TreePart
from rekindle.model.verify import (
    Crash,
    Missing,
    SinceProof,
    VerifyChange,
    VerifyCheck,
    VerifyComparison,
    VerifyReport,
)
from rekindle.model.wheel import OperatorTrial
from rekindle.render.screen import Screen
from views import shown

EXPECTED = Path(__file__).parent / "views"


PATCHES = (
    AppliedPatch(id="cmake-4", state="applied", title="CMake 4", detail="for CMake", source="https://x", instead="old"),
    AppliedPatch(id="gcc-15", state="clean", source="https://y", instead="a flag"),
    AppliedPatch(id="numpy-2", state="not-needed", detail="NumPy is 1.26"),
    AppliedPatch(id="odd", state="unknown", detail="the compiler is not known"),
)
PARTS = (
    TreePart(name="eigen", path="third_party/eigen", way="system", ready=True, origin="libeigen3-dev 3.4"),
    TreePart(
        name="fmt",
        path="third_party/fmt",
        way="system",
        ready=True,
        origin="9.1",
        detail="older",
        fix="apt install fmt",
    ),
    TreePart(name="pybind11", path="third_party/pybind11", way="submodule", ready=True),
    TreePart(name="nccl", path="third_party/nccl", way="index", ready=True, origin="nvidia-nccl"),
    TreePart(name="onnx", path="third_party/onnx", way="submodule", ready=False, fix="rekindle source fill t"),
)
TREE = SourceTree(
    project="torch",
    version="2.6.0",
    root="/t",
    commit="abcdef",
    origin="git",
    patches=PATCHES,
    parts=PARTS,
    missing_submodules=tuple(f"third_party/{n}" for n in range(8)),
    notes=("It is shallow.",),
    hipified=True,
    repaired="an interrupted change was finished",
    diff_command="git -C /t diff",
    diff="--- a\n+++ b\n@@ -1 +1 @@\n x",
)
OWN = SourceTree(
    project="spark",
    version="1",
    root="/s",
    patches=(AppliedPatch(id="a", state="conflict", detail="does not fit"),),
    parts=(TreePart(name="x", path="x", way="submodule", ready=True),),
)
LEFT = tuple(CMakeChange(file="b", line=n, before="3.1", why="a variable") for n in range(10))
REWRITE = CMakeRewrite(
    root="/t",
    dry_run=True,
    files_read=7,
    changes=(CMakeChange(file="a", line=3, before="2.8", after="3.5"),),
    left=LEFT,
    diff="-2.8\n+3.5",
)
ILL = Crash(signal="SIGILL")
FAILED = VerifyReport(
    verdict="failed",
    passed=1,
    failed=5,
    skipped=2,
    seconds=2.25,
    subject="torch 2.6",
    level="full",
    claims=("cpu",),
    environment={"torch": "2.6", "cuda": "12.4", "gpu1": "K40c", "gpu0": "H200", "other": "x"},
    checks=(
        VerifyCheck(id="numpy", status="failed", detail="another NumPy", remedy="numpy<2"),
        *(VerifyCheck(id=f"ops.{n}", status="failed", detail="died", crash=ILL) for n in range(4)),
        VerifyCheck(id="vision", status="skipped", skip="absent", detail="not installed"),
        VerifyCheck(id="fork", status="skipped", skip="untried", detail="no fork"),
        VerifyCheck(id="version", status="passed", detail="2.6", seconds=0.5),
    ),
    operators=(
        OperatorTrial(operator="lerp", isa=("avx2",), outcome="crashes", detail="SIGILL", avoid="a + w * (b - a)"),
        OperatorTrial(operator=None, functions=("f", "g"), outcome="runs"),
    ),
    diagnosis=Diagnosis(
        matches=(Match(id="numpy-abi", confidence="high", title="NumPy", cause="Built for NumPy 1.", fix=("pip",)),)
    ),
    since=SinceProof(
        subject="torch 2.5", wheel_sha256="0123456789abcdef", worse=("numpy",), changed={"python": "3.11 → 3.12"}
    ),
    next=("numpy<2",),
)
UNPROVEN = VerifyReport(
    verdict="not-proven",
    subject="torch",
    environment={"hip": "6"},
    since=SinceProof(subject="t", changed={"a": "b"}),
    missing=(Missing(id="gpu0.start", why="no GPU"), *(Missing(id=f"c{n}", why="did not run") for n in range(8))),
)
PROVEN = VerifyReport(verdict="proven", passed=3, subject="", claims=("cpu", "gpu"), environment={"cuda": "12"})
HARMED = VerifyReport(
    verdict="proven",
    operators=(OperatorTrial(operator="lerp", isa=("avx2",), outcome="crashes"),),
    claims=("cpu",),
    environment={"cuda": "12"},
)
COMPARISON = VerifyComparison(
    before="a",
    after="b",
    same=4,
    environment={"torch": ("1", None)},
    worse=(VerifyChange(id="fft", before="passed", after=None, detail="gone"),),
    better=(VerifyChange(id="sort", before="failed", after="passed"),),
    other=(VerifyChange(id="fork", before=None, after="skipped"),),
)
CULPRITS = tuple(Culprit(name=n, version="1", wants="torch<2", asked=True, certain=True) for n in ("xformers", "other"))
REPLACED = GuardReport(
    python="/p",
    kept="/k",
    found={"torch": "2.5"},
    replaced=(
        Replaced(
            name="torch", was="2.6", now="2.5", culprits=CULPRITS, why="xformers took it back", restore=("pip …",)
        ),
        Replaced(name="triton", was="3", now="3", why="other files"),
        Replaced(name="vision", was="1", why="gone"),
    ),
)
STATES = (
    CellState(
        id="c1", stage="proven", seconds=61.0, peak_memory_bytes=3 << 30, cache={"hit rate": "90 %"}, proof="proven"
    ),
    CellState(id="c2", stage="running", phase="compile", attempts=(Attempt(number=1, started=1.0),)),
    CellState(id="c3", stage="failed", targets=("sm_35",), attempts=(Attempt(number=1, started=1.0, message="full"),)),
)
ROWS = tuple(
    CellRow(cell=s.id, name=f"torch-{s.id}-py3.1{n}", state=s, rebuild=n > 0, because="of it")
    for n, s in enumerate(STATES)
)
STATUS = MatrixStatus(
    root="/m",
    rows=ROWS,
    counts={"proven": 1, "running": 1, "failed": 1},
    refused=(RefusedCell(name="torch-x", axes={}, because=(Reason(code="c", text="no toolkit"),)),),
)
RUN = MatrixRun(
    engine="local", status=STATUS, seconds=90, started=3, retried=1, adopted=0, overhead_seconds=1, report="/r.html"
)
BUNDLE = BundleReport(
    wheel="/w/a.whl",
    system="linux",
    out="/w/fat.whl",
    bytes_before=10_000_000,
    bytes_after=250_000_000,
    brought=(
        Brought(file="a.libs/libx.so", origin="/usr/libx.so", bytes=5_000_000, why="needed by y", licence="MIT"),
        Brought(file="a.libs/liby.so", origin="/usr/liby.so", bytes=5_000, why="needed by z"),
    ),
    left=(Left(name="libc.so.6", why="the system's", needed_by="y"),),
    missing=(Left(name="libq.so", why="not found", needed_by="y"),),
    trimmed=(Trimmed(file="b", archs=("sm_35", "sm_37"), bytes=2_000_000), Trimmed(file="c", kept_whole="odd")),
    biggest=(PartSize(file="d", bytes=7),),
    notes=("a note",),
)
VIEWS: dict[str, Document] = {
    "tree": TREE,
    "tree-conflict": OWN,
    "rewrite": REWRITE,
    "saved-none": SavedPatches(root="/t", base="v1", skipped=("a merge",)),
    "saved-two": SavedPatches(root="/t", base="v1", files=("a.patch", "b.patch")),
    "verify-failed": FAILED,
    "verify-unproven": UNPROVEN,
    "verify-proven": PROVEN,
    "verify-harmed": HARMED,
    "comparison": COMPARISON,
    "guard-replaced": REPLACED,
    "guard-recorded": GuardReport(python="/p", kept="/k", found={"torch": "2.6"}, written=True),
    "guard-nothing": GuardReport(python="/p"),
    "guard-good": GuardReport(python="/p", kept="/k", found={"torch": "2.6"}),
    "matrix-run": RUN,
    "cell-failed": STATES[2],
    "published": Published(wheelhouse="/h", added=("a", "b"), unproven=("b",), missing=("c",)),
    "simulation": Simulation(
        cells=4,
        workers=2,
        makespan_hours=2.5,
        lower_bound_hours=2.0,
        ratio=1.25,
        failures=1,
        lost_hours=0.5,
        scheduler_cpu_seconds=0.1,
        built=3,
        unbuilt=1,
    ),
    "bundle": BUNDLE,
    "bundle-dry": BundleReport(wheel="/w/a.whl", system="linux", bytes_before=1, brought=BUNDLE.brought),
}


@pytest.mark.parametrize("verbosity", [0, 1])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_read_as_it_was_written(name: str, verbosity: int) -> None:
    expected = (EXPECTED / f"{name}{'-v' * verbosity}.txt").read_text(encoding="utf-8")
    assert shown(VIEWS[name], verbosity) == expected, "if the new text is better, write it into the file"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_texts_hang_below_their_own_beginning() -> None:
    out = Terminal()
    screen = Screen(out, color="never", width=30)
    text = "one two three four five six seven"
    screen.verdict("ok", text)
    screen.bullet(text, status="warn", indent=3)
    screen.bullet("four five six seven eight 1234")
    screen.paragraph(f"{text}\n\nlast", indent=4)
    screen.entry("head", text, status="fail")
    screen.labels([("head", text)])
    screen.rows([("a", text), ("bb", "c")], title="Rows")
    screen.rows([], title="Nothing")
    screen.rest(0)
    screen.rest(1, "--json lists all")
    assert out.getvalue() == (
        "✓ one two three four five six\n  seven\n"
        "   ! one two three four five\n     six seven\n"
        "  - four five six seven eight\n    1234\n"
        "    one two three four five\n    six seven\n\n    last\n"
        "  ✗ head one two three four five\n         six seven\n"
        "  head  one two three four five\n        six seven\n"
        "\nRows\n  a   one two three four five\n      six seven\n  bb  c\n"
        "  – and 1 more (--json lists\n    all)\n"
    )


def test_every_row_is_as_wide_as_the_screen_and_no_wider() -> None:
    longest: dict[str, list[int]] = {}
    text = "x " * 60
    for width in (40, 41):
        writers: dict[str, Callable[[Screen], None]] = {
            "verdict": lambda screen: screen.verdict("ok", text),
            "paragraph": lambda screen: screen.paragraph(text),
            "bullet": lambda screen: screen.bullet(text, indent=3),
            "entry": lambda screen: screen.entry("head", text, status="ok"),
            "hanging": lambda screen: screen.labels([("head", text)]),
            "hint": lambda screen: screen.hint(text),
            "rows": lambda screen: screen.rows([("abcd", text)]),
        }
        for name, write in writers.items():
            out = Terminal()
            write(Screen(out, color="never", width=width))
            longest.setdefault(name, []).append(max(map(len, out.getvalue().splitlines())) - width)
    assert {name: sorted(over) for name, over in longest.items()} == {name: [-1, 0] for name in longest}


def test_beside_a_long_head_there_is_still_room_for_text() -> None:
    out = Terminal()
    screen = Screen(out, color="never", width=40)
    screen.entry("h" * 30, "y" * 20 + " abc d", status="ok")
    screen.labels([("h" * 30, "y" * 20 + " abc d")])
    screen.rows([("h" * 16, "a b c d e f g h i j k l"), ("odd",), ("x", "y")])
    screen.rows([("h" * 17, "a b c d e f g h i j k l")])
    assert out.getvalue() == (
        f"  ✓ {'h' * 30} {'y' * 20} abc\n{' ' * 35}d\n"
        f"  {'h' * 30}  {'y' * 20} abc\n{' ' * 34}d\n"
        f"  {'h' * 16}  a b c d e f g h i j\n{' ' * 20}k l\n  odd\n  x{' ' * 17}y\n"
        f"  {'h' * 17}  a b c d e f g h i j k l\n"
    )


def test_of_many_cells_so_many_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.render.matrix.MAX_ROWS", 2)
    text = shown(STATUS, 0)
    assert "torch-c1" in text and "torch-c2" in text and "torch-c3" not in text
    assert "\n  – and 1 more (--json lists all)\n  - refused" in text
    monkeypatch.setattr("rekindle.render.matrix.MAX_ROWS", 3)
    assert "more" not in shown(STATUS, 0)
