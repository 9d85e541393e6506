"""Version numbers as they occur here: dotted numbers, compared number by number.

``key("2.10.0") > key("2.9")``. A local part (``+cu128``) and letters after the numbers do not count.
``matches("2.1.2", ">=2.1,<2.3")`` knows the few operators that facts and wishes use.

The border to ``packaging.version``: these functions are for what the tables and people name (toolkits, drivers,
compilers, C libraries, Pythons, torch releases), where 12.8 means every 12.8.x and a suffix is no pre-release.
What a wheel, an index page or a requirement says about a *package* follows PEP 440 and is read with ``packaging``."""

import functools
import re

from rekindle.errors import BadInput

_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_CLAUSE = re.compile(r"\s*(==|!=|>=|<=|>|<|~=)?\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*")
# What :func:`compare` says where an operator holds.
_HOLDS = {"==": (0,), "!=": (-1, 1), ">=": (0, 1), "<=": (-1, 0), ">": (1,), "<": (-1,)}

Key = tuple[int, ...]


class NotAVersion(BadInput, ValueError):
    """A machine file, a wish or an overlay of facts names a version, or a condition on one, that is none."""


@functools.lru_cache(maxsize=4096)
def key(text: str) -> Key:
    """The numbers of a version; ValueError if it has none."""
    match = _NUMBERS.match(text.lstrip("v"))
    # Python refuses to read numbers of thousands of digits; no version has nineteen.
    if match is None or max(map(len, match[0].split("."))) > 18:
        raise NotAVersion(f"{text[:60]!r} is no version number", remedy="leave it out where it is not known")
    return tuple(int(part) for part in match[0].split("."))


def is_version(text: str) -> bool:
    """Does it begin with a number?"""
    return _NUMBERS.match(text.lstrip("v")) is not None


@functools.lru_cache(maxsize=65536)
def compare(left: str, right: str) -> int:
    """-1, 0 or 1; missing numbers count as zero, so 2.8 equals 2.8.0."""
    a, b = key(left), key(right)
    width = max(len(a), len(b))
    a, b = a + (0,) * (width - len(a)), b + (0,) * (width - len(b))
    return (a > b) - (a < b)


def at_least(version: str, floor: str) -> bool:
    """Is it the floor or newer?"""
    return compare(version, floor) >= 0


def reaches(version: str, floor: str) -> bool:
    """The same, where a bare number (gcc-9, driver 470) means the newest of it."""
    return key(version)[0] >= key(floor)[0] if len(key(version)) == 1 else at_least(version, floor)


@functools.lru_cache(maxsize=4096)
def minor(text: str) -> str:
    """``2.8`` of ``2.8.1``."""
    return ".".join(str(part) for part in key(text)[:2])


def flavour_name(cuda: str | None, rocm: str | None) -> str:
    """What wheels of a toolkit are called: ``cu128``, ``rocm6.4``, ``cpu``."""
    return "cu" + "".join(minor(cuda).split(".")) if cuda else f"rocm{rocm}" if rocm else "cpu"


def same_prefix(version: str, prefix: str) -> bool:
    """Is ``prefix`` the beginning of ``version``? 12.8 begins 12.8.93, and 2.1 does not begin 2.10."""
    wanted = key(prefix)
    return key(version)[: len(wanted)] == wanted


@functools.lru_cache(maxsize=1024)
def _clauses(spec: str) -> tuple[tuple[str, str, bool], ...]:
    parsed = []
    for part in spec.split(","):
        if (match := _CLAUSE.fullmatch(part)) is None:
            raise NotAVersion(f"{part.strip()[:60]!r} is no version condition (write 2.6, ==2.6.0 or >=2.1,<2.4)")
        parsed.append((match[1] or "", match[2], bool(match[3])))
    return tuple(parsed)


@functools.lru_cache(maxsize=16384)
def matches(version: str, spec: str) -> bool:
    """Does the version satisfy every clause? A bare number means that release and its patches."""
    return all(_clause_holds(version, *clause) for clause in _clauses(spec))


def _clause_holds(version: str, sign: str, number: str, star: bool) -> bool:
    if sign == "" or (sign == "==" and star):
        return same_prefix(version, number)
    if sign == "!=" and star:
        return not same_prefix(version, number)
    if sign == "~=":
        return compare(version, number) >= 0 and same_prefix(version, ".".join(number.split(".")[:-1]) or number)
    return compare(version, number) in _HOLDS[sign]


def pin_requirement(name: str, pin: str) -> str:
    """``setuptools`` and ``<60`` or ``59.5`` into one word for pip; what is no specifier is refused. An address (``@
    file:…`` runs its setup.py), an option (``-r FILE`` prints the file) or a second word never passes."""
    from packaging.requirements import InvalidRequirement, Requirement

    text = f"{name}=={pin}" if pin[:1].isdigit() else f"{name}{pin}"
    try:
        read = Requirement(text)
    except InvalidRequirement as error:
        raise BadInput(f"the plan pins {text!r}, which is no requirement: {str(error).splitlines()[0]}") from error
    if read.url or read.marker or read.extras or read.name != name:
        raise BadInput(f"the plan pins {text!r}; a pin is a package and its versions, nothing else")
    return text
