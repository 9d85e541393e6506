"""Architectures: parsing, printing, and the rule of what runs where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat.toolkit import ptx_runs, sass_runs_on
from rekindle.model.arch import Gfx, GpuArch, Sm, parse_gfx, parse_gfx_code, parse_gpu_arch, parse_sm

GFX = ["gfx906", "gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx1030", "gfx1100", "gfx11-generic", "amdgcnspirv"]
sms = st.builds(Sm, st.integers(2, 13), st.integers(0, 9), st.sampled_from(["", "a", "f"]))


@given(sms)
def test_every_spelling_reads_back(sm: Sm) -> None:
    assert parse_sm(str(sm)) == sm
    assert parse_sm(sm.dotted) == sm
    assert parse_sm(sm.compute) == sm


@given(sms)
def test_a_number_in_a_fat_binary_is_an_architecture(sm: Sm) -> None:
    assert Sm.from_number(sm.number, sm.suffix) == sm
    assert (sm.lto, sm.number) == (f"lto_{sm.major}{sm.minor}{sm.suffix}", int(f"{sm.major}{sm.minor}"))
    assert (str(sm), sm.compute, sm.dotted) == (
        f"sm_{sm.number}{sm.suffix}",
        f"compute_{sm.number}{sm.suffix}",
        f"{sm.major}.{sm.minor}{sm.suffix}",
    )
    assert parse_sm(f"{sm.dotted}+PTX") == sm


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("xe_", "no generation of Intel GPUs"),
        ("gfx9", "no AMD architecture"),
        ("gfx11-generic", "no AMD architecture"),
        ("86", "no NVIDIA architecture"),
        (86, "an architecture is a string, not int"),
    ],
)
def test_a_refusal_says_whose_architecture_it_is_not(text: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_gpu_arch(text)


@pytest.mark.parametrize("text", ["", "sm_", "sm_3", "35", "8", "sm_86x", "gfx", "gfx1", "gfxabc", "sm_8.6"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_gpu_arch(text)


def test_gfx_sorts_by_number_not_by_letter() -> None:
    names = ["gfx1100", "gfx906", "gfx90a", "gfx803", "gfx1030"]
    assert [str(g) for g in sorted(map(parse_gfx, names))] == [
        "gfx803",
        "gfx906",
        "gfx90a",
        "gfx1030",
        "gfx1100",
    ]


def test_code_for_many_chips_comes_after_that_for_its_generation() -> None:
    names = ["gfx803", "gfx90a", "gfx9-generic", "gfx9-4-generic", "gfx1030", "gfx10-3-generic", "gfx1100"]
    names += ["gfx11-generic", "gfx1201", "gfx12-generic", "amdgcnspirv"]
    assert [str(each) for each in sorted(map(parse_gfx_code, sorted(names)))] == [
        *names[:2], "gfx9-4-generic", "gfx9-generic", *names[4:]
    ]  # fmt: skip
    assert [parse_gfx_code(name).generic for name in ("gfx9-generic", "gfx90a", "amdgcnspirv")] == [True, False, False]


@given(
    st.lists(
        sms | st.sampled_from(GFX).map(parse_gfx_code) | st.sampled_from(["xe_bmg", "xe_pvc"]).map(parse_gpu_arch),
        min_size=2,
        max_size=2,
    )
)
def test_two_of_a_kind_have_one_order_and_two_of_other_kinds_none(pair: list[GpuArch]) -> None:
    a, b = pair
    if type(a) is not type(b):
        assert a != b
        with pytest.raises(TypeError):
            _ = a < b
        return
    assert [a < b, a == b, a > b].count(True) == 1
    assert ((a <= b), (a >= b)) == ((a < b or a == b), (a > b or a == b))
    assert (a == b) is (str(a) == str(b)) and (hash(a) == hash(b) or a != b)


@pytest.mark.parametrize("arch", [parse_sm("sm_90"), parse_gfx("gfx90a"), parse_gpu_arch("xe_bmg")])
def test_an_architecture_is_no_text_and_not_before_itself(arch: GpuArch) -> None:
    assert arch != str(arch) and arch != 90 and not arch < arch and not arch > arch
    assert arch == parse_gpu_arch(str(arch)) and repr(arch) == f"<{arch}>"
    with pytest.raises(TypeError):
        _ = arch < str(arch)


def test_gfx_keeps_its_features() -> None:
    assert parse_gfx("gfx90a:sramecc+:xnack-") == Gfx("gfx90a", ("sramecc+", "xnack-"))


@pytest.mark.parametrize(
    ("code", "device", "runs"),
    [
        ("sm_70", "sm_75", True),
        ("sm_75", "sm_70", False),
        ("sm_86", "sm_89", True),
        ("sm_89", "sm_120", False),
        ("sm_90a", "sm_90", True),
        ("sm_100a", "sm_103", False),
        ("sm_100f", "sm_103", True),
        ("sm_103f", "sm_100", False),
    ],
)
def test_sass_rule(code: str, device: str, runs: bool) -> None:
    assert sass_runs_on(parse_sm(code), parse_sm(device)) is runs


@given(sms.filter(lambda s: not s.suffix), sms.filter(lambda s: not s.suffix))
def test_ptx_goes_forward_and_never_back(code: Sm, device: Sm) -> None:
    assert ptx_runs(code, device) == (code <= device)


@pytest.mark.parametrize(
    ("text", "name", "features"),
    [("gfx90a:sramecc+:xnack-", "gfx90a", ("sramecc+", "xnack-")), ("gfx11-generic", "gfx11-generic", ())],
)
def test_code_may_be_for_a_chip_or_for_a_family(text: str, name: str, features: tuple[str, ...]) -> None:
    target = parse_gfx_code(text)
    assert (target.name, target.features) == (name, features)
    with pytest.raises(ValueError, match="no target of AMD code"):
        parse_gfx_code("sm_86")
