"""What a search says: the reason for each wheel that is refused, and the words a user may ask in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from rekindle.errors import BadInput
from rekindle.index.wheelhouse.search import WantedWheel, search, verdict_for, wanted_from
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.wheel import ArchSet, RowLibrary, Verdict
from rekindle.model.wheelhouse import RowProof, SearchOptions, WheelRow


def wheel(**changes: object) -> WheelRow:
    base: dict[str, object] = {
        "file": "torch-2.6.0-cp311-cp311-linux_x86_64.whl", "url": "wheels/torch/x.whl", "project": "torch",
        "version": "2.6.0", "bytes": 1, "sha256": "0" * 64, "metadata_sha256": "0" * 64, "pythons": ("3.11",),
        "systems": ("linux",), "machines": ("x86_64",), "added": "2026-01-01T00:00:00Z", "inspected": True,
        "sass": ("sm_80",),
    }  # fmt: skip
    return WheelRow(**{**base, **changes})  # type: ignore[arg-type]


def ask(*gpus: str, **options: Any) -> WantedWheel:
    return wanted_from(SearchOptions(**options), [parse_gpu_arch(gpu) for gpu in gpus])


def judge(row: WheelRow, *gpus: str, **options: Any) -> Verdict:
    return verdict_for(row, ask(*gpus, **options), "it")


def said(row: WheelRow, *gpus: str, **options: Any) -> tuple[bool | None, str, str]:
    """Does it run, and the first reason with its code."""
    verdict = judge(row, *gpus, **options)
    return verdict.runs, verdict.because[0].code, verdict.because[0].text


@pytest.mark.parametrize(
    ("changes", "options", "code", "text"),
    [
        ({"yanked": ""}, {}, "yanked", "withdrawn"),
        ({"yanked": "wrong flags"}, {}, "yanked", "withdrawn: wrong flags"),
        ({}, {"versions": "2.7"}, "other-version", "is 2.6.0, asked for ==2.7.*"),
        ({}, {"system": "windows"}, "other-system", "is for linux, not windows"),
        ({}, {"machine": "aarch64"}, "other-arch", "is for x86_64 processors, not aarch64"),
        ({}, {"python": "3.12"}, "other-python", "is for Python 3.11, not 3.12"),
        ({"requires_python": "<3.11"}, {"python": "3.11"}, "other-python", "needs Python <3.11, not 3.11"),
        ({"glibc": "2.28"}, {"glibc": "2.17"}, "glibc-too-old", "needs glibc 2.28, there is 2.17"),
        (
            {"file": "torch-2.6.0-cp311-cp311-manylinux_2_28_x86_64.whl"},
            {"glibc": "2.17"}, "glibc-too-old", "needs glibc 2.28, there is 2.17",
        ),
    ],
)  # fmt: skip
def test_a_wheel_that_does_not_fit_says_why(
    changes: dict[str, object], options: dict[str, str], code: str, text: str
) -> None:
    assert said(wheel(**changes), **options) == (False, code, text)


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({"version": "2.7.0rc1"}, {"versions": "2.7"}),
        ({"version": "2.7.0.dev20260101"}, {"versions": ">=2.6"}),
        ({"systems": ("any",)}, {"system": "windows"}),
        ({"systems": ("linux", "macos")}, {"system": "macos"}),
        ({"machines": ("any",)}, {"machine": "aarch64"}),
        ({"machines": ("universal2",)}, {"machine": "aarch64"}),
        ({"requires_python": ">=3.8"}, {"python": "3.11"}),
        ({"requires_python": ">=3.8", "pythons": ("3.10", "3.11")}, {"python": "3.11"}),
        ({"glibc": "2.17"}, {"glibc": "2.17"}),
        ({"glibc": "2.28", "file": "torch-2.6.0-cp311-cp311-manylinux_2_34_x86_64.whl"}, {"glibc": "2.28"}),
        ({"glibc": "2.28"}, {}),
    ],
)  # fmt: skip
def test_a_wheel_that_fits_is_found_by_its_tags(changes: dict[str, object], options: dict[str, str]) -> None:
    assert said(wheel(**changes), **options) == (True, "tags-fit", "its tags fit")


@pytest.mark.parametrize(
    ("tag", "fits", "not_for"),
    [
        ("3.11", ("3.11",), ("3.10", "3.12", "3.11t")),
        ("3.13t", ("3.13t",), ("3.13", "3.14t")),
        ("py3", ("3.8", "3.13", "3.13t"), ()),
        ("py2", (), ("3.8", "3.13")),
        ("py310", ("3.10", "3.11", "3.13t"), ("3.9", "3.8")),
        ("cp38-abi3", ("3.8", "3.9", "3.13"), ("3.7", "3.13t")),
        ("cp310-abi3", ("3.10", "3.11"), ("3.9",)),
        ("pp310", (), ("3.10", "3.11")),
    ],
)
def test_which_python_takes_a_tag(tag: str, fits: tuple[str, ...], not_for: tuple[str, ...]) -> None:
    for python in (*fits, *not_for):
        assert judge(wheel(pythons=(tag,)), python=python).runs is (python in fits), (tag, python)


def test_a_free_threaded_python_meets_what_a_wheel_requires() -> None:
    row = wheel(pythons=("3.13t",), requires_python=">=3.9")
    assert judge(row, python="3.13t").runs is True
    assert said(wheel(pythons=("3.13t",), requires_python=">=3.14"), python="3.13t")[1] == "other-python"


@pytest.mark.parametrize(
    ("changes", "gpu", "options", "runs", "code", "words"),
    [
        ({}, "sm_80", {}, True, "kernels-run", "its own kernels have code that runs on sm_80"),
        (
            {"ptx": ("compute_80",), "gfx": ("gfx906",)}, "sm_75", {}, False, "no-kernel-image",
            "has no code for sm_75 in its own kernels (has sm_80, PTX compute_80, gfx906)",
        ),
        ({"sass": ()}, "sm_80", {}, False, "no-gpu-code", "has no GPU code (a CPU build)"),
        ({"sass": (), "ptx": ("compute_80",)}, "sm_90", {}, True, "kernels-run", "runs on sm_90"),
        (
            {"inspected": False, "sass": ()}, "sm_80", {}, None, "not-inspected",
            "was added without an inspection: GPU code unknown",
        ),
        ({"inspected": False, "sass": (), "systems": ("any",)}, "sm_80", {}, True, "pure-python", "has no native code"),
        ({"sass": (), "systems": ("any",)}, "sm_80", {}, False, "no-gpu-code", "has no GPU code (a CPU build)"),
        ({"sass": ("sm_999",)}, "sm_80", {}, False, "no-kernel-image", "has no code for sm_80"),
        (
            {"sass": (), "gfx": ("gfx1030",), "rocm": "6.2"}, "gfx1031", {"system": "linux"}, True, "gpu-override",
            "runs there under HSA_OVERRIDE_GFX_VERSION=10.3.0",
        ),
        (
            {"sass": (), "gfx": ("gfx1030",), "rocm": "6.2"}, "gfx1031", {}, True, "gpu-override",
            "runs there under HSA_OVERRIDE_GFX_VERSION=10.3.0",
        ),
        (
            {"sass": (), "gfx": ("gfx1030",), "rocm": "6.2", "systems": ("windows",)}, "gfx1031", {}, False,
            "no-kernel-image", "has no code for gfx1031",
        ),
        (
            {"sass": (), "gfx": ("gfx1030",), "rocm": "6.2", "systems": ("any", "linux")}, "gfx1031", {}, True,
            "gpu-override", "runs there under HSA_OVERRIDE_GFX_VERSION=10.3.0",
        ),
        (
            {"sass": (), "gfx": ("gfx1030",), "rocm": "6.2", "systems": ("any", "windows")}, "gfx1031", {}, False,
            "no-kernel-image", "has no code for gfx1031",
        ),
        (
            {"sass": (), "gfx": ("gfx1030",), "rocm": "6.2", "systems": ("linux", "windows")}, "gfx1031",
            {"system": "windows"}, False, "no-kernel-image", "has no code for gfx1031",
        ),
        (
            {"sass": (), "gfx": ("gfx90a:xnack+",)}, "gfx90a", {}, None, "gpu-switch",
            "how xnack stands on it is not known here",
        ),
    ],
)  # fmt: skip
def test_what_a_wheel_can_do_for_a_card(
    changes: dict[str, object], gpu: str, options: dict[str, str], runs: bool | None, code: str, words: str
) -> None:
    answer = said(wheel(**changes), gpu, **options)
    assert answer[:2] == (runs, code) and words in answer[2], answer


def test_what_an_official_wheel_lacks_beside_its_kernels_is_known() -> None:
    """The libraries that come along are those of the release: they decide where its own kernels would run."""
    rocm = {"sass": (), "gfx": ("gfx900",), "rocm": "6.4", "version": "2.8.0+rocm6.4"}
    runs, code, text = said(wheel(**rocm), "gfx900")
    assert (runs, code) == (
        False,
        "no-kernel-image",
    ) and text == "lists gfx900, but its rocBLAS (ROCm 6.4) has no files for it"
    assert said(wheel(**rocm | {"version": "2.8.0+mine"}), "gfx900")[:2] == (True, "kernels-run")
    assert said(wheel(**rocm | {"project": "other"}), "gfx900")[:2] == (True, "kernels-run")
    cuda = {"sass": ("sm_61",), "cuda": "13.0", "version": "2.9.0+cu130"}
    runs, code, text = said(wheel(**cuda), "sm_61")
    assert (runs, code) == (True, "cudnn-lacks-arch") and text.startswith("cuDNN 9.13.0.50 has no code for sm_61")
    assert said(wheel(**cuda | {"project": "other"}), "sm_61")[:2] == (True, "kernels-run")


def test_every_card_counts_and_one_that_is_not_known_makes_it_not_known() -> None:
    row = wheel(sass=(), gfx=("gfx90a:xnack+", "gfx1030"))
    assert judge(row, "gfx1030").runs is True
    for cards in (("gfx1030", "gfx90a"), ("gfx90a", "gfx1030")):
        assert judge(row, *cards).runs is None
        assert len(judge(row, *cards).because) == 2
    refused = judge(row, "gfx90a", "gfx906", "gfx1030")
    assert refused.runs is False and [reason.code for reason in refused.because] == ["no-kernel-image"]


def test_a_proof_is_told_after_what_was_read() -> None:
    proofs = (RowProof(passed=3, failed=0, skipped=0), RowProof(passed=3, failed=1, skipped=0))
    assert [reason.code for reason in judge(wheel(proofs=proofs), "sm_80").because] == ["kernels-run", "verified"]


def trimmed(
    *counts: tuple[str, int], file: str = "torch/lib/libtorch_cuda.so", more: tuple[RowLibrary, ...] = ()
) -> WheelRow:
    sets = tuple(ArchSet(archs=(arch,), count=count) for arch, count in counts)
    library = RowLibrary(file=file, sass=tuple(arch for arch, _ in counts), sets=sets)
    return wheel(sass=(), libraries=(library, *more))


@pytest.mark.parametrize(
    ("fitting", "others", "runs", "code"),
    [
        (0, 10, False, "no-kernel-image"),
        (1, 9, None, "kernels-unknown"),
        (4, 6, None, "kernels-unknown"),
        (5, 5, None, "kernels-unknown"),
        (6, 5, True, "most-containers-run"),
        (1, 0, True, "most-containers-run"),
        (0, 0, None, "kernels-unknown"),
    ],
)
def test_more_than_half_of_the_containers_must_run(fitting: int, others: int, runs: bool | None, code: str) -> None:
    row = trimmed(("sm_80", fitting), ("sm_90", others))
    assert said(row, "sm_80")[:2] == (runs, code)


def test_the_containers_counted_are_those_of_torch_cuda() -> None:
    """Vendors' libraries have code for many more cards than torch itself."""
    vendor = RowLibrary(file="torch/lib/libcublas.so", sass=("sm_75",), sets=(ArchSet(archs=("sm_75",), count=900),))
    own = trimmed(("sm_80", 10), ("sm_86", 1), more=(vendor,))
    assert said(own, "sm_75") == (False, "no-kernel-image", "none of its 11 kernel containers has code for sm_75")
    text = "10 of its 11 kernel containers have code that runs on sm_80; but not in libcublas.so"
    assert (
        said(
            trimmed(("sm_80", 10), ("sm_90", 1), more=(RowLibrary(file="torch/lib/libcublas.so", sass=("sm_90",)),)),
            "sm_80",
        )[2]
        == text
    )
    windows = trimmed(("sm_80", 10), file="torch\\lib\\torch_cuda.dll", more=(vendor,))
    assert said(windows, "sm_75")[0] is False
    # Where no library is called so, all of them count; a folder's name is no library's.
    other = trimmed(("sm_80", 10), file="torch_cuda.libs/libother.so", more=(vendor,))
    assert (
        said(other, "sm_75")[2]
        == "900 of its 910 kernel containers have code that runs on sm_75; but not in libother.so"
    )


