"""Shared fixtures. A missing tool skips a test with its name; nothing else does."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Started in the background a shell makes us ignore Ctrl-C, and all we start: then nothing that tests it can pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: no property here is about time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


COLLECTED = pytest.StashKey[frozenset[Path]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remembers whose tests were found, before marks choose among them."""
    config.stash[COLLECTED] = frozenset(item.path for item in items)


@pytest.fixture
def collected(pytestconfig: pytest.Config) -> frozenset[Path] | None:
    """The files that this run took tests from; None where it was asked for a part only."""
    whole = pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS
    return pytestconfig.stash[COLLECTED] if whole and not pytestconfig.getoption("lf") else None


@functools.cache
def _parser_of(verb: str) -> argparse.ArgumentParser:
    from rekindle.cli.main import VERBS, verb_parser

    assert verb in VERBS, f"{verb} is no verb"
    return verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}"))


@pytest.fixture(autouse=True)
def lines_to_paste_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test makes any verb print for pasting, our own lines are read by our own parser."""
    from rekindle.render.screen import Screen

    show = Screen.command

    def command(self: Screen, text: str, *, as_called: bool = True) -> None:
        show(self, text, as_called=as_called)
        if text.startswith("rekindle "):
            words = shlex.split(text, posix=os.name != "nt")[1:]
            try:
                _parser_of(words[0]).parse_args(words[1 : words.index("--") if "--" in words else None])
            except SystemExit:
                raise AssertionError(f"a line to paste is no command of ours: {text}") from None

    monkeypatch.setattr(Screen, "command", command)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium that asks nobody for anything by itself."""
    flags = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
    quiet = ("disable-component-update", "disable-sync")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(
            executable_path="/usr/bin/chromium", args=[f"--{name}" for name in (*flags, *quiet)]
        )
        yield running
        running.close()
