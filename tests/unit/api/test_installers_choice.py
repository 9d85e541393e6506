"""What a tool that picks a torch hears: the same worries as the card of ``up``."""

from __future__ import annotations

from rekindle.api.plan_torch import choose_torch, plan
from rekindle.model.machine import Machine, Os
from rekindle.model.plan import Wish
from rekindle.plan.describe import machine_from_flags


def test_what_the_plan_avoids_by_itself_is_no_worry_of_the_choice() -> None:
    machine = Machine(os=Os(system="linux", distro="debian 12", glibc="2.36", arch="x86_64"))
    wish = Wish(build=True, torch="1.13.1", variant="cpu", python="3.10")
    told = {warning.code: warning for warning in plan(machine, wish).warnings}
    beware = choose_torch(machine, wish).beware
    assert told["cmake4-policy"].handled and told["cmake4-policy"].text not in beware
    assert told["setuptools-82"].text in beware


def test_without_a_wheel_for_the_card_the_cpus_is_named() -> None:
    choice = choose_torch(machine_from_flags(gpu=["Tesla K40c"], os="windows"), Wish(python="3.12"), wheelhouses=())
    assert choice.answer == "build" and choice.pip == ()
    assert choice.cpu[0][0].startswith("torch=="), "the wheel of PyPI, which is for the CPU on Windows"
    linux = choose_torch(machine_from_flags(gpu=["Tesla K40c"], os="linux"), Wish(python="3.13"), wheelhouses=())
    assert linux.answer == "install" or "https://download.pytorch.org/whl/cpu" in linux.cpu[0]
    served = choose_torch(machine_from_flags(gpu=["GTX 1080"], os="linux"), wheelhouses=())
    assert served.cpu == () and served.pip