def test_the_newest_comes_first_and_what_is_no_version_last() -> None:
    versions = ["0.1", "1.0", "2.10.0", "2.9.1", "no version", "2.9", "0.0.1"]
    hits, refused = search([wheel(version=text, file=text) for text in versions], ask())
    assert [row.version for row, _ in hits] == ["2.10.0", "2.9.1", "2.9", "1.0", "0.1", "0.0.1", "no version"]
    assert refused == [] and {verdict.machine for _, verdict in hits} == {"any machine"}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 20)), min_size=2, max_size=6))
def test_hits_go_down_by_release(parts: list[tuple[int, int, int]]) -> None:
    rows = [wheel(version=".".join(map(str, part)), file=f"{number}") for number, part in enumerate(parts)]
    found = [Version(row.version) for row, _ in search(rows, ask())[0]]
    assert found == sorted(found, reverse=True)


def test_what_was_asked_for_is_said_in_the_words_of_the_options() -> None:
    wanted = ask(
        "sm_80", "sm_86", system="linux", machine="x86_64", python="3.11", glibc="2.28", versions="2.6", project="Torch"
    )
    assert wanted.describe() == {
        "gpu": "sm_80, sm_86", "os": "linux", "arch": "x86_64", "python": "3.11", "glibc": "2.28",
        "version": "==2.6.*", "project": "torch",
    }  # fmt: skip
    hits, refused = search(
        [wheel(), wheel(file="b", sass=("sm_35",)), wheel(project="other")], ask("sm_80", project="Torch")
    )
    assert [(row.file, verdict.machine) for row, verdict in hits] == [(wheel().file, "sm_80, torch")]
    assert [(reason.code, reason.text.partition(": ")[0]) for reason in refused] == [("no-kernel-image", "b")]


