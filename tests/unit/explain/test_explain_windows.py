"""Whoever has a Windows log is told nothing that only another system has."""

from __future__ import annotations

import re

import pytest

from rekindle import api
from rekindle.explain.rule import load_rules
from samples import Sample, load_samples

# Commands, variables and places that Windows does not have.
ELSEWHERE = re.compile(
    r"\bapt(-get|-file)?\b|\bsudo\b|\bdnf\b|\bexport [A-Z]|\bulimit\b|\bdmesg\b|\bldd\b|\bldconfig\b|LD_LIBRARY_PATH"
    r"|\bbash\b|\brm -|\bchmod\b|\bchown\b|\bmodprobe\b|\$\(|\$[A-Z]|~/|/usr/|/opt/|/dev/"
)


def test_no_rule_speaks_to_windows_in_anothers_words() -> None:
    spoken = [rule for rule in load_rules() if rule.windows]
    assert len(spoken) > 30
    for rule in spoken:
        assert not [step for step in rule.windows if ELSEWHERE.search(step)], rule.id
        assert rule.windows != rule.fix, rule.id


@pytest.mark.parametrize("sample", load_samples(), ids=lambda sample: sample.name)
def test_every_log_of_windows_gets_an_answer_for_windows(sample: Sample) -> None:
    found = api.explain(sample.text)
    if found.facts.get("system") == "windows":
        for match in found.matches:
            assert not [step for step in match.fix if ELSEWHERE.search(step)], match.id


def test_the_same_words_from_two_systems() -> None:
    error = "\nPermissionError: [Errno 13] Permission denied: '{}'\n"
    linux = api.explain(error.format("/home/user/env/lib/python3.11/site-packages/torch"))
    windows = api.explain(error.format("C:\\\\Users\\\\user\\\\env\\\\Lib\\\\site-packages\\\\torch"))
    assert linux.matches[0].id == windows.matches[0].id
    assert any("chown" in step or "venv ~" in step for step in linux.matches[0].fix), linux.matches[0].fix
    assert not any(ELSEWHERE.search(step) for step in windows.matches[0].fix), windows.matches[0].fix
