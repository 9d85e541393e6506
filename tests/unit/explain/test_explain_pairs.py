"""A companion that does not fit its torch: the answer names the release that does, as the planner's tables know it."""

from __future__ import annotations

import pytest

from rekindle.compat.companions import TorchSurroundings, judge
from rekindle.explain.engine import diagnose
from rekindle.facts import load_facts

FLASH = "ImportError: /venv/lib/python3.12/site-packages/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so"
SCATTER = "OSError: /venv/lib/python3.11/site-packages/torch_scatter/_scatter_cuda.so"
SYMBOL = "undefined symbol: _ZN3c104cuda9SetDeviceEab"
XFORMERS = "xFormers can't load C++/CUDA extensions. xFormers was built for:\n    PyTorch 2.4.0+cu121 with CUDA 1201"


def first_steps(log: str) -> tuple[str, ...]:
    return diagnose([log.encode()]).matches[0].fix


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (f"{XFORMERS} (you have 2.5.1+cu124)\n", "xformers==0.0.29.post1'"),
        (f"PyTorch version: 2.8.0+cu128\n{FLASH}: {SYMBOL}\n", "flash-attn==2.8.3' --no-build-isolation."),
        (f"torch==2.6.0+cu124\n{SCATTER}: {SYMBOL}\n", "-f https://data.pyg.org/whl/torch-2.6.0+cu124.html."),
        (
            "torch 2.6.0+cu124\nRuntimeError: operator torchvision::nms does not exist\n",
            "torchvision==0.21.0' --index-url https://download.pytorch.org/whl/cu124.",
        ),
        (
            "torch 2.6.0\nRuntimeError: operator torchvision::nms does not exist\n",
            "==0.21.0' (from torch's own index).",
        ),
    ],
)
def test_the_first_step_names_the_release_for_this_torch(log: str, words: str) -> None:
    first = first_steps(log)[0]
    assert first.startswith("For torch 2.") and words in first


@pytest.mark.parametrize(
    "log",
    [
        f"{FLASH}: {SYMBOL}\n",
        f"torch==99.0.0\n{FLASH}: {SYMBOL}\n",
        "torch==2.6.0+cu124\nImportError: /venv/lib/own_thing.cpython-312-x86_64-linux-gnu.so: " + SYMBOL + "\n",
        "RuntimeError: operator torchvision::nms does not exist\n",
    ],
)
def test_without_a_torch_or_a_known_package_nothing_is_named(log: str) -> None:
    assert not any(step.startswith("For torch") for step in first_steps(log))


@pytest.mark.parametrize("torch", ["2.4.0", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1"])
@pytest.mark.parametrize("package", ["xformers", "flash-attn", "triton"])
def test_what_is_named_was_made_for_that_torch(package: str, torch: str) -> None:
    module = {"flash-attn": "flash_attn_2_cuda", "xformers": "xformers/_C"}.get(package, "triton/_C/libtriton")
    log = f"torch=={torch}+cu126\nImportError: /venv/lib/python3.11/site-packages/{module}.so: {SYMBOL}\n"
    named = [step for step in first_steps(log) if step.startswith("For torch")]
    at = TorchSurroundings(torch, "12.6", None, "3.11", "linux_x86_64", "linux", None, "cuda", ())
    finding = judge(package, at, load_facts())
    ready = finding.kind in ("runs", "last")
    assert [f"{package}=={finding.version}'" in step for step in named] == ([True] if ready else [])


@pytest.mark.parametrize(
    ("model", "release"),
    [("qwen3_next", "4.57"), ("gemma3_text", "4.50"), ("gpt-oss", "4.55"), ("llama", None), ("nobody_knows", None)],
)
def test_a_model_type_names_the_release_that_has_it(model: str, release: str | None) -> None:
    words = "but Transformers does not recognize this architecture"
    first = diagnose([f"ValueError: The checkpoint has model type `{model}` {words}.".encode()]).matches[0]
    assert first.id == "huggingface-versions" and model in first.title
    assert (f"has it from {release} on" in first.cause) == (release is not None)
    assert first.fix[0].startswith(f"pip install -U 'transformers>={release}' (" if release else "pip install -U tran")


@pytest.mark.parametrize(
    ("package", "version", "torch", "made_for"),
    [
        ("xformers", "0.0.31.post1", "2.9.1", "2.7.1"),
        ("xformers", "0.0.28.post2", "2.8.0", "2.5.0"),
        ("torchvision", "0.15.2", "2.7.1", "2.0"),
        ("torchaudio", "2.4.0", "2.7.1", "2.4"),
    ],
)
def test_a_pair_of_different_times_is_told_with_the_torch_it_was_made_for(
    package: str, version: str, torch: str, made_for: str
) -> None:
    log = f"PyTorch version: {torch}\n{package} version {version}\nRuntimeError: something else went wrong\n"
    (note,) = [each for each in diagnose([log.encode()]).matches if each.id == "packages-of-different-times"]
    assert note.cause.startswith(f"{package} {version} was made for torch {made_for}, and the log says torch {torch}")
    fits = f"PyTorch version: {made_for}\n{package} version {version}\nRuntimeError: something else went wrong\n"
    assert not [each for each in diagnose([fits.encode()]).matches if each.id == "packages-of-different-times"]


NCCL = (
    "ImportError: /venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n"
)


def test_one_library_for_two_cuda_versions_is_named_with_both_packages() -> None:
    listed = "nvidia-cublas-cu12==12.4.5.8\nnvidia-nccl-cu13==2.27.7\nnvidia-nccl-cu12==2.21.5\n"
    best = diagnose([f"{listed}{NCCL}".encode()]).matches[0]
    assert best.id == "cuda-library-mismatch" and "(nvidia-nccl-cu12 and nvidia-nccl-cu13)" in best.title


def test_two_libraries_for_two_cuda_versions_do_not_overwrite_each_other() -> None:
    listed = "nvidia-cublas-cu12==12.4.5.8\nnvidia-nccl-cu13==2.27.7\n"
    assert diagnose([f"{listed}{NCCL}".encode()]).matches[0].id != "cuda-library-mismatch"


@pytest.mark.parametrize(
    ("index", "python", "today"), [("cu118", "3.13", ("cu130", "cu132")), ("cpu", None, ()), ("rocm5.6", "3.11", ())]
)
def test_an_index_without_wheels_for_this_python_names_those_of_today(
    index: str, python: str | None, today: tuple[str, ...]
) -> None:
    log = (
        f"Python 3.14.0\nLooking in indexes: https://download.pytorch.org/whl/{index}\n"
        "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)\n"
        "ERROR: No matching distribution found for torch\n"
    )
    first = first_steps(log)[0]
    assert (f"Use Python {python} for it" in first) is (python is not None)
    assert ("an index of today" in first) is bool(today)
    assert all(name in first for name in today) and not ("cpu" in first and today) and "xpu" not in first
