"""Versions that the log names decide: which release has a name, which companion a torch, which index a release."""

from __future__ import annotations

import pytest

from rekindle.explain.engine import diagnose
from rekindle.explain.owners import _holds
from rekindle.model.diagnosis import Match


def answers(text: str) -> dict[str, Match]:
    return {match.title: match for match in diagnose([text.encode()]).matches}


def said(text: str) -> str:
    match = diagnose([text.encode()]).matches[0]
    return " ".join((match.id, match.title, match.cause, *match.fix))


MISSING = "ImportError: cannot import name 'licenses' from 'packaging' (/v/site-packages/packaging/__init__.py)"


@pytest.mark.parametrize(
    ("have", "is_told"),
    [
        ("packaging==24.1", True),
        ("packaging 24.1", True),
        ("packaging-24.1", True),
        ("packaging==24.2", False),
        ("", True),
    ],
)
def test_the_installed_release_decides_whether_its_age_is_the_reason(have: str, is_told: bool) -> None:
    assert ("release 24.2 on" in said(f"{have}\n{MISSING}")) == is_told


def test_a_name_that_left_asks_for_an_older_release() -> None:
    text = "{}\nAttributeError: module 'torch._inductor.kernel' has no attribute 'flex_attention'"
    new, old = said(text.format("torch==2.10.0")), said(text.format("torch==1.13.1"))
    assert "'torch>=2.4,<2.9'" in new and "2.10.0, too new" in new and "too old" not in new
    assert "'torch>=2.4,<2.9'" in old and "1.13.1, too old" in old


PAIR = "torch {}+cu128\ntriton {} file /v/site-packages/triton/__init__.py\nkernels: triton=off"


@pytest.mark.parametrize(("torch", "triton", "differs"), [("2.8.0", "3.5.1", True), ("2.9.1", "3.5.1", False)])
def test_a_companion_of_another_torch_is_told(torch: str, triton: str, differs: bool) -> None:
    title = f"triton {triton} does not belong to torch {torch}"
    assert (title in answers(PAIR.format(torch, triton))) == differs


def test_the_right_companion_is_named() -> None:
    assert "triton==3.4.*" in said(PAIR.format("2.8.0", "3.5.1"))


VISION = "$ python probe.py\ntorch {}+cu126\ntorchvision {}\nresize: off"


@pytest.mark.parametrize(
    ("torch", "vision", "differs"),
    [("2.7.1", "0.22.1", False), ("2.7.0", "0.22.1", False), ("2.6.0", "0.22.1", True), ("2.8.0", "0.22.1", True)],
)
def test_torchvision_goes_by_its_own_table(torch: str, vision: str, differs: bool) -> None:
    found = answers(VISION.format(torch, vision))
    assert (f"torchvision {vision} does not belong to torch {torch}" in found) == differs
    if differs:
        cause = next(match.cause for title, match in found.items() if title.startswith("torchvision"))
        assert "made for torch 2.7," in cause


def test_a_preview_of_the_right_release_is_no_mismatch() -> None:
    assert _holds(">=2.7,<2.9", "2.8.0.dev20250601") and not _holds(">=2.7,<2.9", "2.9.0.dev20250901")


def asked(release: str, flavour: str) -> str:
    return said(
        f"$ pip install torch=={release} --index-url https://download.pytorch.org/whl/{flavour}\n"
        f"ERROR: Could not find a version that satisfies the requirement torch=={release} (from versions: 2.6.0+cu124)"
    )


def test_an_index_that_never_had_the_release_is_named() -> None:
    text = asked("2.7.0", "cu124")
    assert "index cu124 has no torch 2.7.0 (its last is 2.6.0)" in text and "whl/cu128" in text
    assert "has no torch" not in asked("2.6.0", "cu124")
    # cu121 was built for 2.1.2, though it was no stable one.
    assert "has no torch" not in asked("2.1.2", "cu121")


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}."
    " GPU 0 has a total capacity of {} of which 1 MiB is free."
)


@pytest.mark.parametrize(
    ("wanted", "total", "larger"),
    [
        ("95.00 GiB", "94.97 GiB", True),
        ("94.97 GiB", "94.97 GiB", False),
        ("900.00 MiB", "0.50 GiB", True),
        ("20.00 GiB", "23.00 GiB", False),
    ],
)
def test_one_allocation_larger_than_the_card(wanted: str, total: str, larger: bool) -> None:
    assert ("larger than the whole card" in said(OOM.format(wanted, total))) == larger


def test_arm_is_named_where_an_index_lacks_something() -> None:
    refused = "Could not find a version that satisfies the requirement torchcodec==0.7.0 (from versions: 0.0.0.dev0)"
    text = f"$ uname -m\naarch64\nERROR: {refused}"
    assert "aarch64" in said(text)
    assert "aarch64" not in said(text.replace("aarch64", "x86_64"))
