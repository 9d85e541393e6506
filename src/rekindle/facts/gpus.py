"""From what people call a GPU to its architecture: product name, chip, PCI id, ``sm_86`` or ``gfx1030``. A marketing
name may mean several chips; then all their architectures come, since only the PCI id tells which it is."""

import bisect
import functools
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, GpuArch, Sm, Xe, parse_gpu_arch
from rekindle.model.facts import ChipRow
from rekindle.model.machine import Vendor

Tokens = tuple[str, ...]

_CUT = re.compile(r"[a-z]+|\d+|\+")
_MARKS = re.compile(r"\((?:r|tm|nvgpu)\)|[®™]|\brev\. ?\w+\b|\bmig (?:\dc\.)?\dg\.\d+gb(?:\+\w+)?")
_LAPTOP = re.compile(r"\b(?:laptop|notebook)\b")
_RYZEN = re.compile(r"\bryzen [3579]\b")  # the digit is a class, not a model
_MAX_Q = re.compile(r"\bmax-?q\b")
_SIZE = re.compile(r"\b\d+ ?(?:gb|gib|mib|mb)\b|\b\d{2,3} ?g\b")
_FORM = re.compile(r"\b(?:hbm\d?e?|gddr\d?x?|sxm\d?|pcie|nvl\d*|dgxs|mobile|maxq|fhhl|oem|lhr|lite hash rate|ls|es)\b")
_COMPANY = frozenset({"nvidia", "amd", "ati", "intel", "advanced", "micro", "devices", "corporation", "inc"})
_KIND = frozenset({"geforce", "radeon", "graphics", "gpu", "card", "series", "adapter", "edition"})
_NOISE = _COMPANY | _KIND | {"with", "design", "tm", "r"}
_LINES = frozenset({"arc", "hgx", "tesla", "quadro", "instinct", "firepro", "jetson", "rx", "pro", "ryzen"})
_MAKERS = {
    "nvidia": frozenset({"nvidia", "geforce", "tesla", "quadro", "gtx", "rtx", "gt"}),
    "amd": frozenset({"amd", "ati", "radeon", "instinct", "firepro", "ryzen", "rx"}),
    "intel": frozenset({"intel", "arc", "iris", "uhd", "battlemage", "alchemist"}),
}
_VENDORS: dict[type[GpuArch], Vendor] = {Sm: "nvidia", Gfx: "amd", Xe: "intel"}
VENDOR_NUMBERS: dict[str, Vendor] = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
_KIT_WORDS = "engineering|reference|developer|dev|devkit|kit|module|super|industrial"
_KIT = re.compile(rf"\([^)]*\)|\b\d+ ?GB\b|\b(?:{_KIT_WORDS})\b", re.IGNORECASE)
_PCI = re.compile(r"(?:0x)?(10de|1002|8086)[:\s](?:0x)?([0-9a-f]{4})(?::([0-9a-f]{2}))?")
_DOTTED = re.compile(r"\d{1,2}\.\d")
_SHORT = re.compile(r"sm ?(\d{2,3}[af]?)")
_WITHIN = re.compile(r"\bw/\s*(\S.*)$", re.IGNORECASE)
_UNNAMED = re.compile(r"(?<=\S)\s+with radeon (?:vega )?(?:mobile )?(?:graphics|gfx)$", re.IGNORECASE)
_INTEL = re.compile(r"\bintel\b|\barc\b.*\b(?:[ab]\d{2,3}|1[34]0[tuv])|\b(iris|uhd graphics)\b")
# "GRID V100D-8Q", "NVIDIA A100D-1-10C": a share of a card, its memory and what it is licensed for.
_VGPU = re.compile(r"(?:(?:nvidia|grid) )*(\S.*?)-(?:\d-)?\d{1,2}[abcq]", re.IGNORECASE)


class Product(NamedTuple):
    """A product as the tables name it."""

    vendor: Vendor
    name: str
    chip_name: str
    chip: ChipRow


class Spelling(NamedTuple):
    """A name as tokens: all of them, and without memory and form; ``line`` are its line words."""

    full: Tokens
    core: Tokens
    line: frozenset[str]


