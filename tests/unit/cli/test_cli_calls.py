"""What each verb calls with what was typed, which answers are a yes, and what is refused before anything is called."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_calls import Called, run
from rekindle import api
from rekindle.cli.verb import Answer
from rekindle.errors import BadInput
from rekindle.model.graft import GraftOptions

Typed = Callable[..., tuple[Answer, tuple[Any, ...], dict[str, Any]]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Type a line whose verb calls this function of the api, which answers with these fields."""

    def act(line: str, function: str, **fields: Any) -> tuple[Answer, tuple[Any, ...], dict[str, Any]]:
        called = Called(getattr(api, function), SimpleNamespace(**fields))
        monkeypatch.setattr(api, function, called)
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        return run(line), called.words, called.named

    return act


P = Path
CALLS: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    (
        "bundle w.whl --out o --library-path a --library-path b --archs '3.5;sm_86,' --exclude x --allow-missing",
        "bundle",
        (P("w.whl"),),
        {
            "out": P("o"),
            "library_path": ("a", "b"),
            "archs": ["3.5", "sm_86"],
            "exclude": ("x",),
            "allow_missing": True,
            "dry_run": False,
        },
    ),
    (
        "bundle w.whl --dry-run",
        "bundle",
        (P("w.whl"),),
        {"archs": [], "library_path": (), "exclude": (), "allow_missing": False, "dry_run": True},
    ),
    ("facts show cuda 12.4", "facts_show", ("cuda", "12.4"), {}),
    ("facts show", "facts_show", (None, None), {}),
    ("facts sources", "facts_sources", (), {}),
    ("farm join --slurm", "farm_slurm", (), {"nodes": 4, "cores": 8, "memory_gib": 16, "hours": 4}),
    (
        "farm join --slurm --nodes 2 --cores 3 --memory-gib 5 --hours 6",
        "farm_slurm",
        (),
        {"nodes": 2, "cores": 3, "memory_gib": 5, "hours": 6},
    ),
    (
        "graft apply a.whl b.graft --out o",
        "graft_apply",
        ("a.whl", "b.graft", GraftOptions(out=P("o"))),
        {},
    ),
    (
        "index add a.whl b.whl --root r --report x --proof p --no-inspect",
        "index_add",
        ("r", ["a.whl", "b.whl"]),
        {"report": "x", "proofs": ("p",), "look_inside": False},
    ),
    ("index add a.whl --root r", "index_add", ("r", ["a.whl"]), {"proofs": (), "look_inside": True}),
    (
        "index build --root r --sign k --days 7 --variants",
        "index_build",
        ("r",),
        {"sign": "k", "days": 7, "variants": True},
    ),
    ("index build --root r", "index_build", ("r",), {"days": 90, "variants": False}),
    ("index yank a.whl --root r --reason bad", "index_yank", ("r", "a.whl", "bad"), {}),
    ("index unyank a.whl --root r --reason bad", "index_yank", ("r", "a.whl", None), {}),
    ("index sync s3://b --root r --endpoint e", "index_sync", ("r", "s3://b"), {"endpoint": "e"}),
    ("index page", "index_page", (), {"root": None, "out": None}),
    ("index page --root r --out o/", "index_page", (), {"root": "r", "out": str(P("o/index.html"))}),
    ("key new", "key_new", ("rekindle",), {}),
    ("key new --name me", "key_new", ("me",), {}),
    ("key trust a.pub", "key_trust", (P("a.pub"),), {"name": None}),
    ("key sign a.whl", "key_sign", (P("a.whl"), "rekindle"), {}),
    ("key sign a.whl --name me", "key_sign", (P("a.whl"), "me"), {}),
    ("key list", "key_list", (), {}),
    ("list", "holdings", (), {}),
    (
        "matrix simulate t.toml",
        "matrix_simulate",
        (P("t.toml"),),
        {"workers": 200, "copies": 1, "failure_rate": 0.02, "seed": 1},
    ),
    ("matrix slurm --only a --trust", "matrix_slurm", (P("matrix.toml"),), {"only": ("a",), "cores": 8, "trust": True}),
    ("source rewrite-cmake --root r --dry-run", "rewrite_cmake", (P("r"),), {"floor": "3.5", "dry_run": True}),
    ("source rewrite-cmake --root r --minimum 3.10", "rewrite_cmake", (P("r"),), {"floor": "3.10", "dry_run": False}),
    ("explain --list", "explain_list", (), {}),
    ("explain --rule x", "explain_rule", ("x",), {}),
    ("guide", "guide", (None,), {}),
]


@pytest.mark.parametrize(("line", "function", "words", "named"), CALLS, ids=[line for line, *_ in CALLS])
def test_what_was_typed_arrives(
    line: str, function: str, words: tuple[Any, ...], named: dict[str, Any], typed: Typed
) -> None:
    answer, heard, keywords = typed(line, function)
    assert (heard, keywords) == (words, named) and answer.good


