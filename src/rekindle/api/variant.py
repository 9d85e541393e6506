"""``variant``: what installers that choose wheels by GPU should believe about this machine."""

from collections.abc import Sequence

from rekindle.api.plan import this_machine
from rekindle.compat.driver import driver_side, newest_cuda
from rekindle.facts import load_facts
from rekindle.facts.gpus import find_gpu
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.index.variants import first_visible_arch
from rekindle.model.arch import Sm
from rekindle.model.machine import Machine
from rekindle.model.version import at_least, is_version
from rekindle.model.words import UV_WITH_VARIANTS, VariantEnvironment

SM_VARIABLE = "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"
DRIVER_VARIABLE = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"


def variant_environment(machine: Machine | None = None, *, gpu: str | None = None) -> VariantEnvironment:
    """The two override variables, from our own doctor.

    Installers look at the newest card only. Here the oldest one decides (a wheel that holds its code is what a mixed
    box needs), unless ``gpu`` names another.

    >>> from rekindle.api import machine_from_flags
    >>> machine = machine_from_flags(gpu=["GTX 1080", "RTX 4090"], os="linux", driver="580.95")
    >>> variant_environment(machine).variables["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"]
    '6.1'
    """
    target = machine or this_machine()
    facts = load_facts()
    cards = [card.arch for card in target.gpus if isinstance(card.arch, Sm)]
    if gpu is not None:
        cards = [arch for arch in find_gpu(gpu, facts).archs if isinstance(arch, Sm)]
    if not cards:
        return VariantEnvironment(variables={}, notes=("no NVIDIA card was found: installers take the CPU wheel",))
    chosen = min(cards)
    variables = {SM_VARIABLE: chosen.dotted}
    notes = [*_note_limits(chosen, cards, first_visible_arch()), *_old_uv()]
    driver = target.drivers.nvidia
    cuda = newest_cuda(driver, driver_side(target.os), facts) if driver else None
    if cuda:
        variables[DRIVER_VARIABLE] = cuda
    else:
        notes.append("no NVIDIA driver was found, so the driver's CUDA version is not set")
    return VariantEnvironment(variables=variables, notes=tuple(notes))


def _old_uv(host: Host | None = None) -> list[str]:
    """The uv of this machine, where it is too old to choose."""
    words = (host or LiveHost()).run(["uv", "--version"]).out.split()
    if len(words) < 2 or not is_version(words[1]) or at_least(words[1], UV_WITH_VARIANTS):
        return []
    return [f"uv {words[1]} takes the CPU wheel whatever is set; {UV_WITH_VARIANTS} and newer choose (uv self update)"]


def _note_limits(chosen: Sm, cards: Sequence[Sm], first: Sm) -> list[str]:
    """What the variables cannot say; ``first`` is the oldest capability installers see."""
    notes = []
    if len(set(cards)) > 1:
        others = ", ".join(sorted({str(card) for card in cards if card != chosen}))
        notes.append(f"{chosen} decides; {others} must run what is installed for it (rekindle plan tells)")
    if chosen < first:
        notes.append(
            f"uv gives no compute capability below {first.dotted}: {chosen} wheels are found by the driver alone"
        )
    return notes