def spell(text: str) -> Spelling:
    """A name without marks, makers and words that say nothing."""
    lowered = _MAX_Q.sub("maxq", _LAPTOP.sub("mobile", _MARKS.sub(" ", text.lower())))
    lowered = _RYZEN.sub("ryzen", lowered)
    full = _tokens(lowered)
    core = _tokens(_FORM.sub(" ", _SIZE.sub(" ", re.sub(r"[-_/]", " ", lowered))))
    line = frozenset(full) & _LINES
    return Spelling(full, tuple(token for token in core if token not in _LINES), line)


def _tokens(text: str) -> Tokens:
    words = [word for word in re.split(r"[^a-z0-9+]+", text) if word and word not in _NOISE]
    return tuple(token for word in words for token in _CUT.findall(word))


def alternatives(name: str) -> tuple[str, ...]:
    """``Instinct MI60 / MI50`` names two products; a number alone takes the words before the first one's number."""
    first, *others = name.split(" / ")
    words = re.match(r"\D*", first)
    prefix = words[0] if words else ""
    return (first, *(f"{prefix}{other}" if other[:1].isdigit() else other for other in others))


def _chips(facts: Facts) -> dict[Vendor, dict[str, ChipRow]]:
    return {"nvidia": facts.nvidia.chip, "amd": facts.amd.chip, "intel": facts.intel.chip}


@functools.lru_cache(maxsize=4)
def product_names(facts: Facts) -> tuple[tuple[str, Product], ...]:
    """Every name of a product or a chip, and what it names."""
    names = []
    for vendor, chips in _chips(facts).items():
        for chip_name, chip in chips.items():
            for name in chip.products:
                spellings = dict.fromkeys((name, *alternatives(name))) if " / " in name else (name,)
                names += [(spelling, Product(vendor, name, chip_name, chip)) for spelling in spellings]
            names.append((chip_name, Product(vendor, chip_name, chip_name, chip)))
    return tuple(names)


def find_products(text: str, facts: Facts) -> list[Product]:
    """The products a text names, by the strictest reading that finds any; empty where none is meant for sure."""
    asked = spell(text)
    maker = _maker_of(text)
    numbers = [token for token in asked.core if token.isdigit()]
    # Every reading needs the same numbers, so only names that hold them all are spelt: most of the cost of a look-up.
    near_names = [entry for entry in product_names(facts) if all(number in entry[0] for number in numbers)]
    table = [(spell(name), product) for name, product in near_names if maker in (None, product.vendor)]
    if not asked.full:  # "Radeon Series": only as a whole
        return [product for _, product in table if product.name.lower() == text.strip().lower()]
    if exact := [product for spelling, product in table if spelling.full == asked.full]:
        return exact
    if not any(token.isdigit() for token in asked.core):
        return []
    near = [(s, p) for s, p in table if s.line & asked.line in (s.line, asked.line)]
    bare = tuple(token for token in asked.full if token not in _LINES)
    if same := [p for s, p in near if tuple(token for token in s.full if token not in _LINES) == bare]:
        return same
    if same := [p for s, p in near if s.core == asked.core]:
        return same
    # "K40" begins "K40c": the same tokens, then letters only. Variants count where they agree on the architecture.
    size = len(asked.core)
    begun = [(s.core[size:], p) for s, p in near if s.core[:size] == asked.core]
    variants = [p for tail, p in begun if not any(token.isdigit() for token in tail)]
    return variants if len({p.chip.arch for p in variants}) == 1 else []


def _maker_of(text: str) -> str | None:
    """Whose product a text speaks of, if it says so: a Radeon 840M is no GeForce 840M."""
    words = set(re.split(r"[^a-z]+", text.lower()))
    makers = [maker for maker, marks in _MAKERS.items() if words & marks]
    return makers[0] if len(makers) == 1 else None


def _suggest_names(text: str, facts: Facts) -> list[str]:
    import difflib

    asked = spell(text)
    spelled = [(spell(name), product) for name, product in product_names(facts)]
    begun = [p.name for s, p in spelled if asked.core and s.core[: len(asked.core)] == asked.core]
    if begun and any(token.isdigit() for token in asked.core):
        return list(dict.fromkeys(begun))[:4]
    # With the line's name too ("geforcertx3060"): a misspelt "GeForse" must not hide the number behind it.
    spelt = {re.sub(r"[^a-z0-9+]+", "", product.name.lower()): product.name for _, product in spelled}
    spelt |= {"".join(spelling.full): product.name for spelling, product in spelled}
    key = re.sub(r"[^a-z0-9+]+", "", text.lower())
    near = difflib.get_close_matches(key, spelt, cutoff=0.7)
    near += difflib.get_close_matches("".join(asked.full), spelt, cutoff=0.7)
    return list(dict.fromkeys(spelt[name] for name in near))[:4]


