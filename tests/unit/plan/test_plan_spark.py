"""The plan for spark: which architectures, and what is said where there is no CUDA."""

import pytest

from rekindle.model.arch import parse_gpu_arch, parse_sm
from rekindle.model.machine import Gpu, Machine, Os, Toolkit
from rekindle.model.plan import Plan
from rekindle.plan.spark import choose_archs, plan_spark

EMITS = tuple(parse_sm(name) for name in ("sm_90", "sm_50", "sm_86", "sm_90a"))
KIT = Toolkit(kind="cuda", version="12.4.1", path="/usr/local/cuda")


def box(*cards: str) -> Machine:
    gpus = tuple(
        Gpu(vendor="amd" if card.startswith("gfx") else "nvidia", name=card, arch=parse_gpu_arch(card))
        for card in cards
    )
    return Machine(os=Os(system="linux", arch="x86_64"), gpus=gpus)


def plan(*cards: str, cuda: Toolkit | None = KIT, emits: tuple[object, ...] = EMITS, why: str | None = None) -> Plan:
    return plan_spark(box(*cards), version="0.3", python="3.11", cuda=cuda, emits=emits, why_no_cuda=why)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cards", "archs"),
    [
        ((), ("5.0", "9.0+PTX")),
        (("sm_86",), ("8.6",)),
        (("sm_90", "sm_50", "sm_90"), ("5.0", "9.0")),
        (("sm_89",), ("5.0", "9.0+PTX")),
        (("sm_86", "sm_89"), ("8.6",)),
        (("gfx90a",), ("5.0", "9.0+PTX")),
    ],
)
def test_architectures(cards: tuple[str, ...], archs: tuple[str, ...]) -> None:
    assert choose_archs(box(*cards), EMITS) == archs


def test_a_toolkit_that_emits_nothing_plain() -> None:
    assert choose_archs(box("sm_90"), ()) == ()
    assert choose_archs(box("sm_90"), [parse_sm("sm_90a")]) == ()


def test_with_cuda() -> None:
    made = plan("sm_86")
    assert (made.answer, made.variant, made.cuda, made.arch_list) == ("build", "cu124", "12.4.1", ("8.6",))
    assert made.as_asked and made.project == "spark" and made.python == "3.11"
    assert made.build is not None
    assert made.build.env == {"USE_CUDA": "1", "SPARK_CUDA_ARCH_LIST": "8.6", "SPARK_CUDA_VERSION": "12.4.1"}
    assert made.build.asserts["USE_CUDA"] == "1"
    assert [reason.code for reason in made.because] == ["spark-source-only", "spark-with-cuda"]
    assert made.because[1].text == "CUDA 12.4.1 is here: compiled for 8.6 (this machine's GPU)."
    assert made.because[0].text.startswith("spark 0.3 exists only as source")


def test_with_cuda_and_without_a_card_of_nvidia() -> None:
    for made in (plan(), plan("gfx90a")):
        assert "no GPU is here, so the oldest and newest it can emit" in made.because[1].text


@pytest.mark.parametrize("made", [plan("sm_86", cuda=None), plan("sm_86", emits=())])
def test_without_cuda(made: Plan) -> None:
    assert (made.variant, made.cuda, made.arch_list) == ("cpu", None, ())
    assert made.build is not None
    assert made.build.env == {"USE_CUDA": "0"}
    assert made.because[1].code == "spark-cpu-only"
    assert made.because[1].text == "No CUDA toolkit with nvcc was found: CPU only."


def test_why_there_is_no_cuda_is_told() -> None:
    assert plan(cuda=None, why="gcc 15 is too new.").because[1].text == "gcc 15 is too new."


def test_it_is_small() -> None:
    recipe = plan(cuda=None).build
    assert recipe is not None
    assert (recipe.disk_gib, recipe.memory_gib, recipe.minutes) == (0.2, 1.0, (1, 2))
