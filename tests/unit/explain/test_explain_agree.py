"""The answers to one log agree: with each other, and with what the log says of its machine."""

from __future__ import annotations

import re

import pytest

from rekindle.explain.engine import diagnose
from rekindle.explain.ranking import excludes, load_opposites
from rekindle.explain.rule import load_rules
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.version import compare
from samples import load_long, load_samples
from scoring import load_cases

ALTERNATIVES = {rule.id: set(rule.alternatives) for rule in load_rules()}
SENTENCE = re.compile(r"(?<=[.;])\s+")
# What only one system has; a sentence that names the system itself speaks of several.
LINUX_ONLY = re.compile(r"(?<!on Linux: )\b(?:apt(?:-get)? install|dnf install|sudo |ulimit\b|update-initramfs)")
WINDOWS_ONLY = re.compile(r"^(?:On Windows\b|Windows:)")
NO_MAC = re.compile(r"download\.pytorch\.org/whl/cu1|\bapt(?:-get)? install|NVIDIA driver")
# Advice with a version, and the fact it must go beyond.
NEWER = (
    (re.compile(r"CUDA (?:toolkit )?(\d+\.\d+) or newer"), "CUDA toolkit"),
    (re.compile(r"CMake (\d+\.\d+)(?:\.\d+)? or newer"), "CMake"),
)
SAME = ((re.compile(r"--python (3\.\d+)"), "python"), (re.compile(r"\bg(?:cc|\+\+)-(\d+)\b"), "gcc"))


def quarrels(found: Diagnosis) -> list[str]:
    """Pairs of answers that exclude each other, and sentences that the facts of the log belie."""
    ids = [match.id for match in found.matches]
    bad = [
        f"{better} and {worse}"
        for at, better in enumerate(ids)
        for worse in ids[at + 1 :]
        if excludes(better, worse) and not any(worse in ALTERNATIVES.get(other, ()) for other in ids[: at + 1])
    ]
    return bad + [f"{match.id}: {said}" for match in found.matches for said in belied(match, found.facts)]


def belied(match: Match, facts: dict[str, str]) -> list[str]:
    system = facts.get("system", "")
    bad = []
    for said in (sentence for text in (match.cause, *match.fix) for sentence in SENTENCE.split(text)):
        if said.startswith("The log says: "):
            continue  # a quotation is no advice
        if "Windows" not in said and system == "windows" and LINUX_ONLY.search(said):
            bad.append(said)
        if system not in ("", "windows") and WINDOWS_ONLY.search(said):
            bad.append(said)
        if system == "macos" and NO_MAC.search(said) and "Mac" not in said:
            bad.append(said)
        bad += [said for pattern, name in NEWER for want in pattern.findall(said) if is_reached(facts.get(name), want)]
        bad += [said for pattern, name in SAME for want in pattern.findall(said) if is_same(facts.get(name), want)]
    return bad


def is_reached(have: str | None, want: str) -> bool:
    return have is not None and compare(have, want) >= 0


def is_same(have: str | None, want: str) -> bool:
    return have is not None and have.split(".")[: want.count(".") + 1] == want.split(".")


def test_no_log_is_answered_with_a_contradiction() -> None:
    texts = {case.name: case.text for case in (*load_cases(), *load_cases("written.jsonl"))}
    texts |= {f"{sample.cause} {sample.name}": sample.text for sample in (*load_samples(), *load_long())}
    bad = {name: found for name, text in texts.items() if (found := quarrels(diagnose([text.encode()])))}
    assert not bad, "\n".join(f"{name}: {found}" for name, found in bad.items())


def test_opposites_are_rules_and_exclude_both_ways() -> None:
    known = {rule.id for rule in load_rules()}
    assert {answer for answer, _ in load_opposites()} <= known
    for answer, other in load_opposites():
        assert answer != other
        assert excludes(other, answer)


@pytest.mark.parametrize(
    ("log", "first", "never"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(\"Failed to establish a"
            " new connection: [Errno -3] Temporary failure in name resolution\")': /whl/cu126/torch/\n"
            "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)\n",
            "network-name",
            "python-unsupported",
        ),
        (
            "[0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied\n"
            "[0] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-7 (size 4460544)\n",
            "nccl-shm-permission",
            "shm-too-small",
        ),
    ],
)
def test_the_better_of_two_opposites_is_given_alone(log: str, first: str, never: str) -> None:
    ids = [match.id for match in diagnose([log.encode()]).matches]
    assert ids[0] == first
    assert never not in ids


def test_the_check_itself_sees_a_contradiction() -> None:
    found = diagnose([b"nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"])
    other = diagnose([b"nvcc fatal   : Unsupported gpu architecture 'compute_30'\n"])
    both = Diagnosis(matches=(*found.matches, *other.matches), lines=1, facts={"CUDA toolkit": "13.0"})
    said = quarrels(both)
    assert "unsupported-gpu-architecture-new and unsupported-gpu-architecture-old" in said
    assert any("12.8 or newer" in line for line in said)