class FoundGpu(NamedTuple):
    """What a name stands for: every architecture sold under it, and the chips."""

    vendor: Vendor
    name: str
    archs: tuple[GpuArch, ...]
    chips: tuple[str, ...]


def find_gpu(text: str, facts: Facts) -> FoundGpu:
    """The GPU a user names; :class:`BadInput` with the nearest names if there is none. Several architectures come
    newest first: a marketing name outlives its first chip, seldom the other way."""
    # A CPU's name may tell its GPU ("… w/ Radeon 780M Graphics"), or only that there is one ("… with Radeon Graphics").
    within = _WITHIN.search(text.strip())
    query = within[1] if within else _UNNAMED.sub("", text.strip())
    lowered = query.lower()
    if gpu := _find_by_arch(lowered, facts):
        return gpu
    if match := _PCI.fullmatch(lowered):
        return find_by_pci_id(match[1], match[2], facts, revision=match[3])
    if gpu := _find_jetson(query, facts):
        return gpu
    if hits := next(filter(None, (find_products(name, facts) for name in _readings(query))), []):
        if len({hit.vendor for hit in hits}) > 1:
            both = " or ".join(repr(name) for name in dict.fromkeys(hit.name for hit in hits))
            raise BadInput(f"{text!r} is the name of products of both makers", remedy=f"did you mean {both}?")
        archs = tuple(sorted({parse_gpu_arch(hit.chip.arch) for hit in hits}, reverse=True, key=sort_key))
        name = hits[0].name if len({hit.name for hit in hits}) == 1 else query
        return FoundGpu(hits[0].vendor, name, archs, tuple(dict.fromkeys(hit.chip_name for hit in hits)))
    if _INTEL.search(lowered):
        return FoundGpu("intel", query, (), ())
    if not spell(query).full:
        raise BadInput(f"{text!r} names no GPU", remedy='write a product name ("GeForce GTX 970"), sm_52 or gfx1030')
    if names := _suggest_names(query, facts):
        remedy = "did you mean " + " or ".join(repr(name) for name in names) + "?"
    else:
        remedy = "give its architecture instead (sm_86 or gfx1030), or its PCI id (10de:1024)"
    raise BadInput(f"no GPU called {text!r} is known", remedy=remedy)


def _readings(text: str) -> Iterator[str]:
    """A name as it stands; then the card that a virtual GPU is a share of, without the letter of its form (V100D); then
    a number with the word GeForce cards have before it, which people leave out."""
    yield text
    if share := _VGPU.fullmatch(text):
        yield share[1]
        yield share[1].rstrip(string.ascii_letters)
    elif _maker_of(text) in (None, "nvidia") and not spell(text).line:
        yield from (f"GeForce {word} {' '.join(spell(text).core)}" for word in ("GTX", "RTX", "GT"))


@functools.lru_cache(maxsize=4)
def known_archs(facts: Facts) -> frozenset[GpuArch]:
    """Every architecture that a chip, a toolkit or a ROCm release names, without suffixes and switches."""
    chips = [parse_gpu_arch(chip.arch) for table in _chips(facts).values() for chip in table.values()]
    toolkits = [Sm(sm.major, sm.minor) for row in facts.cuda.toolkit.values() for sm in row.sass]
    releases = [Gfx(gfx.name) for row in facts.rocm.release.values() for gfx in row.gfx]
    wheels = [Gfx(gfx.name) for row in facts.wheels.flavour for listed in row.gfx.values() for gfx in listed]
    return frozenset([*chips, *toolkits, *releases, *wheels, *(row.gfx for row in facts.rocm.span)])


