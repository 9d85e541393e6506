"""The question the planner answers, with what follows from it worked out once; and wishes for what never existed."""

import copy
import difflib
import functools
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from rekindle.compat import Name, backend_of
from rekindle.compat.backends import PLATFORMS
from rekindle.compat.cpu_names import microarchitecture
from rekindle.compat.driver import Side, driver_side, is_board
from rekindle.compat.hazards import Surroundings, ever_supported, machine_meets
from rekindle.compat.libc import Libc, find_distro, libc_of
from rekindle.compat.processor import features_of
from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm
from rekindle.model.facts import Distro, JetPack, Platform
from rekindle.model.machine import Cpu, Gpu, Machine, cpu_arch
from rekindle.model.plan import Plan, Wish
from rekindle.model.supply import Manager, ThirdParty
from rekindle.model.version import compare, is_version, key, matches, minor, same_prefix

_FLAVOUR = re.compile(r"(?P<torch>[^+]+?)\+(?P<flavour>[a-z][a-z0-9.]*)")


# Results about wheels, keyed by the parts of a question they depend on; valid for one set of facts.
PlanMemory = dict[Hashable, dict[Hashable, Any]]
T = TypeVar("T")


def recall(memory: dict[Any, Any], key: Hashable, find: Callable[[], T]) -> T:
    """What is remembered under the key, else what is found now."""
    if key not in memory:
        memory[key] = find()
    found: T = memory[key]
    return found


@dataclass(frozen=True, kw_only=True)
class BuildInputs:
    """What is settled elsewhere about a build and goes into its plan. ``origin`` is where the tree comes from (git,
    tarball, debian, a directory). ``third_parties`` gives those of a release (and the CUDA it is built with) that are
    no submodules in that tree, and ``patches`` those a build will need: the source stage knows both. ``arch_list`` is
    written by hand and replaces the cards' own. ``taken`` names a torch that is built already."""

    origin: str = "git"
    third_parties: Callable[[str, str | None], Sequence[ThirdParty]] = lambda *_: ()
    patches: Callable[[Plan], Sequence[str]] = lambda _: ()
    arch_list: tuple[str, ...] = ()
    taken: str | None = None


