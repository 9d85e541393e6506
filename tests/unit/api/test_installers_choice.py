"""What a tool that picks a torch hears: the same worries as the card of ``up``."""

from __future__ import annotations

from rekindle.api.plan import choose_torch, plan
from rekindle.model.machine import Machine, Os
from rekindle.model.plan import Wish


def test_what_the_plan_avoids_by_itself_is_no_worry_of_the_choice() -> None:
    machine = Machine(os=Os(system="linux", distro="debian 12", glibc="2.36", arch="x86_64"))
    wish = Wish(build=True, torch="1.13.1", variant="cpu", python="3.10")
    told = {warning.code: warning for warning in plan(machine, wish).warnings}
    beware = choose_torch(machine, wish).beware
    assert told["cmake4-policy"].handled and told["cmake4-policy"].text not in beware
    assert told["setuptools-82"].text in beware
