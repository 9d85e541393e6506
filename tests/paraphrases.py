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


# Framings and names: the words that carry the meaning stay as they are, so the answer must stay too.
CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        without_exception_names, other_exception_names, other_paths, plain_quotes, curly_quotes, in_docker, in_a_logger,
        in_a_worker, indented, coloured, dos, followed_by_outer_failures, preceded_by_progress,
    )
}  # fmt: skip
