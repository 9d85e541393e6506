"""The whole way with sources: a proof before it, what is compiled again, and what new code is held against."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from binaries import LZ4, ZSTD, make_entry, make_fatbin
from gpu_libraries import make_cubin, make_gpu_dll, make_gpu_library, ptx_entry, write_library
from rekindle.compat.graft import find_recipe
from rekindle.facts import load_facts
from rekindle.formats.fatbin import Container, Entry
from rekindle.formats.view import Malformed
from rekindle.formats.wheel import check_wheel
from rekindle.graft.compile import Job, take_include
from rekindle.graft.engine import CardTarget, GraftOrder, Tools, carry_out
from rekindle.graft.library import GpuLibrary, Unit, nearest, unit_compression
from rekindle.graft.nvidia import FlagSearch, PtxUnit, PtxWay, Sources, SourceWay, choose_file
from rekindle.graft.pack import finished_entry
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.graft import GraftReport
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

SM_90, SM_120 = Sm(9, 0), Sm(12, 0)
RECIPE = next(recipe for recipe in load_facts().graft.recipe if recipe == find_recipe("2.12.1+cu130", load_facts()))
NAMES = ("First", "Second", "Third", "Fourth", "Fifth")
IDS = {name: f"91c5f4d9_{len(name) + 3}_{name}_cu_54a8c5b0" for name in NAMES}


def _cubin(name: str, arch: int, code: bytes = b"\x11" * 32, **more: Any) -> bytes:
    return make_cubin(arch, {name.lower(): (8, 4)}, unit=IDS[name], code=code, **more)


def _wheel(folder: Path, flags: int = 0x11) -> Path:
    """Four units with sm_75 and sm_80, each larger than the one before, and one with sm_75 alone."""
    containers = []
    for number, name in enumerate(NAMES):
        archs = (75, 80) if name != "Fifth" else (75,)
        images = [_cubin(name, arch, b"\x11" * 32 * (number + 1)) for arch in archs]
        containers.append([make_entry(2, arch, flags, image) for arch, image in zip(archs, images, strict=True)])
    files = {"torch/lib/libtorch_cuda.so": make_gpu_library(containers), "torch/version.py": b""}
    return make_wheel(folder, "torch", "2.12.1", tag="cp312-cp312-linux_x86_64", files=files)


class Compiler:
    """Instead of Ninja: writes what ``image`` gives for the unit and the architecture, and remembers the jobs."""

    def __init__(self, change: Mapping[str, bytes] | None = None, failed: Mapping[str, str] | None = None) -> None:
        self.change, self.failed = change or {}, failed or {}
        self.runs: list[tuple[str, list[str]]] = []

    def __call__(self, folder: Path, jobs: Sequence[Job]) -> Mapping[str, str]:
        self.runs.append((folder.name, [job.output for job in jobs]))
        for job in jobs:
            _, unit, arch = job.output.removesuffix(".cubin").replace("-", ".").split(".")
            name = NAMES[int(unit)]
            code = self.change.get(name, b"\x11" * 32 * (int(unit) + 1))
            path = folder / job.output
            if not path.exists():
                path.write_bytes(_cubin(name, int(arch.removeprefix("sm_")), code))
        return self.failed


def _order(folder: Path, wheel: Path, compiler: Compiler, **more: Any) -> GraftOrder:
    tree = folder / "tree/aten/src"
    tree.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (tree / f"{name}.cu").write_text("")
    sources = Sources(tree=folder / "tree", include=folder / "include", recipe=RECIPE, nvcc=folder / "nvcc")
    way = SourceWay(
        card=SM_90,
        arch=SM_90,
        facts=load_facts(),
        recipe=RECIPE,
        gather=lambda: sources,
        toolkit="13.0",
        sources=("a tree",),
    )
    target = CardTarget(name="H100", arch=SM_90, ways=(way,))
    told: dict[str, Any] = {"wheel": wheel, "targets": (target,), "work": folder / "work", "run_jobs": compiler}
    told |= {"tools": Tools(release="13.0", nvcc="nvcc"), "out": folder / "out"}
    return GraftOrder(**told | more)


def _grafted(folder: Path, compiler: Compiler, **more: Any) -> GraftReport:
    return carry_out(_order(folder, _wheel(folder), compiler, **more), Silent())


def test_a_proof_compiles_some_units_for_the_nearest_card_the_wheel_has(tmp_path: Path) -> None:
    compiler = Compiler()
    report = _grafted(tmp_path, compiler, prove=2)
    (first, proof), (second, made) = compiler.runs
    assert (first, second) == ("proof", "images")
    assert proof == ["cubin/0-2.sm_80.cubin", "cubin/0-0.sm_80.cubin"], "of every size, and nearest to sm_90"
    assert [row.unit for row in report.proof] == ["First_cu", "Third_cu"]
    assert all(row.functions == row.named == row.same == 1 and row.why is None for row in report.proof)
    assert len(made) == report.count("added") == report.compiled == 5 and report.out
    assert report.seconds is not None and 0 < report.seconds < 600


def test_without_a_wish_nothing_is_proven(tmp_path: Path) -> None:
    compiler = Compiler()
    assert _grafted(tmp_path, compiler).proof == () and [name for name, _ in compiler.runs] == ["images"]


def test_nothing_is_proven_where_nothing_is_to_be_compiled(tmp_path: Path) -> None:
    compiler = Compiler()
    report = _grafted(tmp_path, compiler, prove=2, without=("*",))
    assert report.proof == () and compiler.runs == [] and report.out is None


def test_nobody_gathers_sources_for_a_look(tmp_path: Path) -> None:
    order = _order(tmp_path, _wheel(tmp_path), Compiler(), dry_run=True)
    way = order.targets[0].ways[0]
    assert isinstance(way, SourceWay)
    unseen = dataclasses.replace(way, unseen=True, gather=lambda: pytest.fail("gathered"))
    target = dataclasses.replace(order.targets[0], ways=(unseen,))
    assert carry_out(dataclasses.replace(order, targets=(target,)), Silent()).count("planned") == 5


def test_what_one_way_leaves_the_next_makes_and_each_unit_is_told_once(tmp_path: Path) -> None:
    first = [make_entry(2, 80, payload=_cubin("First", 80)), ptx_entry(80)]
    library = make_gpu_library([first, [make_entry(2, 80, payload=_cubin("Second", 80))]])
    wheel = make_wheel(tmp_path, "demo", "1.0", tag="cp312-cp312-linux_x86_64", files={"demo/a.so": library})
    order = _order(tmp_path, wheel, Compiler(), dry_run=True)
    ptx = PtxWay(card=SM_90, arch=SM_90, ptxas="ptxas", facts=load_facts())
    target = dataclasses.replace(order.targets[0], ways=(ptx, *order.targets[0].ways))
    report = carry_out(dataclasses.replace(order, targets=(target,)), Silent())
    assert [(row.unit, row.state, row.why) for row in report.units] == [
        ("First_cu", "planned", "its compute_80 PTX"),
        ("Second_cu", "planned", "Second.cu"),
    ]


def test_as_many_units_as_asked_for_and_no_more_than_there_are(tmp_path: Path) -> None:
    for count in (1, 3, 4, 9):
        report = _grafted(tmp_path / str(count), Compiler(), prove=count, dry_run=True)
        assert len(report.proof) == min(count, 4) and report.count("planned") == 5


def test_other_instructions_are_told_and_a_failure_ends_it(tmp_path: Path) -> None:
    report = _grafted(tmp_path / "a", Compiler({"First": b"\x22" * 32}), prove=1)
    assert "other instructions" in (report.proof[0].why or "") and report.out
    compiler = Compiler(failed={"cubin/0-0.sm_80.cubin": "nvcc: no such header"})
    report = _grafted(tmp_path / "b", compiler, prove=1)
    assert report.proof[0].why == "nvcc: no such header" and report.disproven and report.out is None
    assert len(compiler.runs) == 1 and report.count("planned") == 5


def test_a_toolkit_that_knows_no_card_of_the_wheel_proves_nothing(tmp_path: Path) -> None:
    order = _order(tmp_path, _wheel(tmp_path), Compiler(), prove=2)
    way = order.targets[0].ways[0]
    assert isinstance(way, SourceWay)
    with GpuLibrary(write_library(tmp_path / "x.so", make_gpu_library()), "x.so") as library:
        assert way.proofs(library, 0) == []
        assert dataclasses.replace(way, toolkit="10.0").proofs(library, 2) == []


def test_what_was_compiled_before_is_not_counted_again(tmp_path: Path) -> None:
    assert _grafted(tmp_path, Compiler()).compiled == 5
    library = next((tmp_path / "work").glob("*/*.so"))
    stamp = library.stat().st_mtime_ns
    assert _grafted(tmp_path, Compiler()).compiled == 0 and library.stat().st_mtime_ns == stamp
    library.write_bytes(b"cut short")
    next((tmp_path / "work/images/cubin").glob("*.cubin")).write_bytes(b"")
    assert _grafted(tmp_path, Compiler()).compiled == 1 and library.stat().st_size > 100


def test_what_the_source_way_was_told_stands_in_the_statement_without_places(tmp_path: Path) -> None:
    report = _grafted(tmp_path, Compiler())
    said = json.loads(Path(report.provenance or "").read_bytes())["predicate"]["buildDefinition"]
    assert report.way == said["internalParameters"]["way"] == "source"
    flags = said["internalParameters"]["flags"]
    assert "-std=c++20" in flags and not any(flag.startswith("-I") for flag in flags)
    assert {"uri": "a tree"} in said["resolvedDependencies"]


def test_units_nobody_wants_stay_out_and_are_named(tmp_path: Path) -> None:
    report = _grafted(tmp_path, Compiler(), without=("F*",), dry_run=True)
    assert [(row.unit, row.state) for row in report.units] == [
        ("First_cu", "left-out"), ("Second_cu", "planned"), ("Third_cu", "planned"), ("Fourth_cu", "left-out"),
        ("Fifth_cu", "left-out"),
    ]  # fmt: skip


@pytest.mark.parametrize(("compression", "stored"), [("zstd", ZSTD), ("none", 0)])
def test_new_code_is_stored_as_the_wheels_own(tmp_path: Path, compression: str, stored: int) -> None:
    library = make_gpu_library([[finished_entry(_cubin("First", 80), Sm(8, 0), compression=compression)]])
    wheel = make_wheel(
        tmp_path, "torch", "2.12.1", tag="cp312-cp312-linux_x86_64", files={"torch/lib/libtorch_cuda.so": library}
    )
    report = carry_out(_order(tmp_path, wheel, Compiler()), Silent())
    with zipfile.ZipFile(report.out or "") as archive:
        write_library(tmp_path / "new.so", archive.read("torch/lib/libtorch_cuda.so"))
    with GpuLibrary(tmp_path / "new.so", "new.so") as written:
        assert [entry.flags & ZSTD for entry in written.units[0].sass] == [stored, stored]
        assert written.image(written.units[0].sass[1]) == _cubin("First", 90)


def test_windows_libraries_get_code_for_windows(tmp_path: Path) -> None:
    dll = make_gpu_dll([[make_entry(2, 80, 0x21, _cubin(name, 80)), ptx_entry(80)] for name in NAMES[:2]])
    wheel = make_wheel(tmp_path, "demo", "1.0", tag="cp312-cp312-win_amd64", files={"demo/a.pyd": dll})
    way = PtxWay(card=SM_90, arch=SM_90, ptxas="ptxas", facts=load_facts())
    target = CardTarget(name="H100", arch=SM_90, ways=(way,))
    report = carry_out(_order(tmp_path, wheel, Compiler({"Second": b"\x11" * 32}), targets=(target,)), Silent())
    assert report.count("added") == 2 and {row.why for row in report.units} == {None}
    with zipfile.ZipFile(report.out or "") as archive:
        write_library(tmp_path / "new.pyd", archive.read("demo/a.pyd"))
    with GpuLibrary(tmp_path / "new.pyd", "new.pyd") as written:
        written.check_pointers()
        assert [unit.targets for unit in written.units] == [("sm_80", "compute_80", "sm_90")] * 2
        assert {entry.flags & 0x70 for unit in written.units for entry in unit.sass} == {0x20}


def test_what_a_dry_run_would_make_is_said_in_words(tmp_path: Path) -> None:
    library = make_gpu_library([[make_entry(2, 75, payload=_cubin("First", 75)), ptx_entry(80), ptx_entry(120)]])
    wheel = make_wheel(tmp_path, "demo", "1.0", tag="cp312-cp312-linux_x86_64", files={"demo/a.so": library})
    way = PtxWay(card=SM_90, arch=SM_90, ptxas="ptxas", facts=load_facts())
    target = CardTarget(name="H100", arch=SM_90, ways=(way,))
    report = carry_out(_order(tmp_path, wheel, Compiler(), targets=(target,), dry_run=True), Silent())
    assert [row.why for row in report.units] == ["its compute_80 PTX"], "that of sm_120 is not for it"


def test_only_libraries_of_some_size_are_looked_into(tmp_path: Path) -> None:
    small = make_gpu_library([[make_entry(2, 80, payload=_cubin("First", 80))]], between=0, pointers=[])
    files = {"demo/odd.so": small, "demo/note.txt": small, "demo/tiny.so": b"\x7fELF" + bytes(100)}
    wheel = make_wheel(tmp_path, "demo", "1.0", tag="cp312-cp312-linux_x86_64", files=files)
    report = carry_out(_order(tmp_path, wheel, Compiler(), dry_run=True), Silent())
    assert [note.split()[0] for note in report.notes] == ["demo/odd.so"]


# Pieces


def _entry(name: str, kind: str = "sass", flags: int = 0) -> Entry:
    sm = parse_sm(name)
    return Entry(kind, sm.number, sm.suffix, 1, flags, (1, 1), 0, 64, 0)


def _unit(*entries: Entry) -> Unit:
    return Unit(0, 0, tuple(entry.name for entry in entries), Container(0, 1, entries))


@pytest.mark.parametrize(
    ("have", "card", "chosen"),
    [
        (["sm_75", "sm_80", "sm_100"], SM_90, "sm_80"),
        (["sm_75", "sm_90"], SM_90, "sm_90"),
        (["sm_120", "sm_100"], SM_90, "sm_100"),
        (["sm_80", "sm_90a"], SM_90, "sm_80"),
        (["sm_90a"], SM_120, "sm_90a"),
        ([], SM_90, "None"),
    ],
)
def test_new_code_is_held_against_the_nearest_older_one(have: list[str], card: Sm, chosen: str) -> None:
    entry = nearest([_entry(name) for name in have], card)
    assert (entry.name if entry else "None") == chosen


def test_code_from_ptx_is_held_against_what_came_from_the_same_ptx() -> None:
    unit = _unit(_entry("sm_70"), _entry("sm_80"), _entry("sm_86"))

    def official(ptx: str) -> str:
        made = PtxUnit("lib.so", unit, "x", SM_90, "its PTX", _entry(ptx, "ptx")).official()
        return made.name if made else "None"

    assert official("sm_70") == "sm_70" and official("sm_75") == "sm_86"


@pytest.mark.parametrize(
    ("entries", "stored"),
    [
        ([_entry("sm_80", flags=LZ4), _entry("sm_90", flags=ZSTD)], "zstd"),
        ([_entry("sm_80"), _entry("sm_90", flags=LZ4)], "lz4"),
        ([_entry("sm_80"), _entry("sm_90", "ptx", LZ4)], "none"),
        ([_entry("sm_90", "ptx", LZ4)], "lz4"),
    ],
)
def test_a_container_is_stored_as_its_machine_code(entries: list[Entry], stored: str) -> None:
    assert unit_compression(_unit(*entries)) == stored


def test_nvidias_own_packing_is_taken_apart_and_checked() -> None:
    image = _cubin("First", 90)
    entry = finished_entry(image, SM_90)
    assert finished_entry(make_fatbin([entry]), SM_90) == entry
    with pytest.raises(Malformed, match="2 entries instead of one"):
        finished_entry(make_fatbin([entry, entry]), SM_90)
    with pytest.raises(Malformed, match="not machine code for sm_120"):
        finished_entry(make_fatbin([entry]), SM_120)
    with pytest.raises(Malformed, match="cannot be taken"):
        finished_entry(image, SM_120)


def test_the_wheels_headers_are_taken_once_and_only_they(tmp_path: Path) -> None:
    files = {"torch/include/a.h": b"1", "torch/include/sub/b.h": b"2", "torch/x.h": b"3"}
    wheel = make_wheel(tmp_path, "torch", "2.12.1", files=files)
    room = take_include(check_wheel(wheel), tmp_path / "work", Silent())
    taken = {path.relative_to(room).as_posix(): path.read_bytes() for path in room.rglob("*.h")}
    assert taken == {"a.h": b"1", "sub/b.h": b"2"}
    (room / "a.h").write_bytes(b"changed")
    assert take_include(check_wheel(wheel), tmp_path / "work", Silent()) == room
    assert (room / "a.h").read_bytes() == b"changed"


def test_flags_without_an_end_are_read_as_far_as_such_a_text_may_go() -> None:
    search = FlagSearch()
    search(b"--expt-relaxed-constexpr -DFIRST " + b" " * (1 << 14))
    assert search.flags == ("--expt-relaxed-constexpr", "-DFIRST")
    waiting = FlagSearch()
    waiting(b"-DBEFORE --expt-relaxed-constexpr -DFIRST")
    assert not waiting.flags
    waiting(b" -DSECOND\0")
    assert waiting.flags == ("-DBEFORE", "--expt-relaxed-constexpr", "-DFIRST", "-DSECOND")


def test_one_file_alone_counts_where_it_need_not_be_certain(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("__global__ void a() {}")
    (tmp_path / "ab.cu").write_text("__global__ void a() {}\n__global__ void b() {}")
    one, two = tmp_path / "a.cu", tmp_path / "ab.cu"
    assert choose_file([one], ["_Z1xv"]) == one and choose_file([one], ["_Z1xv"], certain=True) is None
    assert choose_file([one], ["_Z1av"], certain=True) == one and choose_file([], ["_Z1av"], certain=True) is None
    assert choose_file([one, two], ["_Z1av", "_Z1bv"]) == two and choose_file([one, two], ["_Z1av"]) is None


def test_code_one_chip_alone_has_is_started_before_longer_code(tmp_path: Path) -> None:
    recipe = msgspec.structs.replace(RECIPE, releases="none was measured", extra_archs={"First_cu": {"90": "90a"}})
    order = _order(tmp_path, _wheel(tmp_path), Compiler())
    way = order.targets[0].ways[0]
    assert isinstance(way, SourceWay)
    files = dataclasses.replace(way.gather(), recipe=recipe)
    other = dataclasses.replace(way, recipe=recipe, gather=lambda: files)
    with zipfile.ZipFile(order.wheel) as archive:
        write_library(tmp_path / "lib.so", archive.read("torch/lib/libtorch_cuda.so"))
    with GpuLibrary(tmp_path / "lib.so", "torch/lib/libtorch_cuda.so") as library:
        units, _ = other.survey(library)
        jobs = [job.output for job in other.jobs(tmp_path / "jobs", 0, library, units)]
    assert jobs[:3] == ["cubin/0-0.sm_90a.cubin", "cubin/0-3.sm_90.cubin", "cubin/0-2.sm_90.cubin"]
