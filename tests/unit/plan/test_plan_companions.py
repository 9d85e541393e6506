"""One set that fits together, what each torch costs, and wishes that cannot be read or met."""

import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.cli.plan import read_companions
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.plan import Plan, Wish
from rekindle.plan.companions import read_wanted


def ask(*names: str, gpu: str = "RTX 3090", os: str = "linux", **wish: str) -> Plan:
    machine = api.machine_from_flags(gpu=[gpu], os=os)
    return api.plan(machine, Wish(companions=names, **wish), wheelhouses=[])  # type: ignore[arg-type]


def test_a_free_torch_goes_where_most_companions_run() -> None:
    alone = ask()
    made = ask("vllm", "xformers")
    assert made.torch != alone.torch
    assert [one.answer for one in made.companions] == ["runs", "runs"]
    taken = [choice for choice in made.choices if choice.taken]
    assert [choice.torch for choice in taken] == [made.torch]
    first = made.choices[0]
    assert first.torch == alone.torch
    assert first.costs


def test_a_torch_that_was_asked_for_stays_and_its_price_is_said() -> None:
    made = ask("vllm==0.32.0", torch="2.6.0")
    assert made.torch == "2.6.0"
    (one,) = made.companions
    assert one.answer == "none"
    assert one.wants == "==2.13.0"
    assert "0.32.0 was made for torch ==2.13.0" in one.why
    other = next(choice for choice in made.choices if not choice.taken)
    assert other.torch == "2.13.0"
    assert other.gives == ("vllm 0.32.0",)


@pytest.mark.parametrize(("torch", "wanted"), [("2.8.0+cu128", "xformers"), ("1.12.1+cu113", "flash-attn")])
def test_a_torch_may_be_asked_for_by_its_flavour(torch: str, wanted: str) -> None:
    """Also beside a companion that would rather have another torch."""
    made = ask(wanted, torch=torch)
    assert f"{made.torch}+{made.variant}" == torch
    assert [one.name for one in made.companions] == [wanted]


def test_wishes_that_exclude_each_other_are_all_answered() -> None:
    made = ask("vllm==0.32.0", "xformers==0.0.33.post2")
    answers = {one.name: one.answer for one in made.companions}
    assert sorted(answers.values()).count("none") == 1
    assert {choice.torch for choice in made.choices} >= {"2.13.0", "2.9.1"}


def test_torch_from_source_is_no_price_for_a_companion() -> None:
    made = ask("flash-attn-3", gpu="RTX 3090")
    assert made.answer == "install"
    assert made.companions[0].answer == "none"


def test_every_command_keeps_the_torch() -> None:
    made = ask("bitsandbytes", "torch-scatter", torch="2.6.0")
    for one in made.companions:
        assert any("torch-constraints.txt" in line and "pip install" in line for line in one.commands)
        assert any(f"torch=={made.torch}" in line for line in one.commands)


def test_windows_is_spelled_for_windows() -> None:
    made = ask("triton", os="windows", torch="2.9.1")
    (one,) = made.companions
    assert any(line.startswith("py -") and "triton-windows" in line for line in one.commands)


def test_build_settings_name_the_card_as_the_package_wants_it() -> None:
    assert ask("flash-attn", gpu="RTX 4090", torch="2.14.1").companions[0].env["FLASH_ATTN_CUDA_ARCHS"] == "80"
    assert ask("torch-scatter", gpu="RTX 4090", torch="2.13.0").companions[0].env["TORCH_CUDA_ARCH_LIST"] == "8.9"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["xformers,triton"], ("xformers", "triton")),
        (["xformers==0.0.30", " triton "], ("xformers==0.0.30", "triton")),
        (["torchao>=0.9,<0.12,triton"], ("torchao>=0.9,<0.12", "triton")),
    ],
)
def test_lists(given: list[str], wanted: tuple[str, ...]) -> None:
    assert read_companions(given) == wanted


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["flash-atn"], "did you mean flash-attn"),
        (["no such thing at all"], "for example"),
        (["$(true)"], "for example"),
        (["qqqqqqqq"], "our tables know"),
        (["xformers==1", "xformers==2"], "name it once"),
        (["xformers"] * 41, "fewer"),
    ],
)
def test_what_cannot_be_read(names: list[str], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_wanted(names, load_facts())
    assert words in (refused.value.remedy or "")


@pytest.mark.parametrize("given", [[""], [","], [" , ", ""]])
def test_with_nothing_is_no_wish(given: list[str]) -> None:
    with pytest.raises(BadInput, match="names no package"):
        read_companions(given)
    assert read_companions([]) == ()


@pytest.mark.parametrize(
    ("version", "exists"), [("0.0.0.9", False), ("0.0.1", True), ("0.0.35", True), ("0.0.36", False), ("99.0", False)]
)
def test_a_version_that_does_not_exist_is_told_so(version: str, exists: bool) -> None:
    got = ask(f"xformers=={version}").companions[0]
    assert ("There is no xformers" in got.why) is not exists
    if not exists:
        assert got.answer == "none" and "0.0.1 to 0.0.35" in got.why


def test_the_same_twice_is_once() -> None:
    assert len(read_wanted(["flash_attn", "flash-attn"], load_facts())) == 1


def test_on_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["plan", "--gpu", "GTX 1080 Ti", "--os", "linux", "--torch", "2.6.0", "--with", "flash-attn,triton"]) == 0
    )
    said = capsys.readouterr().out
    assert "flash-attn: does not run" in said
    assert "scaled_dot_product_attention" in said
    assert "triton-pascal" in said
    assert main(["plan", "--gpu", "RTX 3090", "--with", "xformrs"]) == 2


@pytest.mark.parametrize(
    ("package", "asked", "ending"),
    [
        (
            "flash-attn",
            {"gpu": "RTX 4090", "torch": "2.9.1"},
            "/v0.9.0/flash_attn-2.8.3+cu128torch2.9-cp312-cp312-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
        ),
        (
            "flash-attn",
            {"gpu": "RTX 4090", "torch": "2.13.0", "python": "3.14t"},
            "/v0.9.47/flash_attn-2.8.3+cu130torch2.13-cp314-cp314t-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl",
        ),
        (
            "sageattention",
            {"gpu": "RTX 4090", "torch": "2.14.1", "os": "windows"},
            "/v2.2.0-windows.post6/sageattention-2.2.0+cu130torch2.10.0andhigher.post6-cp310-abi3-win_amd64.whl",
        ),
    ],
)
def test_a_ready_wheel_of_somebody_else_comes_by_its_very_address(
    package: str, asked: dict[str, str], ending: str
) -> None:
    (found,) = ask(package, **asked).companions
    assert found.answer == "alternative" and found.commands[-1].endswith(ending)


def test_a_ready_wheel_without_code_for_the_card_is_not_offered() -> None:
    (found,) = ask("flash-attn", gpu="RTX 5090", torch="2.9.1", variant="cu126").companions
    assert not any("cu126torch" in line for line in found.commands)


def test_apex_is_built_with_its_kernels_and_is_not_the_package_of_that_name() -> None:
    (apex,) = ask("apex").companions
    line = apex.commands[-1]
    assert apex.answer == "build" and "git+https://github.com/NVIDIA/apex" in line and "apex==" not in line
    assert apex.env["APEX_CUDA_EXT"] == "1" and any("another package" in note for note in apex.notes)
    (amd,) = ask("apex", gpu="RX 7900 XTX").companions
    assert (amd.answer, amd.instead) == ("alternative", "ROCm/apex")
