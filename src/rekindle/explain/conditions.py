"""Named questions that rules ask in ``when``: about captured values, the rest of the log, the machine, the plan.

An answer is True, False or None. None means "cannot tell": the rule stays, with less confidence. And what signals
captured of the machine: facts with names people know, which contradict a rule that takes something else for granted.
"""

import re
from collections.abc import Callable

from rekindle.compat.images import GpuCode, covers
from rekindle.compat.libc import libc_of, libc_runs, tag_libc
from rekindle.compat.processor import missing
from rekindle.explain.events import Event
from rekindle.explain.rule import Rule, load_names
from rekindle.explain.scene import Scene, capability, find_carrier, kernels_of, supported, to_sm, toolkit_of
from rekindle.model.arch import Gfx, Sm
from rekindle.model.version import compare, matches

Condition = Callable[[Event, Scene], bool | None]
# Older ones were dropped by every toolkit of the last years; from here on a toolkit may be too old or too new for it.
_MIDDLE = Sm(5, 0)
_UNITS = {"M": 1, "G": 1024, "T": 1024 * 1024}


def _card_newer_than_wheel(event: Event, scene: Scene) -> bool | None:
    card, archs = capability(event, scene), supported(event, scene)
    if card is None or not archs:
        return None
    # Where torch itself said "not compatible" it is believed; the list of an inspected package is judged here.
    return card > archs[-1] and not ("capability" not in event.values and _installed_torch_has_card(event, scene))


def _card_older_than_wheel(event: Event, scene: Scene) -> bool | None:
    card, archs = capability(event, scene), supported(event, scene)
    return None if card is None or not archs else card < archs[0]


def _card_between(event: Event, scene: Scene) -> bool | None:
    card, archs = capability(event, scene), supported(event, scene)
    # Without a list nothing can be said about gaps in it: the plain rules answer.
    return False if card is None or not archs else archs[0] <= card <= archs[-1]


def _other_flavour_has_it(event: Event, scene: Scene) -> bool | None:
    """Does another published flavour of the very same release carry the card?"""
    card, archs = capability(event, scene), supported(event, scene)
    if card is None or not archs:
        return False
    version = scene.values.get("torch_version")
    if version and scene.facts.release(version):
        return find_carrier(card, scene, torch=version) is not None
    # The log names no release: the newest one with a flavour that has exactly this list's top decides.
    return archs[-1].major >= 10 and find_carrier(card, scene) is not None and card >= Sm(5, 0)


def _card_is_blackwell(event: Event, scene: Scene) -> bool | None:
    card = capability(event, scene)
    return None if card is None else card.major >= 10


def _installed_torch_known(event: Event, scene: Scene) -> bool | None:
    """Only with ``--torch`` and a known card is the installed package itself judged."""
    return bool(scene.wheel and kernels_of(scene.wheel) and capability(event, scene))


def _installed_torch_has_card(event: Event, scene: Scene) -> bool | None:
    card = capability(event, scene)
    if card is None or scene.wheel is None:
        return False
    return covers(GpuCode(kernels_of(scene.wheel), cuda=scene.wheel.cuda), card, None, scene.facts).runs == "yes"


def _card_in_static_libraries(event: Event, scene: Scene) -> bool | None:
    card = capability(event, scene)
    static = scene.wheel.gpu.static_libraries if scene.wheel else None
    if card is None or scene.wheel is None or static is None or not (names := (*static.sass, *static.partial)):
        return False
    return covers(GpuCode(names, cuda=scene.wheel.cuda), card, None, scene.facts).kind == "native"


def _arch_is_older_than_toolkit(event: Event, scene: Scene) -> bool | None:
    """nvcc refused an architecture: did it drop it, or does it not know it yet?"""
    arch = to_sm(event.values.get("arch"))
    if arch is None:
        return None
    if known := scene.toolkit_archs(toolkit_of(event, scene)):
        return arch < known[0]
    if (is_dropped := _dropped_or_new(arch, event, scene)) is not None:
        return is_dropped
    # FindCUDA builds ("Building NVCC (Device) object") are of a time when the middle generations were new.
    return not (scene.saw("find-cuda-module") and arch >= _MIDDLE)


