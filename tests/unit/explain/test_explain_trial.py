"""A rule that is written wrongly is told by name; a rule that lost is told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.explain.events import Event
from rekindle.explain.ranking import Finding, load_opposites
from rekindle.explain.rule import RuleFile, load_rules, read_file
from rekindle.explain.trial import MAX_TRIAL_BYTES, lost_to, try_rules
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


TWO_LINES = RULE.replace("unless = 'not a fault' }", "before = 1, lines = 2 }").replace(
    "reel of batch (?P<batch>\\d+) is jammed", "above reel of batch (?P<batch>\\d+) is jammed below"
)


def test_the_text_around_a_word_is_as_wide_as_the_pattern_says(tmp_path: Path) -> None:
    fits = "other\nabove\nreel of batch 7 is jammed\nbelow\nmore\n"
    assert tried(tmp_path, TWO_LINES, fits).outcome == "won"
    apart = tried(tmp_path, TWO_LINES, fits.replace("above", "not it").replace("below", "and this"))
    shown = next(step for step in apart.steps if "does not match" in step)
    assert shown.endswith(": not it reel of batch 7 is jammed and this")


def test_of_a_huge_log_so_much_is_looked_at() -> None:
    assert MAX_TRIAL_BYTES == 67_108_864


def test_a_word_at_the_very_beginning_is_found(tmp_path: Path) -> None:
    trial = tried(tmp_path, RULE, "reel of batch x")
    assert any("'reel of batch' stands in line 1" in step for step in trial.steps)


def test_long_texts_are_cut_and_others_are_not(tmp_path: Path) -> None:
    exact = "reel of batch " + "x" * 146
    assert any(step.endswith(f": {exact}") for step in tried(tmp_path, RULE, exact).steps)
    longer = tried(tmp_path, RULE, f"{exact}y")
    assert any(step.endswith(f": {exact}…") for step in longer.steps)


def test_only_the_signals_that_matter_and_the_first_events_are_told(tmp_path: Path) -> None:
    windows = "[WinError 126] The specified module\n"
    assert not [
        step for step in tried(tmp_path, RULE + 'needs = ["windows"]', windows + FAULT).steps if "signal" in step
    ]
    assert not [step for step in tried(tmp_path, RULE + 'forbids = ["windows"]', FAULT).steps if "signal" in step]
    text = RULE.replace("match =", "on = [\"missing-header\"]\nwhere = { header = '^cute/' }\nmatch =")
    log = "".join(f"a.cpp:{n}:1: fatal error: boost/a{n}.hpp: No such file or directory\n" for n in range(1, 9))
    steps = [
        step for step in tried(tmp_path, text, f"{log}RuntimeError: CUDA out of memory\n").steps if "header is" in step
    ]
    assert len(steps) == 4 and "'boost/a1.hpp'" in steps[0]


def test_a_condition_is_told_only_where_the_rule_fired(tmp_path: Path) -> None:
    trial = tried(tmp_path, RULE + 'when = ["card-between"]', "all is well")
    assert not [step for step in trial.steps if "condition" in step]
    yes = tried(tmp_path, RULE + 'when = ["machine-is-arm"]', FAULT + "\nuname: aarch64")
    assert yes.outcome == "won" and not [step for step in yes.steps if "condition" in step]


def test_the_winner_is_the_first_and_an_answer_that_excludes_is_named() -> None:
    log = b"UserWarning: x\nRuntimeError: CUDA error: out of memory\n"
    lost = try_rules("gpu-error", [log]).trials
    assert all(trial.winner in (None, "cuda-out-of-memory") for trial in lost)
    rules = [rule for rule in load_rules() if not rule.general]
    rule = next(rule for rule in rules if any(one == rule.id for one, _ in load_opposites()))
    other = min(other for one, other in load_opposites() if one == rule.id)
    finding = Finding(rule=rule, event=_event(), count=1, confidence="high", rank=50)
    rival = Finding(
        rule=next(each for each in load_rules() if each.id == other),
        event=_event(),
        count=1,
        confidence="high",
        rank=60,
    )
    beside = Finding(
        rule=next(each for each in load_rules() if each.id == "disk-full"),
        event=_event(),
        count=1,
        confidence="high",
        rank=70,
    )
    assert list(lost_to(finding, None, [beside, rival])) == [
        f"left out: {rival.rule.key} excludes it (explain/opposites.toml)"
    ]
    assert list(lost_to(finding, None, [beside])) == []
    assert "disk-full" in next(iter(lost_to(rival, 2, [beside, rival])))
    general = Finding(
        rule=next(each for each in load_rules() if each.general), event=_event(), count=1, confidence="low", rank=40
    )
    assert "it is general" in next(iter(lost_to(general, None, [beside])))


def _event() -> Event:
    return Event(line=3, values={}, evidence="", text="", around="", after="")


def test_a_wrong_expression_is_told_with_its_rule_and_a_file_by_the_name_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for right, wrong in (("(?P<batch>", "(?P<batch"), ("not a fault", "(not")):
        with pytest.raises(BadInput, match=r"^rule reel-jammed: the regular expression .* is wrong: "):
            tried(tmp_path, RULE.replace(right, wrong), "all is well")
    monkeypatch.chdir(tmp_path)
    written(tmp_path, RULE.replace("rank = 60", "rank = 600"))
    with pytest.raises(BadInput, match=r"^mine\.toml cannot be used: rule reel-jammed in rank"):
        try_rules("mine.toml", [b"x"])