GOOD: list[tuple[str, str, dict[str, Any], bool]] = [
    ("facts check --torch 2.6.0", "facts_check", {"agrees": True, "drift": (), "new": ()}, True),
    ("facts check", "facts_check", {"agrees": False, "drift": (), "new": ()}, False),
    ("facts check", "facts_check", {"agrees": True, "drift": ("x",), "new": ()}, False),
    ("facts check", "facts_check", {"agrees": True, "drift": (), "new": ("x",)}, False),
    ("facts format --check", "facts_format", {"changed": ("x",)}, False),
    ("facts format --check", "facts_format", {"changed": ()}, True),
    ("facts format", "facts_format", {"changed": ("x",)}, True),
    ("farm up", "farm_up", {"worker": None}, True),
    ("farm up", "farm_up", {"worker": SimpleNamespace(state="ready")}, True),
    ("farm up", "farm_up", {"worker": SimpleNamespace(state="refused")}, False),
    ("farm status", "farm_status", {"works": False}, False),
    ("farm status", "farm_status", {"works": True}, True),
    ("farm down", "farm_down", {"left": ()}, True),
    ("farm down", "farm_down", {"left": ("x",)}, False),
    ("farm join", "farm_join", {"state": "ready"}, True),
    ("farm join", "farm_join", {"state": "refused"}, False),
    ("guard", "guard", {"good": False}, False),
    ("guard", "guard", {"good": True}, True),
    ("index check --root r", "index_check", {"good": False}, False),
    ("matrix plan", "matrix_plan", {"cells": ()}, False),
    ("matrix plan", "matrix_plan", {"cells": ("x",)}, True),
    ("matrix publish --wheelhouse w", "matrix_publish", {"added": ()}, False),
    ("matrix publish --wheelhouse w", "matrix_publish", {"added": ("x",)}, True),
    ("matrix propose a", "matrix_propose", {"unserved": ()}, True),
    ("matrix propose a", "matrix_propose", {"unserved": ("x",)}, False),
    ("matrix status", "matrix_status", {"good": False}, False),
    ("matrix cancel", "matrix_cancel", {"good": True}, True),
    ("matrix cell c --root r", "matrix_cell", {"stage": "built"}, True),
    ("matrix cell c --root r", "matrix_cell", {"stage": "proven"}, True),
    ("matrix cell c --root r", "matrix_cell", {"stage": "failed"}, False),
    ("pack check f", "pack_check", {"good": False}, False),
    ("rebuild f", "rebuild", {"verdict": "different"}, False),
    ("rebuild f", "rebuild", {"verdict": "identical"}, True),
    ("source fetch", "source_fetch", {"missing_submodules": ("x",)}, False),
    ("source fetch --no-submodules", "source_fetch", {"missing_submodules": ("x",)}, True),
    ("source fetch", "source_fetch", {"missing_submodules": ()}, True),
    ("verify --compare a b", "compare_verifications", {"worse": ("x",)}, False),
    ("verify --compare a b", "compare_verifications", {"worse": ()}, True),
    ("verify --records r", "review_records", {"good": False}, False),
    ("verify --claims w", "verify_claims", {"verdict": "proven"}, True),
    ("verify --claims w", "verify_claims", {"verdict": "not-proven"}, False),
    ("verify --claims w --unsigned", "verify_claims", {"verdict": "not-proven"}, True),
    ("verify --claims w --unsigned", "verify_claims", {"verdict": "failed"}, False),
    ("verify", "verify", {"good": False}, False),
    ("variant env", "variant_environment", {"variables": {}}, False),
    ("variant env", "variant_environment", {"variables": {"A": "1"}}, True),
    ("clean", "clean", {"kept": ("x",)}, False),
    ("clean", "clean", {"kept": ()}, True),
]


@pytest.mark.parametrize(("line", "function", "fields", "good"), GOOD)
def test_which_answers_are_a_yes(line: str, function: str, fields: dict[str, Any], good: bool, typed: Typed) -> None:
    assert bool(typed(line, function, **fields)[0].good) is good


def test_a_graft_is_done_where_something_came_of_it(typed: Typed) -> None:
    def grafted(counts: dict[str, int], line: str = "graft w.whl --gpu sm_120", **fields: Any) -> bool:
        given = {"out": None, "graft": None, "dry_run": False, "count": lambda name: counts.get(name, 0), **fields}
        return bool(typed(line, "graft", **given)[0].good)

    assert grafted({"refused": 1}, out=Path("x")) and grafted({"refused": 1}, graft=Path("x"))
    assert not grafted({"refused": 1}) and not grafted({"left-out": 1}) and grafted({})
    assert grafted({"planned": 1, "refused": 1}, dry_run=True) and not grafted({"planned": 1, "refused": 1})
    _, words, named = typed("graft make w.whl --gpu sm_120 --prove 3", "graft", out=Path("x"), count=lambda name: 0)
    assert words == ("w.whl", GraftOptions(only_file=True, prove=3)) and named == {"gpu": ["sm_120"]}
    assert not typed("graft w.whl --gpu sm_120", "graft", out=Path("x"), count=lambda name: 0)[1][1].only_file


