"""Questions: who is asked, what is shown before, and what counts as a yes."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli_calls import Called, run, session
from rekindle import api
from rekindle.cli import adopt, inspect, pack, up
from rekindle.cli.verb import add_arguments, after_a_yes, show_then_ask
from rekindle.errors import NeedsInvitation, Untrusted
from rekindle.model.holdings import Holding


class Terminal(io.StringIO):
    """Somebody sits before it, or nobody does."""

    def __init__(self, text: str, *, person: bool = True) -> None:
        super().__init__(text)
        self.person = person

    def isatty(self) -> bool:
        return self.person


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is typed, or (person=False) piped in; standard error is kept."""

    def act(text: str, *, person: bool = True) -> io.StringIO:
        said = io.StringIO()
        monkeypatch.setattr("sys.stdin", Terminal(text, person=person))
        monkeypatch.setattr("sys.stderr", said)
        return said

    return act


@pytest.mark.parametrize(
    ("text", "yes"), [("y\n", True), ("Yes \n", True), ("n\n", False), ("\n", False), ("", False), ("yeah\n", False)]
)
def test_only_a_plain_yes_is_one(text: str, yes: bool, answers: Any) -> None:
    said = answers(text)
    asking = session()
    assert asking.can_ask() and asking.confirm("Go on?") is yes and asking.declined is not yes
    assert said.getvalue() == "Go on? [y/N] "


def test_without_a_terminal_nothing_is_asked_and_only_the_option_is_a_yes(answers: Any) -> None:
    said = answers("y\n", person=False)
    assert not session().can_ask() and session().confirm("Go on?") is False and not session().declined
    assert session(yes=True).confirm("Go on?") is True and said.getvalue() == ""
    answers("n\n")
    assert not session(yes=True).can_ask() and session(yes=True).confirm("Go on?") is True


@pytest.mark.parametrize(
    ("options", "text", "person", "shown", "good"),
    [
        ({}, "y\n", True, True, True),
        ({}, "n\n", True, True, False),
        ({"quiet": True}, "y\n", True, True, True),
        ({"yes": True}, "", False, True, True),
        ({"yes": True, "quiet": True}, "", False, False, True),
        ({}, "y\n", False, False, False),
    ],
)
def test_what_is_about_to_be_done_is_shown_to_whoever_reads_it(
    options: dict[str, bool], text: str, person: bool, shown: bool, good: bool, answers: Any
) -> None:
    said = answers(text, person=person)
    asking = session(color="never", **options)
    assert show_then_ask(asking, lambda screen: screen.line("the card"), "Go on?") is good
    assert ("the card" in said.getvalue()) is shown


def test_a_strangers_plan_is_shown_and_built_after_a_yes(answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.render.build.render_foreign", lambda account, screen: screen.line(f"it {account}"))
    trusted: list[bool] = []

    def call(trust: bool) -> str:
        trusted.append(trust)
        if not trust:
            raise Untrusted("not made here", "runs programs")
        return "built"

    said = answers("y\n")
    assert after_a_yes(session(), "Build it?", call) == "built" and trusted == [False, True]
    assert "it runs programs" in said.getvalue()
    for text, person in (("n\n", True), ("y\n", False)):
        answers(text, person=person)
        with pytest.raises(Untrusted):
            after_a_yes(session(), "Build it?", call)
    assert trusted == [False, True, False, False]
    assert after_a_yes(session(), "Build it?", lambda trust: trust) is False, "what is ours needs no yes"


def confirmed(monkeypatch: pytest.MonkeyPatch, module: Any, place: object, name: str, *words: str) -> Any:
    """The question that a verb hands on, taken from the call of its journey."""
    held: list[Any] = []

    def call(*words: Any, confirm: Any, progress: object) -> Any:
        held.append(confirm)
        return SimpleNamespace(good=True, arrived=True)

    monkeypatch.setattr(place, name, call)
    module.run(session(**typed(module, *words), color="never"))
    return held[0]


def typed(module: Any, *words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_arguments(parser, module.__name__.rpartition(".")[2])
    return vars(parser.parse_args(words))


def test_reading_much_over_a_network_is_asked_about_only_where_somebody_can_answer(
    answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "holds_wheels", lambda target: False)
    held: list[Any] = []

    def inspected(target: str, options: object, *, confirm: Any, progress: object) -> Any:
        held.append(confirm)
        return SimpleNamespace(verdict=None)

    monkeypatch.setattr(api, "inspect", inspected)
    inspect.run(session(**typed(inspect, "torch==2.6.0")))
    for text, person, yes in (("y\n", True, True), ("n\n", True, False), ("n\n", False, True)):
        said = answers(text, person=person)
        assert held[0]("torch", 5 << 20) is yes
        assert ("torch is read over the network, up to" in said.getvalue()) is person


@pytest.mark.parametrize("person", [True, False])
def test_what_would_be_removed_is_shown_to_whoever_is_asked(
    person: bool, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = Called(api.clean, SimpleNamespace(kept=()))
    monkeypatch.setattr(api, "clean", called)
    run("clean")
    said = answers("y\n", person=person)
    gone = Holding(kind="logs", name="old logs", path="/l", bytes=3_000_000, age_seconds=5)
    assert called.named["confirm"]([gone, gone]) is person
    assert said.getvalue().count("old logs") == (2 if person else 0)
    assert ("Remove these (6.0 MB)?" in said.getvalue()) is person


@pytest.mark.parametrize("person", [True, False])
def test_the_line_for_a_worker_is_asked_for_where_none_was_given(
    person: bool, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str | None] = []

    class Join(Called):
        def __call__(self, *words: Any, **named: Any) -> object:
            given.append(words[0])
            if words[0] is None:
                raise NeedsInvitation("which farm?")
            return SimpleNamespace(state="joined")

    monkeypatch.setattr(api, "farm_join", Join(api.farm_join, None))
    monkeypatch.setattr("getpass.getpass", lambda prompt: "token")
    answers("", person=person)
    if person:
        assert run("farm join").good and given == [None, "token"]
    else:
        with pytest.raises(NeedsInvitation):
            run("farm join")
        assert given == [None]


@pytest.mark.parametrize(("words", "question"), [((), "Swap it?"), (("--undo",), "Undo it?")])
def test_an_adoption_asks_for_what_it_does(
    words: tuple[str, ...], question: str, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.render.journey.show_adoption", lambda planned, screen: screen.line(f"card {planned}"))
    confirm = confirmed(monkeypatch, adopt, api, "adopt", "folder", *words)
    said = answers("y\n")
    assert confirm("X") is True and "card X" in said.getvalue() and said.getvalue().endswith(f"{question} [y/N] ")


def test_the_cards_of_up_and_pack_come_before_their_questions(
    answers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rekindle.render.journey.show_card", lambda card, screen: screen.line(f"card {card}"))
    monkeypatch.setattr("rekindle.render.journey.show_pack_card", lambda card, screen: screen.line(f"card {card}"))
    monkeypatch.setattr("rekindle.render.summary.summarise_plan", lambda plan: f"a torch for {plan}")
    monkeypatch.setattr(api, "this_machine", lambda: api.machine_from_flags(gpu=["sm_86"], os="linux"))
    for module, place, words, question in (
        (up, api, (), "A torch for X?"),
        (pack, api, ("--out", str(tmp_path)), "Pack a torch for X?"),
    ):
        confirm = confirmed(monkeypatch, module, place, module.__name__.rpartition(".")[2], *words)
        said = answers("y\n")
        assert confirm("X", lambda: "Y") is True
        assert "card Y" in said.getvalue() and said.getvalue().endswith(f"{question} [y/N] ")
