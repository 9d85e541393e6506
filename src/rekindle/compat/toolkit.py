"""A CUDA toolkit: which machine code runs where, what nvcc compiles for, the compilers it takes, what cuDNN holds."""

import functools
from typing import NamedTuple

from rekindle.compat.answer import CompatAnswer
from rekindle.facts import Facts
from rekindle.model.arch import GpuArch, Sm
from rekindle.model.facts import CudaToolkit
from rekindle.model.version import at_least, compare, key, minor, reaches

# The first compiler (the part after "19."), the product's own version, its year.
_PRODUCTS = ((0, 14, "2015"), (10, 15, "2017"), (20, 16, "2019"), (30, 17, "2022"), (50, 18, "2026"))
_FIRST_UNKNOWN = 60


def sass_runs_on(code: Sm, card: Sm) -> bool:
    """Does machine code for ``code`` load on ``card``? Same major, equal or lower minor; ``a`` code only on exactly
    that chip; ``f`` code on its family, which is the same major with equal or higher minor (CUDA programming guide)."""
    if code.suffix == "a":
        return (code.major, code.minor) == (card.major, card.minor)
    return code.major == card.major and code.minor <= card.minor


def ptx_runs(code: Sm, card: Sm) -> bool:
    """Can a driver that is new enough compile this PTX for the card? Not newer than it; ``a``/``f`` as machine code."""
    return sass_runs_on(code, card) if code.suffix else (code.major, code.minor) <= (card.major, card.minor)


@functools.lru_cache(maxsize=16384)
def sass_runs(code: Sm, card: Sm, cuda: str | None, facts: Facts) -> bool | None:
    """Machine code ``code``, made by toolkit ``cuda``, on ``card``; None where the toolkit decides and is not known."""
    code_pair, card_pair = (code.major, code.minor), (card.major, card.minor)
    for same in facts.cuda.sm_same:
        group = {(sm.major, sm.minor) for sm in same.sm}
        if code_pair in group or card_pair in group:
            return code_pair in group and card_pair in group
    alone = {(row.sm.major, row.sm.minor): row.lifted for row in facts.cuda.sm_alone}
    if code_pair == card_pair or (code_pair not in alone and card_pair not in alone):
        return sass_runs_on(code, card)
    lifted = alone.get(card_pair)
    if code_pair in alone or lifted is None or not sass_runs_on(code, card):
        return False
    return None if cuda is None else at_least(cuda, lifted)


@functools.lru_cache(maxsize=1024)
def toolkits_for(sm: Sm, facts: Facts) -> tuple[str, ...]:
    """The toolkits whose nvcc compiles for this very card, oldest first."""
    return tuple(kit for kit in reversed(facts.toolkits) if sm in facts.cuda.toolkit[kit].sass)


@functools.lru_cache(maxsize=1024)
def compiles_for(cuda: str, sm: Sm, facts: Facts, name: str | None = None) -> CompatAnswer:
    """Can nvcc of this toolkit make code for the card? *partly*: only for an older sibling, whose code runs there."""
    if (row := facts.toolkit(cuda)) is None:
        return CompatAnswer("unknown", "cuda-not-known", f"CUDA {cuda} is not in our tables")
    if sm in row.sass:
        return CompatAnswer("yes", "cuda-targets-arch", f"CUDA {cuda} compiles for {sm}", row.source[0])
    able = toolkits_for(sm, facts)
    span = f"CUDA {able[0]} to {able[-1]} can" if able else "no known toolkit can"
    want = None if not able else able[-1] if sm == min(sm, *row.sass) else able[0]
    called = f"{sm} ({sm.dotted}, {name})" if name else f"{sm} ({sm.dotted})"
    text = f"CUDA {cuda} cannot compile for {called}; its nvcc knows {row.sass[0]} to {row.sass[-1]}; {span}"
    if (near := emits_for(cuda, sm, facts)) is not None:
        text += f"; its {near} code runs there too (TORCH_CUDA_ARCH_LIST={near.dotted})"
        return CompatAnswer("partly", "cuda-cannot-target-arch", text, row.source[0], want)
    return CompatAnswer("no", "cuda-cannot-target-arch", text, row.source[0], want)


@functools.lru_cache(maxsize=8192)
def emits_for(cuda: str, sm: Sm, facts: Facts) -> Sm | None:
    """What nvcc of this toolkit is told to compile for a card: the card itself, else the newest code that runs on
    it (sm_86 for sm_89 before CUDA 11.8); None where it has neither."""
    if (row := facts.toolkit(cuda)) is None or sm in row.sass:
        return sm
    return max((code for code in row.sass if not code.suffix and sass_runs(code, sm, cuda, facts)), default=None)


