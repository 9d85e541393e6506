"""Each axis of a verdict but the GPU's, with its words and its next step, just inside and outside of each answer."""

from __future__ import annotations

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.inspect.verdict import verdict_for
from rekindle.model.arch import Gfx, Sm, parse_gfx
from rekindle.model.machine import Cpu, Gpu, Machine, Os, Python
from rekindle.model.wheel import (
    ArchSet,
    AxisVerdict,
    CodeEvidence,
    External,
    IsaUse,
    KeptTrials,
    LibraryGpu,
    Links,
    OperatorTrial,
    Verdict,
    WheelCpu,
    WheelFinding,
    WheelGpu,
    WheelReport,
)
from rekindle.render.screen import Screen
from rekindle.render.wheel import render_wheel

LINUX = Os(system="linux", arch="x86_64")
BUILD = "build from source for this CPU: rekindle plan --build"


def wheel(*tags: str, **more: object) -> WheelReport:
    return WheelReport(tags=tags, **more)  # type: ignore[arg-type]


def judge(report: WheelReport, kept: KeptTrials | None = None, **more: object) -> Verdict:
    return verdict_for(report, Machine(**{"os": LINUX, **more}), "here", kept)  # type: ignore[arg-type]


def on(axis: str, found: Verdict) -> AxisVerdict | None:
    return next((one for one in found.axes if one.axis == axis), None)


def says(axis: str, found: Verdict) -> tuple[str, str, str, str | None]:
    one = on(axis, found)
    assert one is not None
    return one.runs, one.code, one.text, one.remedy


@pytest.mark.parametrize(
    ("tag", "system", "arch", "runs"),
    [
        ("win_amd64", "windows", "AMD64", "yes"),
        ("win_amd64", "linux", "x86_64", "no"),
        ("win_arm64", "windows", "arm64", "yes"),
        ("win_arm64", "windows", "amd64", "no"),
        ("macosx_11_0_arm64", "macos", "arm64", "yes"),
        ("macosx_11_0_arm64", "linux", "aarch64", "no"),
        ("macosx_11_0_x86_64", "macos", "aarch64", "no"),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "linux", "x86_64", "yes"),
        ("manylinux_2_28_aarch64", "linux", "aarch64", "yes"),
        ("manylinux_2_28_aarch64", "linux", None, "yes"),
    ],
)
def test_the_system_a_tag_names(tag: str, system: str, arch: str | None, runs: str) -> None:
    found = on("system", judge(wheel(f"cp311-cp311-{tag}"), os=Os(system=system, arch=arch)))  # type: ignore[arg-type]
    assert found is not None
    assert found.runs == runs


def test_the_words_of_the_system() -> None:
    both = wheel("py3-none-manylinux_2_17_x86_64", "py3-none-win_amd64")
    assert says("system", judge(both)) == ("yes", "os", "the wheel is for linux x86_64, windows x86_64", None)
    one = wheel("py3-none-win_amd64")
    text = "the wheel is for windows x86_64; the machine runs linux"
    assert says("system", judge(one)) == ("no", "os", text, "take a wheel for linux")
    arm = judge(wheel("py3-none-linux_x86_64"), os=Os(system="linux", arch="arm64"))
    text = "the wheel is for linux x86_64; the machine is aarch64"
    assert says("system", arm) == ("no", "arch", text, "take a wheel for aarch64")


def test_without_tags_the_code_says_for_what_it_is() -> None:
    code = WheelCpu(arch="aarch64")
    assert says("system", judge(wheel(cpu=code))) == ("no", "arch", "built for aarch64; the machine is x86_64", None)
    assert on("system", judge(wheel(cpu=WheelCpu(arch="x86_64")))) is None
    assert on("system", judge(wheel(cpu=WheelCpu()))) is None
    assert on("system", judge(wheel(cpu=code), os=Os(system="linux"))) is None
    assert on("system", judge(wheel("py3-none-any", cpu=code), os=Os(system="linux", arch="ARM64"))) is None


