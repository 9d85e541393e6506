"""What a plan is told of the sources it would build from, of records that people shared, and of machines in files."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rekindle import api
from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput
from rekindle.model.document import encode
from rekindle.model.machine import Examination, Ready
from rekindle.model.plan import Plan, Wish
from rekindle.plan.describe import machine_from_flags
from rekindle.source.tree import MARKS

planning: Any = importlib.import_module("rekindle.api.plan_torch")
CARD = machine_from_flags(gpu=["RTX 3060"], os="linux", arch="x86_64", driver="570.86")


def torch_tree(root: Path, version: str) -> Path:
    for name in MARKS["torch"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{version}\n", encoding="utf-8")
    return root


def test_the_place_of_the_sources_is_one_of_three_words_or_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    places = [planning._inputs_for(CARD, Wish(origin=word)).origin for word in (None, "git", "tarball", "debian", "x")]
    assert places == ["git", "git", "tarball", "debian", str(tmp_path / "x")]
    told = planning._inputs_for(CARD, Wish(), arch_list=("8.6",), taken="2.6.0")
    assert (told.arch_list, told.taken) == (("8.6",), "2.6.0")
    bare = planning._inputs_for(CARD, Wish())
    assert (bare.arch_list, bare.taken) == ((), None)


def test_only_what_a_tree_lacks_is_told_to_come_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parties(origin: str | None, release: str) -> list[str]:
        return [part.name for part in planning._inputs_for(CARD, Wish(origin=origin)).third_parties(release, "12.4")]

    assert parties(None, "2.6.0") == parties("git", "2.6.0") == parties("tarball", "2.6.0") == []
    rows = [part.name for part in parts_for("2.6.0", cuda="12.4", processor="x86_64")]
    for stripped in (True, False):
        package = SimpleNamespace(stripped=stripped)
        monkeypatch.setattr("rekindle.source.origins.debian_package", lambda project, release, p=package: p)
        assert parties("debian", "2.6.0") == (rows if stripped else []) and rows
    tree = torch_tree(tmp_path / "tree", "2.6.0")
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr("rekindle.source.supply.survey", lambda root, version: (root, version))

    def without(*told: Any) -> Any:
        asked.append(told)
        return told[1]

    monkeypatch.setattr("rekindle.source.supply.without_submodules", without)
    assert parties(str(tree), "2.6.0") == rows
    assert asked[0][0] == (tree, "2.6.0")
    with pytest.raises(BadInput, match=r"2\.6"):
        parties(str(tree), "2.7.0")


def test_records_are_asked_about_the_cards_whose_chip_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], object, str]] = []

    def speak(made: Plan, archs: list[str], weighed: object, place: str) -> Plan:
        asked.append((archs, weighed, place))
        return made

    monkeypatch.setattr("rekindle.compat.proofs.speak_of_plan", speak)
    monkeypatch.setattr("rekindle.api.proofs.weighed_from", lambda place: f"weighed {place}")
    unknown = replace(CARD.gpus[0], arch=None)
    api.plan(replace(CARD, gpus=(*CARD.gpus, unknown)), Wish(python="3.12"), wheelhouses=(), proofs=["/a", "/b"])
    assert asked == [(["sm_86"], "weighed /a", "/a"), (["sm_86"], "weighed /b", "/b")]


def test_a_machine_comes_from_its_file_an_examination_or_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    examined = Examination(os=CARD.os, gpus=CARD.gpus, ready=Ready(build=True, use=True))
    for document in (CARD, examined):
        file.write_bytes(encode(document))
        machine, wish = api.find_machine(str(file))
        assert (machine.gpus, machine.os, wish) == (CARD.gpus, CARD.os, Wish())
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(BadInput):
        api.find_machine(str(file))
    assert api.find_machine("k40c-windows")[0].os.system == "windows"
    with pytest.raises(BadInput):
        api.find_machine("no-such-profile")


def test_this_machine_is_planned_for_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "this_machine", lambda: CARD)
    wish = Wish(python="3.12")
    assert api.plan(wish=wish, wheelhouses=(), proofs=()) == api.plan(CARD, wish, wheelhouses=(), proofs=())
    assert api.choose_torch(wish=wish, wheelhouses=()) == api.choose_torch(CARD, wish, wheelhouses=())


def test_for_the_cpu_alone_the_python_that_was_wished_for_counts() -> None:
    new, old = (planning.pip_without_card(CARD, Wish(python=python)) for python in ("3.12", "3.7"))
    assert new[0][0].startswith("torch==") and old[0][0].startswith("torch==1.") and new != old
    assert planning.pip_without_card(CARD, None)[0][0].startswith("torch==2.")


def test_thousands_of_plans_are_those_of_one_at_a_time() -> None:
    asked = [(CARD, Wish(python=python)) for python in ("3.11", "3.12")]
    memory: dict[Any, Any] = {}
    for kept in (None, memory, memory):
        made = list(planning.plan_many(asked, kept))
        assert [(one.torch, one.python, one.requests) for one in made] == [
            (one.torch, one.python, one.requests)
            for one in (api.plan(*each, wheelhouses=(), proofs=()) for each in asked)
        ]
    assert memory, "what was found serves further calls"


def test_a_build_is_judged_without_wheels_and_for_more_than_the_own_cards() -> None:
    made = planning.plan_build(CARD, Wish(torch="2.6.0", python="3.12"))
    more = planning.plan_build(CARD, Wish(torch="2.6.0", python="3.12"), arch_list=("6.1", "8.6"))
    assert made.answer == more.answer == "build" and made.arch_list == ("8.6",) and more.arch_list == ("6.1", "8.6")