@dataclass(frozen=True, eq=False)
class Question:
    """Compared by identity: it is made once per plan and carries what was worked out."""

    machine: Machine
    wish: Wish
    facts: Facts
    inputs: BuildInputs = BuildInputs()
    # Results that candidates share; each rule uses its own kind of key.
    cache: dict[tuple[object, ...], Any] = field(default_factory=dict)
    # Results that questions with these facts share, keyed by what they have in common.
    memory: PlanMemory = field(default_factory=dict)

    def ask_about(self, machine: Machine, wish: Wish | None = None) -> "Question":
        """The same question about another machine or wish; they share the memory alone."""
        return Question(machine, wish or self.wish, self.facts, self.inputs, memory=self.memory)

    def with_cpu(self, cpu: Cpu) -> "Question":
        """The same question with another CPU in the machine; keeps every result that does not depend on the CPU."""
        machine = msgspec.structs.replace(self.machine, cpu=cpu)
        if machine.os.arch is None:
            return self.ask_about(machine)  # the CPU may decide what platform it is
        other = copy.copy(self)
        state = {name: value for name, value in vars(self).items() if name not in ("cpu_features", "possible_hazards")}
        vars(other).clear()
        vars(other).update(state, machine=machine)
        return other

    @functools.cached_property
    def shared(self) -> dict[Literal["cards", "system", "both"], dict[Hashable, Any]]:
        """Results about wheels, for other questions too: for these ``cards`` on this system, whatever torch, driver,
        Python and CPU; for this ``system`` and wish, whatever cards, driver and CPU; and for ``both``."""
        machine = self.machine
        cards = (self.platform, machine.os, self.gpus, self.wish.without_cudnn)
        has = (machine.os, machine.pythons, machine.toolkits, machine.disk_free_gib)
        system = (self.backend, self.platform, self.tegra, self.wish, *has)
        keys: dict[Literal["cards", "system", "both"], Hashable] = {"cards": cards, "system": system}
        return {name: self.memory.setdefault(key, {}) for name, key in (keys | {"both": (cards, system)}).items()}

    @functools.cached_property
    def platform(self) -> Platform:
        system = self.machine.os.system
        return PLATFORMS.get((system, self.arch), PLATFORMS[system, "x86_64"])

    @functools.cached_property
    def arch(self) -> str:
        """The CPU's architecture: named, or what CPU and cards say."""
        named = self.machine.os.arch
        if named is not None:
            return cpu_arch(named)
        row = microarchitecture(self.machine.cpu.microarchitecture, self.facts)
        if self.machine.os.system != "linux" or (row is not None and row.family == "aarch64"):
            return "aarch64" if row is not None and row.family == "aarch64" else "x86_64"
        # Of the cards only a superchip and a Tegra board decide the CPU's architecture.
        words = {word for gpu in self.machine.gpus for word in re.findall(r"\w+", gpu.name or "")}
        built_in = next((row.cpu for row in self.facts.nvidia.superchip if row.name in words), None)
        sms = [gpu.arch for gpu in self.usable_gpus if isinstance(gpu.arch, Sm)]
        return built_in or ("aarch64" if sms and all(map(self.facts.is_tegra, sms)) else "x86_64")

    # --- the wish, taken apart

    @functools.cached_property
    def torch(self) -> str | None:
        """The version condition without a flavour."""
        text = self.wish.torch
        if text is None:
            return None
        match = _FLAVOUR.fullmatch(text.strip().removeprefix("torch"))
        return (match["torch"] if match else text).strip().removeprefix("torch").strip()

    @functools.cached_property
    def flavour(self) -> str | None:
        """The very wheel flavour that was asked for: ``cu128`` of ``2.8.0+cu128``."""
        match = _FLAVOUR.fullmatch((self.wish.torch or "").strip())
        return self.wish.variant or (match["flavour"] if match else None)

    def wants_torch(self, version: str) -> bool:
        return self.torch is None or matches(version, self.torch)

    @functools.cached_property
    def wanted_releases(self) -> tuple[str, ...]:
        """Known releases that satisfy the wish, newest first."""
        if releases := tuple(version for version in self.facts.releases if self.wants_torch(version)):
            return releases
        known = f"no torch {self.torch} is known (the newest is {self.facts.releases[0]})"
        raise BadInput(known, remedy="rekindle facts show torch lists every release")

    # --- the cards

    @functools.cached_property
    def backend(self) -> Name:
        """What the plan is for: as asked, as the cards are, else as the driver says."""
        flavour, wish, machine = self.flavour or "", self.wish, self.machine
        if flavour == "cpu" or machine.os.system == "macos":
            return "cpu"  # neither CUDA nor ROCm nor XPU exists on a Mac
        asks: dict[Name, object] = {
            "cuda": flavour.startswith("cu") or wish.cuda or wish.cudnn,
            "rocm": flavour.startswith(("rocm", "amd")) or wish.rocm,
            "xpu": flavour == "xpu",
        }
        asked = next((name for name, said in asks.items() if said), None)
        there = {backend_of(gpu.vendor) for gpu in self.usable_gpus}
        if asked and (asked in there or not machine.gpus):
            return asked
        if machine.gpus:
            return next((name for name in asks if name in there), "cpu")
        return "cuda" if machine.drivers.nvidia else asked or "cpu"

    @functools.cached_property
    def usable_gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.machine.gpus if not self._is_hopeless(gpu))

    @functools.cached_property
    def hopeless_gpus(self) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.machine.gpus if self._is_hopeless(gpu))

    @property
    def cards_are_hopeless(self) -> bool:
        """There are cards, nothing can use any of them, and nobody asked for the CPU wheel."""
        mac = self.machine.os.system == "macos"  # the CPU wheel is the only one there, cards or not
        nowhere = [gpu for gpu in self.bought_in_vain if not self._computes_elsewhere(gpu)]
        in_vain = bool(nowhere) or self.flavour not in (None, "cpu") or self.wish.build
        return self.backend == "cpu" and bool(self.machine.gpus) and in_vain and self.flavour != "cpu" and not mac

    @functools.cached_property
    def bought_in_vain(self) -> tuple[Gpu, ...]:
        """The hopeless cards somebody bought to compute: not Intel's graphics inside a processor."""
        return tuple(gpu for gpu in self.hopeless_gpus if gpu.vendor != "intel")

    def _is_hopeless(self, gpu: Gpu) -> bool:
        """A card that no torch ever had kernels for; it is named and set aside."""
        if self.machine.os.system == "macos":
            return gpu.vendor in ("nvidia", "amd", "intel")
        arm = cpu_arch(self.machine.os.arch or "") == "aarch64"
        if self._computes_elsewhere(gpu) or (gpu.vendor == "intel" and (arm or gpu.arch is None)):
            return True
        return backend_of(gpu.vendor) is None or ever_supported(gpu, self.facts).kind == "no"

    def _computes_elsewhere(self, gpu: Gpu) -> bool:
        """A card that torch drives on Linux, and nothing on this Windows: AMD's old ones, and all of them on Arm."""
        if self.machine.os.system != "windows":
            return False
        if cpu_arch(self.machine.os.arch or "") == "aarch64":
            return gpu.vendor in ("nvidia", "amd")
        if not isinstance(gpu.arch, Gfx):
            return False
        rows = (row.gfx.get("windows", ()) for row in self.facts.wheels.flavour)
        supported = ever_supported(gpu, self.facts).kind != "no"
        return supported and all(gpu.arch.name != gfx.name for listed in rows for gfx in listed)

    @functools.cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The cards the chosen backend could drive, one per architecture."""
        mine = [gpu for gpu in self.usable_gpus if backend_of(gpu.vendor) == self.backend and gpu not in self.idle_gpus]
        return tuple({gpu.arch or gpu.name: gpu for gpu in mine}.values())

    @functools.cached_property
    def idle_gpus(self) -> tuple[Gpu, ...]:
        """Graphics inside the processor, where a card of the same maker does the computing."""
        inside = {gfx for row in self.facts.rocm.integrated for gfx in row.gfx}
        cards = [gpu for gpu in self.usable_gpus if gpu.vendor == "amd" and gpu.arch is not None]
        shared = tuple(gpu for gpu in cards if gpu.arch in inside)
        return shared if self.backend == "rocm" and len(shared) < len(cards) else ()

    @functools.cached_property
    def sm_cards(self) -> tuple[tuple[Gpu, Sm], ...]:
        """NVIDIA's of these, each with its architecture, where that is known."""
        return tuple((gpu, gpu.arch) for gpu in self.gpus if isinstance(gpu.arch, Sm))

    @functools.cached_property
    def sms(self) -> tuple[Sm, ...]:
        return tuple(sm for _, sm in self.sm_cards)

    @functools.cached_property
    def gfxs(self) -> tuple[Gfx, ...]:
        return tuple(gpu.arch for gpu in self.gpus if isinstance(gpu.arch, Gfx))

    @functools.cached_property
    def tegra(self) -> bool:
        """Is it a Jetson or its kin, whose CUDA comes with the board?"""
        return self.platform == "linux_aarch64" and is_board(self.machine.os, self.sms, self.facts)

    @property
    def no_gpu(self) -> bool:
        """Somebody looked (or said so), and there is none; a machine described by hand may just not say."""
        return bool(self.machine.no_gpu or self.machine.tools) or self.machine.disk_free_gib is not None

    @functools.cached_property
    def board_cuda(self) -> str | None:
        """On a Jetson: the CUDA that is asked for or installed. Its driver belongs to it, so it binds."""
        if not self.tegra:
            return None
        if self.wish.cuda is None and self.wish.python and not self.machine.toolkits:
            # A board's Python is its system's: 3.10 on an Orin means JetPack 6.
            same = [row.cuda for row in self._board_rows if same_prefix(self.wish.python, row.python)]
            return max(same, key=key, default=None)
        return self.wish.cuda or next(iter(self.installed("cuda")), None)

    # --- the rest of the machine

    def has_toolkit(self, kind: str) -> bool:
        """Has the machine one of this kind (cuda, cudnn, rocm, mkl …), whatever its version?"""
        return any(kit.kind == kind for kit in self.machine.toolkits)

    def installed(self, kind: str) -> list[str]:
        versions = [kit.version for kit in self.machine.toolkits if kit.kind == kind and kit.version]
        return sorted(versions, key=key, reverse=True)

    @functools.cached_property
    def driver(self) -> str | None:
        return self.machine.drivers.nvidia if self.backend == "cuda" else None

    @property
    def side(self) -> Side:
        return driver_side(self.machine.os)

    @functools.cached_property
    def libc(self) -> Libc | None:
        return libc_of(self.machine.os, self.facts)

    @property
    def glibc(self) -> str | None:
        return self.libc.version if self.libc and self.libc.kind == "glibc" else None

    @functools.cached_property
    def memory_gib(self) -> float | None:
        """What the machine has; a board that is only named is known by its maker's table."""
        if self.machine.memory_gib is not None or not self.tegra:
            return self.machine.memory_gib
        names = {gpu.name for gpu in self.gpus}
        return next((row.memory_gib for row in self.facts.nvidia.jetson if row.name in names), None)

    @functools.cached_property
    def jetpack(self) -> JetPack | None:
        """The JetPack that brings the board's CUDA; without one named, the newest for the board."""
        return next(iter(self.jetpacks), None)

    def jetpack_of(self, cuda: str | None) -> JetPack | None:
        """The one that brings this CUDA, else the one the board is taken to have."""
        same = (row for row in self.jetpacks if cuda and minor(row.cuda) == minor(cuda))
        return next(same, self.jetpack)

    @functools.cached_property
    def jetpacks(self) -> list[JetPack]:
        """Those the board may have, newest first: of its CUDA, where that is known."""
        if not self.tegra:
            return []  # without a look into the table of all cards
        have = self.board_cuda
        mine = (row for row in self._board_rows if have is None or same_prefix(have, row.cuda))
        return sorted(mine, key=lambda row: key(row.cuda), reverse=True)

    @property
    def _board_rows(self) -> list[JetPack]:
        return [row for row in self.facts.nvidia.jetpack if all(sm in row.sm for sm in self.sms)]

    @functools.cached_property
    def old_system(self) -> Distro | None:
        """An old Windows, with what still runs there."""
        row = find_distro(self.machine.os.distro or "", self.facts)
        return row if row is not None and (row.python_last or row.driver_below) else None

    @property
    def last_python(self) -> str | None:
        """The newest Python that runs on the system; None where nothing is known to be in the way."""
        return self.old_system.python_last if self.old_system else None

    @functools.cached_property
    def distro(self) -> Distro | None:
        """The Linux distribution as the tables know it; a board has that of its JetPack."""
        name = self.machine.os.distro or (self.jetpack.distro if self.jetpack else "")
        return find_distro(name, self.facts) if self.machine.os.system == "linux" else None

    def distro_of(self, cuda: str | None) -> Distro | None:
        """The same for a plan with this CUDA, which may mean another JetPack."""
        if self.machine.os.distro or (pack := self.jetpack_of(cuda)) is None:
            return self.distro
        return find_distro(pack.distro, self.facts)

    @functools.cached_property
    def manager(self) -> Manager | None:
        """What installs packages there: apt where nobody says which Linux it is; None where it is not known."""
        from rekindle.compat.resources import manager_of  # only builds ask, and most plans are of wheels

        row = self.distro
        name = self.machine.os.distro or (row.name if row else "debian")
        return manager_of(name, self.facts, any_names=True) if self.machine.os.system == "linux" else None

    @functools.cached_property
    def cpu_features(self) -> frozenset[str] | None:
        """What the CPU can do; None if nobody knows."""
        return features_of(self.machine.cpu, self.facts)

    @property
    def surroundings(self) -> Surroundings:
        os, known = self.machine.os, (self.glibc, self.cpu_features, self.sms, self.tegra)
        gfxs = tuple(gpu.arch for gpu in self.machine.gpus if isinstance(gpu.arch, Gfx))
        return Surroundings(os.system, self.arch, *known, gfxs=gfxs, wsl=os.wsl)

    @functools.cached_property
    def possible_hazards(self) -> frozenset[int]:
        """The numbers of the known hazards whose conditions on the machine hold."""
        machine, hazards = self.surroundings, enumerate(self.facts.hazards.hazard)
        met = (number for number, hazard in hazards if machine_meets(hazard, machine))
        return recall(self.memory.setdefault("hazards", {}), machine, lambda: frozenset(met))

    @functools.cached_property
    def asked(self) -> tuple[str, ...]:
        fields = ("torch", "variant", "cuda", "rocm", "cudnn", "compiler", "python", "build")
        return tuple(name for name in fields if getattr(self.wish, name))

    def paired_rocm(self, torch: str) -> list[str]:
        """The releases of ROCm whose maker names this torch."""
        return [rocm for rocm, row in self.facts.rocm.release.items() if minor(torch) in map(minor, row.torch)]

    def cpu_lacks(self, features: tuple[str, ...]) -> bool:
        """True only if it is an x86 CPU and known that one of these features of x86 is missing."""
        present = self.cpu_features if self.arch == "x86_64" else None
        return present is not None and any(feature not in present for feature in features)

    def had_python(self, versions: tuple[str, ...], *, to_build: bool = False) -> str | None:
        """A Python the machine already has that is among these, newest first; ``to_build``: one with headers first."""
        wide = (python for python in self.machine.pythons if "32 bit" not in (python.note or ""))
        newest_first = sorted(wide, key=lambda p: key(p.version), reverse=True)
        # Doctor notes what is amiss with a Python: no headers.
        best_first = sorted(newest_first, key=lambda python: to_build and python.note is not None)
        pairs = ((python, version) for python in best_first for version in versions)
        return next((version for python, version in pairs if same_prefix(python.version, version)), None)


