"""The C library: which kind a Linux system has, how new it is, and what a wheel wants of it. A wheel for glibc
(manylinux) never runs on musl (Alpine), whatever the versions; a musllinux wheel never on glibc."""

import functools
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from rekindle.compat.answer import CompatAnswer
from rekindle.facts import Facts
from rekindle.model.facts import Distro, Flavour, Platform
from rekindle.model.machine import Os
from rekindle.model.version import compare, key

Family = Literal["glibc", "musl"]
_WORDS = re.compile(r"[a-z]+|\d+(?:\.\d+)*")
_TAG = re.compile(r"(many|musl)linux_(\d{1,4})_(\d{1,4})_")
TAG_SOURCE = "tags of the wheels on PyPI (PEP 600, PEP 656)"


class Libc(NamedTuple):
    """A kind of C library and its version; None where it is not known."""

    kind: Family | None = None
    version: str | None = None


def libc_of(os: Os, facts: Facts) -> Libc | None:
    """What a system has: as it says, else as its distribution is known; None where the question makes no sense."""
    if os.system != "linux":
        return None
    if os.glibc:
        return Libc("glibc", os.glibc)
    if os.libc == "musl":
        return Libc("musl")
    row = find_distro(os.distro or "", facts)
    return Libc(row.libc, row.glibc) if row else Libc(os.libc)


@functools.lru_cache(maxsize=256)
def find_distro(text: str, facts: Facts) -> Distro | None:
    """``ubuntu-22.04``, ``Ubuntu 22.04.3 LTS`` → its row; None where the version is unknown or rolling. A row without a
    number (Alpine, where no version has glibc) counts for every version."""
    words = _WORDS.findall(text.lower())
    for row in facts.distros.distro:
        name, _, number = row.name.partition(" ")
        fits = not number or any(word == number or word.startswith(number + ".") for word in words)
        if fits and not {name, *row.names}.isdisjoint(words):
            return row
    return None


def tag_libc(tags: Iterable[str], facts: Facts) -> Libc | None:
    """What platform tags promise to run on: the oldest of them; None for tags that promise nothing (linux_x86_64)."""
    promises: list[Libc] = []
    for tag in tags:
        for platform in tag.rpartition("-")[2].split("."):
            if match := _TAG.match(platform):
                promises.append(Libc("glibc" if match[1] == "many" else "musl", f"{match[2]}.{match[3]}"))
            elif old := facts.distros.manylinux.get(platform.partition("_")[0]):
                promises.append(Libc("glibc", old.glibc))
    same = (libc for libc in promises if libc.kind == promises[0].kind)
    return min(same, key=lambda libc: key(libc.version or "0"), default=None)


def flavour_libc(flavour: Flavour, torch: str, platform: Platform, facts: Facts) -> Libc | None:
    """What a published wheel wants; None where it is not for Linux."""
    if not platform.startswith("linux"):
        return None
    release = facts.release(torch)
    return Libc("glibc", flavour.glibc or (release.glibc.get(platform) if release else None))


def tools_libc(facts: Facts) -> tuple[Libc, str]:
    """What the tools that a build takes from the package index want (CMake, Ninja, NumPy), and where that is from."""
    row = facts.distros.manylinux["manylinux2014"]
    return Libc("glibc", row.glibc), row.source[0]


def libc_runs(need: Libc | None, have: Libc | None) -> CompatAnswer:
    """Does a wheel that wants ``need`` run on a system that has ``have``?"""
    if need is None or have is None or need.kind is None:
        return CompatAnswer("yes")
    named = f"{need.kind} {need.version}" if need.version else need.kind
    if have.kind not in (None, need.kind):
        text = f"needs {named}, and this system uses {have.kind}"
        return CompatAnswer("no", f"libc-{have.kind}", text, TAG_SOURCE, named)
    if have.kind and need.version is None:
        return CompatAnswer("unknown", "libc-need-not-known", f"which {need.kind} it needs is not known")
    if need.version is None or have.version is None:
        return CompatAnswer("unknown", f"{need.kind}-not-told", f"needs {named}", TAG_SOURCE, named)
    text = f"needs {named}, the machine has {have.version}"
    if compare(have.version, need.version) >= 0:
        return CompatAnswer("yes", need.kind, text, TAG_SOURCE)
    return CompatAnswer("no", f"{need.kind}-too-old", text, TAG_SOURCE, f"{named} or newer")
