"""Scores the planner on real situations: each case's machine and wish, and what a right answer must satisfy.

Usable from a test and from a shell: ``python tests/plans/score.py [FILE]`` prints the misses and the score.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rekindle import api
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.document import encode
from rekindle.model.plan import Plan, Wish
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.solve import make_plan

WISHED = ("torch", "variant", "cuda", "rocm", "cudnn", "compiler", "python", "serve")
CASES = Path(__file__).with_name("cases.jsonl")


def load_cases(path: Path = CASES) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def answer(ask: dict[str, Any], *, by_name: bool = False) -> Plan:
    """The plan for a case; GPUs by architecture, or by product name where the case has one."""
    facts = load_facts()
    names = ask.get("gpu") if by_name or ask.get("gpu") == "none" else ask.get("gpu_arch")
    names = names or ask.get("gpu_arch") or ask.get("gpu") or []
    gpu = [names] if isinstance(names, str) else names
    keys = ("cpu", "os", "distro", "glibc", "arch", "driver", "cuda", "rocm", "cudnn", "compiler", "python")
    given = {name: ask[name] for name in keys if name in ask}
    machine = machine_from_flags(facts, gpu=gpu, memory=ask.get("memory_gib"), **given)
    wish = Wish(**{name: ask[name] for name in WISHED if name in ask})
    wish = Wish(**{**_fields(wish), "build": ask.get("build", False), "companions": tuple(ask.get("with", ()))})
    if wish.companions or "for" in ask:
        return api.plan(machine, wish, wheelhouses=[], app=ask.get("for"), proofs=[])
    return make_plan(machine, wish, facts)


def _fields(wish: Wish) -> dict[str, Any]:
    return {name: getattr(wish, name) for name in wish.__struct_fields__}


def misses(case: dict[str, Any], plan: Plan) -> list[str]:
    """What of the expectation the plan does not satisfy."""
    expect, found = case["expect"], []
    document = json.loads(encode(plan))
    text = encode(plan).decode().lower()
    if expect.get("as_asked") is not None and plan.as_asked != expect["as_asked"]:
        found.append(f"as_asked is {plan.as_asked}")
    if expect.get("kind_any") and plan.answer not in expect["kind_any"]:
        found.append(f"answer is {plan.answer}, not {expect['kind_any']}")
    for axis in ("torch", "cuda", "rocm", "python"):
        if expect.get(axis) and not _some(document, axis, expect[axis]):
            found.append(f"{axis} {expect[axis]} not met by {document.get(axis)}")
    for axis, spec in (expect.get("main") or {}).items():
        value = document.get(axis)
        same = value == spec if axis == "variant" else value is not None and _in(value, spec)
        if not same:
            found.append(f"{axis} is {value}, not {spec}")
    for words in expect.get("must_mention") or []:
        if not any(word.lower() in text for word in words):
            found.append(f"none of {words} is mentioned")
    for name, answers in (expect.get("companions") or {}).items():
        said = next((one.answer for one in plan.companions if one.name == name), None)
        if said not in answers:
            found.append(f"{name} is {said}, not {answers}")
    if expect.get("any_of") and not any(_holds(document, option) for option in expect["any_of"]):
        found.append(f"none of {expect['any_of']} holds")
    return found


def _some(document: dict[str, Any], axis: str, spec: str) -> bool:
    values = [document.get(axis), *(other.get(axis) for other in document["alternatives"])]
    return any(value is not None and _in(value, spec) for value in values)


def _in(value: str, spec: str) -> bool:
    number = value.lstrip("<>=")
    return Version(number.rstrip("t")) in SpecifierSet(spec)


def _holds(document: dict[str, Any], option: dict[str, str]) -> bool:
    for axis, spec in option.items():
        if axis == "kind":
            kinds = [document["answer"], *(other["answer"] for other in document["alternatives"])]
            if spec not in kinds:
                return False
        elif axis == "compiler":
            compiler = (document.get("build") or {}).get("compiler") or ""
            kind, _, limit = spec.partition("<")
            if not compiler.startswith(kind) or not _in(compiler.partition("-")[2], "<" + limit):
                return False
        elif axis in ("driver", "cudnn"):
            changes = [change["to"] for change in document["changes"] if change["what"] == axis]
            values = [*changes, document.get(axis), *(other.get(axis) for other in document["alternatives"])]
            if not any(value and _in(value, spec) for value in values):
                return False
        elif not _some(document, axis, spec):
            return False
    return True


def main() -> int:
    cases = load_cases(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES)
    good: dict[str, int] = {}
    total: dict[str, int] = {}
    for case in cases:
        level = case.get("confidence", "high")
        total[level] = total.get(level, 0) + 1
        try:
            wrong = misses(case, answer(case["ask"]))
        except BadInput as error:
            wrong = [f"refused: {error.message}"]
        if wrong:
            print(f"{case['id']} ({level}) {json.dumps(case['ask'], ensure_ascii=False)}")
            for line in wrong:
                print(f"    {line}")
        else:
            good[level] = good.get(level, 0) + 1
    for level, count in total.items():
        print(f"{level}: {good.get(level, 0)} of {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