@pytest.mark.parametrize(
    ("cpu", "lacks"),
    [
        (Cpu(microarchitecture="ivybridge"), "ivybridge lacks AVX2"),
        (Cpu(features=("sse2", "avx")), "the CPU lacks AVX2"),
        (Cpu(microarchitecture="haswell"), None),
        (Cpu(microarchitecture="cortex_a72"), "cortex_a72 lacks LSE"),
        (Cpu(microarchitecture="neoverse_n1"), None),
    ],
)
@pytest.mark.parametrize("quick", [True, False])
def test_code_that_was_not_read_is_not_promised_to_an_old_processor(cpu: Cpu, lacks: str | None, quick: bool) -> None:
    """``polars-runtime-32`` dies on an Ivy Bridge, whichever option kept us from looking."""
    unread = wheel("py3-none-manylinux_2_17_x86_64", quick=quick, cpu=WheelCpu(arch=None if quick else "x86_64"))
    found = judge(unread, cpu=cpu)
    option = "--quick" if quick else "--no-cpu"
    if lacks is None:
        assert says("cpu", found) == ("unknown", "cpu-code-not-told", f"the code was not read ({option})", None)
        assert found.runs is True
    else:
        text = f"the code was not read ({option}), and {lacks}"
        assert says("cpu", found) == ("unknown", "cpu-not-read", text, f"leave out {option}")
        assert found.runs is None


def test_where_there_is_no_code_nothing_is_unread() -> None:
    old = Cpu(microarchitecture="ivybridge")
    assert on("cpu", judge(wheel("py3-none-any", quick=True), cpu=old)) is None
    assert on("cpu", judge(wheel("py3-none-manylinux_2_17_x86_64"), cpu=old)) is None
    assert on("cpu", judge(wheel("py3-none-manylinux_2_17_x86_64", quick=True), cpu=Cpu())) is None


def test_the_interpreter() -> None:
    report = wheel("cp310.cp311-cp311-linux_x86_64")
    assert says("python", judge(report)) == ("unknown", "python-not-told", "needs Python 3.10, 3.11", None)
    have = (Python(version="3.11.2"), Python(version="3.9.1"))
    assert says("python", judge(report, pythons=have)) == ("yes", "python", "Python 3.10, 3.11 is there", None)
    other = (Python(version="3.9.1"), Python(version="3.12.0"))
    text = "needs Python 3.10, 3.11; the machine has 3.12.0, 3.9.1"
    assert says("python", judge(report, pythons=other)) == ("no", "python", text, "install Python 3.10, 3.11")
    assert on("python", judge(wheel("cp39-abi3-linux_x86_64"))) is None
    assert on("python", judge(wheel("py3-none-any"))) is None
    assert says("python", judge(wheel("cp39-cp39-linux_x86_64")))[2] == "needs Python 3.9"
    assert says("python", judge(wheel("cp3-none-any")))[2] == "needs Python cp3"
    assert says("python", judge(wheel("cpx1-none-any")))[2] == "needs Python cpx1"
    assert says("python", judge(wheel("cp31-none-any")))[2] == "needs Python 3.1"


def test_the_whole_by_its_axes() -> None:
    """An axis that is not told takes nothing away; one that cannot be told does."""
    told = wheel("cp311-cp311-linux_x86_64")
    assert judge(told).runs is True
    assert {one.code for one in judge(told).because} == {"python-not-told", "os"}
    missing = Links(sources=(External(library="libodd.so", needed_by=()),))
    unsure = judge(msgspec.structs.replace(told, links=missing))
    assert unsure.runs is None
    assert {one.code for one in unsure.because} == {"python-not-told", "libraries"}
    only_python = judge(wheel("cp311-cp311-any"), pythons=(Python(version="3.11.0"),))
    assert only_python.runs is None
    assert only_python.because == ()
    broken = judge(wheel("py3-none-linux_x86_64", findings=(WheelFinding(code="x", text="torn", severity="error"),)))
    assert broken.runs is False
    assert [one.code for one in broken.because] == ["damaged"]
    gpu_only = judge(wheel("py3-none-any", name="odd"), gpus=(Gpu(vendor="nvidia"),))
    assert gpu_only.runs is True
    assert gpu_only.machine == "here"


def cpu(**more: object) -> WheelReport:
    return wheel(cpu=WheelCpu(**{"arch": "x86_64", "functions": 9, "runs_from": "x86-64", **more}))  # type: ignore[arg-type]


IVY = Cpu(microarchitecture="ivybridge", features=("avx", "f16c"))
NAMED = Cpu(name="Old One", microarchitecture="ivybridge", features=("avx", "f16c"))


def use(isa: str, *examples: str) -> IsaUse:
    return IsaUse(isa=isa, functions=1, examples=examples)


def test_what_the_cpu_is_called() -> None:
    report = cpu(required=("avx2",))
    assert says("cpu", judge(report, cpu=NAMED))[2].startswith("Old One lacks avx2")
    assert says("cpu", judge(report, cpu=IVY))[2].startswith("ivybridge lacks avx2")
    assert says("cpu", judge(report, cpu=Cpu(features=("avx",))))[2].startswith("the CPU lacks avx2")


