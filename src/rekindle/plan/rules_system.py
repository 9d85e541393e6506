"""R3xx and R4xx: Python, glibc, and platforms."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.libc import flavour_libc, libc_runs
from rekindle.model.plan import Change, Refusal
from rekindle.model.version import key
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


def python_key(version: str) -> tuple[int, ...]:
    return key(version)


def pythons_of(candidate: Candidate, question: Question) -> tuple[str, ...]:
    """The Pythons a candidate can serve: those of the wheels, or those the sources were built for."""
    release = question.facts.release(candidate.torch)
    assert release is not None
    platform = question.platform
    if candidate.flavour is not None:
        return candidate.flavour.pythons.get(platform) or release.pythons.get(platform, ())
    here = release.pythons.get(platform)
    if here is None or question.tegra:
        everywhere = {version for versions in release.pythons.values() for version in versions}
        here = tuple(sorted(everywhere, key=python_key))
    return tuple(version for version in here if not version.endswith("t") or version == question.wish.python)


def span(versions: tuple[str, ...]) -> str:
    plain = [version for version in versions if not version.endswith("t")]
    return plain[0] if len(plain) == 1 else f"{plain[0]} to {plain[-1]}" if plain else "none"


def same_python(asked: str, version: str) -> bool:
    return asked.endswith("t") == version.endswith("t") and key(asked)[:2] == key(version)[:2]


@rule("R301")
def python_is_served(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """There is a wheel for the asked Python, or the sources know it."""
    asked = question.wish.python
    if asked is None:
        return
    known = pythons_of(candidate, question)
    if any(same_python(asked, version) for version in known):
        return
    what = "wheels" if candidate.answer == "install" else "sources"
    name = candidate.name if candidate.answer == "install" else f"torch {candidate.torch}"
    where = {"windows": " on Windows", "linux_aarch64": " on aarch64"}.get(question.platform, "")
    yield Refusal(
        rule="R301",
        code="python-has-no-wheel" if candidate.answer == "install" else "python-not-in-source",
        what=f"Python {asked}",
        reason=f"the {what} of {name} are for Python {span(known)}{where}, not for Python {asked}.",
        remedy=f"use Python {candidate.python}, or another torch",
        source=f"https://pypi.org/project/torch/{candidate.torch}/#files",
        change=Change(
            what="python", from_=asked, to=candidate.python, why=f"torch {candidate.torch} is for Python {span(known)}"
        )
        if candidate.python
        else None,
    )


@rule("R302")
def some_python_is_served(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """There is any Python at all for this platform."""
    if candidate.python is None:
        yield Refusal(
            rule="R302",
            code="no-python",
            what=candidate.name,
            reason=f"{candidate.name} has no wheel for any Python on {question.platform}.",
            source=f"https://pypi.org/project/torch/{candidate.torch}/#files",
        )


@rule("R401", "install")
def glibc_is_new_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The C library is as new as the wheel's manylinux tag wants."""
    assert candidate.flavour is not None
    need = flavour_libc(candidate.flavour, candidate.torch, question.platform, question.facts)
    answer = libc_runs(need, question.libc)
    if answer.kind == "no":
        yield Refusal(
            rule="R401",
            code=answer.code,
            what=candidate.name,
            reason=f"The wheel {candidate.name.removeprefix('torch ')} {answer.text}.",
            remedy="an older torch, a container, or a newer distribution",
            source=answer.source,
        )
