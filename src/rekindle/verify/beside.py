"""One real operation for each companion: the table, and what of it is asked of the agent."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from importlib import resources

import msgspec

from rekindle.compat.companions import find_package, near_packages
from rekindle.errors import BadInput
from rekindle.facts import load_facts


class BesideCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``beside.toml``: what Python imports, the operation, and whether it needs a GPU."""

    module: str
    call: str
    gpu: bool = False


@functools.cache
def load_table() -> dict[str, BesideCheck]:
    """Every companion that can be proven."""
    text = resources.files(__package__).joinpath("beside.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, BesideCheck])


def provable(names: Sequence[str]) -> list[str]:
    """Those of the names that the table has an operation for."""
    return [name for name in names if name in load_table()]


def asked_beside(names: Sequence[str]) -> list[dict[str, object]]:
    """The rows for these names, as the agent takes them; a name without a row is refused."""
    table, facts = load_table(), load_facts()
    rows: dict[str, dict[str, object]] = {}
    for name in names:
        package = find_package(name, facts)
        if package is None or package not in table:
            near = [other for other in near_packages(name, facts) if other in table]
            hint = f"did you mean {near[0]}?" if near and package is None else f"known: {', '.join(table)}"
            raise BadInput(f"no check is known for {name}", remedy=hint)
        row = table[package]
        remedy = f"rekindle plan --with {package} names the version that goes with this torch"
        rows[package] = {"name": package, "remedy": remedy, **msgspec.structs.asdict(row)}
    return list(rows.values())
