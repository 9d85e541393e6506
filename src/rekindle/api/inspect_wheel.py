"""``inspect`` joined: a target found where pip would find it, read, and judged for a machine."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.errors import BadInput, Declined
from rekindle.host.files import write_for_user
from rekindle.inspect.reader import Source, WheelSource
from rekindle.inspect.survey import inspect_source
from rekindle.inspect.targets import open_target, wheels_in
from rekindle.model.document import load_kept
from rekindle.model.machine import Machine
from rekindle.model.progress import Progress, Silent
from rekindle.model.wheel import InspectOptions, KeptTrials, WheelDiff, WheelFinding, WheelReport, WheelShelf


def inspect(
    target: str,
    options: InspectOptions | None = None,
    *,
    confirm: Callable[[str, int], bool] | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> WheelReport:
    """What a wheel, library, directory or published package really contains; a ``machine`` adds a verdict.

    How it is read is an :class:`~rekindle.model.wheel.InspectOptions`, or its fields by name. ``confirm`` is asked
    before hundreds of megabytes are read over a network: it gets the file's name and size.

    >>> report = inspect(str(wheel), machine=inspect_machine("sm_35"), machine_name="an old card")
    >>> report.name, report.gpu.kernels.sass, report.verdict.runs
    ('torch', ('sm_50', 'sm_90'), False)
    """
    chosen = replace(options or InspectOptions(), **choices)
    listener = progress or Silent()
    notes: list[WheelFinding] = []
    with open_target(
        target, progress=listener, python=chosen.python, platform=chosen.platform, tell=notes.append
    ) as source:
        if not chosen.quick and confirm is not None:
            _ask_before_much(source, confirm)
        report = _read_source(source, chosen, listener)
    return replace(report, findings=(*notes, *report.findings))


def _read_source(source: Source, options: InspectOptions, progress: Progress) -> WheelReport:
    """What it contains, with the verdict about the machine that was named."""
    report = inspect_source(source, quick=options.quick, cpu=options.cpu, progress=progress)
    machine = options.machine
    if machine is None:
        return report
    from rekindle.compat.processor import features_of
    from rekindle.facts import load_facts
    from rekindle.host.made import own_directories
    from rekindle.inspect.verdict import verdict_for
    from rekindle.verify.crash import place_of

    # What ``verify`` found of the operators this audit suspects, on a CPU like the machine's.
    features = features_of(machine.cpu, load_facts())
    place = place_of(own_directories()[1], report.cpu.evidence, features) if features else None
    trials = load_kept(place, KeptTrials) if place else None
    verdict = verdict_for(report, machine, options.machine_name, trials)
    return replace(report, verdict=verdict)


# Below this nobody waits long enough to be asked.
_MUCH_BYTES = 200 << 20


def _ask_before_much(source: Source, confirm: Callable[[str, int], bool]) -> None:
    if not isinstance(source, WheelSource) or source.fetched is None or source.size < _MUCH_BYTES:
        return
    if not confirm(source.label, source.size):
        raise Declined(f"{source.label} was not read", remedy="--quick reads about 2 MB of it; answer y, or give --yes")


def inspect_shelf(
    target: str, options: InspectOptions | None = None, *, progress: Progress | None = None, **choices: Any
) -> WheelShelf:
    """Every wheel of a directory or of an archive, one after the other; what cannot be read is told and passed over.

    >>> shelf = inspect_shelf(str(wheel.parent), cpu=False)
    >>> [report.name for report in shelf.wheels]
    ['torch']
    """
    chosen = replace(options or InspectOptions(), **choices)
    listener = progress or Silent()
    wheels: list[WheelReport] = []
    unread: list[WheelFinding] = []
    for name, source in wheels_in(Path(target)):
        listener.stage("reading", name)
        try:
            if isinstance(source, BadInput):
                raise source
            wheels.append(_read_source(source, chosen, listener))
        except BadInput as error:
            unread.append(WheelFinding(code="unreadable-wheel", text=f"{name}: {error.message}", severity="error"))
    return WheelShelf(place=target, wheels=tuple(wheels), findings=tuple(unread))


def inspect_diff(
    before: str, after: str, options: InspectOptions | None = None, *, progress: Progress | None = None, **choices: Any
) -> WheelDiff:
    """What changed from one wheel to another.

    >>> inspect_diff(str(wheel), str(wheel)).differences
    ()
    """
    from rekindle.inspect.diff import compare

    return compare(*(inspect(target, options, progress=progress, **choices) for target in (before, after)))


def inspect_page(report: WheelReport, path: Path) -> None:
    """Save the report as one HTML page that needs no network.

    >>> inspect_page(inspect(str(wheel)), folder / "wheel.html")
    >>> (folder / "wheel.html").read_text(encoding="utf-8")[:15].lower()
    '<!doctype html>'
    """
    from rekindle.render.pages import wheel_page

    write_for_user(path, wheel_page(report))


def inspect_machine(where: str) -> Machine:
    """``this``, a machine.json, the name of a profile, or simply a GPU (``sm_35``, ``Tesla K40c``) or a CPU.

    >>> str(inspect_machine("Tesla K40c").gpus[0].arch)
    'sm_35'
    >>> inspect_machine("nehalem").cpu.microarchitecture
    'nehalem'
    """
    from rekindle.api.plan_torch import find_machine, this_machine
    from rekindle.plan.describe import machine_from_flags

    if where == "this":
        return this_machine()
    try:
        return find_machine(where)[0]
    except BadInput as error:
        if Path(where).exists() or where.endswith(".json"):
            raise
        described: list[tuple[dict[str, Any], Machine]] = []
        for flags in ({"gpu": [where]}, {"cpu": where}):
            with contextlib.suppress(BadInput):
                described.append((flags, machine_from_flags(**flags)))
        known = [flags for flags, spec in described if spec.cpu.microarchitecture or any(gpu.arch for gpu in spec.gpus)]
        if known:
            # The name of a CPU with graphics in it says both.
            return machine_from_flags(**{name: value for flags in known for name, value in flags.items()})
        if described:
            return described[0][1]
        raise error from None
