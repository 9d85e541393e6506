"""Names as people read them, whose kernels they are, RECORD, two wheels side by side, cards and processors."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from binaries import make_entry, make_fatbin, make_wheel
from rekindle.compat.processor import beyond, oldest, runs_from
from rekindle.inspect.cover import Cover, cards_of, cover
from rekindle.inspect.cpu import readable
from rekindle.inspect.diff import compare
from rekindle.inspect.gpu import GpuSurvey, GpuTarget, find_data_files, survey_images
from rekindle.inspect.origin import describe_library, kernels_of, mark_vendors, origin_of, reference_set
from rekindle.inspect.packages import comes_along, find_provider, is_vendor, promised_glibc
from rekindle.inspect.reader import DirectorySource, WheelSource
from rekindle.inspect.survey import check_record
from rekindle.model.arch import parse_gfx, parse_gfx_code, parse_sm
from rekindle.model.wheel import (
    ArchSet,
    CodeEvidence,
    DataFiles,
    Kernels,
    LibraryGpu,
    Links,
    WheelCpu,
    WheelGpu,
    WheelReport,
)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("plain", "plain"),
        ("plain.cold", "plain.cold"),
        ("_Z3fooi", "foo"),
        ("_Z3foo3bar", "foo"),
        ("_ZN6fbgemm10FindMinMaxEPKf", "fbgemm::FindMinMax"),
        ("_ZNK3foo3barEv", "foo::bar"),
        ("_ZN3fooL3barEv", "foo::bar"),
        ("_ZSt4moveIiEvv", "std::move<…>"),
        ("_ZNSt6vectorIiE3endEv", "std::vector<…>"),
        ("_ZN3foo3barIiEEvv", "foo::bar<…>"),
        ("_ZN3fooC1Ev", "foo::foo"),
        ("_ZN3fooC2Ev", "foo::foo"),
        ("_ZN3fooC3Ev", "foo"),
        ("_ZN3fooD0Ev", "foo::~foo"),
        ("_ZN3fooD1Ev", "foo::~foo"),
        ("_ZN3fooD2Ev", "foo::~foo"),
        ("_ZN3fooD3Ev", "foo"),
        ("_ZN12_GLOBAL__N_13barEv", "(anonymous)::bar"),
        ("_Z3foov.isra.0", "foo"),
        ("_Z3foov.constprop.0.cold", "foo"),
        ("_ZN9ab", "_ZN9ab"),
        ("_ZN2ab", "ab"),
        ("_ZTV3foo", "_ZTV3foo"),
        ("", ""),
    ],
)
def test_names_as_people_read_them(symbol: str, name: str) -> None:
    assert readable(symbol) == name


def key(text: str) -> frozenset[GpuTarget]:
    kinds = {"sm": "sass", "co": "ptx", "lt": "lto"}
    return frozenset(
        GpuTarget("gfx", parse_gfx_code(one)) if one.startswith("gfx")
        else GpuTarget(kinds[one[:2]], parse_sm(one.replace("compute_", "sm_").replace("lto_", "sm_")))
        for one in text.split()
    )  # fmt: skip


def survey(file: str, vendor: bool = False, **sets: int) -> GpuSurvey:
    made = GpuSurvey(file, vendor)
    for names, count in sets.items():
        found = key(names.replace("__", " "))
        made.sets[found] += count
        made.entries.update(dict.fromkeys(found, count))
    return made


@pytest.mark.parametrize(
    ("archs", "reference", "origin"),
    [
        ("sm_70 sm_80", "sm_70 sm_80", "own"),
        ("sm_70 sm_80 sm_90a", "sm_70 sm_80", "own"),
        ("sm_70 sm_80 compute_90", "sm_70 sm_80", "own"),
        ("sm_70 sm_80", "sm_70 sm_80 compute_90", "own"),
        ("sm_70", "sm_70 sm_80 sm_90", "specialised"),
        ("sm_90a", "sm_70 sm_80", "specialised"),
        ("sm_60", "sm_70 sm_80", "static"),
        ("sm_60 sm_70", "sm_70 sm_80", "static"),
        ("sm_70 sm_80", "sm_70 sm_80 sm_90", "specialised"),
        ("sm_70 sm_80 sm_90", "sm_70 sm_80 sm_90 sm_100", "static"),
        ("compute_90", "compute_90", "own"),
        ("compute_80", "compute_90", "static"),
        ("gfx906:xnack+", "gfx906", "own"),
        ("gfx906", "gfx906 gfx90a gfx1100", "specialised"),
        ("sm_70", "", "other"),
    ],
)
def test_whose_kernels_these_are(archs: str, reference: str, origin: str) -> None:
    assert origin_of(key(archs), key(reference)) == origin
    assert origin_of(key(archs), key(reference), vendor=True) == "static"


def test_what_stands_in_for_a_declared_list() -> None:
    rows = [survey("a", sm_70=2, sm_70__sm_80=2, sm_90=1), survey("b", True, sm_60=9), survey("c", sm_90=2)]
    assert reference_set(rows[:2], ()) == key("sm_70 sm_80")
    assert reference_set(rows, ()) == key("sm_90")
    assert reference_set(rows, key("sm_50")) == key("sm_50")
    assert reference_set(rows[1:2], ()) == frozenset()


def test_kernels_that_all_have_and_some_have() -> None:
    rows = [survey("a", sm_70__sm_80=2, sm_70__sm_80__sm_90__compute_90=3, sm_60=4)]
    found = kernels_of(rows, key("sm_70 sm_80"), {"own"})
    assert (found.sass, found.ptx, found.gfx, found.partial) == (("sm_70", "sm_80"), (), (), ("sm_90", "compute_90"))
    assert found.containers == 5
    assert kernels_of(rows, key("sm_70 sm_80"), {"static"}).sass == ("sm_60",)
    assert kernels_of(rows, key("sm_70 sm_80"), {"other"}) == Kernels()


def test_libraries_of_the_makers() -> None:
    both = [survey("x/libnvjpeg.so.12", sm_70=1), survey("x/own.so", sm_70=1)]
    mark_vendors(both)
    assert [one.vendor for one in both] == [True, False]
    alone = [survey("x/libnvjpeg.so.12", sm_70=1)]
    mark_vendors(alone)
    assert [one.vendor for one in alone] == [False]
    assert is_vendor("libcublas.so.12")
    assert not is_vendor("libc.so.6")
    assert not is_vendor("libnobody.so")


def test_a_library_described() -> None:
    made = survey("a.so", sm_80__sm_70=2, gfx906=1, lto_90=1)
    made.bytes.update(dict.fromkeys(made.entries, 7))
    made.compression, made.odd = Counter(zstd=3), Counter(strange=1)
    made.owners[key("sm_70 sm_80")] = [("MAGMA",)]
    found = describe_library(made, key("sm_70 sm_80"))
    assert (found.sass, found.gfx, found.lto, found.ptx) == (("sm_70", "sm_80"), ("gfx906",), ("lto_90",), ())
    assert next((one.archs, one.count, one.origin, one.kernels) for one in found.sets) == (
        ("sm_70", "sm_80"), 2, "own", ("MAGMA",),
    )  # fmt: skip
    assert [(one.arch, one.entries, one.bytes) for one in found.uses] == [
        ("sm_70", 2, 7), ("sm_80", 2, 7), ("lto_90", 1, 7), ("gfx906", 1, 7),
    ]  # fmt: skip
    assert (found.compression, found.unknown) == ({"zstd": 3}, {"strange": 1})


def test_where_a_library_comes_from() -> None:
    assert find_provider("libcublas.so.12", ["nvidia-cublas-cu12 (==12.1)", "numpy"]) == ("nvidia-cublas-cu12", False)
    package, system = find_provider("libcublas.so.12", ["numpy"])
    assert (package, system) == ("nvidia-cublas", False)
    assert find_provider("libc.so.6", [])[1] is True
    assert find_provider("libnobody.so", []) == (None, False)
    assert promised_glibc("manylinux2014_x86_64") == "2.17"
    assert promised_glibc("musllinux_1_2_x86_64") is None
    assert promised_glibc("linux_x86_64") is None


def repacked(change: dict[str, bytes | None], files: dict[str, bytes]) -> WheelSource:
    """A wheel of which some members were changed (None: taken out) after RECORD was written."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(make_wheel(files))) as old, zipfile.ZipFile(out, "w") as new:
        for name in [*old.namelist(), *(one for one in change if one not in old.namelist())]:
            data = change.get(name, old.read(name) if name in old.namelist() else None)
            if data is not None:
                new.writestr(name, data)
    return WheelSource(lambda: io.BytesIO(out.getvalue()), "demo-1.0-py3-none-any.whl", len(out.getvalue()))


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " …")])
def test_the_first_few_faults_are_named(count: int, more: str) -> None:
    names = [f"demo/{n}.py" for n in range(count)]
    [wrong] = check_record(repacked(dict.fromkeys(names, b"2"), dict.fromkeys(names, b"1")))
    assert (wrong.code, wrong.severity) == ("record-wrong", "error")
    assert wrong.text == f"{count} files differ from RECORD: {', '.join(names[:5])}{more}"


