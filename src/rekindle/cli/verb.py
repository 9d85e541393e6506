"""What a verb's file holds: ``run(session) -> Answer``, whose docstring is its help.

A verb parses, calls :mod:`rekindle.api` and picks a view; it has no logic of its own and imports what is
heavy inside ``run``. The text around its options in ``--help`` is laid out for the terminal: paragraphs are filled,
lines that are set in stay as they are where they fit, and a command, there to be pasted, is never broken.

The options of a verb stand in ``options/VERB.txt``, spelt as ``--help`` shows them, each on a line.

    path --out DIR              where it goes         a value; before the name stands how it is read
    --dry-run                   only say it           without a value it is a switch
    --level {a,b} = a > how     how hard to try       which values there are; the usual one; its name in ``args``
    the wish:                                         a heading: the options below it are a group
    <workspace>                                       the section of that name, here or in ``shared.txt``
    [fetch] get a tree                                a section; one with a summary is a step of the verb

A line that begins with a space continues the one above. A value is read as ``path``, ``int`` or ``float``;
``optional`` may be left out, ``any`` takes as many as come, ``some`` at least one, ``two`` takes two; ``many`` is an
option that may be repeated, ``count`` one whose number counts, ``required`` one that must be there. A switch that is
``off`` makes a yes a no, and ``no`` says so where nothing was said.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rekindle.errors import Untrusted

if TYPE_CHECKING:
    from pathlib import Path

Result = TypeVar("Result")


class Answer(NamedTuple):
    """A finished document, whether it is a yes, and how people see it where its usual view will not do.

    ``exit_code`` is that of a command that was run for the user.
    """

    document: Any
    good: object = True
    view: Callable[[Any, Any], None] | None = None
    exit_code: int | None = None


class Session:
    """What every verb gets: what was asked, and how to speak to the user."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args: Any = args
        self.json: bool = args.json
        self.quiet: bool = args.quiet
        self.verbosity: int = args.verbose
        self.color: str = args.color
        self.yes: bool = getattr(args, "yes", False)
        self.declined = False
        self._progress: Any = None

    @property
    def progress(self) -> Any:
        """The listener on standard error, made when it is first needed."""
        if self._progress is None:
            from rekindle.render.progress import LineProgress

            self._progress = LineProgress(sys.stderr, color=self.color, quiet=self.quiet)
        return self._progress

    def close(self) -> None:
        """Clears what the listener has drawn."""
        if self._progress is not None:
            self._progress.close()

    def call(self, function: Callable[..., Result], *words: Any, **more: Any) -> Result:
        """The answer of a function of the api: its keywords are read as :meth:`options` reads fields."""
        code = function.__code__
        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        listener = {"progress": self.progress} if "progress" in names else {}
        return function(*words, **self.read_named(names) | listener | more)

    def options(self, kind: type[Result], **more: Any) -> Result:
        """A verb's options value: each field from the argument of its name; ``more`` is read already."""
        return kind(**self.read_named(kind.__struct_fields__) | more)  # type: ignore[attr-defined]

    def read_named(self, names: Iterable[str]) -> dict[str, Any]:
        """The arguments of these names that were given, lists as tuples."""
        given = {name: value for name in names if (value := getattr(self.args, name, None)) is not None}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    def can_ask(self) -> bool:
        """Is there somebody who can answer?"""
        return not self.yes and sys.stdin.isatty()

    def confirm(self, question: str) -> bool:
        """Ask before anything long. Without a terminal nothing is asked: only ``--yes`` is a yes."""
        if not self.can_ask():
            return self.yes
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        self.declined = sys.stdin.readline().strip().lower() not in ("y", "yes")
        return not self.declined


def path(text: str | None) -> Path | None:
    """The type of an argument that names a file or folder; an empty one names none."""
    from pathlib import Path

    return Path(text) if text else None


def place_for(given: str, name: str) -> Path:
    """Where a file goes that the user named: ``dir/``, or a folder that is there, means ``name`` inside it."""
    from pathlib import Path

    path = Path(given)
    return path / name if given.endswith(("/", "\\")) or path.is_dir() else path


def add_common(parser: argparse.ArgumentParser, *, inner: bool = False) -> None:
    """The options that work everywhere. ``inner`` is for a verb's own sub-verbs, which must not reset them."""
    own = len(parser._actions)
    add_options(parser, "rekindle", "everywhere")
    for action in parser._actions[own:] if inner else ():
        action.default = argparse.SUPPRESS


# What argparse is told for a word before the name.
_HOW: dict[str, dict[str, Any]] = {
    "path": {"type": path},
    "int": {"type": int},
    "float": {"type": float},
    "optional": {"nargs": "?", "const": ""},
    "any": {"nargs": "*", "default": []},
    "some": {"nargs": "+"},
    "two": {"nargs": 2},
    "many": {"action": "append", "default": []},
    "required": {"required": True},
    "count": {"action": "count", "default": 0},
    "off": {"action": "store_false"},
    "no": {"action": "store_const", "const": False},
}


def add_arguments(parser: argparse.ArgumentParser, verb: str, *, steps: str = "STEP") -> None:
    """The options of a verb and of its steps; ``steps`` stands in its usage for these."""
    add_options(parser, verb)
    summaries = {name: summary for name, (summary, _) in read_sections(verb).items() if summary}
    if summaries:
        added = parser.add_subparsers(dest="step", metavar=steps, required=True)
    for name, summary in summaries.items():
        step = added.add_parser(name, help=summary, description=summary)
        add_common(step, inner=True)
        add_options(step, verb, name)


