"""A walk for people: verdict, the legs, where everything lies, what to do next."""

from rekindle.model.journey import Card, Journey
from rekindle.model.spoken import spoken_bytes, spoken_minutes, spoken_seconds
from rekindle.render.build import show_error
from rekindle.render.screen import Screen, printable, widest

_MARK = {"done": "ok", "kept": "ok", "failed": "fail", "skipped": "skip"}


def show_journey(journey: Journey, screen: Screen) -> None:
    screen.verdict("ok" if journey.arrived else "fail", journey.verdict)
    screen.section("The way")
    times = ["kept" if leg.status == "kept" else spoken_seconds(leg.seconds) for leg in journey.legs]
    width, longest = widest(leg.name for leg in journey.legs), widest(times)
    for leg, time in zip(journey.legs, times, strict=True):
        screen.entry(f"{leg.name:<{width}}  {time:>{longest}} ", leg.detail, status=_MARK[leg.status])
    if journey.card is not None and journey.report is None:  # a dry run
        screen.section("What a yes brings")
        show_card(journey.card, screen)
    failure = journey.failure
    if failure is not None:
        show_error(failure, screen, lines=6, causes=1)
        if failure.log:
            screen.section("The whole log")
            screen.line(f"  {printable(failure.log)}")
        screen.paragraph("When the cause is removed, the same command goes on: what was compiled is kept.")
    if journey.report is None:
        return
    places = [
        ("workspace", journey.workspace),
        ("wheel", journey.wheel),
        *(("", companion.wheel) for companion in journey.beside),
        ("python", journey.python),
        ("report", journey.report),
        *(("keeps torch" if number == 0 else "", place) for number, place in enumerate(journey.keeps)),
    ]
    screen.places(places, title="Where everything lies")
    screen.commands("Next", journey.next)


_LINE_BITS = 100e6  # a usual line at home; the card says that it is assumed
_SHOWN = 3


def show_card(card: Card, screen: Screen) -> None:
    python = f", Python {card.python}" if card.python else ""
    rows = (
        ("what", ", ".join(card.what)),
        ("from", ", ".join(card.places)),
        ("download", spoken_download(card)),
        ("disk", _disk(card)),
        ("memory", f"{card.memory_gib:g} GiB at least for the compilers" if card.memory_gib else ""),
        ("time", _time_ahead(card)),
        ("into", f"{'a new environment, ' if card.new else ''}{card.into}{python} (with {card.installer})"),
    )
    screen.labels(rows)
    if card.network:
        screen.bullet(f"no network: {card.network}", status="fail")
        screen.bullet("next: --index URL (a mirror), --find-links DIR (wheels that are here), or --offline")
    screen.commands("What can be had from here", card.reachable)
    screen.bullets(card.wont, title="Will not work, or not well, on this machine", most=_SHOWN)
    screen.bullets(card.others, title="Other choices", most=_SHOWN)


def spoken_download(card: Card) -> str:
    """What is fetched, how much of it, and the large ones by name."""
    if card.packages is None and (card.memory_gib is not None or card.minutes is not None):
        return "the sources with their third parties; how much is not known beforehand" if card.places else "nothing"
    if card.network:
        return "not known: the index cannot be asked"
    if card.packages is None:
        return "this installer cannot tell sizes beforehand"
    if not card.packages:
        return "nothing new is needed"
    size = "of unknown size" if card.download_bytes is None else spoken_bytes(card.download_bytes)
    more = f" and {card.download_unknown} of unknown size" if card.download_unknown and card.download_bytes else ""
    names = f": {', '.join(card.largest)}" if card.largest else ""
    rest = f" and {card.packages - len(card.largest)} smaller" if card.packages > len(card.largest) else ""
    plural = "" if card.packages == 1 else "s"
    sources = ", and the sources of what is compiled" if card.minutes else ""
    return f"{card.packages} package{plural}, {size}{more}{names}{rest}{sources}"


def _disk(card: Card) -> str:
    need = f"about {card.disk_gib:g} GiB" if card.disk_gib else "not known"
    if card.disk_free_gib is None:
        return need
    tight = card.disk_gib is not None and card.disk_free_gib < card.disk_gib
    return f"{need}; {'only ' if tight else ''}{card.disk_free_gib:g} GiB free there"


def _time_ahead(card: Card) -> str:
    if card.minutes:
        return f"{spoken_minutes(*card.minutes)} of compiling (an estimate); Ctrl-C is safe, the same command continues"
    if card.memory_gib is not None:
        return "not known for what is compiled; Ctrl-C is safe, the same command continues"
    if card.network or card.packages is None:
        return "not known: it depends on the download"
    if not card.download_bytes:
        return "as long as the download takes" if card.packages else "seconds: nothing is fetched"
    if card.places and not any(place.startswith(("http:", "https:")) for place in card.places):
        return "nothing comes over a network; it is unpacked and proven"
    line = spoken_seconds(card.download_bytes * 8 / _LINE_BITS)
    return f"the download takes {line} on a line of 100 Mbit/s; then it is unpacked and proven"
