"""The two answers for installers, should a person look at them."""

from __future__ import annotations

from rekindle.model.choice import TorchChoice, TorchReady
from rekindle.render.screen import Screen


def show_choice(choice: TorchChoice, screen: Screen) -> None:
    if choice.answer == "none":
        screen.verdict("fail", "No torch runs on this machine")
    else:
        name = f"torch {choice.torch}" + (f"+{choice.variant}" if choice.variant else "")
        screen.verdict("ok", f"{choice.answer.capitalize()} {name} for Python {choice.python}")
    for words in choice.pip:
        screen.command(f"pip install {' '.join(words)}")
    for text in choice.why:
        screen.bullet(text)
    for text in choice.beware:
        screen.bullet(text, status="warn")


def show_ready(ready: TorchReady, screen: Screen) -> None:
    screen.verdict("ok" if ready.ready else "fail", ready.verdict)
    rows = [("python", ready.python), ("activate", ready.activate), ("constraints", ready.constraints)]
    screen.rows([(name, text) for name, text in rows if text])
