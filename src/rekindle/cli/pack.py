"""Everything a machine without a network needs, in one folder: wheels and all they ask for, and what installs them.

Plans for this machine or any described one, resolves for that platform, says how much will come, and fetches after a
yes. The folder holds an install script that needs neither Rekindle nor a network, the plan with its reasons, SHA-256
sums and, with --sign, a signature. An interrupted pack is continued by the same command.
"""

import argparse
from collections.abc import Callable

from rekindle.cli.plan import add_companions, add_machine_arguments, add_origin, machine_and_wish
from rekindle.cli.verb import Answer, Session, add_repeatable, add_yes, path, read_options, show_then_ask
from rekindle.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = "'check FOLDER': is every file what it was when the pack was made?"
    parser.add_argument("words", nargs="*", metavar="check FOLDER", help=words)
    parser.add_argument("--out", type=path, metavar="FOLDER", help="where the pack goes; one that was cut is continued")
    add_machine_arguments(parser)
    group = parser.add_argument_group("the wish")
    group.add_argument("--torch", metavar="SPEC", help="2.6.0, 2.6, '>=2.1,<2.4' or a very wheel: 2.8.0+cu128")
    group.add_argument("--variant", metavar="NAME", help="cu126, rocm6.4, cpu")
    add_companions(group)
    group.add_argument("--torch-only", action="store_true", help="without torchvision and torchaudio")
    built = "a torch that is built or grafted already: pack it instead of the plan's"
    group.add_argument("--wheel", type=path, metavar="FILE", help=built)
    sources = "also the source tree, patches, build tools and a script that builds"
    group.add_argument("--source", action="store_true", help=sources)
    add_origin(group)
    bare = "without the Python itself (for Windows it comes along where an index has it)"
    group.add_argument("--no-python", dest="python_too", action="store_false", help=bare)
    fetching = parser.add_argument_group("fetching")
    fetching.add_argument("--index", metavar="URL", help="this index instead of the plan's; 'default' is pip's own")
    add_repeatable(fetching, "--find-links", "DIR|URL", "wheels to look through besides the index; repeatable")
    fetching.add_argument("--offline", action="store_true", help="ask no index: only --find-links")
    fetching.add_argument("--dry-run", action="store_true", help="only say what would come, and how much")
    parser.add_argument("--sign", metavar="KEY", help="sign the sums with this key (rekindle key new)")
    add_repeatable(parser, "--key", "FILE", "check: believe only this .pub", dest="keys", type=path)
    add_yes(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from pathlib import Path

    from rekindle import api
    from rekindle.model.journey import Card
    from rekindle.model.pack import PackOptions
    from rekindle.model.plan import Plan
    from rekindle.render.pack import show_pack_card
    from rekindle.render.summary import summarise_plan

    if args.words:
        if args.words[0] != "check" or len(args.words) != 2:
            raise BadInput(f"pack {' '.join(args.words)}: no such step", remedy="rekindle pack check FOLDER")
        checked = api.pack_check(Path(args.words[1]), keys=args.keys)
        return Answer(checked, good=checked.good)
    if args.out is None:
        raise BadInput("where does the pack go?", remedy="name a folder with --out FOLDER")

    def confirm(plan: Plan, card: Callable[[], Card]) -> bool:
        question = f"Pack {summarise_plan(plan)}?"
        return show_then_ask(session, lambda screen: show_pack_card(card(), screen), question)

    machine, wish = machine_and_wish(args)
    options = read_options(PackOptions, args)
    return Answer(api.pack(machine, wish, options, confirm=confirm, progress=session.progress))
