"""What the wheel says of itself: METADATA, tags, torch/version.py, and the compiled-in list of architectures."""

import ast
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rekindle.inspect.gpu import GpuTarget
from rekindle.inspect.reader import Source, WheelSource
from rekindle.model.arch import parse_gfx, parse_sm

# torch.cuda.get_arch_list() is compiled into libtorch_python as one string: "sm_50 sm_60 compute_90".
# Each pattern begins with plain bytes: the search then runs fifty times as fast as with a choice or a look behind.
_SM_LISTS = tuple(
    re.compile(start + rb"\d{2,3}[af]?(?: (?:sm|compute)_\d{2,3}[af]?)*\0") for start in (rb"sm_", rb"compute_")
)
_GFX_LIST = re.compile(rb"gfx[0-9a-f]{3,5}(?:[ ;]gfx[0-9a-f]{3,5})*\0")
_WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_WINDOW = 8 << 20
LEAST_LIST = 3


@dataclass
class Declared:
    """What METADATA, the file's name and the package's own files say; ``claims`` by what is claimed."""

    name: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    targets: tuple[GpuTarget, ...] = ()
    claims: dict[str, str] = field(default_factory=dict)


def read_declared(source: Source) -> Declared:
    """All but the compiled-in list, which lies in a large library."""
    declared = Declared()
    metadata = _read_headers(source, "METADATA")
    fields = {key.lower(): value for key, value in reversed(metadata)}
    declared.name = fields.get("name")
    declared.version = fields.get("version")
    declared.requires_python = fields.get("requires-python")
    declared.requires = tuple(value for key, value in metadata if key.lower() == "requires-dist")
    declared.tags = tuple(value for key, value in _read_headers(source, "WHEEL") if key.lower() == "tag")
    stem = source.label.removesuffix(".whl").split("-")
    if isinstance(source, WheelSource) and len(stem) >= 5:
        declared.claims["platform"] = stem[-1]
        declared.name = declared.name or stem[0]
        declared.version = declared.version or stem[1]
        declared.tags = declared.tags or ("-".join(stem[-3:]),)
    for name in source.files:
        if name.count("/") <= 1 and name.rpartition("/")[2] == "version.py":
            _read_version_file(declared, source.read(name, 1 << 16))
    return declared


def _read_headers(source: Source, file: str) -> list[tuple[str, str]]:
    """The header fields of METADATA or WHEEL; empty where there is none."""
    place = next((name for name in source.files if re.fullmatch(rf"[^/]+\.dist-info/{file}", name)), None)
    raw = source.read(place, 1 << 22) if place else None
    if raw is None:
        return []
    from rekindle.formats.wheel import read_headers

    return read_headers(raw)


def _read_version_file(declared: Declared, raw: bytes | None) -> None:
    """``torch/version.py`` knows the local version (+cu124) that the file name of published wheels lacks."""
    values: dict[str, Any] = {}
    for line in (raw or b"").decode("utf-8", "replace").splitlines():
        if match := re.match(r"\s*(__version__|cuda|hip|rocm)\s*(?::[^=]*)?=\s*(.+?)\s*$", line):
            with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                values[match[1]] = ast.literal_eval(match[2])
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    version, named = texts.get("__version__", ""), declared.version or ""
    # A local part in the metadata (+cu124.sm120) says more than the package does of itself.
    if "__version__" in texts and "+" not in named and version.split("+")[0] == (named or version).split("+")[0]:
        declared.version = version
    declared.cuda = texts.get("cuda", declared.cuda)
    declared.rocm = texts.get("rocm", texts.get("hip", declared.rocm))


def find_arch_list(data: Any) -> tuple[GpuTarget, ...]:
    """The compiled-in list in a library's bytes. The longest wins, since single names occur in messages; a single name
    counts only if it is the only one (a build for one card)."""
    lists: set[tuple[GpuTarget, ...]] = set()
    for start in range(0, len(data), _WINDOW):
        lists |= arch_lists_in(bytes(data[start : start + _WINDOW + 512]))
    return longest_list(lists)


def longest_list(lists: set[tuple[GpuTarget, ...]]) -> tuple[GpuTarget, ...]:
    """Of several that are equally long the one with the newer cards: the same answer each time."""
    best = max(lists, key=lambda targets: (len(targets), [target.order for target in targets]), default=())
    return () if len(best) == 1 and len(lists) > 1 else best


def arch_lists_in(piece: bytes) -> set[tuple[GpuTarget, ...]]:
    lists: set[tuple[GpuTarget, ...]] = set()
    for pattern in _SM_LISTS:
        for text in _whole_words(pattern, piece):
            names = text.split(" ")
            lists.add(tuple(GpuTarget("sass" if name.startswith("sm_") else "ptx", parse_sm(name)) for name in names))
    for text in _whole_words(_GFX_LIST, piece):
        with contextlib.suppress(ValueError):
            lists.add(tuple(GpuTarget("gfx", parse_gfx(name)) for name in re.split("[ ;]", text)))
    return lists


def _whole_words(pattern: re.Pattern[bytes], piece: bytes) -> Iterator[str]:
    """Matches without the zero byte that ends them. One that begins inside a word counts only as a list: compilers
    keep text without its end before it (torch 2.8 and 2.9: ``…ipc_hsm_70 sm_75 …``)."""
    for match in pattern.finditer(piece):
        text = match[0][:-1].decode()
        inside = match.start() > 0 and piece[match.start() - 1] in _WORD
        if not inside or len(re.split("[ ;]", text)) >= LEAST_LIST:
            yield text
