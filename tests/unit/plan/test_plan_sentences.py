"""Every sentence of the planner is said somewhere, and whoever says it gives all that it names."""

from __future__ import annotations

import ast
import string
from pathlib import Path

import pytest

import rekindle.plan
from rekindle.plan.candidates import Candidate
from rekindle.plan.rules import Sentence, load_sentences, refuse, say

_ROOM = Path(rekindle.plan.__file__).parent
_OWN = {"source", "handled", "remedy", "rule", "change", "departure"}
# Names that are put together where they are said: by the answer of the C library's judge, by what was asked for.
_COMPOSED = ("glibc-too-old", "libc-musl", "torch-not-", "variant-not-", "cuda-not-", "rocm-not-")


def _calls() -> list[tuple[str, ast.Call]]:
    found = []
    for path in sorted(_ROOM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "refuse"):
                found.append((f"{path.name}:{node.lineno}", node))
    return found


def _named(call: ast.Call) -> list[str]:
    """The sentences that a call may mean: the one it names, or all that begin as its composed name does."""
    first = call.args[0]
    if isinstance(first, ast.Constant):
        return [str(first.value)]
    if isinstance(first, ast.JoinedStr) and isinstance(first.values[0], ast.Constant):
        return [name for name in load_sentences() if name.startswith(str(first.values[0].value))]
    return []


def _fields(sentence: Sentence) -> set[str]:
    texts = (sentence.text, sentence.what if sentence.what != "{c.name}" else "", sentence.remedy or "")
    names = [name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name]
    return {name.split(".")[0].split("[")[0] for name in names}


@pytest.mark.parametrize(("place", "call"), _calls(), ids=lambda each: each if isinstance(each, str) else "")
def test_who_says_a_sentence_gives_all_that_it_names(place: str, call: ast.Call) -> None:
    assert call.args, place
    given = {keyword.arg for keyword in call.keywords if keyword.arg} - _OWN | ({"c"} if len(call.args) > 1 else set())
    for name in _named(call):
        sentence = load_sentences()[name]
        wanted = _fields(sentence)
        assert wanted <= given, f"{place}: {name} names {sorted(wanted - given)}"


def test_every_sentence_is_said() -> None:
    text = "".join(path.read_text("utf-8") for path in _ROOM.rglob("*.py"))
    said = {name for _, call in _calls() for name in _named(call)}
    unsaid = [name for name in load_sentences() if name not in said and f'"{name}"' not in text]
    assert [name for name in unsaid if not name.startswith(_COMPOSED)] == []


def test_a_sentence_is_filled_in_with_its_code_its_remedy_and_its_change() -> None:
    one = Candidate(answer="build", torch="2.6.0", backend="cuda", cuda="12.4")
    no = refuse("jetpack-bound", one, sm="sm_72", offered="11.4", change=("cuda", "11.4", "12.4"))
    assert (no.code, no.what, no.certain, no.remedy) == ("jetpack-bound", "CUDA 12.4", True, None)
    assert no.change is not None and no.change.why == no.reason and "(sm_72) offers CUDA 11.4, not 12.4" in no.reason
    assert no.source is not None and no.source.startswith("https://developer.nvidia.com/")
    doubt = refuse("disk-small", one, need=20.0, have=3.25, source="here", rule="R502", remedy="buy one")
    assert (doubt.what, doubt.certain, doubt.source, doubt.rule) == (one.name, False, "here", "R502")
    assert doubt.reason == "it takes about 20 GiB of disk, and 3.2 GiB are free." and doubt.remedy == "buy one"
    said = say("kepler/wheel", card="K40c", last="8.7", branch=470, handled=True)
    assert said.code == "kepler" and said.handled and said.text.startswith("K40c is Kepler: cuDNN 8.7 is the last")
    assert say("kepler", card="K40c", last="8.7", branch=470, source="here").source == "here"