def test_where_the_code_starts_is_said() -> None:
    assert says("cpu", judge(cpu(), cpu=IVY))[2].endswith("(x86-64)")
    untold = cpu(runs_from=None, at_least="x86-64-v2")
    assert says("cpu", judge(untold, cpu=IVY))[2].endswith("(x86-64-v2 or newer, which cannot be told)")
    unknown = says("cpu", judge(cpu()))
    assert unknown[:2] == ("unknown", "cpu-not-told")
    assert unknown[2].startswith("the code runs from x86-64; what the CPU can do")


def test_what_cannot_be_told_from_the_file() -> None:
    report = cpu(untold=(use("avx2"), use("avx")))
    text = "ivybridge lacks avx2; whether the code uses it there cannot be told from the file"
    assert says("cpu", judge(report, cpu=IVY)) == (
        "unknown", "cpu-cannot-tell", text, "rekindle verify --cpu ivybridge",
    )  # fmt: skip
    nameless = judge(report, cpu=Cpu(features=("avx",)))
    assert says("cpu", nameless)[3] == "rekindle verify --cpu NAME"
    assert says("cpu", judge(report, cpu=Cpu(features=("avx", "avx2"))))[0] == "yes"
    assert says("cpu", judge(report))[1] == "cpu-not-told"
    sure = cpu(untold=(use("avx2"),), required=("fma",))
    assert says("cpu", judge(sure, cpu=IVY))[1] == "cpu-isa"
    proven = KeptTrials(subject="w", date="2026-01-02", verdict="proven")
    assert says("cpu", judge(report, proven, cpu=IVY))[0] == "yes"
    failed = KeptTrials(subject="w", date="2026-01-02", verdict="failed")
    assert says("cpu", judge(report, failed, cpu=IVY))[1] == "cpu-cannot-tell"
    crashed = KeptTrials(subject="w", date="2026-01-02", verdict="failed", crash="import dies")
    assert says("cpu", judge(report, crashed, cpu=IVY))[1] != "cpu-cannot-tell"


def test_a_corner_and_what_was_tried_there() -> None:
    report = cpu(unconditional=(use("avx2", "f"),))
    found = says("cpu", judge(report, cpu=IVY))
    assert found[:2] == ("partly", "cpu-corner")
    assert found[2].endswith("but f would crash")
    assert found[3] == "rekindle verify --wheel FILE --cpu ivybridge tries them"
    nameless = says("cpu", judge(report, cpu=Cpu(features=("avx",))))
    assert nameless[3] == "rekindle verify --wheel FILE --cpu NAME tries them"
    assert says("cpu", judge(cpu(suspects=(use("avx2", "g"),)), cpu=IVY))[2].endswith("but g would crash")
    trials = (
        OperatorTrial(operator="mm", outcome="runs", avoid="never"),
        OperatorTrial(operator="fft", outcome="no-answer", avoid="wait"),
        OperatorTrial(operator="conv", outcome="crashes", avoid="turn it off"),
    )
    kept = KeptTrials(subject="w", date="2026-01-02", verdict="proven", trials=trials)
    tried = judge(report, kept, cpu=IVY)
    assert tried.operators == trials
    assert says("cpu", tried)[:2] == ("partly", "cpu-tried")
    assert says("cpu", tried)[2].startswith("ivybridge lacks avx2: ")
    assert says("cpu", tried)[2].endswith("(tried by verify on 2026-01-02)")
    assert says("cpu", tried)[3] == "turn it off"
    for outcome in ("runs", "refuses"):
        fine = (OperatorTrial(operator="mm", outcome=outcome, avoid="never"),)
        good = judge(report, msgspec.structs.replace(kept, trials=fine), cpu=IVY)
        assert says("cpu", good)[:2] == ("yes", "cpu-tried")
        assert says("cpu", good)[3] is None
    slow = judge(report, msgspec.structs.replace(kept, trials=trials[1:2]), cpu=IVY)
    assert (says("cpu", slow)[0], says("cpu", slow)[3]) == ("partly", None)
    untried = judge(report, msgspec.structs.replace(kept, verdict="failed"), cpu=IVY)
    assert says("cpu", untried)[1] == "cpu-corner"
    died = judge(report, msgspec.structs.replace(kept, crash="import dies"), cpu=IVY)
    text = "ivybridge lacks avx2: import dies (tried by verify on 2026-01-02)"
    assert says("cpu", died) == ("no", "cpu-tried", text, BUILD)