def test_every_fault_of_a_record() -> None:
    def faults(change: dict[str, bytes | None]) -> list[tuple[str, str]]:
        return [(one.code, one.severity) for one in check_record(repacked(change, {"demo/a.py": b"1"}))]

    assert faults({}) == []
    assert faults({"demo/a.py": None}) == [("record-missing", "error")]
    assert faults({"demo/b.py": b"2"}) == [("record-unlisted", "warning")]
    assert faults({"demo-1.0.dist-info/RECORD.jws": b"x", "demo-1.0.dist-info/RECORD.p7s": b"x"}) == []
    assert faults({"demo-1.0.dist-info/RECORD": None}) == [("no-record", "error")]
    record = b"demo/a.py,md5=abc,1\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/WHEEL,,\n"
    assert faults({"demo-1.0.dist-info/RECORD": record}) == [("record-unverified", "note")]


def report(**more: object) -> WheelReport:
    return WheelReport(**more)  # type: ignore[arg-type]


def test_only_what_differs_is_told() -> None:
    one = report(
        target="a.whl", version="1.0", cuda="12.1", requires=("Typing_Extensions (>=4)", "numpy", "??"),
        bytes=1_000_000, tags=("py3",), links=Links(glibc="2.17"),
        gpu=WheelGpu(
            declared=("sm_50",),
            libraries=(LibraryGpu(file="x/a.so", sass=("sm_50",)), LibraryGpu(file="x/same.so", sass=("sm_70",))),
            data_files=(DataFiles(library="rocBLAS", gfx=("gfx906",), files=1),),
        ),
        cpu=WheelCpu(evidence=(CodeEvidence(function="f", file="a", isa=("avx", "fma"), why=""),)),
    )  # fmt: skip
    two = report(
        target="b.whl", version="2.0", cuda=None, requires=("typing-extensions>=4", "scipy", "??"), bytes=1_000_001,
        tags=("py3",), links=Links(glibc="2.17"),
        gpu=WheelGpu(
            declared=("sm_50", "sm_60"),
            libraries=(
                LibraryGpu(file="x/a.so", ptx=("compute_60",)), LibraryGpu(file="x/same.so", sass=("sm_70",)),
                LibraryGpu(file="x/new.so", sass=("sm_70",)),
            ),
            data_files=(DataFiles(library="rocBLAS", gfx=("gfx906", "gfx90a"), files=2),),
        ),
    )  # fmt: skip
    found = compare(one, two)
    assert (found.before, found.after) == ("a.whl", "b.whl")
    rows = {row.what: (row.before, row.after, row.gone, row.come) for row in found.differences}
    assert rows == {
        "declared architectures": (None, None, (), ("sm_60",)),
        "CUDA": ("12.1", None, (), ()),
        "CPU, unguarded": (None, None, ("f [avx fma]",), ()),
        "requirements": (None, None, ("numpy",), ("scipy",)),
        "libraries with GPU code": (None, None, (), ("x/new.so",)),
        "a.so architectures": (None, None, ("sm_50",), ("compute_60",)),
        "rocBLAS files": (None, None, (), ("gfx90a",)),
        "version": ("1.0", "2.0", (), ()),
    }
    assert compare(one, one).differences == ()
    assert (compare(report(), report()).before, compare(report(), report()).after) == ("", "")