def takes_compiler(row: CudaToolkit, kind: str, version: str) -> bool | None:
    """Does nvcc of this toolkit take this host compiler? A bare number means the newest of it; None: not known."""
    if kind == "msvc":
        if row.msvc_below is None:
            return None
        major, rest = (*key(version), 0)[:2]
        number = major * 100 + rest
        return number < row.msvc_below and (row.msvc_from is None or row.msvc_from <= number)
    low, high = (row.gcc_min, row.gcc_max) if kind == "gcc" else (row.clang_min, row.clang_max)
    if high is None:
        return None
    return key(version)[0] <= high and (low is None or reaches(version, low))


def compiler_span(row: CudaToolkit, kind: str) -> str:
    """For people: ``gcc 6 to 13``, ``MSVC 19.10 to 19.39 (Visual Studio 2017-2022)``; empty where nothing is known."""
    if kind == "msvc":
        if row.msvc_below is None:
            return ""
        limit = row.msvc_below - 1
        studio = f" (Visual Studio {row.visual_studio})" if row.visual_studio else ""
        return f"MSVC up to {limit // 100}.{limit % 100}{studio}"
    low, high = (row.gcc_min, row.gcc_max) if kind == "gcc" else (row.clang_min, row.clang_max)
    if high is None:
        return ""
    return f"{kind} {low} to {high}" if low else f"{kind} up to {high}"


def newest_compiler(row: CudaToolkit, kind: str) -> int | None:
    """The newest major version of gcc or clang (for msvc: the newest ``_MSC_VER``) that nvcc takes; None: not known."""
    msvc = None if row.msvc_below is None else row.msvc_below - 1
    return {"gcc": row.gcc_max, "clang": row.clang_max, "msvc": msvc}.get(kind)


class CudnnFloor(NamedTuple):
    """``oldest`` architecture of a cuDNN for one toolkit, and the row (``version``) that says so."""

    oldest: Sm
    version: str
    source: str


@functools.lru_cache(maxsize=1024)
def cudnn_floor(cudnn: str, cuda: str, facts: Facts) -> CudnnFloor | None:
    """By the newest known cuDNN that is not newer than this one; None where the tables do not reach."""
    best = max((version for version in facts.cudnn.cudnn if compare(version, cudnn) <= 0), key=key, default=None)
    if best is None:
        return None
    row = facts.cudnn.cudnn[best]
    oldest = row.cuda.get(minor(cuda)) or row.cuda.get(f"{key(cuda)[0]}.x")
    return CudnnFloor(oldest, best, row.source[0]) if oldest else None


@functools.lru_cache(maxsize=256)
def last_cudnn(sm: Sm, facts: Facts) -> str | None:
    """The newest cuDNN with code for an architecture."""
    fitting = [v for v, row in facts.cudnn.cudnn.items() if any(oldest <= sm for oldest in row.cuda.values())]
    return max(fitting, key=key, default=None)


def cudnn_covers(cudnn: str | None, cuda: str | None, card: GpuArch | None, facts: Facts) -> CompatAnswer:
    """Has this cuDNN code for the card? *partly*: all works but what cuDNN does."""
    if cudnn is None or cuda is None or not isinstance(card, Sm):
        return CompatAnswer("unknown")
    if (floor := cudnn_floor(cudnn, cuda, facts)) is None:
        return CompatAnswer("unknown")
    if card >= floor.oldest:
        return CompatAnswer("yes", "cudnn", f"cuDNN {cudnn} has code for {card}", floor.source)
    text = f"cuDNN {cudnn} has no code for {card}: cuDNN {floor.version} starts at {floor.oldest} with CUDA {cuda}, so"
    text += " convolutions fail unless torch.backends.cudnn.enabled is set to False"
    return CompatAnswer("partly", "cudnn-lacks-arch", text, floor.source, last_cudnn(card, facts))


def find_visual_studio(compiler: int) -> tuple[int, str] | None:
    """Version and year of the product; None where the compiler is newer than any known here.

    >>> find_visual_studio(29), find_visual_studio(60)
    ((16, '2019'), None)
    """
    if not 0 <= compiler < _FIRST_UNKNOWN:
        return None
    return next((version, year) for first, version, year in reversed(_PRODUCTS) if first <= compiler)