def test_the_operators_that_were_read() -> None:
    seen = CodeEvidence(function="odd_f", file="l.so", isa=("avx2",), why="exported")
    report = cpu(unconditional=(use("avx2", "odd_f"),), evidence=(seen,))
    assert [one.functions for one in judge(report, cpu=IVY).operators] == [("odd_f",)]
    assert judge(report).operators == ()
    unread = msgspec.structs.replace(report, cpu=msgspec.structs.replace(report.cpu, functions=None))
    assert judge(unread, cpu=IVY).operators == ()
    kept = KeptTrials(subject="w", date="2026-01-02", verdict="failed")
    assert judge(report, kept, cpu=IVY).operators == ()


def test_the_places_of_what_is_lacking() -> None:
    def seen(name: str, isa: str) -> CodeEvidence:
        return CodeEvidence(function=name, file="l.so", isa=(isa,), why="exported")

    rows = (seen("z", "avx"), seen("a", "avx2"), seen("b", "fma"), seen("c", "avx2"), seen("d", "avx2"))
    report = cpu(required=("avx2", "fma"), evidence=rows)
    found = says("cpu", judge(report, cpu=IVY))
    assert found[:2] == ("no", "cpu-isa")
    assert found[2].endswith("(a in l.so; b in l.so; c in l.so)")
    assert found[3] == BUILD
    assert says("cpu", judge(msgspec.structs.replace(report, name="torch"), cpu=IVY))[3] == BUILD
    other = judge(msgspec.structs.replace(report, name="odd"), cpu=IVY)
    assert says("cpu", other)[3] == "take an older release, or build it on this machine"
    early = msgspec.structs.replace(report, cpu=msgspec.structs.replace(report.cpu, at_load=("avx", "fma")))
    text = "ivybridge lacks fma, which runs as soon as a library of it is loaded: it does not start"
    assert says("cpu", judge(early, cpu=IVY))[2] == text


def test_a_no_stands_before_what_runs_in_part() -> None:
    """Also where the axes are asked the other way round: first the CPU, then the C library."""
    report = msgspec.structs.replace(cpu(unconditional=(use("avx2", "f"),)), links=Links(glibc="2.17"))
    found = judge(report, cpu=IVY, os=Os(system="linux", arch="x86_64", glibc="2.16"))
    assert [(one.axis, one.runs) for one in found.axes] == [("libc", "no"), ("cpu", "partly")]


def test_an_official_wheel_names_its_places() -> None:
    seen = CodeEvidence(function="odd_f", file="l.so", isa=("sve",), why="exported")
    code = WheelCpu(arch="aarch64", functions=9, required=("sve",), runs_from="armv8-a+sve", evidence=(seen,))
    official = wheel(name="torch", version="2.7.1+cu128", cuda="12.8", cpu=code)
    arm, old = Os(system="linux", arch="aarch64"), Cpu(features=("asimd", "atomics"))
    found = says("cpu", judge(official, os=arm, cpu=old))
    assert found[:2] == ("partly", "cpu-places")
    # No call is known for the place, so none is named between it and the whole.
    assert "(odd_f in l.so); as a whole: nobody is known to have tried it" in found[2]
    assert found[3] == "rekindle verify --wheel FILE --cpu NAME tries them"
    other = judge(msgspec.structs.replace(official, name="odd"), os=arm, cpu=old)
    assert says("cpu", other)[0] == "no"


OLD_GLIBC = Os(system="linux", arch="x86_64", glibc="2.16")
NEW_GLIBC = Os(system="linux", arch="x86_64", glibc="2.17")


def test_the_c_library() -> None:
    read = wheel(links=Links(glibc="2.17"))
    assert says("libc", judge(read, os=NEW_GLIBC))[0] == "yes"
    assert says("libc", judge(read, os=NEW_GLIBC))[3] is None
    found = says("libc", judge(read, os=OLD_GLIBC))
    assert (found[0], found[3]) == ("no", "take an older torch, a container, or build on this machine")
    torch = judge(msgspec.structs.replace(read, name="torch"), os=OLD_GLIBC)
    assert says("libc", torch)[3] == found[3]
    other = judge(msgspec.structs.replace(read, name="odd"), os=OLD_GLIBC)
    assert says("libc", other)[3] == "take an older release, a container, or build on this machine"
    musl = says("libc", judge(read, os=Os(system="linux", arch="x86_64", libc="musl")))
    assert musl[1] == "libc-musl"
    assert musl[3] == "use a container or a distribution with glibc (Debian, Ubuntu, Fedora)"
    assert on("libc", judge(read, os=Os(system="windows", arch="x86_64"))) is None


