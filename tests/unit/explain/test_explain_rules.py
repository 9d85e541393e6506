"""The rules as data: complete, consistent, cheap to look for, and each proved by a sample."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from longlogs import embed
from rekindle.explain.engine import _BRACKETS, _FIELD, diagnose, render
from rekindle.explain.ranking import CONDITIONS, FILLS
from rekindle.explain.rule import Rule, compiled, load_files, load_kinds, load_rules, load_signals
from rekindle.explain.scan import Words
from samples import load_samples

RULES = load_rules()
IDS = {rule.id for rule in RULES}
SIGNALS = {signal.id for signal in load_signals()}


def _fields(template: str) -> set[str]:
    """The values that a text speaks of."""
    names = (name for match in _FIELD.finditer(template) for name in match[1].split(","))
    return {name.removesuffix(_BRACKETS) for name in names}


def test_fields_are_named() -> None:
    assert _fields("{a} {b|x} {c,d} {e_in_brackets|}") == {"a", "b", "c", "d", "e"}


def test_keys_are_unique() -> None:
    counts = Counter(rule.key for rule in RULES)
    assert [key for key, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_a_rule_refers_only_to_what_exists(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", rule.id)
    assert rule.match or rule.on
    assert set(rule.on) <= set(load_kinds())
    assert set(rule.where) <= {value for kind in rule.on for value in load_kinds()[kind].values}
    assert set(rule.when) <= set(CONDITIONS)
    assert set(rule.fill) <= set(FILLS)
    assert set(rule.needs) | set(rule.forbids) <= SIGNALS
    assert set(rule.explains) | set(rule.alternatives) <= IDS
    # An alternative is told without a line of the log that matched: nothing of one may be needed.
    for name in rule.alternatives:
        other = min((each for each in RULES if each.id == name), key=lambda each: each.variant)
        assert render(other.title, {}) and render(other.cause, {}), other.key
    assert rule.source.startswith("https://")
    assert rule.title and rule.cause and rule.fix
    assert 0 < rule.rank < 100


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.key)
def test_a_rule_compiles_and_its_texts_name_values_that_can_be_known(rule: Rule) -> None:
    names: set[str] = set()
    for pattern in rule.match:
        assert (
            pattern.has
            and all(len(word) >= 4 for word in pattern.words)
            and 0 <= pattern.before <= 8
            and 1 <= pattern.lines <= 8
        )
        for regex in (pattern.regex, pattern.unless):
            if regex:
                names |= {name.rstrip("234567") for name in compiled(regex).groupindex}
    signals = {name for s in load_signals() for p in s.match if p.regex for name in compiled(p.regex).groupindex}
    wanted = set().union(*(_fields(text) for text in (rule.title, rule.cause, *rule.fix, *rule.windows)))
    # What fills may add; a rule that wants more than its own captures must name a fill or give a default.
    names |= {name for kind in rule.on for name in load_kinds()[kind].values}
    if not rule.fill:
        bare = {name for text in (rule.cause,) for name in re.findall(r"\{(\w+)\}", text)}
        assert bare <= names | signals, f"{rule.key} never learns {bare - names - signals}"
    assert wanted is not None


def test_every_rule_has_a_sample() -> None:
    without = IDS - {sample.cause for sample in load_samples()}
    assert not without, f"no sample in tests/logs for: {sorted(without)}"


def test_no_word_crowds_ordinary_logs() -> None:
    """A word that stands everywhere costs time, and its real place could be lost among the others."""
    block = b"\n".join(embed("", "compile", seed, size=3000) for seed in (1, 6, 14)).replace(b"\x00", b"")
    owners: tuple[Any, ...] = (*RULES, *load_signals())
    words = {word for owner in owners for pattern in owner.match for word in pattern.words}
    ordered = sorted(words)
    counts = Counter(index for _, index in Words(ordered).find_all(block, 0, len(block)))
    per_megabyte = {ordered[index]: count * 1e6 / len(block) for index, count in counts.items()}
    assert {word: count for word, count in per_megabyte.items() if count > 60} == {}


def test_files_say_what_they_are_about() -> None:
    assert all(file.about for file in load_files().values())


def test_a_torch_without_a_toolkit_is_another_thing_than_a_build_without_one() -> None:
    """The same warning: in torch's own tree CUDA is switched off, against an installed torch configure stops."""
    warning = (
        "CMake Warning at {}:31 (message):\n  {}: CUDA cannot be found.  Depending on whether you are building {}\n"
    )
    error = "CMake Error at /e/torch/share/cmake/Caffe2/Caffe2Config.cmake:90 (message):\n  {}\n  {}\n"
    stop = ("Your installed Caffe2 version uses CUDA but I cannot find the CUDA", "libraries.  Please set the proper")
    installed = "/e/lib/python3.11/site-packages/torch/share/cmake/Caffe2/public/cuda.cmake"
    for name in ("Caffe2", "PyTorch"):
        own = warning.format("cmake/public/cuda.cmake", name, name)
        foreign = warning.format(installed, name, name)
        for text, cause in (
            (own, "cuda-not-found-disabled"),
            (own + "-- USE_CUDA : OFF\n", "cuda-not-found-disabled"),
            (foreign, "torch-wants-cuda-toolkit"),
            (foreign + error.format(*stop), "torch-wants-cuda-toolkit"),
            (error.format(*stop), "torch-wants-cuda-toolkit"),
            (error.format(" ".join(stop), "install CUDA."), "torch-wants-cuda-toolkit"),
        ):
            assert [match.id for match in diagnose([text.encode()]).matches] == [cause], text


@pytest.mark.parametrize(
    "log",
    [
        "Installed CUDA version 12.4 does not match the version torch was compiled with 12.1.",
        "Cuda extensions are being compiled with a version of Cuda that does not match the version used to compile "
        "Pytorch binaries.  Pytorch binaries were compiled with Cuda 12.1.",
    ],
)
def test_the_full_stop_of_a_sentence_is_no_part_of_the_version_to_install(log: str) -> None:
    match = diagnose([log.encode()]).matches[0]
    told = " ".join((match.title, match.cause, *match.fix))
    assert match.id == "cuda-version-mismatch" and "12.1" in told
    assert not re.search(r"12\.1\.(?:[);,.]| toolkit)", told), told
