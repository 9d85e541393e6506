from collections.abc import Callable

from rekindle import api
from rekindle.cli.plan import read_companions, read_settings
from rekindle.cli.verb import Answer, Session, show_then_ask
from rekindle.model.spoken import capital


def run(session: Session) -> Answer:
    """From nothing to a torch that provably runs on this machine.

    Probes the machine, plans, and shows a card: what comes, from where, how much, where to, what will not work, and
    what else could be had. After a yes it installs the official wheel, or fetches, patches and builds the source, and
    proves the result. What is already there is kept: a second run is instant, an interrupted one continues.
    """
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

    args = session.args
    settings, companions = read_settings(args.settings), read_companions(args.companions)
    wish = session.options(Wish, settings=settings, companions=companions, python=None)
    journey = api.up(session.options(UpOptions, wish=wish), confirm=confirm, progress=session.progress)
    return Answer(journey, good=journey.arrived)