def _find_by_arch(text: str, facts: Facts) -> FoundGpu | None:
    if not (text.startswith(("sm_", "gfx", "compute_", "xe_")) or _DOTTED.fullmatch(text) or _SHORT.fullmatch(text)):
        return None
    arch = parse_gpu_arch(_SHORT.sub(r"sm_\1", text))
    plain = Sm(arch.major, arch.minor) if isinstance(arch, Sm) else Gfx(arch.name) if isinstance(arch, Gfx) else arch
    archs = known_archs(facts)
    if plain not in archs:
        newest = max((plain, *(each for each in archs if type(each) is type(plain))), key=sort_key)
        if isinstance(plain, Xe) or newest is not plain:  # a newer one may exist before our tables know it
            raise BadInput(f"no GPU has the architecture {text}", remedy=_suggest_arch(plain, facts))
    # A chip that toolkits renamed goes by its last name.
    arch = next((row.sm[-1] for row in facts.cuda.sm_same if arch in row.sm), arch)
    return FoundGpu(_VENDORS[type(arch)], text, (arch,), ())


def _suggest_arch(arch: GpuArch, facts: Facts) -> str:
    """NVIDIA counts, so the next one on either side is meant; of AMD's names the likest spelling is."""
    import difflib

    if isinstance(arch, Sm):
        sms = sorted(each for each in known_archs(facts) if isinstance(each, Sm))
        place = bisect.bisect(sms, arch)
        near = [str(each) for each in sms[max(place - 1, 0) : place + 1]]
    else:
        names = sorted(str(each) for each in known_archs(facts))
        near = difflib.get_close_matches(str(arch), names, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else "write sm_86 or gfx1030"


def find_by_pci_id(vendor_id: str, device_id: str, facts: Facts, *, revision: str | None = None) -> FoundGpu:
    """Exact: the PCI id names one chip."""
    vendor = VENDOR_NUMBERS.get(vendor_id, "amd")
    chips = _chips(facts)[vendor]
    full = f"{device_id}:{revision}"
    for chip_name, chip in chips.items():
        named = [name for name, ids in chip.products.items() if device_id in _device_ids(ids)]
        if named or device_id in _device_ids(chip.ids):
            exact = [name for name in named if full in chip.products[name].split()]
            name = (exact or named or [chip_name])[0]
            return FoundGpu(vendor, name, (parse_gpu_arch(chip.arch),), (chip_name,))
    remedy = "give its architecture instead (sm_86 or gfx1030)"
    raise BadInput(f"no {vendor} device {vendor_id}:{device_id} is known", remedy=remedy)


def device_classes(facts: Facts) -> dict[str, dict[str, str]]:
    """Every PCI id of the tables: vendor, device and architecture."""
    by_vendor: dict[str, dict[str, str]] = {number: {} for number in VENDOR_NUMBERS}
    for number, ids in by_vendor.items():
        for chip in _chips(facts)[VENDOR_NUMBERS[number]].values():
            for device in sorted(_device_ids(" ".join((*chip.products.values(), chip.ids)))):
                ids.setdefault(device, chip.arch)
    return by_vendor


def _device_ids(ids: str) -> set[str]:
    return {part.split(":")[0] for part in ids.split()}


def _find_jetson(text: str, facts: Facts) -> FoundGpu | None:
    """A board, also as its device tree prints it: ``NVIDIA Jetson Orin NX Engineering Reference Developer Kit``."""
    # Without its memory and what kind of kit it is.
    key = spell(_KIT.sub(" ", text)).full
    for row in facts.nvidia.jetson:
        boards = {spell(_KIT.sub(" ", name)).full for name in (row.name, *row.aliases)}
        if key in boards or (("jetson", *key) in boards and len(key) > 1):
            return FoundGpu("nvidia", row.name, (row.arch,), (row.chip,))
    return None


def jetson_cuda(arch: Sm, facts: Facts) -> tuple[str, ...]:
    """The CUDA versions JetPack offers for a Tegra architecture; empty if it is none."""
    return next((row.cuda for row in facts.nvidia.jetson if row.arch == arch and row.cuda), ())


def sort_key(arch: GpuArch | None) -> tuple[int, int, str]:
    """Older before newer, within a vendor; unknown first."""
    if isinstance(arch, Sm):
        return arch.major, arch.minor, arch.suffix
    if isinstance(arch, Gfx):
        number, suffix = arch.order
        return number, 0, suffix
    return -1, 0, ""
