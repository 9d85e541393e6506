"""A rule that is written wrongly is told by name; a rule that lost is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.explain.rule import RuleFile, read_file
from rekindle.explain.trial import try_rules
from rekindle.model.diagnosis import RuleTrial

RULE = """
[[rule]]
id = "reel-jammed"
title = "The reel is jammed"
stage = "runtime"
rank = 60
match = [{ has = ["reel of batch"], regex = 'reel of batch (?P<batch>\\d+) is jammed', unless = 'not a fault' }]
cause = "The reel of batch {batch} is jammed."
fix = ["Turn it."]
source = "https://example.org"
"""
FAULT = "ValueError: the reel of batch 7 is jammed"


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ('stage = "running"', 'stage = "runtime"', "allowed: source, configure, compile, link, install, import, run"),
        ("rank = 100", "rank = 60", "rule reel-jammed in rank: Expected `int` <= 99"),
        ("rank = 0", "rank = 60", "rule reel-jammed in rank: Expected `int` >= 1"),
        ('has = ["ree"]', 'has = ["reel of batch"]', "the word 'ree' in has is too short to look for: 4 bytes"),
        ("has = []", 'has = ["reel of batch"]', "has names no word"),
        ("lines = 9, has", "has", "rule reel-jammed in match[0].lines: Expected `int` <= 8"),
        ("before = 9, has", "has", "rule reel-jammed in match[0].before: Expected `int` <= 8"),
        ("hsa = 1, has", "has", "allowed: has, regex, unless, lines, before"),
        ('titel = "x"\ntitle', "title", "allowed: id, title, stage, cause"),
        ('variant = "b"\nrank = 0', "rank = 60", "rule reel-jammed/b in rank"),
    ],
)
def test_a_wrong_rule_is_told_with_its_name_and_what_is_allowed(
    tmp_path: Path, wrong: str, right: str, said: str
) -> None:
    path = written(tmp_path, RULE.replace(right, wrong, 1))
    with pytest.raises(BadInput) as caught:
        read_file(path, "trial-test", RuleFile)
    assert "mine.toml cannot be used: rule reel-jammed" in str(caught.value)
    assert said in str(caught.value)


def test_what_is_no_toml_is_told_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"mine\.toml cannot be used: "):
        read_file(written(tmp_path, "[[rule"), "trial-test", RuleFile)


def tried(folder: Path, text: str, log: str) -> RuleTrial:
    return try_rules(str(written(folder, text)), [log.encode()]).trials[0]


def test_the_words_of_four_bytes_and_the_ranks_at_both_ends_are_allowed(tmp_path: Path) -> None:
    for rank in (1, 99):
        text = RULE.replace("rank = 60", f"rank = {rank}").replace('"reel of batch"', '"reel"')
        assert tried(tmp_path, text, FAULT).outcome == "won"


def test_a_rule_that_wins_says_where_and_how_sure(tmp_path: Path) -> None:
    trial = tried(tmp_path, RULE, FAULT)
    assert (trial.outcome, trial.place, trial.winner) == ("won", 1, "reel-jammed")
    assert any("fired 1 times, first in line 1" in step for step in trial.steps)
    assert any("no confirmed case" in step for step in trial.steps)
    assert any("ends with rank 60, confidence medium" in step for step in trial.steps)


@pytest.mark.parametrize(
    ("log", "text", "said"),
    [
        ("all is well", RULE, "none of its words stands in the log: 'reel of batch'"),
        ("\nthe reel of batch x is jammed", RULE, "'reel of batch' stands in line 2"),
        ("the reel of batch x is jammed", RULE, "does not match"),
        ("the reel of batch 7 is jammed: not a fault", RULE, "'unless' matches there: not a fault"),
        (FAULT, RULE + 'needs = ["windows"]', "it needs the signal windows"),
        (
            "[WinError 126] The specified module\n" + FAULT,
            RULE + 'forbids = ["windows"]',
            "it forbids the signal windows",
        ),
        (FAULT, RULE + 'when = ["card-between"]', "the condition card-between is answered with no"),
        ("Python 3.10.2\n" + FAULT, RULE + 'requires = { python = ">=3.12" }', "contradicts what it takes for granted"),
        ("all is well", RULE.replace("match =", 'on = ["missing-header"]\nmatch ='), "holds no event missing-header"),
    ],
)
def test_a_rule_that_did_not_fire_says_why(tmp_path: Path, log: str, text: str, said: str) -> None:
    trial = tried(tmp_path, text, log)
    assert (trial.outcome, trial.place) == ("did not fire", None)
    assert any(said in step for step in trial.steps), trial.steps


def test_an_event_that_does_not_fit_is_told(tmp_path: Path) -> None:
    text = RULE.replace("match =", "on = [\"missing-header\"]\nwhere = { header = '^cute/' }\nmatch =")
    log = "a.cpp:1:10: fatal error: {}: No such file or directory"
    lost = tried(tmp_path, text, log.format("boost/any.hpp"))
    assert any("header is 'boost/any.hpp'" in step for step in lost.steps), lost.steps
    fits = tried(tmp_path, text, log.format("cute/x.hpp"))
    assert any("the event fits" in step for step in fits.steps), fits.steps


def test_a_rule_that_lost_names_the_winner_and_what_lowered_it(tmp_path: Path) -> None:
    log = f"UserWarning: {FAULT}\nRuntimeError: CUDA error: out of memory\n"
    trial = tried(tmp_path, RULE, log)
    assert (trial.outcome, trial.place) == ("lost", 2)
    assert any("a Python warning: rank -16" in step for step in trial.steps)
    assert any("stands first with rank" in step for step in trial.steps)
    assert trial.winner == "cuda-out-of-memory"


def test_a_rule_that_another_explains_or_excludes_is_told_so() -> None:
    general = try_rules("plain-error", [b"RuntimeError: CUDA error: out of memory\nsomething failed\n"]).trials[0]
    assert general.outcome in ("lost", "did not fire")
    variants = try_rules("gpu-too-old", [b"all is well"]).trials
    assert {trial.rule.split("/")[0] for trial in variants} == {"gpu-too-old"}


@pytest.mark.parametrize("field", ["on", "when", "fill", "needs", "forbids"])
def test_a_name_that_does_not_exist_is_told_with_those_that_do(tmp_path: Path, field: str) -> None:
    with pytest.raises(BadInput, match=f"reel-jammed: {field} names nonsense") as caught:
        tried(tmp_path, RULE + f'{field} = ["nonsense"]', FAULT)
    assert "allowed: " in str(caught.value.remedy)


def test_an_unknown_rule_is_answered_with_its_neighbours_and_a_missing_file_by_name() -> None:
    with pytest.raises(BadInput, match="no diagnosis 'gpu-to-old'"):
        api.explain_try("gpu-to-old", "x")
    with pytest.raises(BadInput, match=r"there is no file rules-of-mine\.toml"):
        api.explain_try("rules-of-mine.toml", "x")


def test_the_command_line_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, RULE)
    assert main(["explain", "--try", str(path), FAULT]) == 0
    assert "reel-jammed: won" in capsys.readouterr().out
    assert main(["explain", "--try", str(path), "all is well with it"]) == 1
    assert "reel-jammed: did not fire" in capsys.readouterr().out