# As `uname -m`, Python and people spell them.
NARROW = ("x86", "i386", "i486", "i586", "i686", "win32", "arm", "armhf", "armv6l", "armv7l", "armv8l", "mips", "ppc")
OTHER_ARCHS = (*NARROW, "ppc64le", "s390x", "riscv64", "loongarch64", "mips64")


def check_wish(question: Question) -> None:
    """:class:`BadInput` in one line: what does not exist, and what is nearest."""
    wish, facts = question.wish, question.facts
    try:
        _ = question.wanted_releases  # refuses a release that nobody knows
    except ValueError as error:
        raise BadInput(f"--torch: {error}") from None
    for name, value in (("cuda", wish.cuda), ("rocm", wish.rocm), ("cudnn", wish.cudnn), ("python", wish.python)):
        if value is not None and not is_version(value):
            raise BadInput(f"--{name} wants a version number, not {value!r}")
    if wish.python is not None and len(key(wish.python)) < 2:
        raise BadInput(f"--python {wish.python} says no minor release", remedy="write it as 3.12")
    if wish.cuda is not None and facts.toolkit(wish.cuda) is None:
        kits = facts.toolkits
        if compare(wish.cuda, kits[0]) > 0:
            remedy = "update rekindle, or add the toolkit in a directory named by REKINDLE_FACTS"
            raise BadInput(f"CUDA {wish.cuda} is newer than the facts know ({kits[0]} is the newest)", remedy=remedy)
        major, second = key(f"{wish.cuda}.0")[:2]
        near = min(kits, key=lambda kit: abs(key(kit)[0] * 100 + key(kit)[1] - major * 100 - second))
        raise BadInput(f"there is no CUDA {minor(wish.cuda)}", remedy=f"the nearest is {near}")
    if wish.cuda and wish.rocm:
        raise BadInput("--cuda and --rocm contradict each other", remedy="a torch is built for one of them")
    flavour = question.flavour
    flavours = {"cpu", *(row.name for row in facts.wheels.flavour)}
    if flavour and flavour not in flavours and not flavour.startswith(("cu", "rocm", "amd", "xpu")):
        likest = difflib.get_close_matches(flavour, flavours, n=1)
        hint = f"did you mean {likest[0]}?" if likest else "flavours look like cu126, rocm6.4 or cpu"
        raise BadInput(f"no wheel flavour is called {flavour!r}", remedy=hint)
    if wish.compiler is not None:
        check_compiler(wish.compiler)


def check_compiler(text: str) -> None:
    """:class:`BadInput` unless it is a compiler and its version."""
    kind, _, version = text.partition("-")
    if kind not in ("gcc", "clang", "msvc") or not is_version(version or "x"):
        raise BadInput(f"--compiler {text!r} is not understood", remedy="write gcc-13, clang-17 or msvc-19.40")
