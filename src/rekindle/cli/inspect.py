"""What a wheel or library really contains, read from its bytes.

TARGET is a wheel, a .so, .dll or .pyd, a directory, an installed package (its name) or a name on the index
such as torch==2.6.0. Nothing is imported and no vendor's tool is needed.
"""

from __future__ import annotations

import argparse

from rekindle.cli.verb import Answer, Session
from rekindle.errors import Exit

EXAMPLES = """examples:
  rekindle inspect torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl
  rekindle inspect torch==2.6.0 --quick                     reads about 1 % of the wheel, from the index
  rekindle inspect torch==2.6.0 --python 3.11 --platform win_amd64
  rekindle inspect libtorch_cuda.so --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="a wheel, a library, a directory or a package name")
    parser.add_argument("--quick", action="store_true", help="read as little as possible")
    parser.add_argument("--no-cpu", action="store_true", help="leave out the audit of the CPU code")
    parser.add_argument("--python", metavar="X.Y", help="for a name on the index: the Python it is for")
    parser.add_argument("--platform", metavar="TAG", help="for a name on the index: e.g. manylinux1_x86_64, win_amd64")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.render.wheel import render_wheel

    report = api.inspect(
        args.target,
        quick=args.quick,
        cpu=not args.no_cpu,
        python=args.python,
        platform=args.platform,
        progress=session.progress,
    )
    refused = report.verdict is not None and report.verdict.runs is False
    return Answer(document=report, view=render_wheel, exit_code=Exit.NO if refused else Exit.YES)
