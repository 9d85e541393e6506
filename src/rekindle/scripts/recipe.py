"""A plan, made ready to be written in any language: every word decided, nothing left to the template. ``Recipe`` is
what the templates see. It holds values only; quoting is each language's own business. Its compiler is said in the words
of each system: ``gcc-11`` is the command ``g++-11``; ``msvc-19.29`` is the toolset 14.29 of Visual Studio 2019
(https://learn.microsoft.com/cpp/overview/compiler-versions)."""

import hashlib
import math
import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rekindle.compat.driver import toolkit_driver
from rekindle.compat.resources import build_cost
from rekindle.compat.toolkit import find_visual_studio
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.plan import Plan, pip_arguments
from rekindle.model.version import pin_requirement
from rekindle.scripts.quoting import cache_line, comment, is_forwarded, plain_word

REPOSITORIES = {
    "torch": "https://github.com/pytorch/pytorch.git",
    "torchvision": "https://github.com/pytorch/vision.git",
    "torchaudio": "https://github.com/pytorch/audio.git",
}
_FIRST_WITH_VSWHERE = 15
# CMake has many words for yes and no.
_TRUTH = dict.fromkeys(("1", "ON", "YES", "TRUE"), True) | dict.fromkeys(("0", "OFF", "NO", "FALSE"), False)
_PRODUCT = "assert (a @ a).sum().item() == 262144,"
_TAG = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:-?rc\d+)?)")