def _toolkit_or_arch_tells(event: Event, scene: Scene) -> bool | None:
    """Does something in the log tell whether the refused architecture is too old or too new? Else it is a guess."""
    arch = to_sm(event.values.get("arch"))
    is_told = arch is None or scene.toolkit_archs(toolkit_of(event, scene)) or arch < _MIDDLE
    return True if is_told or (arch and _dropped_or_new(arch, event, scene) is not None) else None


def _dropped_or_new(arch: Sm, event: Event, scene: Scene) -> bool | None:
    """By the architecture itself or the others of the same command; None where both may be."""
    oldest_of_newest = scene.toolkit_archs(scene.facts.toolkits[0])[0]
    if arch >= oldest_of_newest:
        return False  # no toolkit has dropped it, so this one does not know it yet
    # The same command names other architectures: a list that reaches past this one means it was dropped.
    flags = re.findall(r"compute_(\d+)", " ".join((event.around, scene.values.get("arch_flags", ""))))
    newest = max((Sm.from_number(int(number)) for number in flags), default=arch)
    return True if newest >= oldest_of_newest else None


def _lacks_features(*features: str) -> Condition:
    """Only a processor that is known to have the features answers no; the crash is evidence that it lacks one."""
    return lambda event, scene: not (scene.cpu_features and not missing(features, scene.cpu_features))


def _machine_is_arm(event: Event, scene: Scene) -> bool | None:
    if scene.machine is not None and scene.machine.os.arch:
        return scene.machine.os.arch in ("aarch64", "arm64", "armv7l", "armv8l")
    return scene.saw("arm") or scene.saw("jetson")


def _card_is_amd(event: Event, scene: Scene) -> bool | None:
    """By the words of HIP and ROCm in the log, or by the machine's cards."""
    cards = [gpu.arch for gpu in scene.machine.gpus] if scene.machine else []
    return scene.saw("amd") or scene.saw("gfx") or bool(cards and all(isinstance(card, Gfx) for card in cards))


def _wheel_tag_newer_than_glibc(event: Event, scene: Scene) -> bool | None:
    need = tag_libc([event.values.get("tag", "") or event.values.get("wheel", "").removesuffix(".whl")], scene.facts)
    if need is None:
        return False
    have = libc_of(scene.machine.os, scene.facts) if scene.machine is not None else None
    if "wheel" in event.values and have is not None and have.kind is not None:
        return libc_runs(need, have).kind == "no"
    return True if "tag" in event.values else None


def _index_answered(event: Event, scene: Scene) -> bool | None:
    """An index without a single version may not have been reached at all, unless the log tells the Python."""
    is_empty = event.values.get("versions") == "none" or "(from versions: none)" in event.around
    return None if is_empty and not scene.values.get("python_version") else True


def _python_is_outside(event: Event, scene: Scene) -> bool | None:
    """Within the Pythons that the release has wheels for, something else is the reason (the platform, the index)."""
    return None if scene.values.get("python_version") in scene.asked_release(event)[1] else True


def _in_triton(event: Event, scene: Scene) -> bool | None:
    return scene.saw("triton") or "triton" in event.around.lower()


def facts_of(scene: Scene) -> dict[str, str]:
    """What is known of the machine and the build, for people and for ``--json``."""
    system = next((name for name in ("windows", "macos", "wsl", "jetson") if scene.saw(name)), None)
    facts = {"system": {"wsl": "Linux under WSL", "jetson": "NVIDIA Jetson"}.get(system, system)} if system else {}
    facts |= {name: scene.values[value] for name, value in load_names().fact.items() if scene.values.get(value)}
    return facts | ({"architecture": "ARM"} if scene.saw("arm") else {})


