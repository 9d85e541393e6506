"""Values for the texts that stand elsewhere: in the rest of the log, the machine, the plan, the facts.

``surroundings`` gathers what signals captured anywhere in the log; ``FILLS`` are the named look-ups rules ask for.
A fill that knows nothing returns nothing, and the sentence that wanted it is left out.
"""

import contextlib
import re
from collections.abc import Callable

from rekindle.compat.graft import graft_hint
from rekindle.compat.images import find_override
from rekindle.compat.processor import missing
from rekindle.compat.resources import build_cost, jobs_for
from rekindle.compat.toolkit import find_visual_studio, newest_compiler, takes_compiler
from rekindle.explain.events import Event, Reading
from rekindle.explain.scene import Scene, capability, find_carrier, flavours_for, log_card, supported, to_sm, toolkit_of
from rekindle.model.arch import Gfx, Sm
from rekindle.model.version import key, minor

# The instruction sets that wheels are compiled for, in the order in which processors got them.
_STEPS = {"sse4.1": "SSE4.1", "avx": "AVX", "avx2": "AVX2", "avx512": "AVX-512"}

Fill = Callable[[Event, Scene], dict[str, str]]


def surroundings(reading: Reading) -> dict[str, str]:
    """Captured by signals; what the log said last counts."""
    events = (event for seen in reading.signals.values() for event in seen.all)
    values = {name: value for event in events for name, value in event.values.items()}
    if "major" in values and "minor" in values:
        values["capability"] = f"{values.pop('major')}.{values.pop('minor')}"
    if digits := values.pop("python_digits", ""):  # Windows' folder Python313
        values.setdefault("python_version", f"3.{digits}")
    return values


def _toolkit_span(arch: Sm, scene: Scene) -> tuple[str | None, str | None]:
    """First and last toolkit whose nvcc compiles for an architecture; None where the tables do not reach that far."""
    plain = Sm(arch.major, arch.minor)  # The tables name few of the variants for one chip (121a) or family (100f).
    kits = [kit for kit in reversed(scene.facts.toolkits) if plain in scene.toolkit_archs(kit)]
    if not kits:
        return None, None
    oldest, newest = scene.facts.toolkits[-1], scene.facts.toolkits[0]
    return (kits[0] if kits[0] != oldest else None), (kits[-1] if kits[-1] != newest else None)


def some(**values: str | None) -> dict[str, str]:
    """Those that are known."""
    return {name: value for name, value in values.items() if value}


def _toolkit_for_arch(event: Event, scene: Scene) -> dict[str, str]:
    arch, toolkit = to_sm(event.values.get("arch")), toolkit_of(event, scene)
    if arch is None:
        return {}
    first, last = _toolkit_span(arch, scene)
    newest = next((each.dotted for each in reversed(scene.toolkit_archs(toolkit))), None)
    return some(first_cuda=first, last_cuda=last, toolkit=toolkit and f"CUDA {toolkit}", newest_arch=newest)


def _toolkit_for_card(event: Event, scene: Scene) -> dict[str, str]:
    card = capability(event, scene)
    if card is None:
        return {}
    carrier = find_carrier(card, scene)
    return some(
        first_cuda=_toolkit_span(card, scene)[0],
        dotted=card.dotted,
        capability=str(card),
        carrier=f"torch {carrier}: {carrier.command}{_graft_sentence(card, scene)}" if carrier else None,
    )


def _plan_for_card(event: Event, scene: Scene) -> dict[str, str]:
    card, archs = capability(event, scene), supported(event, scene)
    version, flavour = scene.values.get("torch_version"), scene.values.get("torch_flavour")
    name = f"torch {version}" + (f"+{flavour}" if flavour else "") if version else "This torch"
    return some(
        plan_hint=_plan_hint(card, scene),
        minimum=str(archs[0]) if archs else None,
        dotted=card.dotted if card else None,
        capability=str(card) if card else None,
        gpu=event.values.get("gpu") or scene.values.get("gpu_name"),
        built_sentence=f"{name} was built for {' '.join(map(str, archs))}." if archs else None,
    )


