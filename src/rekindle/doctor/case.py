"""What a rule of the doctor looks at: the finished machine, and how this system installs things."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rekindle.doctor.fixes import fix_for
from rekindle.doctor.gpus import Graphics
from rekindle.model.machine import Check, Gap, Machine


class Case(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    graphics: Graphics
    managers: tuple[str, ...]
    workspace: str
    torch_users: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def fix(self, topic: str) -> str | None:
        return fix_for(topic, self.managers)


# One line of the table, several, or none where the question does not arise.
Rule = Callable[[Case], Check | list[Check] | None]