def test_words_for_what_runs_on_a_card() -> None:
    assert [Cover(*pair).word for pair in ((3, 3), (1, 3), (0, 3), (0, 0))] == ["yes", "partly", "no", "yes"]
    codes = ("gfx906", "gfx90a:xnack+", "gfx11-generic", "spirv")
    library = LibraryGpu(file="a", sass=("sm_90a", "sm_90", "sm_70"), gfx=tuple(codes[:3]))
    assert [str(card) for card in cards_of(report(gpu=WheelGpu(libraries=(library,))))] == [
        "sm_70", "sm_90", "gfx906", "gfx90a",
    ]  # fmt: skip
    rows = (ArchSet(archs=("compute_70",), count=2, origin="own"), ArchSet(archs=("gfx906",), count=1, origin="own"))
    mixed = LibraryGpu(file="a", sets=rows)
    assert cover(mixed, parse_sm("sm_80")) == Cover(2, 2)
    assert cover(mixed, parse_sm("sm_60")) == Cover(0, 2)
    assert cover(mixed, parse_gfx("gfx906")) == Cover(1, 1)


def test_processors_that_have_it_all() -> None:
    assert oldest(["avx2"], "x86_64")[:2] == ("haswell", "excavator")
    assert oldest(["avx512"], "aarch64") == ()
    assert runs_from(["avx"], "x86_64") == "sandybridge"
    assert runs_from(["avx2", "fma", "bmi2"], "x86_64") == "x86-64-v3"
    assert runs_from(["sve", "lse"], "aarch64") == "armv8-a+lse+sve"
    assert runs_from([], "aarch64") == "armv8-a"
    assert runs_from(["avx"], "ppc64le") is None
    assert beyond(["avx", "sse3"], None, "x86_64") == {"avx", "sse3"}
    assert beyond(["avx", "sse4.2"], "x86-64-v2", "x86_64") == {"avx"}
    assert beyond(["lse", "sve"], "armv8-a+lse", "aarch64") == {"sve"}


