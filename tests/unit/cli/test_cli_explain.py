"""The verb: exit codes, JSON, pages, reports."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from rekindle.cli.explain import _source
from rekindle.cli.main import main
from rekindle.errors import BadInput

ERROR = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"


def test_a_text_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", ERROR]) == 0
    assert "compute_120" in capsys.readouterr().out


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--json", ERROR]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["matches"][0]["id"] == "unsupported-gpu-architecture-new"
    assert set(document["matches"][0]) >= {"id", "confidence", "cause", "fix", "line", "evidence", "source"}


def test_nothing_known_is_exit_one_and_offers_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "all is well"]) == 1
    assert "--save-report" in capsys.readouterr().out
    assert main(["explain", "--json", "all is well"]) == 1
    assert json.loads(capsys.readouterr().out)["matches"] == []


def test_a_file_and_a_pipe_give_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "Bau mit Ümlaut.log"
    log.write_text(f"a\nb\n{ERROR}\n", encoding="utf-8")
    assert main(["explain", "--json", str(log)]) == 0
    from_file = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
    assert main(["explain", "--json", "-"]) == 0
    assert capsys.readouterr().out == from_file


def test_a_pipe_that_is_needed_twice_is_held_up_to_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.cli.explain.MAX_PIPE_BYTES", len(ERROR))
    for extra, code in ((b"", 0), (b"x", 2)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ERROR.encode() + extra)))
        assert main(["explain", "-", "--save-report", str(tmp_path / "report.txt")]) == code
    assert "save it to a file" in capsys.readouterr().err


@pytest.mark.parametrize(("length", "named"), [(1023, True), (1024, False)])
def test_a_long_text_is_no_name_of_a_file(length: int, named: bool) -> None:
    text = "a/" * (length // 2) + "a" * (length % 2)
    if named:
        with pytest.raises(BadInput, match="there is no file"):
            _source([text], twice=False)
    else:
        assert _source([text], twice=False) == text


def test_a_missing_file_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["explain", str(tmp_path / "no.log")]) == 2
    assert main(["explain", str(tmp_path)]) == 2
    monkeypatch.setattr("sys.stdin", None)  # nothing is piped in
    assert main(["explain"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_report_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.txt"
    assert main(["explain", "unheard-of error in /home/gertrud/x", "--save-report", str(target)]) == 1
    assert "gertrud" not in target.read_text(encoding="utf-8")


def test_a_torch_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", "--torch", str(tmp_path / "torch"), "--", ERROR]) == 2
    assert "there is no" in capsys.readouterr().err


def test_list_and_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--list"]) == 0
    assert "glibcxx-not-found" in capsys.readouterr().out
    assert main(["explain", "--rule", "glibcxx-not-found", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"][0]["id"] == "glibcxx-not-found"
    assert main(["explain", "--rule", "nonsense"]) == 2
