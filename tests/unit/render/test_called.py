"""Commands are printed as Rekindle was called; what sentences say of it stays."""

import pytest

from rekindle.cli.main import main
from rekindle.render.screen import CALLED_AS, commands_as_called


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rekindle up --yes", "./rekindle up --yes"),
        ("did you mean 'rekindle plan'?", "did you mean './rekindle plan'?"),
        (
            "first `rekindle --help`, then rekindle VERB --help",
            "first `./rekindle --help`, then ./rekindle VERB --help",
        ),
        ("Rekindle is not there", "Rekindle is not there"),
        ("this is a bug in rekindle (KeyError)", "this is a bug in rekindle (KeyError)"),
        ("python -m rekindle up", "python -m rekindle up"),
        ("./rekindle up, ~/rekindle up, .\\rekindle up", "./rekindle up, ~/rekindle up, .\\rekindle up"),
        ("pip install rekindle-torch", "pip install rekindle-torch"),
        ("rekindled up", "rekindled up"),
    ],
)
def test_commands_alone_take_the_name(text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CALLED_AS, raising=False)
    assert commands_as_called(text) == text
    monkeypatch.setenv(CALLED_AS, "./rekindle")
    assert commands_as_called(text) == shown


def test_errors_and_help_name_it_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(CALLED_AS, "./rekindle")
    assert main(["graft"]) == 2
    assert "→ ./rekindle graft --help" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", "--help"])
    out = capsys.readouterr().out
    assert out.startswith("usage: ./rekindle plan ") and "\n  ./rekindle plan --gpu" in out
    assert " rekindle plan" not in out


def test_a_guide_is_for_pasting_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(CALLED_AS, "./rekindle")
    assert main(["guide"]) == main(["guide", "amd"]) == 0
    out = capsys.readouterr().out
    assert "\n  ./rekindle guide kepler" in out and "\n  ./rekindle plan --gpu" in out
    assert " rekindle " not in out