def add_options(parser: argparse.ArgumentParser, verb: str, section: str = "") -> None:
    """The options of a verb, or of one section of its file."""
    group: argparse._ActionsContainer = parser
    groups = {"options:": group}
    for line in _read_lines(verb, section):
        if line.endswith(":"):
            group = groups[line] if line in groups else parser.add_argument_group(line[:-1])
            groups[line] = group
        else:
            _add_option(group, line)


def _read_lines(verb: str, section: str) -> Iterator[str]:
    """The lines of a section, and those of the sections that it names."""
    sections = read_sections(verb)
    for line in sections[section][1]:
        if line.startswith("<"):
            name = line.strip("<>")
            yield from _read_lines(verb if name in sections else "shared", name)
        else:
            yield line


@functools.cache
def read_sections(verb: str) -> dict[str, tuple[str, list[str]]]:
    """The summary and the lines of each section of a file; those before the first one have no name."""
    # pathlib would take a tenth of the time of --help.
    with open(f"{__file__.removesuffix('verb.py')}options/{verb}.txt", encoding="utf-8") as page:  # noqa: PTH123
        _, *parts = re.split(r"^\[(.*)\] ?(.*)\n", f"[]\n{page.read()}", flags=re.MULTILINE)
    rows = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {name: (summary, re.findall(r"^\S.*(?:\n +.*)*", text, re.MULTILINE)) for name, summary, text in rows}


def _add_option(group: argparse._ActionsContainer, line: str) -> None:
    spec, *text = re.split(r"\s{2,}", line)
    spec, _, dest = spec.partition(" > ")
    spec, _, usual = spec.partition(" = ")
    words = spec.split(" ")
    how = list(takewhile(_HOW.__contains__, words))
    flags = [word.rstrip(",") for word in words if word.startswith("-")]
    metavar, _, choices = " ".join(words[len(how) + len(flags) :]).partition("{")
    settings: dict[str, Any] = {"help": argparse.SUPPRESS if text == ["(hidden)"] else " ".join(text) or None}
    for word in how:
        settings |= _HOW[word]
    if metavar:
        settings["metavar"] = tuple(metavar.split(" ")) if "two" in how else metavar
    if choices:
        settings["choices"] = choices.rstrip("}").split(",")
    if usual:
        settings["default"] = usual
    if flags and dest:
        settings["dest"] = dest
    if flags and not metavar and not choices:
        settings.setdefault("action", "store_true")
    group.add_argument(*(flags or [dest or metavar.lower()]), **settings)


def after_a_yes(session: Session, question: str, call: Callable[[bool], Result]) -> Result:
    """``call(False)``; refused as untrusted, what it would do is shown, and a yes leads to ``call(True)``."""
    from rekindle.render.build import render_foreign
    from rekindle.render.screen import Screen

    try:
        return call(False)
    except Untrusted as error:
        session.close()
        render_foreign(error.account, Screen(sys.stderr, color=session.color, verbosity=session.verbosity))
        if not session.confirm(question):
            raise
    return call(True)


def show_then_ask(session: Session, show: Callable[[Any], None], question: str) -> bool:
    """Draw what is about to be done on standard error, then ask; with nobody to ask, only ``--yes`` is a yes."""
    from rekindle.render.screen import Screen

    if not session.yes and not session.can_ask():
        return False
    session.close()
    if not session.quiet or session.can_ask():
        show(Screen(sys.stderr, color=session.color, verbosity=session.verbosity))
    return session.confirm(question)


# Nobody reads lines of 200 characters.
WIDEST = 118
_REMARK = 6


def terminal_columns() -> int:
    """How wide help may be; 100 where there is no terminal."""
    import shutil  # argparse has it anyway

    return shutil.get_terminal_size((100, 24)).columns


class HelpText(argparse.RawDescriptionHelpFormatter):
    """argparse's help, with our layout of the text around its options."""

    def __init__(self, prog: str, **settings: int) -> None:
        settings.setdefault("width", min(WIDEST, terminal_columns() - 2))
        super().__init__(prog, **settings)

    def format_help(self) -> str:
        from rekindle.render.screen import commands_as_called

        return commands_as_called(super().format_help())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return laid_out(text, width)


def laid_out(text: str, width: int) -> str:
    """``text`` with no line wider than ``width``, commands excepted."""
    lines: list[str] = []
    for block in _BLOCK.findall(text.expandtabs().rstrip()):
        if block and not block[0].isspace():
            lines += _wrap(" ".join(map(str.strip, block.splitlines())), width)
        elif len(block.rstrip()) <= width:
            lines.append(block.rstrip())
        else:
            lines += _fold_remark(block.rstrip(), width)
    return "\n".join(lines)


# A paragraph, which a line with a colon ends; or any other line.
_BLOCK = re.compile(r"^(?:\S.*(?<!:)\n(?=\S))*\S.*|^.*", re.MULTILINE)


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _fold_remark(line: str, width: int) -> list[str]:
    lead = len(line) - len(line.lstrip())
    # A remark may have stood below its command already.
    command, remark = ("", line.strip()) if lead > _REMARK else (*re.split(r" {2,}", line.strip(), maxsplit=1), "")[:2]
    rows = [" " * _REMARK + row for row in _wrap(remark, max(20, width - _REMARK))]
    return [" " * lead + command, *rows] if command else rows
