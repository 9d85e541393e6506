"""Short ways to ask one rule one question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from rekindle.compat import Name
from rekindle.facts import load_facts
from rekindle.model.facts import Flavour
from rekindle.model.machine import Toolkit
from rekindle.model.plan import BuildRecipe, Plan, Refusal, Wish
from rekindle.plan.assess import assess
from rekindle.plan.candidates import Candidate
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import Question
from rekindle.plan.recipe import decide_build
from rekindle.plan.rules import RULES
from rekindle.plan.solve import make_plan

FACTS = load_facts()
MACHINE_FLAGS = ("cpu", "os", "distro", "glibc", "arch", "driver", "memory")
ASKED = ("cuda", "rocm", "cudnn", "compiler", "python")


def ask(*gpu: str, disk: float | None = None, swap: float | None = None, **flags: Any) -> Question:
    """A machine by its flags and a wish, as the command line would make them."""
    machine_flags = {name: value for name, value in flags.items() if name in (*MACHINE_FLAGS, *ASKED)}
    machine = machine_from_flags(FACTS, gpu=gpu, **machine_flags)
    machine = msgspec.structs.replace(machine, disk_free_gib=disk, swap_gib=swap)
    wish = {name: value for name, value in flags.items() if name not in MACHINE_FLAGS}
    return Question(machine, Wish(**wish), FACTS)


def plan(*gpu: str, **flags: Any) -> Plan:
    question = ask(*gpu, **flags)
    return make_plan(question.machine, question.wish, FACTS)


def wheel(torch: str, name: str) -> Candidate:
    flavour = next(row for row in FACTS.flavours(torch) if row.name == name)
    backend: Name = "cuda" if flavour.cuda else "rocm" if flavour.rocm else "cpu"
    return Candidate("install", torch, backend, flavour, flavour.cuda, flavour.rocm, "3.10")


def changed(candidate: Candidate, **values: Any) -> Candidate:
    """The same wheel with some facts of its flavour changed."""
    assert isinstance(candidate.flavour, Flavour)
    return replace(candidate, flavour=msgspec.structs.replace(candidate.flavour, **values))


def build(torch: str, *, cuda: str | None = None, rocm: str | None = None, **more: Any) -> Candidate:
    backend: Name = "cuda" if cuda else "rocm" if rocm else "cpu"
    values = {"python": "3.10", **more}
    return Candidate(answer="build", torch=torch, backend=backend, cuda=cuda, rocm=rocm, **values)


def recipe_of(candidate: Candidate, question: Question) -> BuildRecipe:
    """The recipe of a build, judged for a question."""
    return decide_build(assess(candidate, question), question).recipe


def said(number: str, candidate: Candidate, question: Question) -> list[Refusal]:
    """What one rule has against a candidate."""
    found = RULES[number]
    return list(found.check(candidate, question)) if candidate.answer in found.applies else []


def with_machine(question: Question, **values: Any) -> Question:
    """The same question about a machine that differs in these values."""
    return Question(msgspec.structs.replace(question.machine, **values), question.wish, question.facts)


def kits(question: Question, *rows: tuple[str, str | None, str | None]) -> Question:
    """The same question about a machine that has these toolkits."""
    return with_machine(question, toolkits=tuple(Toolkit(kind=k, version=v, path=p) for k, v, p in rows))
