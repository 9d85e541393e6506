"""A build log or an error into cause and fix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput, Exit

EXAMPLES = """examples:
  rekindle explain build.log                  why did it fail
  python train.py 2>&1 | rekindle explain -   the same from a pipe
  rekindle explain "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE|-|TEXT", nargs="+", help="a log, '-' for standard input, or the error")
    parser.add_argument(
        "--machine", metavar="FILE", help="the machine it happened on (machine.json of 'doctor --save')"
    )


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.document import load
    from rekindle.model.machine import Machine
    from rekindle.render.diagnosis import view_diagnosis

    machine = load(Path(args.machine), Machine) if args.machine else None
    diagnosis = api.explain(_source(args.source), machine=machine)
    return Answer(document=diagnosis, view=view_diagnosis, exit_code=Exit.YES if diagnosis.matches else Exit.NO)


def _source(words: list[str]) -> Path | str | Iterator[bytes]:
    text = " ".join(words)
    if text == "-":
        from rekindle.explain.reading import read_chunks

        return read_chunks(sys.stdin.buffer)
    if len(words) == 1 and len(text) < 1024 and "\n" not in text:
        path = Path(text)
        if path.exists():
            return path
        if ("/" in text and " " not in text) or text.endswith((".log", ".txt", ".out")):
            raise BadInput(f"there is no file {text}", remedy="name an existing log, '-' or the text of the error")
    return text