def is_contradicted(rule: Rule, scene: Scene) -> bool:
    """Does the log say that something the rule takes for granted is not so? Silence contradicts nothing."""
    known = {name: scene.values.get(f"{name}_version") for name in ("python", "numpy", "cmake")}
    known["toolkit"] = scene.values.get("toolkit")
    return any((have := known.get(name)) and not matches(have, spec) for name, spec in rule.requires.items())


def _driver_older_than_torch_cuda(event: Event, scene: Scene) -> bool | None:
    """By the major versions: within one a driver runs the later releases, too."""
    driver, flavour = scene.values.get("driver_cuda"), re.fullmatch(r"cu(\d+)\d", scene.values.get("torch_flavour", ""))
    return bool(driver and flavour and int(driver.split(".")[0]) < int(flavour[1]))


def _nvcc_older_than_torch_cuda(event: Event, scene: Scene) -> bool | None:
    """Only where both are known: without them a compile error in torch's headers has too many other causes."""
    toolkit, cuda = toolkit_of(event, scene), scene.values.get("torch_cuda")
    return bool(toolkit and cuda and compare(toolkit, cuda) < 0)


def _wants_more_than_there_is(event: Event, scene: Scene) -> bool | None:
    """Does one allocation exceed the whole card?"""
    return _mebibytes("wanted", event) > _mebibytes("total", event) > 0


def _free_is_plenty(event: Event, scene: Scene) -> bool | None:
    """Is several times more memory free than was refused?"""
    return _mebibytes("free", event) > max(4 * _mebibytes("wanted", event), 1024)


def _mebibytes(name: str, event: Event) -> float:
    size = event.values.get(name, "").split()
    return float(size[0]) * _UNITS[size[1][0]] if len(size) == 2 else 0.0


def _more(larger: str, smaller: str, share: float = 1.0) -> Condition:
    """Is one amount of memory that the message names larger than the other, or than a share of it?"""
    return lambda event, scene: _mebibytes(larger, event) > share * _mebibytes(smaller, event)


def _opposite(asked: Condition) -> Condition:
    """The question with the other answer; what cannot be told stays so."""
    return lambda event, scene: None if (holds := asked(event, scene)) is None else not holds


_QUESTIONS: tuple[Condition, ...] = (
    _card_newer_than_wheel, _card_older_than_wheel, _card_between, _other_flavour_has_it, _card_is_blackwell,
    _installed_torch_known, _installed_torch_has_card, _card_in_static_libraries, _arch_is_older_than_toolkit,
    _toolkit_or_arch_tells, _machine_is_arm, _card_is_amd, _wheel_tag_newer_than_glibc, _index_answered,
    _python_is_outside, _in_triton, _driver_older_than_torch_cuda, _nvcc_older_than_torch_cuda,
    _wants_more_than_there_is, _free_is_plenty,
)  # fmt: skip
# As rules name them.
CONDITIONS = {function.__name__.strip("_").replace("_", "-"): function for function in _QUESTIONS} | {
    "no-other-flavour-has-it": _opposite(_other_flavour_has_it),
    "card-is-before-blackwell": _opposite(_card_is_blackwell),
    "card-not-in-static-libraries": _opposite(_card_in_static_libraries),
    "arch-is-newer-than-toolkit": _opposite(_arch_is_older_than_toolkit),
    "card-is-not-amd": _opposite(_card_is_amd),
    "machine-is-not-arm": _opposite(_machine_is_arm),
    "reserved-suffices": _more("reserved", "wanted"),
    "reserved-is-much": _more("reserved", "total", 1 / 8),
    "others-hold-more": _more("other", "own"),
    "allocated-exceeds-card": _more("allocated", "total"),
    "cpu-lacks-sse4": _lacks_features("sse4.1", "sse4.2"),
    "cpu-lacks-avx": _lacks_features("avx"),
    "cpu-lacks-avx2": _lacks_features("avx2"),
}
