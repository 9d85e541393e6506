"""What a grafted wheel does about closed libraries (:mod:`rekindle.compat.closed_libraries` judges them): it asks for
another version of their package, or switches off when CUDA starts what nothing serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.version import Version

from rekindle.errors import BadInput
from rekindle.model.arch import parse_sm
from rekindle.model.graft import LibraryBeside

# What torch can do without: the statement that switches it off.
SWITCHES = {"cudnn": "backends.cudnn.enabled = False"}
_HOOK = """

def _rekindle_switch_off():
    # {name} has no code for these cards: what it would have computed goes through torch's own kernels.
    if any(cuda.get_device_capability(number) in {cards} for number in range(cuda.device_count())):
        import warnings

        {statement}
        warnings.warn({reason}, stacklevel=2)


cuda._lazy_call(_rekindle_switch_off)
"""


def exchanges(libraries: Sequence[LibraryBeside]) -> dict[str, str]:
    """Package -> the version that the grafted wheel asks for instead: the latest that any card needs."""
    wanted: dict[str, str] = {}
    for row in libraries:
        if row.package and row.exchanged:
            both = (row.exchanged, wanted.get(row.package, row.exchanged))
            wanted[row.package] = max(both, key=lambda text: Version(text.removesuffix(".*")))
    return wanted


def switched_off(libraries: Sequence[LibraryBeside]) -> dict[str, str]:
    """What is switched off when CUDA starts (a key of :data:`SWITCHES`) -> why."""
    return {row.switch: row.why for row in libraries if row.off and row.switch}


def hook(off: Mapping[str, str], archs: Sequence[str]) -> bytes:
    """What is added to torch/__init__.py of the grafted wheel: run once, when CUDA starts, where such a card is."""
    if strange := off.keys() - SWITCHES.keys():
        raise BadInput(f"nothing in torch switches {min(strange)[:80]!r} off")
    if not off:
        return b""
    cards = ascii([(sm.major, sm.minor) for sm in map(parse_sm, archs)])
    # ascii(): a graft file comes from anywhere, and its words must stay words.
    return "".join(
        _HOOK.format(name=name, cards=cards, statement=SWITCHES[name], reason=ascii(reason))
        for name, reason in sorted(off.items())
    ).encode()