class EmbeddedFile(NamedTuple):
    """A file the script brings along (a patch, CMake settings)."""

    name: str
    content: bytes

    @property
    def text(self) -> str | None:
        """As text, if a here-document can carry it byte for byte."""
        try:
            text = self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return text if text.endswith("\n") and "\r" not in text and "\0" not in text else None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a script does: its environment and requirements, and the build with its settings and patches, or the
    commands that install. ``driver`` is the least of NVIDIA's that runs the wheel."""

    plan: Plan
    title: str
    folder: str
    python: str
    repository: str | None = None
    tag: str | None = None
    requirements: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    asserts: dict[str, bool | str] = field(default_factory=dict)
    patches: tuple[EmbeddedFile, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    driver: str | None = None
    reasons: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    disk_gib: int = 0
    memory_gib: int = 0
    gib_per_job: int = 0

    @property
    def builds(self) -> bool:
        return self.plan.answer == "build"

    @property
    def compiler(self) -> str | None:
        return self.plan.build.compiler if self.plan.build else None

    @property
    def digest(self) -> str:
        """Of everything that goes into the build: what another plan built is not taken for this one's."""
        settings = sorted(self.env.items()), sorted(self.settings.items())
        patches = [(file.name, hashlib.sha256(file.content).hexdigest()) for file in self.patches]
        parts = (self.title, self.python, self.tag, self.requirements, *settings, patches)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    @property
    def proof_on_cpu(self) -> str:
        """Python that computes with it, without double quotes and percent signs: cmd and PowerShell read those."""
        if self.plan.project != "torch":
            return f"import {plain_word(self.plan.project)}"
        return f"import torch; a = torch.ones(64, 64); {_PRODUCT} 'the CPU computes wrongly'; print(torch.__version__)"

    @property
    def device(self) -> str | None:
        """What torch calls the cards that the plan is for; None where it is for none."""
        devices = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu"}
        return devices.get(self.plan.backend) if self.plan.project == "torch" else None

    @property
    def proof_on_card(self) -> str | None:
        """The same on the card that the plan is for; None where it is for none."""
        if (device := self.device) is None:
            return None
        seen = f"assert torch.{device}.is_available(), 'this torch sees no card; is its driver there and new enough?'"
        compute = f"a = torch.ones(64, 64, device='{device}'); {_PRODUCT} 'the card computes wrongly'"
        return f"import torch; {seen}; {compute}; print(torch.{device}.get_device_name(0))"

    @property
    def settings_file(self) -> EmbeddedFile | None:
        """CMake code for what setup.py would not forward."""
        text = "".join(f"{cache_line(name, value)}\n" for name, value in self.settings.items())
        return EmbeddedFile(name="settings.cmake", content=text.encode()) if text else None

    @property
    def files(self) -> tuple[EmbeddedFile, ...]:
        return (*self.patches, *filter(None, [self.settings_file]))


def make_recipe(plan: Plan, patches: dict[str, bytes]) -> Recipe:
    """``patches`` are the files of the ids the plan names; a missing one is a fault, not a gap to skip."""
    if plan.answer == "none":
        why = plan.because[0].text if plan.because else "the plan found no way"
        raise BadInput(f"there is nothing to export: {why}", remedy="rekindle plan shows what would have to change")
    if plan.answer == "graft":
        remedy = "rekindle up does it here; rekindle plan --build (or another --torch) gives what can be exported"
        raise BadInput("a graft is made by Rekindle itself, so no script can stand for it", remedy=remedy)
    title = " ".join(part for part in (plan.project, plan.torch, plan.variant) if part)
    python = re.match(r"3\.\d+", plan.python or "")  # 3.11.7 is asked for as python3.11
    base = Recipe(
        plan=plan,
        title=title,
        folder="rekindle-" + re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-"),
        python=python[0] if python else "3",
        reasons=tuple(_add_source(reason.text, reason.source) for reason in plan.because),
    )
    if plan.answer == "install":
        if not plan.requests:
            raise BadInput("the plan says install but names no package", remedy="make the plan again with this version")
        commands = tuple(("python", "-m", "pip", "install", *words) for words in pip_arguments(plan.requests))
        lasting = [f"{name}={value} must be set whenever {plan.project} is used." for name, value in plan.env.items()]
        cautions = [_add_source(reason.text, reason.source) for reason in plan.warnings]
        windows = (plan.os and plan.os.system == "windows") or plan.powershell
        driver = toolkit_driver(plan.cuda, "windows" if windows else "linux", load_facts()).floor if plan.cuda else None
        return replace(base, commands=commands, env=plan.env, cautions=(*lasting, *cautions), driver=driver)
    return _build_recipe(plan, patches, base)


def _build_recipe(plan: Plan, patches: dict[str, bytes], base: Recipe) -> Recipe:
    build = plan.build
    if build is None:
        raise BadInput("the plan says build but has no recipe, so it was cut short", remedy="make the plan again")
    if missing := [name for name in build.patches if name not in patches]:
        raise BadInput(f"the plan needs the patch {missing[0]!r}, which is not known here", remedy="update rekindle")
    forwarded = {name: value for name, value in build.cmake.items() if is_forwarded(name)}
    match = _TAG.search(build.source) or _TAG.search(plan.torch or "")
    tools = {name: name for name in ("setuptools", "wheel", "cmake", "ninja")}
    pins = {name.lower(): pin_requirement(name, pin) for name, pin in build.pins.items() if name != "python"}
    return replace(
        base,
        repository=REPOSITORIES.get(plan.project),
        tag=f"v{match[1]}" if match and plan.project in REPOSITORIES else None,
        requirements=tuple((tools | pins).values()),
        env={**forwarded, **build.env},
        settings={name: value for name, value in build.cmake.items() if name not in forwarded},
        asserts={name: _TRUTH.get(value.upper(), value) for name, value in build.asserts.items()},
        patches=tuple(EmbeddedFile(name=f"{name}.patch", content=patches[name]) for name in build.patches),
        cautions=(*build.losses, *(_add_source(reason.text, reason.source) for reason in plan.warnings)),
        disk_gib=int(build.disk_gib or 0),
        memory_gib=int(build.memory_gib or 0),
        # Cautious and overridden by MAX_JOBS: device code takes several times the memory of host code.
        gib_per_job=math.ceil(build_cost(plan.torch, plan.backend, load_facts()).job_gib),
    )


def _add_source(text: str, source: str | None) -> str:
    return comment(f"{text} [{source}]" if source else text)


def cxx_command(compiler: str | None) -> str | None:
    """The C++ compiler's command on Linux; None leaves the choice to the machine."""
    match = re.fullmatch(r"(gcc|clang)-(\d+)(?:\..*)?", compiler or "")
    return f"{'g++' if match[1] == 'gcc' else 'clang++'}-{match[2]}" if match else None


def cxx_package(compiler: str | None) -> str:
    """The Debian or Ubuntu package that brings it."""
    cxx = cxx_command(compiler)
    return cxx.replace("clang++", "clang") if cxx else "g++"


class Studio(NamedTuple):
    """Which Visual Studio: version ranges for vswhere, best first; the toolset (14.29); both in words for people."""

    ranges: tuple[str, ...]
    toolset: str
    words: str


def visual_studio(compiler: str | None) -> Studio:
    """The product the toolset belongs to first; a newer one can bring the older toolset along."""
    match = re.fullmatch(r"msvc-19\.(\d\d)(?:\..*)?", compiler or "")
    product = find_visual_studio(int(match[1])) if match else None
    if match is None or product is None or product[0] < _FIRST_WITH_VSWHERE:
        return Studio((f"[{_FIRST_WITH_VSWHERE}.0,",), "", "")
    version, year = product
    ranges, toolset = (f"[{version}.0,{version + 1}.0)", f"[{version + 1}.0,"), f"14.{match[1]}"
    return Studio(ranges, toolset, f" (toolset {toolset} of Visual Studio {year})")
