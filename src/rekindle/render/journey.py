"""A walk, an application's torch and a pack for people: the verdict, what was done or would be, what to do next."""

from rekindle.model.adopt import Adoption
from rekindle.model.journey import Card, Journey
from rekindle.model.pack import Pack, PackCheck
from rekindle.model.spoken import spoken_bytes, spoken_minutes, spoken_seconds
from rekindle.render.build import show_error
from rekindle.render.screen import Screen, printable, widest
from rekindle.scripts.quoting import pasted

_MARK = {"done": "ok", "kept": "ok", "failed": "fail", "skipped": "skip"}


def _show_journey(journey: Journey, screen: Screen) -> None:
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
        *(("", companion.wheel) for companion in journey.companions),
        ("python", journey.python),
        ("report", journey.report),
        *(("keeps torch" if number == 0 else "", place) for number, place in enumerate(journey.keeps)),
    ]
    screen.places(places, title="Where everything lies")
    screen.commands("Next", journey.next)


_LINE_BITS = 100e6  # a usual line at home; the card says that it is assumed
_SHOWN = 3


def show_card(card: Card, screen: Screen) -> None:
    """What a yes brings: downloads, disk, memory, time, and what will not work."""
    python, disk = f", Python {card.python}" if card.python else "", "not known"
    if card.disk_gib:
        disk = f"about {card.disk_gib:g} GiB"
    if card.disk_free_gib is not None:
        tight = card.disk_gib is not None and card.disk_free_gib < card.disk_gib
        disk += f"; {'only ' if tight else ''}{card.disk_free_gib:g} GiB free there"
    rows = (
        ("what", ", ".join(card.what)),
        ("from", ", ".join(card.places)),
        ("download", _spoken_download(card)),
        ("disk", disk),
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


def _spoken_download(card: Card) -> str:
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


_ADOPTED = {"adopted": "ok", "already": "ok", "planned": "skip", "undone": "ok", "not-proven": "fail", "no": "fail"}


def show_adoption(adoption: Adoption, screen: Screen) -> None:
    """What an application's environment gets instead of its torch, and how that is undone."""
    screen.verdict(_ADOPTED[adoption.state], adoption.verdict)
    if adoption.state == "undone" or adoption.plan is None:
        return
    planned = adoption.state == "planned"
    rows = [("folder", adoption.folder), ("python", adoption.python), ("torch there", adoption.before or "none")]
    screen.labels(rows, title="Where")
    changes = []
    for change in adoption.changes:
        gone = f"{change.from_} is taken out: {change.why}"
        changes.append((change.name, gone if change.to is None else f"{change.from_ or 'not there'} → {change.to}"))
    screen.rows(changes, title="What changes" if planned else "What changed")
    if not changes and (planned or adoption.state == "adopted"):
        screen.paragraph("\nThe torch there is the right one: it is proved and kept.")
    if planned and adoption.card is not None:
        screen.section("What a yes brings")
        show_card(adoption.card, screen)
    screen.bullets(adoption.conflicts, status="warn", title="Wants something else")
    screen.rows(adoption.env.items(), title="Set whenever its Python starts")
    screen.bullets(adoption.files, title="What keeps it so" if planned else "Written to keep it so")
    if planned:
        screen.section("How it is undone")
        screen.paragraph(
            "The whole environment as it is now is kept beside it; rekindle adopt FOLDER --undo puts it back, byte for"
            " byte, without fetching anything."
        )
    if adoption.state != "already" or screen.verbosity:
        screen.bullets(adoption.beware, status="warn", title="What of its own may replace torch")
    reasons = adoption.plan.because[: 8 if screen.verbosity else 2]
    screen.bullets([reason.text for reason in reasons], title="Why this torch")
    screen.commands("Next", adoption.next)


_SHOWN_PACKAGES = 12


def show_pack(pack: Pack, screen: Screen) -> None:
    """What is in a folder that travels, what is not, and how it is installed there."""
    is_written = bool(pack.files)
    words = f"{spoken_bytes(pack.bytes)} in {pack.folder}" if is_written else "nothing was written (dry run)"
    screen.verdict("ok", f"{pack.title} for {pack.system} on {pack.arch}, Python {pack.python}: {words}")
    if pack.card is not None and not is_written:
        screen.section("What a yes brings")
        show_pack_card(pack.card, screen)
    packages = pack.packages if screen.verbosity else sorted(pack.packages, key=lambda item: -(item.bytes or 0))
    sizes = [(item.name, item.version, spoken_bytes(item.bytes) if item.bytes else "") for item in packages]
    screen.rows(sizes, title=f"{len(sizes)} packages", most=_SHOWN_PACKAGES)
    screen.bullets(pack.left_out, title="Not in it", status="warn")
    screen.bullets(pack.notes, title="Notes", status="warn")
    if is_written:
        screen.commands("On that machine", pack.install)
        screen.commands("Before it travels, and after", [f"rekindle pack check {pasted(pack.folder)}"])


def show_pack_card(card: Card, screen: Screen) -> None:
    """The same for a pack, which installs nothing here."""
    rows = [("what", ", ".join(card.what)), ("from", ", ".join(card.places)), ("download", _spoken_download(card))]
    free = f" ({card.disk_free_gib:g} GiB free there)" if card.disk_free_gib is not None else ""
    screen.labels([*rows, ("into", f"{card.into}{free}")])


def _show_pack_check(check: PackCheck, screen: Screen) -> None:
    if check.good:
        by = f", signed by {check.signed}" if check.signed else ""
        screen.verdict("ok", f"{check.title}: all {check.files} files are as they were made{by}")
    else:
        screen.verdict("fail", f"{check.folder} is not a whole, unchanged pack")
    screen.bullets(check.problems[: None if screen.verbosity else _SHOWN_PACKAGES], status="fail")
    screen.bullets(check.notes, status="warn")