def _plan_hint(card: Sm | None, scene: Scene) -> str | None:
    if scene.plan and scene.plan.answer == "install" and scene.plan.commands:
        return f"For this machine: {scene.plan.commands[0]}"
    if card is None:
        return None
    carrier, graft = find_carrier(card, scene), _graft_sentence(card, scene)
    if carrier is None:
        asked = f"'rekindle plan --gpu {card} --build' says whether it can be built"
        return f"No published torch carries {card}; {asked}{graft}"
    return f"The newest published torch with code for {card} is {carrier}: {carrier.command}{graft}"


def _graft_sentence(card: Sm, scene: Scene) -> str:
    """That the torch which is there could get code for the card itself, to be said after another way."""
    wheel, values = scene.wheel, scene.values
    torch = wheel.version if wheel is not None and wheel.name == "torch" else values.get("torch_version")
    flavour = re.fullmatch(r"cu(\d+)(\d)", values.get("torch_flavour", ""))
    cuda = (wheel.cuda if wheel is not None else None) or (f"{flavour[1]}.{flavour[2]}" if flavour else None)
    threads = scene.machine.cpu.threads if scene.machine else None
    hint = graft_hint(torch, cuda or values.get("torch_cuda"), card, threads, scene.facts)
    return f". Or {hint}" if hint and not scene.saw("windows") else ""


def _installed_torch(event: Event, scene: Scene) -> dict[str, str]:
    if scene.wheel is None:
        return {}
    installed = f"{scene.wheel.name or 'torch'} {scene.wheel.version}"
    return some(installed=installed, supported=" ".join(map(str, supported(event, scene))))


def _driver_and_toolkit(event: Event, scene: Scene) -> dict[str, str]:
    driver = scene.values.get("driver_version") or (scene.machine.drivers.nvidia if scene.machine else None)
    cuda, toolkit = scene.values.get("driver_cuda"), toolkit_of(event, scene)
    text = f"Driver {driver}" + (f" knows CUDA {cuda}" if cuda else "")
    return some(driver_sentence=driver and text + (f", the toolkit here is {toolkit}." if toolkit else "."))


def _host_compiler(event: Event, scene: Scene) -> dict[str, str]:
    toolkit = toolkit_of(event, scene) or event.values.get("cuda")
    row = scene.facts.toolkit(toolkit) if toolkit else None
    limit = newest_compiler(row, "gcc") if row else None
    newest = event.values.get("newest") or (str(limit) if limit else None)
    have = re.search(r"(?:c\+\+|gcc|linux-gnu|GNU)[-/ ](\d+)", event.around)
    have = have or re.search(r"^(\d+)", event.values.get("compiler_version", ""))
    first = _first_toolkit("gcc", have[1], scene) if have else None
    return some(toolkit=toolkit and f"CUDA {toolkit}", newest=newest, have_gcc=have and have[1], first_cuda=first)


def _shared_bytes(event: Event, scene: Scene) -> dict[str, str]:
    used, limit = event.values.get("used"), event.values.get("limit")
    return {name: f"{int(text, 16) / 1024:g} KiB" for name, text in (("used_kib", used), ("limit_kib", limit)) if text}


def _compiler_of_machine(event: Event, scene: Scene) -> dict[str, str]:
    if match := re.search(r"compiler identification is (GNU|Clang) ([\d.]+)", event.around):
        return {"compiler_version": f"{match[1]} {match[2]}"}
    compilers = scene.machine.compilers if scene.machine else ()
    return some(compiler_version=next((f"{c.kind} {c.version}" for c in compilers), None))


def _memory_of_machine(event: Event, scene: Scene) -> dict[str, str]:
    machine = scene.machine
    if machine is None or machine.memory_gib is None:
        return {}
    cost = build_cost(scene.plan.torch if scene.plan else None, "cuda", scene.facts)
    jobs = jobs_for(machine.memory_gib, machine.cpu.threads or 1024, cost, machine.swap_gib)
    return {"memory_sentence": f"This machine has {machine.memory_gib:.0f} GiB.", "jobs": str(jobs)}


def _system_of_machine(event: Event, scene: Scene) -> dict[str, str]:
    machine = scene.machine
    if machine is None:
        return {}
    free, glibc = machine.disk_free_gib, machine.os.glibc
    return some(
        disk_sentence=None if free is None else f"{free:.0f} GiB are free now.",
        glibc_sentence=f"This machine has glibc {glibc}." if glibc else None,
    )


