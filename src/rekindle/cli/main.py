"""The front door: picks the verb, prints its answer, turns every ending into its exit code.

Only the chosen verb's file is imported, so ``rekindle --help`` starts in a few milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rekindle import __version__
from rekindle.cli.verb import Answer, HelpText, Session, add_arguments, add_common, read_sections, terminal_columns
from rekindle.errors import BadInput, CommandFailed, Declined, Exit, RekindleError

if TYPE_CHECKING:
    from pathlib import Path

# verb -> what it does, in the words of --help. Each has a file of the same name in this room.
VERBS = {name: summary for name, (summary, _) in read_sections("rekindle").items() if summary}


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``rekindle --help``: the verbs with what they do."""
    before = max(map(len, VERBS)) + 4
    columns = max(24 + before, terminal_columns() - 1)
    verbs = [
        textwrap.fill(summary, columns, initial_indent=f"  {name}".ljust(before), subsequent_indent=" " * before)
        for name, summary in VERBS.items()
    ]
    parser = argparse.ArgumentParser(
        prog="rekindle",
        usage="rekindle VERB [options]",
        description="\n".join(["PyTorch for the machine you have.\n\nverbs:", *verbs]),
        epilog=examples_of("rekindle") + "\n'rekindle VERB --help' tells more about each.",
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rekindle {__version__}")
    parser.add_argument("verb", nargs="?", help=argparse.SUPPRESS)
    return parser


def examples_of(name: str) -> str:
    """What a person may type, as the help of a verb (or of ``rekindle`` itself) shows it: ``examples/NAME.txt``."""
    try:
        # pathlib would take a tenth of the time of --help.
        with open(f"{__file__.removesuffix('main.py')}examples/{name}.txt", encoding="utf-8") as page:  # noqa: PTH123
            return page.read()
    except FileNotFoundError:
        return ""


def entry() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    try:
        return _dispatch(list(argv))
    except KeyboardInterrupt:
        _complain("interrupted; the same command continues where this one stopped")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader went away (``| head``).
        _forget_output()
        return Exit.YES
    except RekindleError as error:
        remedy = error.remedy
        if not remedy and isinstance(error, CommandFailed):
            from rekindle.api.explain_log import remedy_for

            # What a failed command said, as ``explain`` understands it.
            remedy = remedy_for("\n".join(error.last_lines))
        _complain(error.message, remedy)
        return error.exit_code
    except MemoryError:
        _complain("there was not enough memory for this", "free some, or raise the limit (ulimit -v, the container's)")
        return Exit.USAGE
    except Exception as error:  # noqa: BLE001 (the one front door)
        code = _system_error(error) if isinstance(error, OSError) else None
        return _report_crash(error, argv) if code is None else code


def _report_crash(error: Exception, argv: Sequence[str]) -> int:
    try:
        where = f"please report it with {write_crash_report(error, argv)}"
    except OSError as full:
        where = f"please report it; no crash report could be written ({full.strerror or full})"
    _complain(f"this is a bug in rekindle ({type(error).__name__}: {error})", where)
    return Exit.BUG


def write_crash_report(error: BaseException, argv: Sequence[str]) -> Path:
    """A file that can be pasted into an issue: what ran, where it broke, on what; without names and secrets."""
    import platform
    import tempfile
    import traceback
    from pathlib import Path

    from rekindle.api.explain_log import redacted

    lines = [
        "### rekindle crash report",
        f"- rekindle {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"- command: rekindle {' '.join(argv)}",
        "```",
        "".join(traceback.format_exception(error)).rstrip(),
        "```\n",
    ]
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="backslashreplace", prefix="rekindle-crash-", suffix=".md", delete=False
    ) as file:
        file.write(redacted("\n".join(lines)))
    return Path(file.name)


def _forget_output() -> None:
    """What could not be written goes nowhere: else Python tries again while closing stdout and exits with 120."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _system_error(error: OSError) -> int | None:
    """The exit code of a fault that is the machine's, not ours: a full or closed output, a full disk, no permission."""
    words, file, kind = error.strerror or str(error), error.filename, error.errno
    where = f" ({file})" if file else ""
    code = Exit.USAGE
    if "No usable temporary directory" in words:
        said = "there is no place for temporary files: none of the usual ones can be written", "set TMPDIR to one"
    elif kind == errno.ENOSPC and not file:
        said = f"the output cannot be written: {words}", "make room where it goes, or send it elsewhere"
        code = Exit.NO
    elif kind in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        said = f"the disk is full{where}: {words}", "make room; the same command continues"
        code = Exit.NO
    elif kind in (errno.EBADF, errno.EIO) and not file:
        said = f"the output cannot be written: {words}", "give the command an open standard output"
    elif kind in (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        said = f"the system gave no more: {words}{where}", "free memory or raise the limit (ulimit), then try again"
    elif kind in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP) and file:
        said = f"cannot use {file}: {words}", "give another place, or the rights to this one"
    else:
        return None
    _complain(*said)
    if said[0].startswith("the output"):
        _forget_output()
    return code


