"""An export asks for the cards that its plan is for, under torch's own name for them, and shows them to a container."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

import export_plans as plans
from rekindle.model.plan import Plan
from rekindle.scripts.formats import render
from rekindle.scripts.recipe import make_recipe

XPU = msgspec.structs.replace(plans.BLACKWELL, variant="xpu", cuda=None)
PLAIN = msgspec.structs.replace(plans.BLACKWELL, variant="cpu", cuda=None)
VISION = msgspec.structs.replace(plans.BLACKWELL, project="torchvision")


@pytest.mark.parametrize(
    ("plan", "asked", "flags"),
    [
        (plans.BLACKWELL, "cuda", ["--gpus", "all"]),
        (plans.IVYBRIDGE_LINUX, "cuda", ["--gpus", "all"]),
        (plans.ROCM, "cuda", ["--device=/dev/kfd", "--device=/dev/dri"]),
        (XPU, "xpu", ["--device=/dev/dri"]),
        (VISION, None, ["--gpus", "all"]),
        (PLAIN, None, []),
        (plans.CPU, None, []),
    ],
)
def test_a_container_is_shown_and_asked_for_the_cards_of_its_plan(
    plan: Plan, asked: str | None, flags: list[str]
) -> None:
    recipe = make_recipe(plan, {})
    docker = render(recipe, "dockerfile")
    assert re.findall(r"torch\.(\w+)\.is_available\(\)", docker.partition("\nCMD")[2]) == ([asked] if asked else [])
    (run,) = re.findall(r"# docker run --rm(.*) \S+", docker)
    assert run.split() == flags
    opened = render(recipe, "devcontainer")
    described = json.loads("\n".join(line for line in opened.splitlines() if not line.startswith("//")))
    assert described.get("runArgs", []) == flags
    assert described.get("hostRequirements") == ({"gpu": True} if flags else None)


@pytest.mark.parametrize(("plan", "device"), [(plans.BLACKWELL, "cuda"), (plans.ROCM, "cuda"), (XPU, "xpu")])
def test_the_proof_computes_on_the_device_of_the_plan(plan: Plan, device: str) -> None:
    proof = make_recipe(plan, {}).proof_on_card or ""
    for part in (f"torch.{device}.is_available()", f"device='{device}'", f"torch.{device}.get_device_name(0)"):
        assert part in proof


def test_without_cards_or_without_torch_nothing_is_asked() -> None:
    assert make_recipe(PLAIN, {}).proof_on_card is None and make_recipe(VISION, {}).proof_on_card is None