def _cpu_of_machine(event: Event, scene: Scene) -> dict[str, str]:
    """How far up a CPU goes, of the sets that wheels are compiled for; not where that is not known or it has all."""
    if not scene.cpu_name:
        return {}
    processor = f"The processor ({scene.cpu_name.strip()})"
    values = {"cpu_sentence": f"{processor} lacks it."}
    lacks = missing(_STEPS, scene.cpu_features)
    if scene.cpu_features and lacks:
        has = [f"{name} but no " for step, name in _STEPS.items() if step not in lacks] or ["no "]
        values["cpu_reach"] = f"{processor} has {has[-1]}{_STEPS[lacks[0]]}"
    return values


def _gfx_of_machine(event: Event, scene: Scene) -> dict[str, str]:
    gpus = scene.machine.gpus if scene.machine else ()
    gfx = event.values.get("gfx") or scene.values.get("gfx")
    gfx = gfx or next((str(gpu.arch) for gpu in gpus if isinstance(gpu.arch, Gfx)), None)
    gfx = gfx or str(log_card(scene, Gfx) or "")
    with contextlib.suppress(ValueError):  # a log may end within the name
        row = find_override(Gfx(gfx.split(":")[0]), None, scene.facts) if gfx else None
        return some(gfx=gfx, override=row.value if row else None)
    return {}


def _wheel_for_gfx(event: Event, scene: Scene) -> dict[str, str]:
    """The wheel with code and math libraries for the AMD card, and the override only where the card has a neighbour."""
    known = _gfx_of_machine(event, scene)
    if "gfx" not in known:
        return {}
    card = Gfx(known["gfx"].split(":")[0])
    carrier, row = find_carrier(card, scene), find_override(card, None, scene.facts)
    if row is None:
        build = "" if carrier else f"; 'rekindle plan --gpu {card}' names an untested wheel, or a source build"
        override = f"No other card's code runs on {card}, so an override does not help{build}."
    elif scene.system == "windows":
        override = "On Windows there is no override: it belongs to the Linux runtime."
    else:
        override = f"Where the wheel has {row.runs}: HSA_OVERRIDE_GFX_VERSION={row.value} in the environment."
    wheel = f"The newest published torch that works on {card} is {carrier}: {carrier.command}" if carrier else None
    return some(wheel_hint=wheel, override_hint=override)


def _driver_found(event: Event, scene: Scene) -> dict[str, str]:
    """torch prints the driver's CUDA version as 11040."""
    number = event.values.get("found", "")
    if number.isdigit() and len(number) >= 4:
        value = int(number)
        return {"found_cuda": f"{value // 1000}.{value % 1000 // 10}"}
    return some(found_cuda=scene.values.get("driver_cuda"))


def _driver_cuda(event: Event, scene: Scene) -> dict[str, str]:
    return some(driver_cuda=scene.values.get("driver_cuda"))


def _torch_cuda(event: Event, scene: Scene) -> dict[str, str]:
    flavour = re.fullmatch(r"cu(\d{2})(\d)", scene.values.get("torch_flavour", ""))
    return {"torch_cuda_text": f"CUDA {flavour[1]}.{flavour[2]}"} if flavour else {}


def _cuda_torch(event: Event, scene: Scene) -> dict[str, str]:
    """The newest torch with code for the card, of the newest CUDA that the driver runs (of the oldest if unknown)."""
    card, driver = capability(event, scene), scene.values.get("driver_cuda")
    if card is None:
        return {}
    for torch in scene.facts.releases:
        rows = flavours_for(card, torch, scene)
        fitting = [row for row in rows if not driver or key(row.cuda or "0")[0] <= key(driver)[0]]
        if fitting:
            flavour = fitting[0 if driver else -1].name
            pin = "" if _releases_of(flavour, scene)[0] == torch else f"=={torch}"
            return {"cuda_torch": f"torch{pin}", "cuda_flavour": flavour}
    return {}


