"""From nothing to a torch that provably runs on this machine.

Probes the machine, plans, and shows a card: what comes, from where, how much, where to, what will not work, and what
else could be had. After a yes it installs the official wheel, or fetches, patches and builds the source, and proves
the result. What is already there is kept: a second run is instant, an interrupted one continues.
"""

import argparse
from collections.abc import Callable

from rekindle.cli.plan import (
    add_companions,
    add_compiling,
    add_origin,
    add_serve,
    add_settings,
    read_companions,
    read_settings,
)
from rekindle.cli.verb import (
    Answer,
    Session,
    add_repeatable,
    add_workspace,
    add_yes,
    path,
    read_options,
    show_then_ask,
)
from rekindle.model.spoken import capital


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--torch", metavar="SPEC", help="the release wanted: 2.6.0, 2.6, '>=2.1,<2.4'")
    parser.add_argument("--variant", metavar="NAME", help="cu126, rocm6.4, cpu")
    parser.add_argument("--build", action="store_true", help="insist on a source build")
    card = "build for this card (product name, sm_35, gfx1031) instead of this machine's; repeatable"
    add_repeatable(parser, "--gpu", "GPU", card)
    parser.add_argument("--cpu", metavar="CPU", help="build for this CPU (ivybridge) instead of this machine's")
    parser.add_argument("--cuda", metavar="VERSION", help="the CUDA toolkit to build with")
    parser.add_argument("--rocm", metavar="VERSION", help="the ROCm to build with")
    add_serve(parser)
    add_companions(parser)
    add_origin(parser)
    add_settings(parser)
    python = "3.12: make an environment of that Python; a path: install into this interpreter"
    parser.add_argument("--python", metavar="VERSION|EXE", help=python)
    venv = "the environment to make or use (default: in the workspace)"
    parser.add_argument("--venv", type=path, metavar="DIR", help=venv)
    parser.add_argument("--installer", choices=("pip", "uv"), help="what installs (default: pip)")
    add_repeatable(parser, "--find-links", "DIR|URL", "wheels to look through besides the index; repeatable")
    parser.add_argument("--offline", action="store_true", help="ask no index: only --find-links and what is here")
    index = "this package index instead of the plan's; 'default' is pip's own"
    parser.add_argument("--index", metavar="URL", help=index)
    parser.add_argument("--torch-only", action="store_true", help="without torchvision and torchaudio")
    parser.add_argument("--source", type=path, metavar="DIR", help="build this tree instead of fetching one")
    built = "a torch that is built already: take it, and build only torchvision and torchaudio against it"
    parser.add_argument("--wheel", type=path, metavar="FILE", help=built)
    target = "build only this CMake target of the tree (several: with commas), then stop"
    parser.add_argument("--target", metavar="NAMES", help=target)
    add_compiling(parser)
    parser.add_argument("--clean", action="store_true", help="remove what another plan compiled in the build tree")
    outside = "leave libraries that a built wheel needs outside"
    parser.add_argument("--no-bundle", dest="bundle", action="store_false", help=outside)
    parser.add_argument("--level", choices=("smoke", "full"), default="smoke", help="how hard to prove it")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and its card; write nothing")
    add_workspace(parser)
    add_yes(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle.journey.verbs import up
    from rekindle.model.journey import Card, UpOptions
    from rekindle.model.plan import Plan, Wish
    from rekindle.render.journey import show_card
    from rekindle.render.screen import Screen
    from rekindle.render.summary import summarise_plan

    def confirm(plan: Plan, card: Callable[[], Card]) -> bool:
        def show(screen: Screen) -> None:
            shown = card()
            session.close()  # asking for sizes may have drawn
            screen.line()
            show_card(shown, screen)
            screen.line()

        return show_then_ask(session, show, f"{capital(summarise_plan(plan))}?")

    wish = read_options(
        Wish, args, settings=read_settings(args.settings), beside=read_companions(args.beside), python=None
    )
    journey = up(read_options(UpOptions, args, wish=wish), confirm=confirm, progress=session.progress)
    return Answer(journey, good=journey.arrived)
