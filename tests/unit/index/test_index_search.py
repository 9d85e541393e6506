"""Search judges by what is in the wheel: kernels, not names."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rekindle.index.wheelhouse.search import WantedWheel, search, verdict_for, wanted_from
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.wheel import ArchSet, RowLibrary
from rekindle.model.wheelhouse import RowProof, SearchOptions, WheelRow


def _row(**changes: object) -> WheelRow:
    base: dict[str, object] = {
        "file": "torch-2.0.1-cp310-cp310-win_amd64.whl", "url": "wheels/torch/x.whl", "project": "torch",
        "version": "2.0.1", "bytes": 1, "sha256": "0" * 64, "metadata_sha256": "0" * 64, "pythons": ("3.10",),
        "systems": ("windows",), "machines": ("x86_64",), "added": "2026-01-01T00:00:00Z", "inspected": True,
        "sass": ("sm_35", "sm_50"),
    }  # fmt: skip
    return WheelRow(**{**base, **changes})  # type: ignore[arg-type]


def _runs(row: WheelRow, **wanted: Any) -> bool | None:
    gpus = [parse_gpu_arch(gpu) for gpu in wanted.pop("gpus", ())]
    return verdict_for(row, wanted_from(SearchOptions(**wanted), gpus), "it").runs


def test_same_major_runs_and_lower_minor_does_not() -> None:
    assert _runs(_row(), gpus=["sm_35"]) and _runs(_row(), gpus=["sm_37"])
    assert _runs(_row(sass=("sm_37",)), gpus=["sm_35"]) is False
    assert _runs(_row(), gpus=["sm_35", "sm_86"]) is False, "every card must run"


def test_a_union_over_libraries_does_not_count() -> None:
    """torch 1.13.1 has sm_35 only in vendor code: its own kernels decide."""
    row = _row(sass=("sm_37",), libraries=(RowLibrary(file="torch/lib/libcusparse.so", sass=("sm_35",)),))
    assert _runs(row, gpus=["sm_35"]) is False


def test_a_library_without_code_for_the_card_is_mentioned() -> None:
    row = _row(sass=("sm_75",), libraries=(RowLibrary(file="torch/lib/libmagma.so", sass=("sm_80",)),))
    verdict = verdict_for(row, WantedWheel(gpus=(parse_gpu_arch("sm_75"),)), "it")
    assert verdict.runs and "libmagma.so" in verdict.because[0].text


def test_ptx_is_for_newer_cards() -> None:
    row = _row(sass=(), ptx=("compute_90",))
    assert _runs(row, gpus=["sm_120"]) and _runs(row, gpus=["sm_86"]) is False


def test_unknown_is_not_no() -> None:
    assert _runs(_row(inspected=False, sass=()), gpus=["sm_35"]) is None


def test_a_cpu_wheel_is_refused_for_a_gpu_but_found_without_one() -> None:
    row = _row(sass=())
    assert _runs(row, gpus=["sm_35"]) is False and _runs(row, system="windows")


def test_xnack_must_not_be_contradicted() -> None:
    row = _row(sass=(), gfx=("gfx90a:xnack+",))
    assert _runs(row, gpus=["gfx90a"]) is None, "how the switch stands is not known"
    assert _runs(row, gpus=["gfx90a:xnack-"]) is False


def test_tags_python_glibc_yank_and_version() -> None:
    assert _runs(_row(), system="linux") is False
    assert _runs(_row(), machine="aarch64") is False
    assert _runs(_row(), python="3.11") is False and _runs(_row(), python="3.10")
    assert _runs(_row(pythons=("cp38-abi3",)), python="3.13")
    assert _runs(_row(pythons=("cp38-abi3",)), python="3.13t") is False
    assert _runs(_row(glibc="2.28"), glibc="2.17") is False
    assert _runs(_row(yanked="")) is False
    assert _runs(_row(version="2.0.1+mine"), versions="2.0") and _runs(_row(), versions="2.1") is False


def test_what_runs_comes_first_and_newest_first() -> None:
    rows = [
        _row(file="a", version="2.10.0", inspected=False, sass=()),
        _row(file="b", version="2.9.0"),
        _row(file="c", version="2.10.0"),
        _row(file="d", version="3.0", yanked="broken"),
        _row(file="e", project="other"),
    ]
    hits, refused = search(rows, wanted_from(SearchOptions(project="torch"), [parse_gpu_arch("sm_35")]))
    assert [row.file for row, _ in hits] == ["c", "b", "a"]
    assert [reason.code for reason in refused] == ["yanked"]


@given(st.sets(st.sampled_from(["sm_35", "sm_50", "sm_75", "sm_86", "sm_120"])), st.sampled_from(["sm_37", "sm_86"]))
def test_more_code_never_takes_a_card_away(codes: set[str], card: str) -> None:
    less = _runs(_row(sass=tuple(sorted(codes)), libraries=(RowLibrary(file="x"),)), gpus=[card])
    more = _runs(_row(sass=(*sorted(codes), "sm_90"), libraries=(RowLibrary(file="x"),)), gpus=[card])
    assert not (less and not more)


def test_a_trimmed_wheel_is_judged_by_its_containers() -> None:
    sets = (ArchSet(archs=("sm_80", "sm_86"), count=400), ArchSet(archs=("sm_90",), count=30))
    library = RowLibrary(file="torch/lib/libtorch_cuda.so", sass=("sm_80", "sm_86", "sm_90"), sets=sets)
    row = _row(sass=(), libraries=(library,))
    assert _runs(row, gpus=["sm_86"]) is True
    assert _runs(row, gpus=["sm_90"]) is None, "a few containers are no proof"
    assert _runs(row, gpus=["sm_35"]) is False


def test_only_libraries_without_code_for_the_card_are_mentioned() -> None:
    names = {"libfits.so": ("sm_75",), **{f"lib{letter}.so": ("sm_80",) for letter in "edcba"}}
    libraries = tuple(RowLibrary(file=f"torch/lib/{name}", sass=sass) for name, sass in names.items())
    verdict = verdict_for(
        _row(sass=("sm_75",), libraries=libraries), WantedWheel(gpus=(parse_gpu_arch("sm_75"),)), "it"
    )
    assert verdict.because[0].text.endswith("; but not in liba.so, libb.so, libc.so, libd.so")


def test_only_proofs_without_a_failure_are_counted() -> None:
    def said(*proofs: tuple[int, int]) -> str:
        made = tuple(RowProof(passed=passed, failed=failed, skipped=0) for passed, failed in proofs)
        return verdict_for(_row(proofs=made), WantedWheel(), "it").because[0].text

    assert said((5, 0)) == "verified 1 time" and said((5, 0), (5, 1), (1, 0)) == "verified 2 times"
    assert said() == said((5, 1)) == said((0, 0)) == "its tags fit"