def _python_for_torch(event: Event, scene: Scene) -> dict[str, str]:
    versions = event.values.get("versions", "")
    values = some(python=event.values.get("python") or scene.values.get("python_version"))
    if versions == "none":
        newest = scene.facts.release(scene.facts.releases[0])
        served = newest.pythons.get(scene.platform, ()) if newest else ()
        why = "a Python too new for it looks like this."
        if served and key(values.get("python", served[0])) < key(served[0]):
            why = f"Python {values['python']} is too old for today's releases, which want {served[0]} or newer."
        values["versions_sentence"] = f"It has no wheel at all for this Python and platform; {why}"
    elif versions:
        listed = [item.strip() for item in versions.split(",")]
        values["versions_sentence"] = f"It offers {listed[0]} to {listed[-1]}."
    if tagged := re.match(r"cp3(\d+)-", event.values.get("tag", "")):
        values["python_hint"] = f"The file is for Python 3.{tagged[1]}: use it, or an official wheel for this Python."
        return values
    if scene.saw("arm") or scene.saw("jetson"):
        values["on_machine"] = "Arm, aarch64"
    values |= _index_of(event, scene)
    if "index_sentence" in values:
        return values
    asked, known = scene.asked_release(event)
    # The index has just said that it has none for the one that runs.
    if pythons := [python for python in known if python != values.get("python") and not python.endswith("t")]:
        span = f"Python {pythons[0]} to {pythons[-1]}" if len(pythons) > 1 else f"Python {pythons[0]}"
        values["supported_sentence"] = f"{asked} has wheels for {span} there."
        values["python_hint"] = f"Use {span} for {asked}, e.g. uv venv --python {pythons[-1]}."
    return values


def _index_of(event: Event, scene: Scene) -> dict[str, str]:
    """That PyTorch's index of the log's flavour never had the torch that was asked for; empty where nobody knows."""
    flavours = re.findall(
        r"\bwhl/(?:nightly/|test/)?(cu\d{2,3}|cpu|rocm[\d.]+\d|xpu)\b", event.around + scene.reading.tail
    )
    flavours += re.findall(r"\+(cu\d{2,3}|rocm[\d.]+\d|xpu)\b", event.values.get("versions", ""))
    asked = re.search(r"\d+\.\d+(?:\.\d+)?", event.values.get("spec", "") + event.values.get("version", ""))
    if event.values.get("package") != "torch" or not flavours:
        return {}
    flavour = flavours[0]
    if not asked:
        return _index_span(flavour, scene) if event.values.get("versions") == "none" else {}
    release = asked[0]
    built = [row.name for row in scene.facts.flavours(release) if row.publisher == "pytorch"]
    # A CUDA index stands for another CUDA, ROCm for another ROCm.
    there = [name for name in built if name.rstrip(".0123456789") == flavour.rstrip(".0123456789")]
    if not there or flavour in built:
        return {}
    last = next(iter(_releases_of(flavour, scene)), None)
    ends = f" (its last is {last})" if last and key(last) < key(release) else ""
    return some(
        index_sentence=f"PyTorch's index {flavour} has no torch {release}{ends}: that release was not built for it,"
        f" but for {', '.join(there)}.",
        python_hint=f"Take it from an index that has it: pip install torch=={release} --index-url"
        f" https://download.pytorch.org/whl/{there[-1]} ({' or '.join(there)})"
        + (f", or torch=={last} from {flavour}." if ends else "."),
    )


def _releases_of(flavour: str, scene: Scene) -> list[str]:
    return [name for name in scene.facts.releases if flavour in {row.name for row in scene.facts.flavours(name)}]


def _index_span(flavour: str, scene: Scene) -> dict[str, str]:
    """Which releases an index holds and for which Pythons; what runs is none of them."""
    releases = _releases_of(flavour, scene)
    last = scene.facts.release(releases[0]) if releases else None
    pythons = [python for python in last.pythons.get(scene.platform, ()) if "t" not in python] if last else []
    if not pythons or minor(scene.values.get("python_version", "0.0")) in pythons:
        return {}
    newest = scene.facts.flavours(scene.facts.releases[0])
    today = [row.name for row in newest if row.publisher == "pytorch" and row.name[:2] == flavour[:2]]
    hint = f"Use Python {pythons[-1]} for it (uv venv --python {pythons[-1]})"
    if today and flavour not in today:
        hint += f", or an index of today: --index-url https://download.pytorch.org/whl/{today[0]} ({', '.join(today)})"
    return some(
        index_sentence=f"PyTorch's index {flavour} holds torch {releases[-1]} to {releases[0]}, with wheels for no"
        f" Python newer than {pythons[-1]}; the one here is newer (or 32-bit, or of a platform it lacks).",
        python_hint=f"{hint}.",
    )


