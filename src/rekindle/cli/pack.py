from collections.abc import Callable
from pathlib import Path

from rekindle import api
from rekindle.cli.plan import machine_and_wish
from rekindle.cli.verb import Answer, Session, show_then_ask
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """Everything a machine without a network needs, in one folder: wheels and all they ask for, and what installs them.

    Plans for this machine or any described one, resolves for that platform, says how much will come, and fetches after
    a yes. The folder holds an install script that needs neither Rekindle nor a network, the plan with its reasons,
    SHA-256 sums and, with --sign, a signature. An interrupted pack is continued by the same command.
    """
    from rekindle.model.journey import Card
    from rekindle.model.pack import PackOptions
    from rekindle.model.plan import Plan
    from rekindle.render.journey import show_pack_card
    from rekindle.render.summary import summarise_plan

    args = session.args
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

    machine, wish = machine_and_wish(session)
    options = session.options(PackOptions)
    return Answer(api.pack(machine, wish, options, confirm=confirm, progress=session.progress))
