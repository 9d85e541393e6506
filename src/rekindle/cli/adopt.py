from rekindle import api
from rekindle.cli.verb import Answer, Session, show_then_ask


def run(session: Session) -> Answer:
    """Give an application that brings its own torch (ComfyUI, Forge, A1111 …) the torch that fits this machine.

    Recognises the application and its Python, reads what it and its extensions require, and shows a card: today's
    torch, what the machine needs, what conflicts, what will be changed, how it is undone. After a yes it swaps torch
    and what hangs on it in that Python, proves it there, and writes what keeps pip and uv from replacing it again. Not
    proven: put back. --undo puts everything back, without fetching anything.
    """
    from rekindle.model.adopt import Adoption, AdoptOptions
    from rekindle.render.journey import show_adoption
    from rekindle.render.screen import Screen

    def confirm(planned: Adoption) -> bool:
        def show(screen: Screen) -> None:
            screen.line()
            show_adoption(planned, screen)
            screen.line()

        return show_then_ask(session, show, "Undo it?" if session.args.undo else "Swap it?")

    adopted = api.adopt(session.options(AdoptOptions), confirm=confirm, progress=session.progress)
    return Answer(adopted, good=adopted.good)
