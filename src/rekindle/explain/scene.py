"""What is known besides the event itself: the rest of the log, the machine, the plan, the facts."""

import contextlib
import re
from dataclasses import dataclass, field
from typing import TypeVar

from rekindle.compat.cpu_names import find_cpu
from rekindle.compat.images import covers, flavour_code, split_targets
from rekindle.compat.processor import features_of
from rekindle.compat.toolkit import cudnn_covers
from rekindle.errors import BadInput
from rekindle.explain.events import Event, Reading
from rekindle.facts import Facts, load_facts
from rekindle.model.arch import Gfx, Sm, parse_sm
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Cpu, Machine
from rekindle.model.plan import Plan
from rekindle.model.version import key
from rekindle.model.wheel import WheelReport

_PLACES = ("windows", "macos", "wsl", "jetson", "arm", "musl", "amd", "xpu", "zluda")


@dataclass(frozen=True, kw_only=True)
class Scene:
    reading: Reading
    machine: Machine | None = None
    plan: Plan | None = None
    wheel: WheelReport | None = None
    values: dict[str, str] = field(default_factory=dict)

    def saw(self, signal: str) -> bool:
        return signal in self.reading.signals

    @property
    def place(self) -> str:
        """Where the log comes from: the same words may mean something else there."""
        return "".join(f" in {name}" for name in _PLACES if self.saw(name))

    def asked_release(self, event: Event) -> tuple[str, tuple[str, ...]]:
        """The torch, torchvision or torchaudio an installer was asked for, and the Pythons it has wheels for here."""
        asked = re.search(r"\d+\.\d+\.\d+", event.values.get("spec", "") + event.values.get("version", ""))
        package, version = event.values.get("package", ""), asked[0] if asked else ""
        rows = [row for row in self.facts.companions.companion if (row.package, row.version) == (package, version)]
        release = self.facts.release(version) if package == "torch" else None
        pythons = release.pythons if release else rows[0].pypi if rows else {}
        # Our tables are of Linux and Windows.
        return f"{package} {version}", () if self.saw("macos") else pythons.get(self.platform, ())

    @property
    def facts(self) -> Facts:
        """Read only when a rule asks: most logs need none of the tables."""
        return load_facts()

    @property
    def system(self) -> str | None:
        """The operating system, where the machine or the log tells it."""
        if self.machine is not None:
            return self.machine.os.system
        if self.saw("wsl") or self.saw("jetson"):
            return "linux"
        return next((name for name in ("windows", "macos") if self.saw(name)), None)

    @property
    def cpu_name(self) -> str | None:
        """What the machine, or the log, calls its processor."""
        return (self.machine.cpu.name if self.machine else None) or self.values.get("cpu_name")

    @property
    def cpu_features(self) -> tuple[str, ...]:
        """What the processor executes, by the machine or by the name it has in the log; empty where it is not known."""
        known = features_of(self.machine.cpu, self.facts) if self.machine else None
        if known is None and self.cpu_name:
            with contextlib.suppress(BadInput):
                known = features_of(Cpu(microarchitecture=find_cpu(self.cpu_name, self.facts)), self.facts)
        return tuple(known or ())

    def toolkit_archs(self, version: str | None) -> tuple[Sm, ...]:
        """What nvcc of a toolkit compiles for, oldest first; empty if nobody knows."""
        row = self.facts.toolkit(version) if version else None
        return tuple(sorted(arch for arch in row.sass if not arch.suffix)) if row else ()

    @property
    def platform(self) -> Platform:
        """Whose wheels are meant."""
        if self.system == "windows":
            return "windows"
        if self.machine is not None:
            return "linux_aarch64" if self.machine.os.arch in ("aarch64", "arm64") else "linux_x86_64"
        return "linux_aarch64" if self.saw("arm") or self.saw("jetson") else "linux_x86_64"


Card = TypeVar("Card", Sm, Gfx)


def to_sm(text: str | None) -> Sm | None:
    """The architecture that a text names, if it is one."""
    try:
        return parse_sm(text or "")
    except ValueError:
        return None


def capability(event: Event, scene: Scene) -> Sm | None:
    """The card: from the message, from elsewhere in the log (its capability or its name), or the machine's only one."""
    card = to_sm(event.values.get("capability")) or to_sm(scene.values.get("capability")) or log_card(scene, Sm)
    if card or scene.machine is None:
        return card
    cards = {gpu.arch for gpu in scene.machine.gpus if isinstance(gpu.arch, Sm)}
    return next(iter(cards)) if len(cards) == 1 else None


def log_card(scene: Scene, kind: type[Card]) -> Card | None:
    """The architecture (NVIDIA's or AMD's) of the cards the log names, if it is one."""
    from rekindle.facts.gpus import find_gpu

    seen = scene.reading.signals.get("gpu-name")
    archs: set[Card] = set()
    for name in {event.values.get("gpu_name", "") for event in seen.all} if seen else ():
        with contextlib.suppress(BadInput):
            archs.update(arch for arch in find_gpu(name, scene.facts).archs if isinstance(arch, kind))
    return archs.pop() if len(archs) == 1 else None