def _dispatch(argv: list[str]) -> int:
    ahead = 0  # options that every verb has are taken before it, too: ``rekindle -q plan``
    while ahead < len(argv) and re.fullmatch(r"-[qv]+|--json|--quiet|--verbose|--color(=.*)?", argv[ahead]):
        ahead += 2 if argv[ahead] == "--color" else 1
    verb, *behind = argv[ahead:] or ["-"]
    if verb in VERBS:
        return _run_verb(verb, [*argv[:ahead], *behind])
    if not verb.startswith("-"):
        raise unknown_verb(verb)  # also with --help: the general help would hide the mistake
    parser = build_parser()
    if not argv:
        parser.print_help()
        return Exit.USAGE
    known, _ = parser.parse_known_args(argv)
    raise unknown_verb(known.verb) if known.verb else BadInput("name a verb first", remedy="rekindle --help")


def unknown_verb(name: str) -> BadInput:
    """The nearest verb is named only where it is near: a wrong hint costs more than none."""
    import difflib

    if name in VERBS:
        return BadInput(f"options of {name!r} stand after it", remedy=f"rekindle {name} [options]")
    meant = [line.split()[0] for line in read_sections("rekindle")["other words"][1] if name in line.split()]
    near = meant or difflib.get_close_matches(name, VERBS, cutoff=0.7)
    hint = f"did you mean 'rekindle {near[0]}'? ({VERBS[near[0]]})" if near else "'rekindle --help' lists them"
    return BadInput(f"there is no verb {name!r}", remedy=hint)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error here; takes no option by its first letters."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"allow_abbrev": False})
        self._takes_between = True

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Options may stand between words, too: ``index add --root DIR WHEEL``."""
        words = self._get_positional_actions()
        if not self._takes_between or len(words) < 2 or words[-1].nargs in (argparse.PARSER, argparse.REMAINDER):
            return super().parse_known_args(args, namespace)
        self._takes_between = False  # argparse parses twice then, each time through here
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._takes_between = True

    def error(self, message: str) -> Any:
        import difflib

        mark, near = "unrecognized arguments: ", list[str]()
        if message.startswith(f"{mark}-"):
            given = message.removeprefix(mark).split()[0].partition("=")[0]
            known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
            near = difflib.get_close_matches(given, known, cutoff=0.75)
        hint = f"did you mean {near[0]}? '{self.prog} --help' lists all" if near else f"{self.prog} --help"
        raise BadInput(message, remedy=hint)


def verb_parser(name: str, module: ModuleType) -> argparse.ArgumentParser:
    """The parser of one verb, with its help."""
    parser = _Parser(
        prog=f"rekindle {name}",
        description=re.sub("^ {4}", "", module.run.__doc__ or "", flags=re.MULTILINE).strip(),
        epilog=examples_of(name),
        formatter_class=HelpText,
    )
    add_arguments(parser, name, steps=getattr(module, "STEPS", "STEP"))
    add_common(parser)
    return parser


def _run_verb(name: str, argv: list[str]) -> int:
    module = importlib.import_module(f"rekindle.cli.{name}")
    command: list[str] | None = None
    if getattr(module, "TAKES_COMMAND", False) and "--" in argv:
        # argparse would drop the mark and lose where the user's own command begins.
        at = argv.index("--")
        argv, command = argv[:at], argv[at + 1 :]
    args = verb_parser(name, module).parse_args(argv)
    if command is not None:
        args.command = command
    session = Session(args)
    try:
        answer: Answer = module.run(session)
    except Declined as error:
        if not session.declined:
            raise
        from rekindle.model.spoken import sentence

        sys.stderr.write(sentence(error.message.partition(":")[0]) + "\n")  # who says no needs no advice
        return Exit.NO
    finally:
        session.close()
    _print(answer, session)
    if answer.exit_code is not None:
        return answer.exit_code
    return Exit.YES if answer.good else Exit.NO


def _print(answer: Answer, session: Session) -> None:
    if sys.stdout is None:
        raise BadInput("standard output is closed, so the answer cannot be given", remedy="leave >&- out")
    if session.json:
        from rekindle.model.document import encode

        sys.stdout.buffer.write(encode(answer.document))
        sys.stdout.buffer.flush()
        return
    from rekindle.render.screen import Screen, find_view

    view = answer.view or find_view(type(answer.document))
    assert view is not None, "every document of a verb has a view"
    view(answer.document, Screen(sys.stdout, color=session.color, verbosity=session.verbosity))
    sys.stdout.flush()


def _complain(message: str, remedy: str | None = None) -> None:
    if sys.stderr is None:  # closed by whoever started us: there is nobody to tell
        return
    from rekindle.render.screen import screen_text, spelled

    text = f"rekindle: {message}" + (f"\n  → {remedy}" if remedy else "")
    encoding = sys.stderr.encoding or "utf-8"
    with contextlib.suppress(OSError):  # a terminal that went away (HUP) hears nothing
        sys.stderr.write(spelled(screen_text(text), encoding) + "\n")
