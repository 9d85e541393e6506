"""Actions are data beside their rules: complete, filled with what the log says, and left out where it does not."""

from __future__ import annotations

import re

import pytest

from rekindle import api
from rekindle.explain.rule import Rule, load_rules
from rekindle.model.diagnosis import ApplyPatch, AskPerson, InstallPackages, SetVariable
from rekindle.source.patches.header import load_patches

WITH_ACTIONS = [rule for rule in load_rules() if rule.action]
_REQUIREMENT = re.compile(r"(?:[\w.-]+|\{\w+\})(?:[<>=!~]=?[\w.,<>=!]+|\{\w+\})?")
_DEFAULT = re.compile(r"\{\w+\|([\w.-]+)\}")


@pytest.mark.parametrize("rule", WITH_ACTIONS, ids=lambda rule: rule.key)
def test_an_action_is_one_thing_and_no_line_for_a_shell(rule: Rule) -> None:
    for action in rule.action:
        if isinstance(action, InstallPackages):
            named = (_DEFAULT.sub(r"\1", name) for name in (*action.packages, *action.remove))
            assert all(map(_REQUIREMENT.fullmatch, named))
            assert not action.index or action.index.startswith("https://download.pytorch.org/whl/")
        if isinstance(action, SetVariable):
            assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in action.variables)
        if not isinstance(action, AskPerson):
            assert not re.search(r"[;&|`$]|sudo", _DEFAULT.sub(r"\1", str(action)))


def test_what_a_log_says_fills_an_action() -> None:
    first = api.explain("ModuleNotFoundError: No module named 'yaml'").matches[0]
    assert first.actions == (InstallPackages(packages=("pyyaml",)),)
    first = api.explain("ModuleNotFoundError: No module named 'tqdm.auto'").matches[0]
    assert first.actions in ((), (InstallPackages(packages=("tqdm",)),))
    first = api.explain("ModuleNotFoundError: No module named 'tqdm'").matches[0]
    assert first.actions == (InstallPackages(packages=("tqdm",)),)
    said = "tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found tokenizers==0.20.0."
    assert api.explain(f"ImportError: {said}").matches[0].actions[0] == InstallPackages(
        packages=("tokenizers>=0.21,<0.22",)
    )


@pytest.mark.parametrize(
    ("card", "torch", "flavour"),
    [("", "torch", "cu126"), ("Tesla K80", "torch==2.3.1", "cu118"), ("NVIDIA GeForce RTX 5090", "torch", "cu130")],
)
def test_the_torch_that_is_installed_is_one_for_the_card(card: str, torch: str, flavour: str) -> None:
    log = f"GPU 0: {card}\nAssertionError: Torch not compiled with CUDA enabled\n"
    index = f"https://download.pytorch.org/whl/{flavour}"
    first = api.explain(log).matches[0]
    assert first.actions == (InstallPackages(packages=(torch,), remove=("torch",), index=index),)
    assert f"pip install {torch} --index-url {index} " in first.fix[0]


def test_an_action_whose_value_is_unknown_is_left_out() -> None:
    first = api.explain("ImportError: cannot import name 'cached_download' from 'huggingface_hub'").matches[0]
    assert first.actions == (InstallPackages(packages=("huggingface_hub<0.26",)),)
    assert api.explain("ModuleNotFoundError: No module named 'nobody_knows_this'").matches[0].actions == ()


def test_patches_that_are_named_exist() -> None:
    named = {action.patch for rule in WITH_ACTIONS for action in rule.action if isinstance(action, ApplyPatch)}
    assert named and named <= {patch.id for patch in load_patches("torch")}
