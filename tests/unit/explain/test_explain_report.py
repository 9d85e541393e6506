"""A report for strangers holds what matters and nobody's name."""

from __future__ import annotations

from rekindle.explain.report import HEAD_LINES, TAIL_LINES, make_report
from rekindle.host.redact import Redactor
from rekindle.model.diagnosis import Diagnosis

REDACTOR = Redactor(user="mathilde", home="/home/mathilde", host="nebula7")


def report(text: str) -> str:
    return make_report([text.encode()], Diagnosis(lines=text.count("\n")), REDACTOR)


def test_people_machines_and_secrets_are_taken_out() -> None:
    text = report(
        "mathilde@nebula7:~$ python train.py\n"
        "Traceback in /home/mathilde/secret-project/run.py\n"
        "C:\\Users\\Mathilde\\x failed\n"
        "fetching https://bob:hunter2@pypi.corp.example/simple from 10.32.5.17\n"
        "HF token: hf_abcdefghijklmnopqrstuvwx\n"
        "API_KEY=sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa\n"
        "mail mathilde@corp.example\n"
    )
    for word in ("mathilde", "Mathilde", "nebula7", "hunter2", "10.32.5.17", "hf_abc", "sk-proj", "corp.example>"):
        assert word not in text


def test_versions_stay() -> None:
    assert "driver 535.183.01 and torch 2.3.1.post100" in report("driver 535.183.01 and torch 2.3.1.post100\n")


def test_beginning_trouble_and_end_are_kept_and_the_rest_is_not() -> None:
    lines = [f"line {n}" for n in range(5000)]
    lines[2500] = "x.cu: error: something new"
    text = report("\n".join(lines))
    assert "line 3\n" in text and "error: something new" in text and "line 2498" in text and "line 4999" in text
    assert "line 1200" not in text
    assert len(text.splitlines()) < HEAD_LINES + TAIL_LINES + 20


def test_a_report_is_bounded_whatever_the_log() -> None:
    assert len(report("error " * 3_000_000)) < 10_000
    assert len(report("error: again\n" * 200_000)) < 100_000
