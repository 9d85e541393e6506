"""Give an application that brings its own torch (ComfyUI, Forge, A1111 …) the torch that fits this machine.

Recognises the application and its Python, reads what it and its extensions require, and shows a card: today's torch,
what the machine needs, what conflicts, what will be changed, how it is undone. After a yes it swaps torch and what
hangs on it in that Python, proves it there, and writes what keeps pip and uv from replacing it again. Not proven: put
back. --undo puts everything back, without fetching anything.
"""

import argparse

from rekindle.cli.verb import Answer, Session, add_repeatable, add_workspace, add_yes, path, read_options, show_then_ask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=path, metavar="FOLDER", help="the application's folder")
    parser.add_argument("--python", metavar="EXE", help="its interpreter (default: found in the folder)")
    parser.add_argument("--torch", metavar="SPEC", help="the release wanted instead of the plan's own")
    parser.add_argument("--variant", metavar="NAME", help="cu126, rocm6.4, cpu")
    built = "a torch built or grafted before, and what was built for it; repeatable"
    add_repeatable(parser, "--wheel", "FILE", built, type=path)
    parser.add_argument(
        "--index", metavar="URL", help="this package index instead of the plan's; 'default' is pip's own"
    )
    add_repeatable(parser, "--find-links", "DIR|URL", "wheels to look through besides the index; repeatable")
    parser.add_argument("--offline", action="store_true", help="ask no index: only --find-links and what is here")
    off = "switch this extension off, since it cannot live with that torch; repeatable"
    add_repeatable(parser, "--leave-out", "EXTENSION", off)
    parser.add_argument("--level", choices=("smoke", "full"), default="smoke", help="how hard to prove it")
    parser.add_argument("--dry-run", action="store_true", help="show the card; write nothing")
    parser.add_argument("--undo", action="store_true", help="put everything back as it was before the adoption")
    add_workspace(parser)
    add_yes(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle.journey.verbs import adopt
    from rekindle.model.adopt import Adoption, AdoptOptions
    from rekindle.render.adopt import show_adoption
    from rekindle.render.screen import Screen

    def confirm(planned: Adoption) -> bool:
        def show(screen: Screen) -> None:
            screen.line()
            show_adoption(planned, screen)
            screen.line()

        return show_then_ask(session, show, "Undo it?" if args.undo else "Swap it?")

    adopted = adopt(read_options(AdoptOptions, args), confirm=confirm, progress=session.progress)
    return Answer(adopted, good=adopted.good)
