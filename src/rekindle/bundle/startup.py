"""The lines in a package's ``__init__.py`` that let Windows find the DLLs a wheel brought along.

Python asks Windows to search only folders that were named with ``os.add_dll_directory``. Where that has no effect
(Python before 3.8, conda's before 3.10) each DLL is loaded by its path, those that others need first; and so is what is
opened by name at run time, because that search does not know the folder.
"""

from __future__ import annotations

import ast
import re

MARK = "# Libraries brought along by rekindle bundle"
_MOST = 4 << 20
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_LINES = """\
{mark}
def _rekindle_libraries():
    import os
    import sys

    folder = os.path.abspath(os.path.join(os.path.dirname(__file__), {way}))
    order = os.path.join(folder, {order!r})
    if not os.path.isfile(order):
        return
    conda = os.path.isdir(os.path.join(sys.base_prefix, "conda-meta"))
    searched = sys.version_info >= (3, 10) or (sys.version_info >= (3, 8) and not conda)
    if searched:
        os.add_dll_directory(folder)
    with open(order, encoding="utf-8") as file:
        rows = [line.rstrip("\\n").split("\\t") for line in file]
    for name, when in rows:
        if when == "now" or not searched:
            import ctypes

            ctypes.WinDLL(os.path.join(folder, name))


_rekindle_libraries()
del _rekindle_libraries
# End of what rekindle bundle added
"""


def with_search(source: bytes, way: tuple[str, ...], order: str) -> bytes | None:
    """``source`` with the lines in front of its first statement; ``way`` leads from its folder to the libraries. None
    where no such place can be found, so that the libraries must be found another way."""
    at = _first_statement(source)
    if at is None or MARK.encode() in source:
        return None
    steps = ", ".join("os.pardir" if part == ".." else repr(part) for part in way)
    lines = _LINES.format(mark=MARK, way=steps, order=order)
    head, tail = source[:at], source[at:]
    end = "\r\n" if b"\r\n" in source else "\n"
    if head and not head.endswith((b"\n", b"\r")):
        head += end.encode()
    # ASCII in every encoding that Python reads.
    return head + lines.replace("\n", end).encode("ascii") + tail


def _first_statement(source: bytes) -> int | None:
    """The offset of the line behind the documentation string and the ``from __future__`` lines."""
    if len(source) > _MOST:
        return None
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    first = 0
    for number, node in enumerate(body):
        text = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (text or future):
            break
        first = number + 1
    last = body[first - 1].end_lineno or 0 if first else _comments(source)
    if first < len(body) and body[first].lineno <= last:
        return None  # two statements on one line
    at = 0
    for _ in range(last):
        at = _line_end(source, at)
    return at


def _comments(source: bytes) -> int:
    """How many lines at the top are blank or comments: an encoding must stay in the first two."""
    count, at = 0, 0
    while at < len(source):
        end = _line_end(source, at)
        line = source[at:end].removeprefix(b"\xef\xbb\xbf").strip()
        if line and not line.startswith(b"#"):
            break
        count, at = count + 1, end
    return count


def _line_end(source: bytes, at: int) -> int:
    found = _LINE.match(source, at)
    return found.end() if found else len(source)
