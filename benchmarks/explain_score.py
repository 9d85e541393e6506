"""How well does ``explain`` do on logs it was not made from? And how certain may it be?

    python benchmarks/explain_score.py             fit, half against half, leave one family out, precision of "high"
    python benchmarks/explain_score.py --write     count again which rules were proven by confirmed cases (proven.toml)

*Half against half*: the cases are parted in two by their names. Only rules that answer a case of one half first, and
the general ones, are kept, and the other half is scored: what one half alone teaches is worth this much on the other.
*Leave one family out*: all specific rules of a family (a file in ``rules/``) are taken away, and the cases that
family answers are scored with the rest: what typed events, tables and general answers are worth without any sentence.
*Precision*: which rules may be certain is counted on four fifths of the cases and checked on the last fifth.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from rekindle.explain.engine import diagnose, scene_of  # noqa: E402
from rekindle.explain.ranking import Finding, findings  # noqa: E402
from rekindle.explain.rule import PROVEN, Proof, Rule, load_files, load_rules  # noqa: E402
from rekindle.host.files import write_atomically  # noqa: E402
from rekindle.model.diagnosis import Match  # noqa: E402
from samples import load_samples  # noqa: E402
from scoring import Case, Mentions, load_cases, score_mentions  # noqa: E402

FOLDS = 5
# Fewer were wrong in four of thirteen certain answers on logs never seen.
ENOUGH = 5


def explainer(
    rules: tuple[Rule, ...] | None = None, proofs: dict[str, Proof] | None = None
) -> Callable[[str], tuple[Match, ...]]:
    return lambda text: diagnose([text.encode("utf-8", "replace")], rules=rules, proofs=proofs).matches


def half_against_half(cases: list[Case]) -> Iterable[tuple[str, Mentions]]:
    halves = [[case for case in cases if zlib.crc32(case.name.encode()) % 2 == side] for side in (0, 1)]
    for known, asked, name in ((halves[0], halves[1], "first"), (halves[1], halves[0], "second")):
        used = {matches[0].id for case in known if (matches := explainer()(case.text)) and case.is_right(matches[0])}
        rules = tuple(rule for rule in load_rules() if rule.general or rule.id in used)
        yield f"only what the {name} half knows", score_mentions(asked, explainer(rules))


def without_family(cases: list[Case]) -> Iterable[tuple[str, Mentions]]:
    family = {rule.key: name for name, file in load_files().items() for rule in file.rule}
    by_id = {rule.id: family[rule.key] for rule in load_rules() if not rule.general}
    asked: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if matches := explainer()(case.text):
            asked[by_id.get(matches[0].id, "classes")].append(case)
    for name, some in sorted(asked.items()):
        if name == "classes":
            continue
        rules = tuple(rule for rule in load_rules() if rule.general or family[rule.key] != name)
        yield f"without {name}", score_mentions(some, explainer(rules))


def count_proofs(cases: Iterable[Case]) -> dict[str, Proof]:
    """How often each rule was first on a confirmed case, how often it was right then, and by which words often
    enough (in logs of the same kind of place)."""
    right: dict[str, int] = defaultdict(int)
    wrong: dict[str, int] = defaultdict(int)
    ways: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        first, place = first_finding(case.text)
        matches = explainer(proofs={})(case.text)
        if first and matches:
            is_right = bool(case.groups) and case.is_right(matches[0])
            (right if is_right else wrong)[first.rule.id] += 1
            if is_right:
                ways[first.rule.id][first.event.way + place] += 1
    names = sorted({*right, *wrong})
    often = {name: sorted(way for way, times in ways[name].items() if times >= ENOUGH) for name in names}
    return {name: Proof(right=right[name], wrong=wrong[name], ways=tuple(often[name])) for name in names}


def first_finding(text: str) -> tuple[Finding | None, str]:
    """What stands behind the first answer (the rule and the words that made it fire), and where the log comes from."""
    scene = scene_of([text.encode("utf-8", "replace")])
    return next(iter(findings({rule.key: rule for rule in load_rules()}, scene, {})), None), scene.place


def confirmed() -> list[Case]:
    """Cases from other people's threads, and samples with a source that were not doubtful there."""
    samples = [
        Case(sample.name, sample.text, ((f'"{sample.cause}"',),))
        for sample in load_samples()
        if ("/issues/" in sample.url or "discuss" in sample.url) and not sample.doubtful
    ]
    return load_cases() + samples


def precision(cases: list[Case]) -> tuple[int, int, int]:
    certain = right = total = 0
    for fold in range(FOLDS):
        train = [case for case in cases if zlib.crc32(case.name.encode()) % FOLDS != fold]
        test = [case for case in cases if zlib.crc32(case.name.encode()) % FOLDS == fold]
        proofs = count_proofs(train)
        for case in test:
            matches = explainer(proofs=proofs)(case.text)
            total += 1
            if matches and matches[0].confidence == "high":
                certain += 1
                right += bool(case.groups) and case.is_right(matches[0])
    return certain, right, total


def write(proofs: dict[str, Proof]) -> None:
    lines = [
        "# Which rules answered confirmed cases first, and how often rightly (benchmarks/explain_score.py --write)."
    ]
    for name, proof in proofs.items():
        lines += ["", f'[rule."{name}"]', f"right = {proof.right}", f"wrong = {proof.wrong}"]
        if proof.ways:
            lines += ["ways = [", *(f"  {json.dumps(way, ensure_ascii=False)}," for way in proof.ways), "]"]
    write_atomically(PROVEN, "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="count proven.toml again")
    if parser.parse_args().write:
        write(count_proofs(confirmed()))
        print(f"{PROVEN.relative_to(ROOT)} written")
        return
    cases = load_cases()
    print(f"fit: {score_mentions(cases)}")
    for name, result in (*half_against_half(cases), *without_family(cases)):
        print(f"{name}: {result}")
    certain, right, total = precision(confirmed())
    print(f"unseen fifths: certain in {certain} of {total}, right in {right} ({100 * right / max(1, certain):.1f} %)")


if __name__ == "__main__":
    main()
