"""Where the planned index does not answer, lines are told that take a torch from where one is."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from rekindle import api
from rekindle.cli import up
from rekindle.cli.main import verb_parser
from rekindle.errors import StageFailed
from rekindle.inspect.published import Places
from rekindle.interpreters.installer import Installer
from rekindle.journey import card
from rekindle.journey.resolve import _refusal
from rekindle.model.journey import UpOptions
from rekindle.model.machine import Machine, Python
from rekindle.model.plan import Request
from tiny_wheels import make_wheel


@pytest.fixture
def machine() -> Machine:
    described = api.machine_from_flags(gpu=["none"], os="linux", arch="x86_64")
    return msgspec.structs.replace(described, pythons=(Python(version="3.11.7", path="/usr/bin/python3.11"),))


def _wheel(folder: Path, version: str, tag: str) -> None:
    make_wheel(folder, "torch", version, tag=tag)


def test_a_wheel_that_lies_here_is_told_with_a_line_the_parser_takes(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my wheels"
    _wheel(folder, "2.13.0+cpu", "cp311-cp311-manylinux_2_28_x86_64")
    _wheel(folder, "2.14.0+cpu", "cp312-cp312-manylinux_2_28_x86_64")  # no such Python here
    _wheel(folder, "2.14.1+cpu", "cp311-cp311-win_amd64")
    _wheel(folder, "2.12.0+odd", "cp311-cp311-manylinux_2_28_x86_64")
    monkeypatch.setattr(card, "pip_places", lambda: Places())
    (line,) = card.reachable_ways(machine, UpOptions(find_links=(str(folder),), offline=True))
    words = shlex.split(line)
    assert words[0] == "rekindle" and "--offline" in words and str(folder) in words
    given = verb_parser("up", up).parse_args(words[2:])
    assert (given.torch, given.variant, given.python) == ("2.13.0", "cpu", "3.11")


def test_nothing_is_told_where_nothing_is(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "pip_places", lambda: Places(links=(str(tmp_path),)))
    assert card.reachable_ways(machine, UpOptions(offline=True)) == ()


def test_pips_own_index_is_told_with_the_flavour_that_it_has(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "simple" / "torch"
    _wheel(page, "2.13.0", "cp311-cp311-manylinux_2_28_x86_64")
    names = "".join(f'<a href="{file.name}">{file.name}</a>' for file in page.glob("*.whl"))
    (page / "index.html").write_text(names, encoding="utf-8")
    monkeypatch.setattr(card, "pip_places", lambda: Places(indexes=((tmp_path / "simple").as_uri(),)))
    big = "rekindle up --torch 2.13.0 --variant cu130 --python 3.11"
    assert card.reachable_ways(machine, UpOptions()) == (big,)
    # A smaller one that lies here is all that is told, unless there is a card for the other.
    _wheel(tmp_path / "here", "2.13.0+cpu", "cp311-cp311-manylinux_2_28_x86_64")
    options = UpOptions(find_links=(str(tmp_path / "here"),))
    (small,) = card.reachable_ways(machine, options)
    assert "--variant cpu " in small
    with_card = msgspec.structs.replace(machine, gpus=api.machine_from_flags(gpu=["RTX 4090"]).gpus, no_gpu=None)
    assert big in card.reachable_ways(with_card, options)


def test_offline_an_index_is_not_said_to_lack_what_it_was_not_asked_for() -> None:
    said = (
        "ERROR: Could not find a version that satisfies the requirement torch==2.15.0+cpu (from versions: 2.13.0+cpu)\n"
        "ERROR: No matching distribution found for torch==2.15.0+cpu\n"
    )
    request = Request(name="torch", version="2.15.0+cpu", index="https://example.org/whl/cpu")
    refused = _refusal([request], said, "python", Installer(offline=True))
    assert isinstance(refused, StageFailed)
    assert refused.message == "torch 2.15.0+cpu is not among the wheels that are here (torch 2.13.0+cpu is)"
    assert "example.org" in _refusal([request], said, "python", Installer()).message


def test_a_wheel_that_the_tables_do_not_know_is_passed_over(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _wheel(tmp_path, "99.0.0+cpu", "cp311-cp311-manylinux_2_28_x86_64")
    monkeypatch.setattr(card, "pip_places", lambda: Places())
    options = UpOptions(find_links=(str(tmp_path),), offline=True)
    assert card.reachable_ways(machine, options) == ()
    _wheel(tmp_path, "2.13.0+cpu", "cp311-cp311-manylinux_2_28_x86_64")
    (line,) = card.reachable_ways(machine, options)
    assert "--torch 2.13.0 " in line


def test_the_first_place_that_does_not_answer_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def why(place: str) -> str | None:
        asked.append(place)
        return f"refused by {place}" if "10.1.2.3" in place else None

    monkeypatch.setattr(card, "why_unreachable", why)
    good, bad = "https://example.org/whl", "https://bob:hunter2@10.1.2.3/simple"
    assert card.look_for_network([good, good]) is None and asked == [good], "each is asked once"
    said = card.look_for_network([good, bad, "https://another.example"])
    assert said == ("https://redacted@10.1.2.3/simple does not answer: refused by https://redacted@10.1.2.3/simple")
    assert asked[-1] == bad and card.look_for_network([]) is None