def supported(event: Event, scene: Scene) -> list[Sm]:
    """The architectures torch was built for, by message, log, installed package or published wheel; no PTX entries."""
    low, high = to_sm(scene.values.get("lowest")), to_sm(scene.values.get("highest"))
    if low and high:
        return [low, high]
    text = event.values.get("supported") or scene.values.get("supported") or ""
    if not text and scene.wheel is not None:
        text = " ".join(kernels_of(scene.wheel))
    version, flavour = scene.values.get("torch_version"), scene.values.get("torch_flavour")
    if not text and version and flavour:
        published = (row for row in scene.facts.flavours(version) if row.publisher == "pytorch")
        row = next((row for row in published if row.name == flavour), None)
        text = " ".join(map(str, split_targets(tuple(row.sm.get(scene.platform, ()))).sass)) if row else ""
    return sorted(arch for arch in map(to_sm, re.findall(r"sm_\d+[af]?", text)) if arch)


def kernels_of(wheel: WheelReport) -> tuple[str, ...]:
    """What torch's own kernels exist for: read from them, or (in a quick look) as the package declares it."""
    kernels = wheel.gpu.kernels
    return (*kernels.sass, *kernels.ptx) if kernels.sass else wheel.gpu.declared


def toolkit_of(event: Event, scene: Scene) -> str | None:
    """The CUDA toolkit that compiled: from the lines around, the log, or the only one of the machine."""
    near = re.search(r"cuda[-/\\_]{1,2}v?(\d+\.\d+)[/\\]+bin[/\\]+nvcc", event.around, re.IGNORECASE)
    if toolkit := near[1] if near else scene.values.get("toolkit"):
        return toolkit
    kits = scene.machine.toolkits if scene.machine else ()
    versions = {kit.version for kit in kits if kit.kind == "cuda" and kit.version}
    return ".".join(versions.pop().split(".")[:2]) if len(versions) == 1 else None


@dataclass(frozen=True)
class Carrier:
    """A release and flavour that has code for the card."""

    torch: str
    flavour: str
    index: str | None
    cuda: str | None = None
    extra: str = ""

    def __str__(self) -> str:
        return f"{self.torch}{f' with CUDA {self.cuda}' if self.cuda else ''} ({self.flavour})"

    @property
    def command(self) -> str:
        index = f" --index-url {self.index}" if self.index else ""
        name = f'"torch[{self.extra}]=={self.torch}"' if self.extra else f"torch=={self.torch}"
        return f"pip install --force-reinstall {name}{index}"


def carries(flavour: Flavour, card: Sm | Gfx, scene: Scene, *, native: bool = False) -> bool:
    """Machine code counts, and PTX (unless ``native``) that the driver compiles; not what its maker leaves untested."""
    platform = scene.platform
    if card in flavour.untested.get(platform, ()):
        return False
    if scene.machine is None and platform == "linux_x86_64" and isinstance(card, Sm) and scene.facts.is_tegra(card):
        platform = "linux_aarch64"  # the card is part of a board, whose CPU is known with it
    coverage = covers(flavour_code(flavour, platform), card, platform.split("_")[0], scene.facts)
    return coverage.kind == "native" if native else coverage.runs == "yes"


def find_carrier(card: Sm | Gfx, scene: Scene, *, torch: str | None = None) -> Carrier | None:
    """The newest published torch (or this very release) for a card; of its flavours the newest CUDA or ROCm."""
    for version in (torch,) if torch else scene.facts.releases:
        if rows := flavours_for(card, version, scene, native=torch is None):
            best = rows[0]
            # AMD's own wheels keep the kernels of each card in a package of their own.
            extra = f"device-{card}" if best.publisher == "amd" else ""
            return Carrier(torch=version, flavour=best.name, index=best.index, cuda=best.cuda, extra=extra)
    return None


def flavours_for(card: Sm | Gfx, torch: str, scene: Scene, *, native: bool = True) -> list[Flavour]:
    """A release's flavours that work on a card, the newest CUDA or ROCm first. ``native``: not by PTX alone, which
    would send all but the newest cards to a release from before they existed, nor with a cuDNN that lacks the card."""
    rows = [
        row
        for row in scene.facts.flavours(torch)
        if _toolkit_version(row, card)
        and row.status == "stable"
        and (row.publisher == "pytorch" or isinstance(card, Gfx))
        and carries(row, card, scene, native=native)
        and not (native and cudnn_covers(row.cudnn, row.cuda, card, scene.facts).kind == "partly")
    ]
    return sorted(rows, key=lambda row: key(_toolkit_version(row, card) or "0"), reverse=True)


def _toolkit_version(flavour: Flavour, card: Sm | Gfx) -> str | None:
    """The CUDA (or for AMD's cards the ROCm) of a wheel."""
    return flavour.cuda if isinstance(card, Sm) else flavour.rocm
