"""The text around options in ``--help``, laid out for the terminal that shows it.

Paragraphs are filled. Lines that are set in stay as they are where they fit; where one does not, its remark moves
below it. A command itself is never broken: it is there to be pasted.
"""

import argparse
import re
import textwrap

# Nobody reads lines of 200 characters.
WIDEST = 118
_REMARK = 6


class HelpText(argparse.RawDescriptionHelpFormatter):
    """argparse's help, with our layout of the text around its options."""

    def __init__(self, prog: str, **settings: int) -> None:
        import shutil  # argparse has it anyway

        settings.setdefault("width", min(WIDEST, shutil.get_terminal_size((100, 24)).columns - 2))
        super().__init__(prog, **settings)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return laid_out(text, width)


def laid_out(text: str, width: int) -> str:
    """``text`` with no line wider than ``width``, commands excepted."""
    lines: list[str] = []
    paragraph: list[str] = []

    def end_paragraph() -> None:
        if paragraph:
            lines.extend(textwrap.wrap(" ".join(paragraph), width, break_long_words=False, break_on_hyphens=False))
            paragraph.clear()

    for line in text.expandtabs().rstrip().splitlines():
        if line and not line[0].isspace():
            paragraph.append(line.strip())
            if line.endswith(":"):
                end_paragraph()
            continue
        end_paragraph()
        lines.extend([line.rstrip()] if len(line.rstrip()) <= width else _folded(line.rstrip(), width))
    end_paragraph()
    return "\n".join(lines)


def _folded(line: str, width: int) -> list[str]:
    lead = line[: len(line) - len(line.lstrip())]
    parts = re.split(r" {2,}", line.strip(), maxsplit=1)
    head = [lead + parts[0]]
    if len(lead) > _REMARK:  # a remark that stood below its command already
        head, parts = [], ["", line.strip()]
    if len(parts) == 1:
        return head
    room = max(20, width - _REMARK)
    told = textwrap.wrap(parts[1], room, break_long_words=False, break_on_hyphens=False)
    return head + [" " * _REMARK + row for row in told]