def test_kernels_that_lie_as_files(tmp_path: Path) -> None:
    cubin = bytearray(64)
    cubin[:9] = b"\x7fELF\x02\x01\x01\x33\x07"
    cubin[18], cubin[48] = 190, 80
    files = {
        "k/a.cubin": bytes(cubin), "k/b.CUBIN": bytes(cubin), "k/c.cubin": b"no", "k/d.ptx": b"//\n.target sm_90a, x\n",
        "k/e.ptx": b"nothing", "k/f.ptx": b".version 8\n .target sm_70\n", "m/deep/g.cubin": bytes(cubin),
        "k/h.txt": b"1",
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    found = {one.file: one for one in survey_images(DirectorySource(tmp_path))}
    assert list(found) == ["k/*.cubin", "k/*.ptx", "m/*.cubin"]
    rows = found["k/*.cubin"]
    assert ({one.name: n for one, n in rows.entries.items()}, rows.odd) == ({"sm_80": 2}, {"not understood": 1})
    assert rows.bytes.total() == 128
    assert list(rows.sets.values()) == [2]
    assert sorted(one.name for one in found["k/*.ptx"].entries) == ["compute_70", "compute_90a"]
    assert found["m/*.cubin"].odd == {}
    assert survey_images(DirectorySource(tmp_path / "m" / "deep" / "none")) == []


def test_data_files_of_the_libraries_for_amd() -> None:
    names = [
        "a/rocblas/library/x_gfx1100.co", "a/rocblas/library/x_gfx906.co", "a/rocblas/library/gfx90a.py",
        "a/rocblas/library/fallback.dat", "a/other/x_gfx803.co",
    ]  # fmt: skip
    [found] = find_data_files(names)
    assert (found.library, found.gfx, found.files) == ("rocBLAS", ("gfx906", "gfx1100"), 3)
    assert find_data_files(["a/rocblas/library/fallback.dat"]) == ()


def test_entries_of_one_container_are_counted_by_target() -> None:
    from binaries import make_elf
    from rekindle.formats.elf import Elf
    from rekindle.inspect.gpu import survey_gpu

    one = [make_entry(2, 80), make_entry(2, 80), make_entry(1, 90), make_entry(7, 80)]
    found = survey_gpu(Elf(make_elf({".nv_fatbin": make_fatbin(one, [make_entry(2, 80)])})), "a.so")
    assert {target.name: count for target, count in found.entries.items()} == {"sm_80": 3, "compute_90": 1}
    assert sorted((sorted(one.name for one in names), count) for names, count in found.sets.items()) == [
        (["compute_90", "sm_80"], 1), (["sm_80"], 1),
    ]  # fmt: skip
    assert (found.has_code, found.odd.total()) == (True, 1)
    assert {target.name: size for target, size in found.bytes.items()} == {"sm_80": 3 * 16, "compute_90": 16}
    assert not GpuSurvey("a").has_code


def test_what_no_package_of_the_system_has_to_bring() -> None:
    """The driver brings libcuda, a requirement of the wheel its libraries; the rest is the system's."""
    assert comes_along("libcuda.so.1", ())
    assert not comes_along("libcudart.so.12", ())
    assert comes_along("libcudart.so.12", ("numpy", "nvidia-cuda-runtime-cu12==12.4.127"))
    assert not comes_along("libcudart.so.12", ("nvidia-cublas-cu12",))
    assert not comes_along("libsomething.so.3", ("numpy",))
    assert not comes_along("libz.so.1", ("numpy",))


def test_architectures_library_by_library() -> None:
    """A library that only one of the wheels has is told as such, not as one that lost everything."""

    def report(*libraries: LibraryGpu, **data: tuple[str, ...]) -> WheelReport:
        files = tuple(DataFiles(library=name, gfx=gfx, files=1) for name, gfx in data.items())
        return WheelReport(gpu=WheelGpu(libraries=libraries, data_files=files))

    old = LibraryGpu(file="t/lib/a.so", sass=("sm_50", "sm_80"), ptx=("compute_80",))
    new = LibraryGpu(file="t/lib/a.so", sass=("sm_80", "sm_90"), ptx=("compute_80",))
    rows = {row.what: (row.gone, row.come) for row in compare(report(old), report(new)).differences}
    assert rows == {"a.so architectures": (("sm_50",), ("sm_90",))}
    more = LibraryGpu(file="t/lib/a.so", sass=("sm_50", "sm_80", "sm_90"), ptx=("compute_80",))
    assert [(row.gone, row.come) for row in compare(report(old), report(more)).differences] == [((), ("sm_90",))]
    assert [(row.gone, row.come) for row in compare(report(more), report(old)).differences] == [(("sm_90",), ())]
    other = LibraryGpu(file="t/lib/b.so", sass=("sm_80",))
    assert [row.what for row in compare(report(old), report(old, other)).differences] == ["libraries with GPU code"]
    found = compare(
        report(rocBLAS=("gfx906", "gfx1030"), MIOpen=("gfx906",)), report(rocBLAS=("gfx1030",), hipBLASLt=("gfx942",))
    )
    assert [(row.what, row.gone, row.come) for row in found.differences] == [
        ("MIOpen files", ("gfx906",), ()),
        ("hipBLASLt files", (), ("gfx942",)),
        ("rocBLAS files", ("gfx906",), ()),
    ]


def test_requirements_are_compared_by_their_meaning() -> None:
    def told(*requires: str) -> WheelReport:
        return WheelReport(requires=requires)

    assert compare(told("Typing_Extensions (>=4)"), told("typing-extensions>=4")).differences == ()
    (row,) = compare(told("what is this"), told("numpy")).differences
    assert (row.gone, row.come) == (("what is this",), ("numpy",))


def test_what_was_summed_while_it_was_read_is_not_read_again() -> None:
    source = WheelSource(lambda: io.BytesIO(WHOLE), "demo-1.0-py3-none-any.whl", len(WHOLE))
    assert check_record(source) == []
    source.digests["demo/a.py"] = "0" * 64
    assert [(one.code, "demo/a.py" in one.text) for one in check_record(source)] == [("record-wrong", True)]


WHOLE = make_wheel({"demo/a.py": b"a = 1", "demo/b.py": b""}, name="demo", version="1.0")


def test_folders_of_an_archive_are_no_files() -> None:
    held = io.BytesIO(WHOLE)
    with zipfile.ZipFile(held, "a") as archive:
        archive.writestr("demo/data/", b"")
    source = WheelSource(lambda: io.BytesIO(held.getvalue()), "demo-1.0-py3-none-any.whl", len(held.getvalue()))
    assert "demo/data/" not in source.files
    assert {"demo/a.py", "demo/b.py"} <= source.files.keys()
