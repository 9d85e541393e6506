"""The exported table, read by its reader in Node, answers as the planner does."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from needs import tool
from rekindle import api
from rekindle.api.table import NO_CARD, READER, SYSTEMS
from rekindle.facts import load_facts
from rekindle.facts.gpus import find_by_pci_id
from rekindle.model.machine import Drivers, Gpu
from rekindle.model.plan import Wish, pip_arguments
from rekindle.model.words import DecisionTable

pytestmark = [pytest.mark.integration]
CARDS = ("sm_35", "sm_52", "sm_61", "sm_70", "sm_86", "sm_120", "gfx906", "gfx1030", "gfx1100", NO_CARD)
PYTHONS = ("3.10", "3.12", "3.14")
MACHINES = 2000
BRANCHES = (340, 390, 418, 450, 460, 470, 495, 510, 515, 520, 525, 535, 550, 560, 570, 580, 590, 610)
ASK = """
const { chooseTorch } = require(process.argv[1]);
const table = require(process.argv[2]);
const machines = require(process.argv[3]);
console.log(JSON.stringify(machines.map((machine) => chooseTorch(table, machine))));
"""


@pytest.fixture(scope="module")
def table() -> DecisionTable:
    return api.decision_table(cards=CARDS, pythons=PYTHONS)


def machines(table: DecisionTable) -> Iterator[dict[str, Any]]:
    chance = random.Random(36)
    ids = [f"{vendor}:{device}" for vendor, devices in table.devices.items() for device in devices]
    for _ in range(MACHINES):
        pci = chance.choice([*ids, None])
        major = chance.choice(
            (340, 390, 418, 450, 460, 470, 495, 510, 515, 520, 525, 535, 550, 560, 570, 580, 590, 610)
        )
        driver = f"{major}.{chance.randrange(200)}"
        known = pci is not None and pci.startswith("10de") and chance.random() > 0.1
        yield {
            "pci": pci,
            "system": chance.choice(table.systems),
            "driver": driver if known else None,
            "python": chance.choice(table.pythons),
        }


def by_planner(asked: dict[str, Any]) -> tuple[object, ...]:
    """The planner's answer to the machine with that very product in it."""
    name, arch = SYSTEMS[asked["system"]]
    machine = api.machine_from_flags(gpu=["none"], os=name, arch=arch)
    if asked["pci"] is not None:
        vendor, device = asked["pci"].split(":")
        found = find_by_pci_id(vendor, device, load_facts())
        gpu = Gpu(vendor=found.vendor, name=found.name, arch=found.archs[0], how="pci")
        drivers = Drivers(nvidia=asked["driver"])
        machine = msgspec.structs.replace(machine, gpus=(gpu,), no_gpu=False, drivers=drivers)
    made = api.plan(machine, Wish(python=asked["python"]), wheelhouses=())
    pip = [list(words) for words in pip_arguments(made.requests)] if made.answer == "install" else []
    codes = sorted(one.code for one in made.warnings if not one.handled)
    return made.answer, made.torch, made.variant, made.python, pip, made.env, codes


@tool("node")
def test_two_thousand_machines_get_the_planners_answer(table: DecisionTable, tmp_path: Path) -> None:
    asked = list(machines(table))
    (tmp_path / "table.json").write_bytes(msgspec.json.encode(table))
    (tmp_path / "machines.json").write_text(json.dumps(asked), encoding="utf-8")
    (tmp_path / "choose_torch.js").write_text(
        resources.files("rekindle.api").joinpath(READER).read_text("utf-8"), encoding="utf-8"
    )
    files = [str(tmp_path / name) for name in ("choose_torch.js", "table.json", "machines.json")]
    done = subprocess.run(["node", "-e", ASK, *files], capture_output=True, text=True, check=True)
    wrong = []
    for machine, told in zip(asked, json.loads(done.stdout), strict=True):
        codes = sorted(one["code"] for one in told["warnings"])
        fields = ("answer", "torch", "variant", "python", "pip", "env")
        read = (*(told[name] for name in fields), codes)
        if read != (right := by_planner(machine)):
            wrong.append((machine, read, right))
    assert wrong == [], f"{len(wrong)} of {MACHINES} differ"


@tool("node")
def test_what_the_table_does_not_know_is_said_to_be_unknown(table: DecisionTable, tmp_path: Path) -> None:
    (tmp_path / "table.json").write_bytes(msgspec.json.encode(table))
    (tmp_path / "choose_torch.js").write_text(
        resources.files("rekindle.api").joinpath(READER).read_text("utf-8"), encoding="utf-8"
    )
    good = {"pci": None, "system": "windows", "driver": None, "python": "3.12"}
    odd = [good, {**good, "pci": "dead:beef"}, {**good, "system": "beos"}, {**good, "python": "2.7"}]
    (tmp_path / "machines.json").write_text(json.dumps(odd), encoding="utf-8")
    files = [str(tmp_path / name) for name in ("choose_torch.js", "table.json", "machines.json")]
    done = subprocess.run(["node", "-e", ASK, *files], capture_output=True, text=True, check=True)
    assert [one["answer"] for one in json.loads(done.stdout)] == ["install", "unknown", "unknown", "unknown"]


def test_the_table_is_small_versioned_and_fits_its_schema(table: DecisionTable) -> None:
    raw = msgspec.json.encode(table)
    assert len(raw) < 200_000 and table.schema == 1
    assert msgspec.json.decode(raw, type=DecisionTable) == table
    used = {
        place for card in table.rules.values() for one in card.values() for steps in one.values() for _, place in steps
    }
    assert used == set(range(len(table.answers)))
