"""``guard``: notices that a torch was replaced, by whom, and says what restores it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from rekindle.compat.replaced import find_replaced
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import read_head, write_for_user
from rekindle.host.live import LiveHost
from rekindle.interpreters.packages import ask_contents
from rekindle.interpreters.search import ask_interpreter
from rekindle.model.guard import CONTENTS, GuardReport, constraints_text
from rekindle.scripts.quoting import paste_line

KEPT = "constraints.txt"
FAMILY = ("torch", "torchvision", "torchaudio", "triton")
MAX_KEPT_BYTES = 1 << 20


def guard(*, python: str | None = None, keep: Path | None = None, record: bool = False) -> GuardReport:
    """Is the torch of ``python`` (default: ours) still the one that was meant?

    What was meant stands in ``keep``, a file of constraints; without one, in the file that ``up`` or an earlier call
    with ``record`` left in the environment. ``record`` writes down what is there now.

    >>> import sys
    >>> guard(python=sys.executable).replaced
    ()
    """
    exe = python or sys.executable
    host = LiveHost()
    records = ask_contents(host, exe, digests=FAMILY).packages
    family = {package.name.lower(): package for package in records if package.name.lower() in FAMILY}
    versions = {name: package.version for name, package in family.items()}
    place = keep or Path(ask_interpreter(host, exe).prefix or ".") / "rekindle" / KEPT  # where ``up`` leaves it
    if record:
        if "torch" not in versions:
            raise BadInput(f"{exe} has no torch, so there is nothing to record", remedy="rekindle up installs one")
        write_for_user(place, constraints_text(versions, {name: package.contents for name, package in family.items()}))
        return GuardReport(python=exe, kept=str(place), expected=versions, found=versions, written=True)
    if not place.is_file():
        if keep is not None:
            raise BadInput(f"there is no {keep}", remedy="rekindle guard --record writes one")
        return GuardReport(python=exe, found=versions)
    expected, contents = read_constraints(place)
    others = find_replaced(expected, records, contents)
    replaced = tuple(replace(package, restore=_restore_lines(exe, package.name, expected)) for package in others)
    return GuardReport(python=exe, kept=str(place), expected=expected, found=versions, replaced=replaced)


def read_constraints(place: Path) -> tuple[dict[str, str], dict[str, str]]:
    """``name==version`` lines, and the digests of their files where they are remarked; all else is no pin."""
    try:
        text = read_head(place, MAX_KEPT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {place}: {error}") from error
    pins, contents = {}, {}
    for line in text.splitlines():
        pin, _, remark = line.partition("#")
        name, sign, version = (part.strip() for part in pin.partition("=="))
        if sign:
            pins[name] = version
            contents[name] = remark.partition(CONTENTS)[2].strip()
    if not pins:
        raise BadInput(f"{place} names no version to keep", remedy="a line such as torch==2.6.0+cu124")
    return pins, contents


def _restore_lines(python: str, name: str, expected: Mapping[str, str]) -> tuple[str, ...]:
    """The pip line that brings the meant version back, with the index its build comes from."""
    release, _, flavour = expected.get("torch", "").partition("+")
    rows = load_facts().flavours(release) if flavour else ()
    index = next((row.index for row in rows if row.name == flavour and row.index), None)
    words = [python, "-m", "pip", "install", "--force-reinstall", "--no-deps", f"{name}=={expected[name]}"]
    return (paste_line([*words, *(("--index-url", index) if index else ())]),)