@pytest.mark.parametrize(("runs", "good"), [((), False), ((False,), False), ((None,), False), ((False, True), True)])
def test_a_search_is_a_yes_where_a_wheel_runs(runs: tuple[bool | None, ...], good: bool, typed: Typed) -> None:
    matches = [SimpleNamespace(verdict=SimpleNamespace(runs=each)) for each in runs]
    answer, words, _ = typed("index search torch --root r --gpu sm_86 --os linux", "index_search", matches=matches)
    assert bool(answer.good) is good
    root, options = words
    assert (root, options.project, options.gpus, options.system) == ("r", "torch", ("sm_86",), "linux")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("graft apply a.whl", "takes a wheel and a graft file"),
        ("graft apply a b c", "takes a wheel and a graft file"),
        ("graft a b --gpu sm_86", "name one wheel"),
        ("graft make", "name one wheel"),
        ("graft a", "which card"),
        ("index build a.whl --root r", "takes no wheels"),
        ("index add a.whl", "which wheelhouse"),
        ("index add --root r", "which wheels"),
        ("index yank --root r", "one wheel's file name"),
        ("index unyank a b --root r", "one wheel's file name"),
        ("index sync --root r", "one place"),
        ("index sync a b --root r", "one place"),
        ("inspect", "name a wheel"),
        ("inspect a --diff b c", "no third"),
        ("inspect a --for this --gpu sm_86", "describes the whole machine"),
        ("key trust", "which file"),
        ("key sign", "which file"),
        ("key new x", "takes no file"),
        ("key list x", "takes no file"),
        ("pack", "where does the pack go"),
        ("pack check", "no such step"),
        ("pack check a b", "no such step"),
        ("pack look a", "no such step"),
        ("verify --sign k", "signs a record"),
        ("verify --wheel w --package p", "goes with an installed package"),
        ("verify --wheel w --with x", "companions of an installed torch"),
        ("verify --events e --with x", "companions of an installed torch"),
        ("verify --env NOVALUE", "--env NOVALUE: no NAME=VALUE"),
        ("plan --set novalue", "no NAME=VALUE"),
        ("plan --set 1a=2", "no NAME=VALUE"),
        ("plan --with ,", "names no package"),
        ("plan --machine x --gpu sm_86", "describes the whole machine"),
        ("plan --machine x --os linux", "describes the whole machine"),
        ("clean --older-than old", "no age"),
        ("explain --fix", "runs the command again"),
        ("help nothing", "no verb"),
        ("help plan more", "no step"),
        ("help matrix nothing", "no step"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_done(line: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        run(line)


@pytest.mark.parametrize(
    "line",
    [
        "matrix cell c",
        "matrix publish",
        "matrix",
        "farm",
        "source",
        "source save-patches",
        "source rewrite-cmake",
        "facts",
        "rebuild",
        "completion",
        "export",
        "matrix run --engine other",
        "verify --level none",
    ],
)
def test_what_must_be_said_is_asked_for(line: str) -> None:
    with pytest.raises(BadInput, match=r"required|invalid choice|one of the arguments"):
        run(line)


@pytest.mark.parametrize(("line", "write"), [("facts format a.toml --check", False), ("facts format a.toml", True)])
def test_facts_are_written_unless_they_are_only_checked(line: str, write: bool, typed: Typed) -> None:
    _, words, named = typed(line, "facts_format", changed=())
    assert words == ([Path("a.toml")],) and named == {"write": write}


def test_a_completion_is_plain_text() -> None:
    assert "rekindle" in run("completion bash").document.text


@pytest.mark.parametrize("verb", ["adopt folder", "up", "demo"])
@pytest.mark.parametrize("good", [True, False])
def test_a_journey_is_a_yes_where_it_arrived(verb: str, good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name = verb.split()[0]
    monkeypatch.setattr(api, name, Called(getattr(api, name), SimpleNamespace(good=good, arrived=good)))
    assert run(verb).good is good


@pytest.mark.parametrize(("text", "days"), [("12h", 0.5), ("30d", 30.0), ("8w", 56.0), ("2", 2.0), ("1.5 d", None)])
def test_an_age_is_read_in_hours_days_and_weeks(text: str, days: float | None, typed: Typed) -> None:
    if days is None:
        with pytest.raises(BadInput):
            typed(f"clean --older-than '{text}'", "clean", kept=())
    else:
        _, words, named = typed(f"clean build --all --dry-run --older-than {text}", "clean", kept=())
        assert words == (["build"],) and named["older_than_days"] == days
        assert named["everything"] and named["dry_run"]


def test_the_line_for_a_worker_is_read_from_standard_input_unless_it_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called = Called(api.farm_join, SimpleNamespace(state="ready"))
    monkeypatch.setattr(api, "farm_join", called)
    for line, given in (("farm join", "token"), ("farm join --ssh host", None)):
        monkeypatch.setattr("sys.stdin", io.StringIO(" token \nmore"))
        run(line)
        assert called.words == (given,)
    assert called.named["remote"] == "rekindle" and called.named["wait"] is False
