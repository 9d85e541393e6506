"""Other ways to say the same: what systems, tools and people do to a message on its way into a log.

Nothing here touches the words that carry the meaning; everything else may change. A rule that falls silent over one of
these knows a sentence, not a cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Change = Callable[[str], str]


def without_exception_names(text: str) -> str:
    """``RuntimeError: CUDA error`` as loggers and chat messages quote it."""
    return re.sub(r"(?m)^(\s*)(?:\w+\.)*\w+(?:Error|Exception): (?=\S)", r"\1", text)


def other_exception_names(text: str) -> str:
    """Old Pythons and wrappers raise the same message under another name."""
    renamed = {"OSError": "EnvironmentError", "ModuleNotFoundError": "ImportError", "RuntimeError": "AssertionError"}
    return re.sub(rf"\b({'|'.join(renamed)})(?=: )", lambda found: renamed[found[1]], text)


def other_paths(text: str) -> str:
    text = re.sub(r"/home/\w+", "/mnt/data/people/ä b", text)
    return re.sub(r"(?<=[\s'\"])/(?:opt|srv|src|usr/local/lib)/(?=\w)", "/very/long/prefix/of-a/build_farm-7/", text)


def plain_quotes(text: str) -> str:
    return text.translate(str.maketrans("‘’“”`", "''\"\"'"))


def curly_quotes(text: str) -> str:
    return re.sub(r"'([^'\n]{1,60})'", "‘\\1’", text)


def in_docker(text: str) -> str:
    return "\n".join(f"#17 {5 + number / 7:.3f} {line}" for number, line in enumerate(text.split("\n")))


def in_a_logger(text: str) -> str:
    return "\n".join(f"[2026-03-0{1 + number % 9} 10:11] {line}" for number, line in enumerate(text.split("\n")))


def in_a_worker(text: str) -> str:
    return "\n".join(f"(EngineCore pid=4711) {line}" for line in text.split("\n"))


def indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.split("\n"))


def coloured(text: str) -> str:
    return re.sub(r"(?m)(error|Error|fatal|warning)(?=:)", "\x1b[1;31m\\1\x1b[0m", text)


def dos(text: str) -> str:
    return text.replace("\n", "\r\n")


def followed_by_outer_failures(text: str) -> str:
    return (
        f"{text}\nninja: build stopped: subcommand failed.\n"
        "error: subprocess-exited-with-error\n"
        "ERROR: Failed building wheel for thing\n"
    )


def preceded_by_progress(text: str) -> str:
    lines = "\n".join(f"[{number}/900] Building CXX object a/error_{number}.cpp.o" for number in range(30))
    return f"{lines}\n{text}"


def _each(text: str, framing: str) -> str:
    """Every line in a framing that holds the second and the line."""
    lines = enumerate(text.split("\n"))
    return "\n".join(framing.format(second=f"{number % 60:02d}", line=line) for number, line in lines)


def in_the_journal(text: str) -> str:
    return _each(text, "Nov 16 12:00:{second} node7 trainer[4711]: {line}")


def in_a_pod(text: str) -> str:
    return _each(text, "2026-11-16T12:00:{second}.123456789Z stderr F {line}")


def in_ci(text: str) -> str:
    return _each(text, "2026-11-16T12:00:{second}.1234567Z {line}")


def in_a_build_of_several(text: str) -> str:
    """``make -j`` puts another job's lines in between."""
    other = "\n[ 41%] Building CXX object b/other.cpp.o"
    return "\n".join(line + other if line.endswith(".") else line for line in text.split("\n"))


def begins_in_the_middle(text: str) -> str:
    """A terminal's scrollback ends somewhere: the first line has lost its beginning."""
    return "…ached output of the step before, cut here\n" + text


def cut_behind(text: str) -> str:
    """The log stops while the next line is being written."""
    return text.rstrip("\n") + "\n[1402/31"


def quoted_in_a_mail(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def as_information(text: str) -> str:
    """Not the same any more: somebody's notes, in a run that went well."""
    return "\n".join(f"INFO: noted: {line}" for line in text.split("\n")) + "\nINFO: all 12 tests passed\n"


# Framings and names: the words that carry the meaning stay as they are, so the answer must stay too.
CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        without_exception_names, other_exception_names, other_paths, plain_quotes, curly_quotes, in_docker, in_a_logger,
        in_a_worker, indented, coloured, dos, followed_by_outer_failures, preceded_by_progress, in_the_journal,
        in_a_pod, in_ci, in_a_build_of_several, begins_in_the_middle, cut_behind, quoted_in_a_mail,
    )
}  # fmt: skip
