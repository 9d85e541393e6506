"""A report for strangers holds what matters and nobody's name."""

from __future__ import annotations

from rekindle.explain.reading import HEAD_LINES, TAIL_LINES, make_report
from rekindle.host.redact import Redactor
from rekindle.model.diagnosis import Diagnosis, Match

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


def kept(text: str) -> list[int]:
    body = report(text).split("\n\n", 1)[1]
    return [int(line.split()[0]) for line in body.splitlines() if line.strip()]


def lines(count: int, **trouble: str) -> str:
    return "".join(trouble.get(f"at{number}", "fine") + "\n" for number in range(1, count + 1))


def test_forty_lines_of_the_beginning_and_two_hundred_of_the_end() -> None:
    assert kept(lines(1000)) == [*range(1, 41), *range(801, 1001)]
    assert kept(lines(30)) == list(range(1, 31))


def test_four_lines_around_trouble() -> None:
    assert kept(lines(1000, at500="error")) == [*range(1, 41), *range(496, 505), *range(801, 1001)]
    assert kept(lines(1000, at41="error")) == [*range(1, 46), *range(801, 1001)]
    assert kept(lines(1000, at20="error")) == [*range(1, 41), *range(801, 1001)]


def test_of_very_much_trouble_the_first_hundred_and_fifty() -> None:
    text = "fine\n" * 100 + "error\n" * 150 + "fine\n" * 100 + "error\n" + "fine\n" * 500
    assert kept(text) == [*range(1, 41), *range(97, 255), *range(652, 852)]
    one_less = text.replace("error\n", "fine\n", 1)
    assert kept(one_less) == [*range(1, 41), *range(98, 255), *range(347, 356), *range(652, 852)]


def test_long_lines_are_cut() -> None:
    body = report("x" * 399 + "yz\nnext\n" + "w" * 399 + "vu").split("\n\n", 1)[1]
    assert body == f"       1  {'x' * 399}y\n       2  next\n       3  {'w' * 399}v\n"
    huge = make_report([b"x" * 5000, b"y" * 5000 + b"\nnext"], Diagnosis(lines=2), REDACTOR)
    assert [len(line) for line in huge.split("\n\n", 1)[1].splitlines()] == [410, 14]


def test_the_head_of_a_report() -> None:
    match = Match(
        id="oom", confidence="high", title="t", stage="compile", cause="c", fix=(), line=7, evidence="e", source="s"
    )
    text = make_report([b"x\n"], Diagnosis(lines=1, matches=(match,)), REDACTOR, machine="a PC")
    assert text.split("\n\n")[0].splitlines()[1:] == ["lines: 1", "recognised: oom (line 7, high)", "machine: a PC"]
    assert report("x\n").split("\n\n")[0].splitlines()[1:] == ["lines: 1", "recognised: nothing"]
