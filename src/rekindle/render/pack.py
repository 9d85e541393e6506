"""A pack for people: what is in it, what is not, how it is installed; and what checking one found."""

from rekindle.model.journey import Card
from rekindle.model.pack import Pack, PackCheck
from rekindle.model.spoken import spoken_bytes
from rekindle.render.journey import spoken_download
from rekindle.render.screen import Screen
from rekindle.scripts.quoting import pasted

_SHOWN = 12


def show_pack(pack: Pack, screen: Screen) -> None:
    is_written = bool(pack.files)
    words = f"{spoken_bytes(pack.bytes)} in {pack.folder}" if is_written else "nothing was written (dry run)"
    screen.verdict("ok", f"{pack.title} for {pack.system} on {pack.arch}, Python {pack.python}: {words}")
    if pack.card is not None and not is_written:
        screen.section("What a yes brings")
        show_pack_card(pack.card, screen)
    packages = pack.packages if screen.verbosity else sorted(pack.packages, key=lambda item: -(item.bytes or 0))
    sizes = [(item.name, item.version, spoken_bytes(item.bytes) if item.bytes else "") for item in packages]
    screen.rows(sizes, title=f"{len(sizes)} packages", most=_SHOWN)
    screen.bullets(pack.left_out, title="Not in it", status="warn")
    screen.bullets(pack.notes, title="Notes", status="warn")
    if is_written:
        screen.commands("On that machine", pack.install)
        screen.commands("Before it travels, and after", [f"rekindle pack check {pasted(pack.folder)}"])


def show_pack_card(card: Card, screen: Screen) -> None:
    rows = [("what", ", ".join(card.what)), ("from", ", ".join(card.places)), ("download", spoken_download(card))]
    free = f" ({card.disk_free_gib:g} GiB free there)" if card.disk_free_gib is not None else ""
    screen.labels([*rows, ("into", f"{card.into}{free}")])


def show_pack_check(check: PackCheck, screen: Screen) -> None:
    if check.good:
        by = f", signed by {check.signed}" if check.signed else ""
        screen.verdict("ok", f"{check.title}: all {check.files} files are as they were made{by}")
    else:
        screen.verdict("fail", f"{check.folder} is not a whole, unchanged pack")
    screen.bullets(check.problems[: None if screen.verbosity else _SHOWN], status="fail")
    screen.bullets(check.notes, status="warn")
