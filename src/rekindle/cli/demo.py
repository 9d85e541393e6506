"""The whole way on spark, a miniature that is built the way PyTorch is built.

Probes this machine, plans, unpacks, patches, configures, builds, inspects the wheel, installs it into a fresh
environment, proves it there and writes a report. Takes under a minute; a second run keeps what is there.
"""

import argparse

from rekindle.cli.verb import Answer, Session, add_workspace, add_yes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workspace(parser)
    add_yes(parser)
    parser.add_argument("--cmake", metavar="EXE", help="the CMake to use (default: the one on PATH, else our own)")
    left_out = "leave the CUDA part out even where nvcc is there"
    parser.add_argument("--no-cuda", dest="use_cuda", action="store_false", help=left_out)
    parser.add_argument("--clean", action="store_true", help="forget what earlier runs left in this workspace")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle.journey.verbs import demo

    journey = session.call(demo, args)
    return Answer(journey, good=journey.arrived)
