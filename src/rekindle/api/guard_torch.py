"""``guard``: notices that a torch was replaced, by whom, and says what restores it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.host.protocol import Host
    from rekindle.model.guard import GuardReport, PackageRecord

KEPT = "constraints.txt"
FAMILY = ("torch", "torchvision", "torchaudio", "triton")
ASK_SECONDS = 120.0
MAX_KEPT_BYTES = 1 << 20


def guard(*, python: str | None = None, keep: Path | None = None, record: bool = False) -> GuardReport:
    """Is the torch of ``python`` (default: ours) still the one that was meant?

    What was meant stands in ``keep``, a file of constraints; without one, in the file that ``up`` or an earlier call
    with ``record`` left in the environment. ``record`` writes down what is there now.

    >>> import sys
    >>> guard(python=sys.executable).replaced
    ()
    """
    import msgspec

    from rekindle.compat.replaced import find_replaced
    from rekindle.errors import BadInput
    from rekindle.host.files import write_for_user
    from rekindle.host.live import LiveHost
    from rekindle.model.guard import GuardReport, constraints_text

    exe = python or sys.executable
    host = LiveHost()
    records = read_records(host, exe)
    found = {one.name.lower(): one.version for one in records if one.name.lower() in FAMILY}
    place = keep or kept_in(host, exe)
    if record:
        if "torch" not in found:
            raise BadInput(f"{exe} has no torch, so there is nothing to record", remedy="rekindle up installs one")
        write_for_user(place, constraints_text(found))
        return GuardReport(python=exe, kept=str(place), expected=found, found=found, written=True)
    if not place.is_file():
        if keep is not None:
            raise BadInput(f"there is no {keep}", remedy="rekindle guard --record writes one")
        return GuardReport(python=exe, found=found)
    expected = read_kept(place)
    replaced = tuple(
        msgspec.structs.replace(one, restore=restore_lines(exe, one.name, expected))
        for one in find_replaced(expected, records)
    )
    return GuardReport(python=exe, kept=str(place), expected=expected, found=found, replaced=replaced)


def read_records(host: Host, python: str) -> list[PackageRecord]:
    """What pip noted about every package of an interpreter."""
    from rekindle.interpreters.packages import ask_contents
    from rekindle.model.guard import PackageRecord

    return [
        PackageRecord(
            name=one.name,
            version=one.version,
            asked=one.asked,
            installer=one.installer,
            when=one.when,
            url=one.url,
            requires=one.requires,
        )
        for one in ask_contents(host, python).packages
    ]


def kept_in(host: Host, python: str) -> Path:
    """Where ``up`` leaves the constraints of an environment."""
    from rekindle.interpreters.search import ask_interpreter

    return Path(ask_interpreter(host, python).prefix or ".") / "rekindle" / KEPT


def read_kept(place: Path) -> dict[str, str]:
    """``name==version`` lines; anything else in the file is no pin."""
    from rekindle.errors import BadInput
    from rekindle.host.files import read_head

    try:
        text = read_head(place, MAX_KEPT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {place}: {error}") from error
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pins = {name.strip(): version.strip() for name, sign, version in (line.partition("==") for line in lines) if sign}
    if not pins:
        raise BadInput(f"{place} names no version to keep", remedy="a line such as torch==2.6.0+cu124")
    return pins


def restore_lines(python: str, name: str, expected: Mapping[str, str]) -> tuple[str, ...]:
    """The pip line that brings the meant version back, with the index its build comes from."""
    from rekindle.scripts.quoting import paste_line

    words = [python, "-m", "pip", "install", "--force-reinstall", "--no-deps", f"{name}=={expected[name]}"]
    words += _index_of(expected.get("torch", ""))
    return (paste_line(words),)


def _index_of(torch: str) -> list[str]:
    from rekindle.facts import load_facts

    release, _, flavour = torch.partition("+")
    row = next((one for one in load_facts().flavours(release) if one.name == flavour), None) if flavour else None
    return ["--index-url", row.index] if row is not None and row.index else []