def _raised_in(event: Event, scene: Scene) -> dict[str, str]:
    """The installed package whose line raised the exception: the last frame before the message."""
    frames = re.findall(r"(?:site|dist)-packages[\\/]+([A-Za-z_]\w*)[^()\"']*?\.pyx?\b(?!\))", event.around)
    if not frames:
        return {}
    which = f"See which versions go together (pip show {frames[-1]}, pip check) and try another release: "
    which += f"pip install -U {frames[-1]}, or the one of the program's own requirements."
    return {"raised_sentence": f"It was raised inside the package {frames[-1]}.", "raised_hint": which}


def _toolkit_used(event: Event, scene: Scene) -> str | None:
    named = re.search(r"cuda[-/\\_]{1,2}v?(\d+\.\d+)[/\\]", event.around, re.IGNORECASE)
    return named[1] if named else toolkit_of(event, scene)


def _host_msvc(event: Event, scene: Scene) -> dict[str, str]:
    """The newest Microsoft compiler this toolkit takes, and the first toolkit that takes the one in use."""
    toolkit = _toolkit_used(event, scene)
    row = scene.facts.toolkit(toolkit) if toolkit else None
    known = some(toolkit=toolkit and f"CUDA {toolkit}")
    newest = newest_compiler(row, "msvc") if row else None
    if newest is None:
        return known
    msvc = re.search(r"\b19\.(\d\d)\b", event.around) or re.search(r"^19\.(\d\d)", scene.values.get("msvc_version", ""))
    have = 1900 + int(msvc[1]) if msvc else newest + 1
    studio = find_visual_studio(max(newest - 1900, 0))
    return known | some(
        toolset=f"14.{newest - 1900}",
        studio=f"Visual Studio {studio[1] if studio else 'newer than 2026'}",
        first_cuda=_first_toolkit("msvc", f"{have // 100}.{have % 100}", scene),
    )


def _host_gcc(event: Event, scene: Scene) -> dict[str, str]:
    """nvcc stumbles over the headers of gcc N: which gcc this toolkit (or the last that refuses N) takes."""
    path = re.search(r"(?:c\+\+|gcc/[\w-]+)/(\d+)", event.around)
    if not path:
        return {}
    have = int(path[1])
    toolkit = _toolkit_used(event, scene)
    row = scene.facts.toolkit(toolkit) if toolkit else None
    own = newest_compiler(row, "gcc") if row else None
    every = (newest_compiler(scene.facts.cuda.toolkit[kit], "gcc") for kit in scene.facts.toolkits)
    newest = own if own and own < have else max((limit for limit in every if limit and limit < have), default=None)
    return some(
        have_gcc=str(have),
        newest=str(newest) if newest else None,
        first_cuda=_first_toolkit("gcc", str(have), scene),
        toolkit=toolkit and f"CUDA {toolkit}",
    )


def _first_toolkit(kind: str, version: str, scene: Scene) -> str | None:
    kits = scene.facts.cuda.toolkit
    return next((kit for kit in reversed(scene.facts.toolkits) if takes_compiler(kits[kit], kind, version)), None)


_LOOK_UPS: tuple[Fill, ...] = (
    _toolkit_for_arch, _toolkit_for_card, _plan_for_card, _installed_torch, _driver_and_toolkit, _host_compiler,
    _shared_bytes, _compiler_of_machine, _memory_of_machine, _system_of_machine, _cpu_of_machine, _gfx_of_machine,
    _wheel_for_gfx, _driver_found, _driver_cuda, _torch_cuda, _cuda_torch, _python_for_torch, _raised_in, _host_msvc,
    _host_gcc,
)  # fmt: skip
# As rules name them.
FILLS = {function.__name__.strip("_").replace("_", "-"): function for function in _LOOK_UPS}
