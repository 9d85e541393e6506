"""Every set of packages that is printed together can be installed together, by what their wheels require."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rekindle.facts import load_facts
from rekindle.inspect.published import pip_places
from rekindle.model.plan import Plan, Wish
from rekindle.plan.companions import plan_companions
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.solve import make_plan

RECORDED = json.loads((Path(__file__).parents[2] / "truth" / "companion_requires.json").read_text("utf-8"))["requires"]
MARKERS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    "windows": {"sys_platform": "win32", "platform_system": "Windows", "platform_machine": "AMD64"},
}
# The cards and systems that sets were tried on by hand, and servers.
PLACES = [
    (card, system) for card in ("RTX 5090", "RTX 4090", "GTX 1080", "T4", "V100", "RX 7900 XTX") for system in MARKERS
]
PLACES += [("A100", "linux"), ("H100", "linux")]
ASKED = (
    "xformers", "vllm", "sglang", "sglang-kernel", "flashinfer-python", "torchao", "bitsandbytes", "torchcodec",
    "flash-attn", "triton", "comfy-kitchen",
)  # fmt: skip

# Sources alone, or wheels outside of PyPI whose file names tell all.
WITHOUT_METADATA = {"flash-attn"}


def planned(card: str, names: tuple[str, ...], system: str = "linux") -> Plan:
    facts = load_facts()
    machine = machine_from_flags(facts, gpu=[card], python="3.12", os=system)
    return plan_companions(machine, Wish(companions=names), facts, lambda wish: make_plan(machine, wish, facts))


def pinned(plan: Plan) -> dict[str, str]:
    """What the lines of a plan pin: torch and its family, and each companion's own line."""
    requests = [*plan.requests, *(request for one in plan.companions for request in one.requests)]
    return {str(canonicalize_name(request.name)): request.version for request in requests if request.version}


def contradictions(versions: dict[str, str], system: str = "linux") -> list[str]:
    """Requirements of one package that another of the same set does not meet, or contradicts by its own."""
    found = []
    exact: dict[str, str] = {}
    for name, version in versions.items():
        for line in RECORDED.get(f"{name}=={version.partition('+')[0]}", ()):
            wanted = Requirement(line)
            name_of_wanted = str(canonicalize_name(wanted.name))
            other = versions.get(name_of_wanted) or exact.get(name_of_wanted)
            if wanted.marker is not None and not wanted.marker.evaluate(MARKERS[system] | {"python_version": "3.12"}):
                continue
            if other is not None and not wanted.specifier.contains(other.partition("+")[0], prereleases=True):
                found.append(f"{name} {version} wants {line}, the set has {other}")
            if str(wanted.specifier).startswith("==") and "*" not in str(wanted.specifier):
                exact.setdefault(name_of_wanted, str(wanted.specifier).removeprefix("=="))
    return found


@pytest.mark.parametrize(("card", "system"), PLACES)
def test_what_is_printed_together_goes_together(card: str, system: str) -> None:
    unread = set()
    for names in [(name,) for name in ASKED] + list(itertools.combinations(ASKED[:6], 2)):
        versions = pinned(planned(card, names, system))
        assert contradictions(versions, system) == [], names
        torch_or_companions = {name for name in versions if name == "torch" or name in ASKED} - WITHOUT_METADATA
        lines = {name: f"{name}=={versions[name].partition('+')[0]}" for name in torch_or_companions}
        unread |= set(lines.values()) - RECORDED.keys()
    assert not unread, "of these no METADATA is recorded, so that nothing was resolved"


def test_what_torch_brings_gets_no_line_of_its_own() -> None:
    """The ROCm torch brings its Triton: told so, and nothing to paste that would go over it."""
    triton = planned("RX 7900 XTX", ("triton",)).companions[0]
    assert (triton.answer, triton.version, triton.requests, triton.commands) == ("runs", None, (), ())
    assert triton.why.startswith("triton comes with torch 2.")


def test_a_contradiction_is_seen() -> None:
    assert contradictions({"torch": "2.14.0", "sglang": "0.5.23"})
    assert contradictions({"torch": "2.14.1+cu130", "sglang": "0.5.23", "flashinfer-python": "0.7.2"}) == []
    assert contradictions({"torch": "2.13.0", "vllm": "0.32.0", "flashinfer-python": "0.6.18"})
    assert contradictions({"torch": "2.13.0", "vllm": "0.32.0", "sglang": "0.5.21"}), "each brings a flashinfer"


def test_two_that_bring_different_versions_of_a_third_are_not_printed_together() -> None:
    made = planned("GB10", ("flashinfer-python", "sglang", "vllm"))
    flashinfer, sglang, vllm = made.companions
    assert (flashinfer.version, sglang.answer, vllm.answer) == ("0.7.2", "runs", "none")
    assert "asks for flashinfer-python 0.7.0.post1, and sglang for 0.7.2" in vllm.why and not vllm.commands
    taken = next(choice for choice in made.choices if choice.taken)
    assert "flashinfer-python 0.7.2" in taken.gives and "no vllm" in taken.costs, "the table says the same"
    other = planned("GB10", ("vllm", "sglang")).companions
    assert [one.answer for one in other] == ["runs", "none"], "the first named stays"


def test_a_version_asked_for_by_hand_is_not_replaced_by_what_another_brings() -> None:
    pinned_one, vllm = planned("H100", ("flashinfer-python==0.6.18", "vllm")).companions
    assert pinned_one.version == "0.6.18" and vllm.answer == "none" and "the wish for 0.6.18" in vllm.why


@pytest.mark.network
@pytest.mark.integration
def test_a_real_resolver_accepts_a_set(tmp_path: Path) -> None:
    """The pins of one plan, by uv against the index pip is set up for: uv reads METADATA alone, pip takes minutes."""
    versions = pinned(planned("RTX 4090", ("xformers", "bitsandbytes")))
    lines = [f"{name}=={version.partition('+')[0]}" for name, version in versions.items()]
    (tmp_path / "set.in").write_text("\n".join(lines))
    places = pip_places()
    words = [f"--index={url}" for url in places.indexes] + [f"--find-links={url}" for url in places.links]
    words += ["--no-config", f"--cache-dir={tmp_path / 'cache'}", "--only-binary=:all:"]
    words += ["--python-platform=x86_64-manylinux_2_28", "--python-version=3.12"]
    done = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", *words, str(tmp_path / "set.in")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(lines) <= set(done.stdout.split()), done.stdout
