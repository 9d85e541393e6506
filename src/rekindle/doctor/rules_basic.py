"""Needed on every machine: a Python, space, memory, a compiler, the tools of a build."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.compat import Name, backend_of
from rekindle.compat.libc import Libc, libc_of, libc_runs
from rekindle.compat.published import platform_of
from rekindle.compat.resources import build_cost, use_disk_gib
from rekindle.doctor.case import Case, Rule
from rekindle.doctor.fit import usable
from rekindle.facts import load_facts
from rekindle.host.text import version_key
from rekindle.model.machine import Check, Purpose, Python
from rekindle.model.supply import BuildCost


def build_needs() -> BuildCost:
    """What a build of the newest torch takes, its GPU part included, while nothing is known of the plan."""
    return build_cost(None, "cuda", load_facts())


def oldest_cmake() -> str | None:
    """The oldest CMake that any torch 2 takes; the newest release may want more, and its plan says so."""
    return load_facts().era("2.0.0").cmake_min


def check_python(case: Case) -> Check:
    """A Python for which some torch is published; best one that the newest torch takes."""
    platform = {"linux": f"linux_{case.machine.os.arch}"}.get(case.machine.os.system, case.machine.os.system)
    newest_first = [(version, _pythons_of(version, platform)) for version in load_facts().releases]
    usable = [
        python
        for python in case.machine.pythons
        if (python.abi or "cp").startswith("cp") and "32 bit" not in (python.note or "")
    ]
    newest = next((pythons for _, pythons in newest_first if pythons), ())
    want = f"{newest[0]} to {newest[-1]}" if newest else None
    for python in usable:
        if _minor(python) in newest:
            return Check(id="python", status="ok", needed_for=("build", "use"), found=python.version, want=want)
    for version, pythons in newest_first:
        if old := next((python for python in usable if _minor(python) in pythons), None):
            why = f"for Python {_minor(old)} the newest torch is {version}"
            return Check(
                id="python", status="warn", needed_for=("build", "use"), found=old.version, want=want, why=why,
                fix=case.fix("python-newer"),
            )  # fmt: skip
    found = case.machine.pythons[0].version if case.machine.pythons else None
    topic = "python-newer" if found else "python"
    return Check(id="python", status="fail", needed_for=("build", "use"), found=found, want=want, fix=case.fix(topic))


def _pythons_of(version: str, platform: str) -> tuple[str, ...]:
    row = load_facts().release(version)
    found = row.pythons.get(platform, ()) if row else ()  # type: ignore[call-overload]
    return tuple(sorted({name.rstrip("t") for name in found}, key=version_key))


def _minor(python: Python) -> str:
    return ".".join(python.version.split(".")[:2])


def check_glibc(case: Case) -> Check | None:
    """Published wheels name the oldest glibc they run on."""
    os = case.machine.os
    facts = load_facts()
    have = libc_of(os, facts)
    if have is None:
        return None
    platform = platform_of(os)
    rows = [(version, facts.release(version)) for version in facts.releases]
    wants = [(version, row.glibc[platform]) for version, row in rows if row and platform and platform in row.glibc]
    answers = [(version, libc_runs(Libc("glibc", least), have)) for version, least in wants]
    if not answers or answers[0][1].kind == "unknown":
        return Check(id="glibc", status="skip", needed_for=("use",), want="glibc")
    if have.kind == "musl":
        return Check(
            id="glibc", status="fail", needed_for=("use",), found="musl", want="glibc", fix=case.fix("musl"),
            why=f"a torch wheel {answers[0][1].text}",
        )  # fmt: skip
    want = f"{wants[0][1]} or newer"
    newest = next((version for version, found in answers if found.kind == "yes"), None)
    if newest == wants[0][0]:
        return Check(id="glibc", status="ok", needed_for=("use",), found=have.version, want=want)
    why = (
        f"for glibc {have.version} the newest published torch is {newest}"
        if newest
        else "no published torch runs on it"
    )
    return Check(
        id="glibc", status="warn" if newest else "fail", needed_for=("use",), found=have.version, want=want, why=why,
        fix=case.fix("glibc"),
    )  # fmt: skip


def check_python_headers(case: Case) -> Check | None:
    if case.machine.os.system == "windows" or not case.machine.pythons:
        return None
    with_headers = [python for python in case.machine.pythons if python.note is None]
    if with_headers:
        return Check(id="python-headers", status="ok", needed_for=("build",), found=f"for {with_headers[0].version}")
    return Check(
        id="python-headers", status="fail", needed_for=("build",), want="Python.h", fix=case.fix("python-headers")
    )


def check_compiler(case: Case) -> Check:
    wanted = "msvc" if case.machine.os.system == "windows" else "gcc or clang"
    windows = case.machine.os.system == "windows"
    good = [c for c in case.machine.compilers if (c.kind == "msvc") == windows and usable(c)]
    if good:
        newest = good[0]
        return Check(
            id="compiler", status="ok", needed_for=("build",), found=f"{newest.kind} {newest.version}", want=wanted
        )
    return Check(
        id="compiler", status="fail", needed_for=("build",), want=f"a C++ compiler ({wanted})", fix=case.fix("compiler")
    )


def tool_rule(name: str, *, least: Callable[[], str | None] = lambda: None) -> Rule:
    def check(case: Case) -> Check:
        minimum = least()
        found = case.machine.tools.get(name)
        want = f"{minimum} or newer" if minimum else None
        good = found is not None and (minimum is None or found == "?" or version_key(found) >= version_key(minimum))
        return Check(
            id=name,
            status="ok" if good else "fail",
            needed_for=("build",),
            found=found,
            want=want,
            fix=None if good else case.fix(name),
        )

    return check


def check_ccache(case: Case) -> Check:
    found = next(
        (f"{name} {case.machine.tools[name]}" for name in ("ccache", "sccache") if case.machine.tools.get(name)), None
    )
    if found:
        return Check(id="ccache", status="ok", needed_for=("build",), found=found)
    return Check(
        id="ccache",
        status="warn",
        needed_for=("build",),
        want="ccache or sccache",
        fix=case.fix("ccache"),
        why="a second build would take as long as the first",
    )


def check_memory(case: Case) -> Check:
    memory, least = case.machine.memory_gib, build_needs().memory_gib
    if memory is None:
        return Check(id="memory", status="skip", needed_for=("build",), want=f"{least:g} GiB")
    good = memory >= least
    limit = f" (limit of {case.machine.memory_limited_by})" if case.machine.memory_limited_by else ""
    return Check(
        id="memory",
        status="ok" if good else "warn",
        needed_for=("build",),
        found=f"{memory:g} GiB{limit}",
        want=f"{least:g} GiB or more",
        fix=None if good else case.fix("memory"),
    )


def _backend(case: Case) -> Name:
    """The backend that the first usable card asks for."""
    found = (backend_of(gpu.vendor) for gpu in case.machine.gpus)
    return next((name for name in found if name), "cpu")


def check_disk(case: Case) -> Check:
    free = case.machine.disk_free_gib
    to_build, to_use = build_needs().disk_gib, use_disk_gib(_backend(case), load_facts())
    want = f"{to_build:g} GiB free to build, {to_use:g} to use"
    if free is None:
        return Check(id="disk", status="skip", needed_for=("build", "use"), want=want)
    if free >= to_build:
        return Check(id="disk", status="ok", needed_for=("build", "use"), found=f"{free:g} GiB", want=want)
    needed: tuple[Purpose, ...] = ("build",) if free >= to_use else ("build", "use")
    return Check(id="disk", status="fail", needed_for=needed, found=f"{free:g} GiB", want=want, fix=case.fix("disk"))
