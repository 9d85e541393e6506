"""Whatever can be posted has passed the one redactor: forty kinds of secrets, in every kind of output."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from rekindle.host.capture import Record
from rekindle.host.redact import Redactor

ME = Redactor(user="mathilde", home="/home/mathilde", host="nebula7.corp.example")
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
# (the text, what must be gone). The tokens are invented.
KINDS = [
    (f"Authorization: Bearer {JWT}", JWT[:20]),
    (f"curl -H 'Bearer {JWT}'", JWT[:20]),
    (f"got {JWT} from server", JWT[:20]),
    ("Authorization: Basic bWF0aGlsZGU6aHVudGVyMg==", "bWF0aGls"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE", "wJalrX"),
    ("AWS_SESSION_TOKEN=IQoJb3JpZ2luX2VjEXAMPLE", "IQoJb3"),
    ("AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AKIAIOS"),
    ("temporary ASIAIOSFODNN7EXAMPLE", "ASIAIOS"),
    ("remote: ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16"),
    ("gho_16C7e42F292c6912E7710c838347Ae178B4a", "gho_16"),
    ("github_pat_11ABCDEFG0abcdefghij_KLMNOPQRSTUVWX", "github_pat_11"),
    ("glpat-abcdefghijklmnopqrst", "glpat-abc"),
    ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "hf_abc"),
    ("pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw", "pypi-AgEI"),
    ("xoxb-123456789012-123456789012-abcdefghijkl", "xoxb-123"),
    ("https://hooks.slack.com/services/T000/B000/XXXXXXXX", "T000"),
    ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "npm_abc"),
    ("sk-proj-aaaaaaaaaaaaaaaaaaaaaaaa", "sk-proj"),
    ("AIzaSyA-1234567890abcdefghijklmnopqrstuv", "AIzaSy"),
    ("Looking in indexes: https://bob:hunter2@pypi.corp.example/simple", "hunter2"),
    ("--index-url https://__token__:abc@host/simple", "abc@"),
    ("https://bob@host/path", "bob@"),
    ("GET /x?token=abcdef123&y=1", "abcdef123"),
    ("https://s3/x?X-Amz-Signature=fe5f80f77d5fa3beca038a248ff027d0", "fe5f80"),
    ("password: hunter2", "hunter2"),
    (r"{\"msg\": \"token=abc987xyz\"}", "abc987xyz"),
    ("PIP_PASSWORD='hunter2'", "hunter2"),
    ('{"api_key": "abc123def"}', "abc123def"),
    ("tool --password hunter2 --x", "hunter2"),
    ("machine pypi.example login bob password hunter2", "hunter2"),
    ("Cookie: session=abcdef", "abcdef"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----", "b3Blbn"),
    ("connect to 10.32.5.17 port 80", "10.32.5.17"),
    ("from 203.0.113.7: refused", "203.0.113.7"),
    ("at fe80::1ff:fe23:4567:890a%eth0", "fe80::1ff"),
    ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:0db8"),
    ("ether 02:42:ac:11:00:02", "02:42:ac"),
    ("in /home/mathilde/src", "mathilde"),
    (r"C:\Users\Mathilde\x", "Mathilde"),
    ("mathilde@nebula7:~$ ls", "nebula7"),
    ("built by mathilde on nebula7.corp.example", "nebula7"),
    ("mail a.person@corp.example now", "a.person"),
    ("Serial Number : 1652826071547", "16528260"),
    ("board serial: PF2ABCDE", "PF2ABCDE"),
    ("curl -u bob:hunter2 https://host/x", "hunter2"),
    ("curl --user 'bob:hunter2' https://host/x", "hunter2"),
    ("curl -ubob:hunter2 https://host/x", "hunter2"),
    ('{"auths": {"ghcr.io": {"auth": "Ym9iOmh1bnRlcjI="}}}', "Ym9iOmh1"),
    (r"{\"identitytoken\": \"abcdefgh1234\"}", "abcdefgh1234"),
    ("https://conda.anaconda.org/t/ab-12345678-90ab-cdef/channel/linux-64", "ab-12345678"),
    ("https://discord.com/api/webhooks/123456789012345678/abcDEF-ghi_JKL", "abcDEF"),
    ("MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", "ZnCjm1"),
    ("vault token hvs.CAESIJlU9JMYEhOPYv4igdhm9PnZDrabYTobQ4Ymnlq1qY", "CAESIJl"),
    ("using s.iyNUhq8Ov4hIAx6snw5mB2nL", "iyNUhq8"),
    ("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", "TwL2iG"),
    ("dapi0123456789abcdef0123456789abcdef", "dapi0123"),
    ("sshpass -p hunter2 ssh bob", "hunter2"),
    ("sshpass -v -phunter2 ssh bob", "hunter2"),
    ("GPU-73ab278d-1681-f7b4-3d79-f98f21f3d184", "73ab278d"),
]
KEPT = [
    "cuDNN 8.9.7.29 found", "libcudnn.so.8.9.7.29", "driver 535.183.01", "torch 2.3.1.post100", "c10::cuda::foo",
    "0000:01:00.0 VGA", "at::native::abs", "error: expected ';' before token", "127.0.0.1:8080", "12:34:56 build",
    "nvcc --version", "sm_86",
    "docker run -u 1000:1000 -v x", "src/t/tests/a.cpp", "python -u setup.py bdist_wheel",
    "Ninja>=1.13", "-DCMAKE_CXX_FLAGS=-O2", "unexpected token at line 3",
]  # fmt: skip


def test_there_are_forty_kinds() -> None:
    assert len(KINDS) >= 40


@pytest.mark.parametrize(("text", "secret"), KINDS)
def test_every_kind_is_gone_from_every_output(text: str, secret: str, tmp_path: Path) -> None:
    from rekindle.explain.reading import make_report
    from rekindle.model.diagnosis import Diagnosis

    assert secret not in ME.text(text)
    assert secret not in ME.text(f"[  1.00] {text}\nnext line")
    assert secret not in make_report([f"{text}\n".encode()], Diagnosis(lines=1), ME)
    record = ME.record(Record(machine="x86_64", files={"/etc/x": text.encode()}))
    assert secret.encode() not in (record.files["/etc/x"] or b"")
    name, found, value = text.partition("=")
    if found and name.isupper():
        assert secret not in ME.record(Record(machine="x86_64", env={name: value.strip("'")})).env[name]


@pytest.mark.parametrize("text", KEPT)
def test_what_helps_stays(text: str) -> None:
    assert ME.text(text) == text


def test_a_crash_report_tells_no_token_of_the_command_line() -> None:
    from rekindle.cli.main import write_crash_report

    argv = ["up", "--index", "https://bob:hunter2@host/simple", "--token", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"]
    path = write_crash_report(ValueError("AWS_SESSION_TOKEN=IQoJb3JpZ2lu"), argv)
    text = path.read_text(encoding="utf-8")
    path.unlink()
    for secret in ("hunter2", "ghp_16", "IQoJb3"):
        assert secret not in text
    assert "ValueError" in text


@pytest.mark.parametrize("line", ["a." * 50_000, "token" * 20_000, "-" * 100_000, "1." * 50_000, "a:" * 50_000])
def test_an_endless_line_comes_out_as_it_was(line: str) -> None:
    # Anything worse than linear would take minutes here.
    assert len(ME.text(line)) <= len(line)


# What a page leaves in: paths and names, since it holds commands to copy.
PERSONAL = ("mathilde", "Mathilde", "nebula7")


def test_no_secret_comes_onto_a_page(tmp_path: Path) -> None:
    from rekindle.build.report import write_report
    from rekindle.model.build import BuildFailure, BuildResult
    from rekindle.model.journey import Journey, Leg
    from rekindle.model.matrix import Attempt, CellRow, CellState, MatrixStatus
    from rekindle.model.plan import Plan
    from rekindle.render.pages import render_journey_html, render_matrix_html

    kinds = [(text, secret) for text, secret in KINDS if secret not in PERSONAL]
    texts = tuple(text for text, _ in kinds)
    named = dict(text.split("=", 1) for text in texts if text.partition("=")[0].isupper())
    text, plan = "\n".join(texts), Plan(answer="build")
    failure = BuildFailure(project="torch", phase="compile", message=text, command=text, error=texts)
    legs = (Leg(name="build", status="failed", detail=text),)
    journey = Journey(
        goal="x", arrived=False, verdict=text, workspace="/w", legs=legs, machine=text, plan=plan, failure=failure
    )
    pages = [render_journey_html(journey)]
    tries = (Attempt(number=1, started=0.0, host="h", failure="compile", message=text),)
    state = CellState(id="c", stage="failed", attempts=tries, diagnosis=text)
    row = CellRow(cell="c", name="torch-2.6.0-py3.11", state=state, rebuild=True, because=text)
    pages.append(render_matrix_html(MatrixStatus(root="/m", rows=(row,))))
    settings = {name: value.strip("'") for name, value in named.items()}
    result = BuildResult(
        project="torch", wheel="", wheel_sha256="", plan_digest="", plan=plan, environment=settings, notes=texts
    )
    write_report(tmp_path / "r.html", result, tmp_path, [], None)
    pages.append((tmp_path / "r.html").read_text(encoding="utf-8"))
    for page in map(html.unescape, pages):
        assert [secret for _, secret in kinds if secret in page] == []


def test_a_page_keeps_what_is_compared_and_copied() -> None:
    from rekindle.host.redact import without_secrets

    for text in ("a" * 64, "source /home/mathilde/env/bin/activate", *KEPT):
        assert without_secrets(text) == text
