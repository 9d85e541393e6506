"""``export table``: the planner asked for every kind of card, system, Python and driver that makes a difference, equal
answers once. Installers in other languages read it with the reader that goes beside it."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rekindle import __version__
from rekindle.api.plan_torch import pip_without_card, plan_many
from rekindle.compat.driver import distinct_drivers
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.gpus import device_classes
from rekindle.host.files import write_for_user
from rekindle.model.arch import parse_sm
from rekindle.model.document import encode, json_form
from rekindle.model.plan import Wish, pip_arguments
from rekindle.model.progress import Progress, Silent
from rekindle.model.version import key
from rekindle.model.words import DecisionTable, DriverStep, Exported, TableAnswer, TableWarning
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import PlanMemory

SYSTEMS = {"linux_x86_64": ("linux", "x86_64"), "linux_aarch64": ("linux", "aarch64"), "windows": ("windows", "x86_64")}
READER = "choose_torch.js"
NO_CARD = "none"


class _AnswerList:
    """Answers and warnings, each once, by their place."""

    def __init__(self) -> None:
        self.answers: dict[bytes, tuple[int, TableAnswer]] = {}
        self.warnings: dict[tuple[str, str], int] = {}
        self.memory: PlanMemory = {}

    def place_of(self, card: str, system: str, python: str, driver: str) -> int:
        """Ask the planner, and say where its answer stands."""
        name, arch = SYSTEMS[system]
        machine = machine_from_flags(gpu=[card], os=name, arch=arch, driver=driver or None)
        (plan,) = plan_many([(machine, Wish(python=python))], self.memory)
        warnings = [(reason.code, reason.text) for reason in plan.warnings if not reason.handled]
        row = TableAnswer(
            answer=plan.answer,
            torch=plan.torch,
            variant=plan.variant,
            python=plan.python,
            pip=pip_arguments(plan.requests) if plan.answer == "install" else (),
            env=plan.env,
            warnings=tuple(self.warnings.setdefault(warning, len(self.warnings)) for warning in warnings),
            cpu=_pip_without_card(name, arch, python) if plan.answer != "install" else (),
        )
        return self.answers.setdefault(encode(row), (len(self.answers), row))[0]


@functools.cache
def _pip_without_card(name: str, arch: str, python: str) -> tuple[tuple[str, ...], ...]:
    return pip_without_card(machine_from_flags(gpu=["none"], os=name, arch=arch), Wish(python=python))


def decision_table(
    *, cards: Sequence[str] | None = None, pythons: Sequence[str] | None = None, progress: Progress | None = None
) -> DecisionTable:
    """The whole table; ``cards`` (architectures, or ``none``) and ``pythons`` make it smaller.

    >>> small = decision_table(cards=["sm_61"], pythons=["3.12"])
    >>> [small.answers[place].variant for _, place in small.rules["sm_61"]["linux_x86_64"]["3.12"]][0]
    'cu126'
    """
    facts, listener = load_facts(), progress or Silent()
    devices = device_classes(facts)
    all_cards = [*sorted({name for vendor in devices.values() for name in vendor.values()}), NO_CARD]
    chosen = list(cards) if cards is not None else all_cards
    if unknown := [card for card in chosen if card not in all_cards]:
        raise BadInput(f"no card of the tables is {unknown[0]}", remedy=f"known are {', '.join(all_cards)}")
    if pythons is None:  # those that any of the newer releases has wheels for
        rows = [row for name, row in facts.torch.release.items() if key(name)[:2] >= (2, 8)]
        named = {python for row in rows for python in row.pythons.get("linux_x86_64", ())}
        pythons = sorted((python for python in named if not python.endswith("t")), key=key)
    lists = _AnswerList()
    rules: dict[str, dict[str, dict[str, tuple[DriverStep, ...]]]] = {}
    listener.stage("table", f"{len(chosen)} kinds of cards")
    for number, card in enumerate(chosen):
        listener.step(number, len(chosen), card)
        rules[card] = {}
        for system, (side, _) in SYSTEMS.items():
            drivers = distinct_drivers(parse_sm(card), side, facts) if card.startswith("sm_") else ()
            rules[card][system] = {
                python: _steps(functools.partial(lists.place_of, card, system, python), drivers) for python in pythons
            }
    return DecisionTable(
        rekindle=__version__,
        facts=max(row.date for row in facts.wheels.flavour),
        systems=tuple(SYSTEMS),
        pythons=tuple(pythons),
        devices={v: {d: name for d, name in ids.items() if name in chosen} for v, ids in devices.items()},
        rules=rules,
        answers=tuple(row for _, row in lists.answers.values()),
        warnings=tuple(TableWarning(code=code, text=text) for code, text in lists.warnings),
    )


def _steps(ask: Callable[[str], int], drivers: Sequence[str]) -> tuple[DriverStep, ...]:
    """The answer without a driver, then one step for each driver from which on it is another."""
    steps: list[DriverStep] = [("", ask(""))]
    for driver in drivers:
        if (place := ask(driver)) != steps[-1][1] or len(steps) == 1:
            steps.append((driver, place))
    return tuple(steps)


def export_table(out: Path | None = None, *, progress: Progress | None = None) -> Exported:
    """The table as JSON; in a folder with its schema and a reader in JavaScript beside it."""
    table = decision_table(progress=progress)
    raw = msgspec.json.encode(table, enc_hook=json_form) + b"\n"
    path, beside = out, {}
    if out is not None and out.is_dir():
        path = out / "torch-table.json"
        schema = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(DecisionTable)))
        reader = Path(__file__).with_name(READER).read_text(encoding="utf-8").encode()
        beside = {out / "torch-table.schema.json": schema, out / READER: reader}
        for other, content in beside.items():
            write_for_user(other, content)
    if path is not None:
        write_for_user(path, raw)
    return Exported(
        format="table",
        title="which torch for which card, system, driver and Python",
        path=str(path) if path else None,
        text=raw.decode("utf-8"),
        run=f"node -e \"console.log(require('./{READER}').chooseTorch(require('./torch-table.json'), "
        "{pci: '10de:1b80', system: 'windows', driver: null, python: '3.12'}))\"",
        beside=tuple(map(str, beside)),
    )