def test_what_the_libraries_ask_counts_more_than_the_tag() -> None:
    tag = "py3-none-manylinux_2_28_x86_64"
    assert says("libc", judge(wheel(tag, links=Links(glibc="2.17")), os=NEW_GLIBC))[0] == "yes"
    # Read, and nothing asks for it: the tag is not believed. Not read: the tag is all there is.
    assert on("libc", judge(wheel(tag), os=NEW_GLIBC)) is None
    assert says("libc", judge(wheel(tag, quick=True), os=NEW_GLIBC))[0] == "no"
    musl = "py3-none-musllinux_1_2_x86_64"
    assert says("libc", judge(wheel(musl), os=NEW_GLIBC))[0] == "no"


def outside(*rows: tuple[str, str | None, bool]) -> WheelReport:
    sources = tuple(
        External(library=name, needed_by=(), package=package, system=system) for name, package, system in rows
    )
    return wheel(links=Links(sources=sources))


def test_libraries_from_outside() -> None:
    brought = outside(("a.so", "pack-b", False), ("b.so", "pack-a", False), ("libc.so", None, True))
    expected = ("yes", "libraries-from-packages", "libraries come from pack-a, pack-b", None)
    assert says("libraries", judge(brought)) == expected
    assert on("libraries", judge(outside(("libc.so", "the system", True)))) is None
    assert on("libraries", judge(outside())) is None
    many = outside(*((f"{n}.so", None, False) for n in range(7)), ("b.so", "pack-a", False))
    text = "must be found on the machine: 0.so, 1.so, 2.so, 3.so, 4.so, 5.so"
    assert says("libraries", judge(many)) == ("unknown", "libraries", text, None)


def test_damage_is_named_three_times_at_most() -> None:
    rows = [WheelFinding(code="x", text="fine", severity="warning")]
    rows += [WheelFinding(code="x", text=f"torn {n}", severity="error") for n in range(4)]
    found = [one for one in judge(wheel(findings=tuple(rows))).axes if one.axis == "integrity"]
    assert [one.text for one in found] == ["torn 0", "torn 1", "torn 2"]
    assert {(one.runs, one.code, one.remedy) for one in found} == {("no", "damaged", "download it again")}


CPUS = st.sampled_from(["core2", "nehalem", "ivybridge", "haswell", "zen4", "cortex_a72", "neoverse_n1"])
SETS = st.lists(st.sampled_from(["sse3", "popcnt", "avx", "avx2", "avx512", "lse"]), max_size=3, unique=True)
ARCHS = st.lists(st.sampled_from(["sm_52", "sm_70", "sm_80", "sm_90a", "compute_52", "gfx906"]), min_size=1, max_size=3)


@given(data=st.data())
def test_yes_and_no_never_stand_in_one_verdict(data: st.DataObject) -> None:
    draw = data.draw
    uses = tuple(use(isa, "f") for isa in draw(SETS))
    code = WheelCpu(
        arch=draw(st.sampled_from(["x86_64", "aarch64"])),
        functions=draw(st.sampled_from([None, 9])),
        required=tuple(draw(SETS)),
        unconditional=uses,
        at_load=tuple(draw(SETS)),
        runs_from="x86-64",
    )
    sets = tuple(ArchSet(archs=tuple(archs), count=2) for archs in draw(st.lists(ARCHS, max_size=3)))
    libraries = (LibraryGpu(file="libcufft.so.11", sets=sets),) if sets else ()
    report = wheel(
        draw(st.sampled_from(["py3-none-any", "cp311-cp311-linux_x86_64", "py3-none-win_amd64"])),
        name=draw(st.sampled_from([None, "torch", "odd"])),
        quick=draw(st.booleans()),
        cpu=code,
        gpu=WheelGpu(libraries=libraries),
    )
    cards = draw(st.lists(st.sampled_from([Sm(5, 2), Sm(7, 0), Sm(9, 0), parse_gfx("gfx906")]), max_size=2))
    gpus = tuple(Gpu(vendor="amd" if isinstance(card, Gfx) else "nvidia", arch=card) for card in cards)
    found = judge(report, cpu=Cpu(microarchitecture=draw(CPUS)), gpus=gpus)
    assert (found.runs is False) == any(axis.runs == "no" for axis in found.axes)
    stream = io.StringIO()
    render_wheel(msgspec.structs.replace(report, verdict=found), Screen(stream))
    first, _, rest = stream.getvalue().partition("\n")
    if first.startswith(("✓", "!")):
        assert "✗" not in rest
    if first.startswith("✗"):
        assert rest[rest.index("On here") :].splitlines()[1].strip().startswith("✗")