@pytest.mark.parametrize(
    ("text", "takes", "not_taken"),
    [
        ("2.6", ("2.6.0", "2.6.1+cu118", "2.6.0rc1"), ("2.7.0", "2.60.0")),
        ("2.6.0", ("2.6.0", "2.6.0+cu118"), ("2.6.1",)),
        (">=2.0,<2.4", ("2.0", "2.3.1+x"), ("1.13.1", "2.4.0")),
        ("~=2.4", ("2.5",), ("2.3", "3.0")),
        ("!=2.6.0", ("2.6.1",), ("2.6.0",)),
        ("2.6.*", ("2.6.3",), ("2.7",)),
    ],
)  # fmt: skip
def test_versions_as_users_write_them(text: str, takes: tuple[str, ...], not_taken: tuple[str, ...]) -> None:
    for version in (*takes, *not_taken):
        assert judge(wheel(version=version), versions=text).runs is (version in takes), version


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"python": "3"}, "no Python version"),
        ({"python": "2.7"}, "no Python version"),
        ({"python": "3.11.2"}, "no Python version"),
        ({"python": ""}, "no Python version"),
        ({"glibc": "new"}, "no glibc version"),
        ({"glibc": ""}, "no glibc version"),
        ({"glibc": "2."}, "no glibc version"),
        ({"versions": "newest"}, "no version"),
        ({"versions": ">=x"}, "no version"),
    ],
)
def test_what_cannot_be_understood_is_said_so(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        wanted_from(SearchOptions(**options), [])


def test_what_is_not_asked_for_is_left_open() -> None:
    assert wanted_from(SearchOptions(), []) == WantedWheel()
    assert ask(project="My.Torch", python="3.13t", glibc="2").project == "my-torch"
