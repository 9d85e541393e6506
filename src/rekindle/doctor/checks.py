"""The verdicts: what a build needs, what using a wheel needs, what is there, and what mends the rest.

Each function looks at the finished machine and returns one line of the table or None where the question
does not arise (no CUDA toolkit is wanted where there is no NVIDIA card).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rekindle.doctor.fixes import fix_for
from rekindle.doctor.gpus import Graphics
from rekindle.doctor.text import version_key
from rekindle.model.machine import Check, Machine, Purpose, Ready

# A full torch build: what the build trees of 2.x measured to, in the plan's terms; the plan says more exactly.
_BUILD_DISK_GIB = 25.0
_USE_DISK_GIB = 8.0
_BUILD_MEMORY_GIB = 8.0
_MIN_CMAKE = "3.18"


@dataclass(frozen=True, kw_only=True)
class Case:
    machine: Machine
    graphics: Graphics
    managers: tuple[str, ...]

    def fix(self, topic: str) -> str | None:
        return fix_for(topic, self.managers)


Rule = Callable[[Case], Check | None]


def check_python(case: Case) -> Check:
    pythons = [p for p in case.machine.pythons if version_key(p.version) >= (3, 9)]
    if pythons:
        return Check(
            id="python", status="ok", needed_for=("build", "use"), found=pythons[0].version, want="3.9 or newer"
        )
    found = case.machine.pythons[0].version if case.machine.pythons else None
    return Check(
        id="python",
        status="fail",
        needed_for=("build", "use"),
        found=found,
        want="3.9 or newer",
        fix=case.fix("python"),
    )


def check_python_headers(case: Case) -> Check | None:
    if case.machine.os.system == "windows" or not case.machine.pythons:
        return None
    with_headers = [p for p in case.machine.pythons if p.note is None and version_key(p.version) >= (3, 9)]
    if with_headers:
        return Check(id="python-headers", status="ok", needed_for=("build",), found=f"for {with_headers[0].version}")
    return Check(
        id="python-headers", status="fail", needed_for=("build",), want="Python.h", fix=case.fix("python-headers")
    )


def check_compiler(case: Case) -> Check:
    wanted = "msvc" if case.machine.os.system == "windows" else "gcc or clang"
    usable = [
        c
        for c in case.machine.compilers
        if (c.kind == "msvc") == (case.machine.os.system == "windows") and not (c.note or "").startswith("C only")
    ]
    if usable:
        newest = usable[0]
        return Check(
            id="compiler", status="ok", needed_for=("build",), found=f"{newest.kind} {newest.version}", want=wanted
        )
    return Check(
        id="compiler", status="fail", needed_for=("build",), want=f"a C++ compiler ({wanted})", fix=case.fix("compiler")
    )


def _tool(name: str, *, minimum: str | None = None) -> Rule:
    def check(case: Case) -> Check:
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
    memory = case.machine.memory_gib
    if memory is None:
        return Check(id="memory", status="skip", needed_for=("build",), want=f"{_BUILD_MEMORY_GIB:g} GiB")
    good = memory >= _BUILD_MEMORY_GIB
    limit = f" (limit of {case.machine.memory_limited_by})" if case.machine.memory_limited_by else ""
    return Check(
        id="memory",
        status="ok" if good else "warn",
        needed_for=("build",),
        found=f"{memory:g} GiB{limit}",
        want=f"{_BUILD_MEMORY_GIB:g} GiB or more",
        fix=None if good else case.fix("memory"),
    )


def check_disk(case: Case) -> Check:
    free = case.machine.disk_free_gib
    want = f"{_BUILD_DISK_GIB:g} GiB free to build, {_USE_DISK_GIB:g} to use"
    if free is None:
        return Check(id="disk", status="skip", needed_for=("build", "use"), want=want)
    if free >= _BUILD_DISK_GIB:
        return Check(id="disk", status="ok", needed_for=("build", "use"), found=f"{free:g} GiB", want=want)
    needed: tuple[Purpose, ...] = ("build",) if free >= _USE_DISK_GIB else ("build", "use")
    return Check(id="disk", status="fail", needed_for=needed, found=f"{free:g} GiB", want=want, fix=case.fix("disk"))


def check_nvidia_driver(case: Case) -> Check | None:
    if not case.graphics.nvidia.gpus:
        return None
    trouble = case.graphics.nvidia.trouble
    if trouble is None:
        return Check(id="nvidia-driver", status="ok", needed_for=("use",), found=case.graphics.nvidia.driver)
    os = case.machine.os
    topic = "nvidia-restart" if "not restarted" in trouble else "nvidia-wsl" if os.wsl else "nvidia-driver"
    if topic == "nvidia-driver" and os.container:
        topic = "nvidia-container"
    return Check(
        id="nvidia-driver",
        status="fail",
        needed_for=("use",),
        found=case.graphics.nvidia.driver,
        want="a working NVIDIA driver",
        fix=case.fix(topic),
        why=trouble,
    )


def check_amd_driver(case: Case) -> Check | None:
    cards = case.graphics.amd
    if not cards.gpus:
        return None
    if cards.trouble is None:
        return Check(id="amd-driver", status="ok", needed_for=("use",), found=cards.driver)
    return Check(
        id="amd-driver",
        status="fail",
        needed_for=("use",),
        found=cards.driver,
        want="amdgpu with compute (kfd)",
        fix=case.fix("amd-driver"),
        why=cards.trouble,
    )


def _toolkit(kind: str, topic: str, vendor: str) -> Rule:
    def check(case: Case) -> Check | None:
        if not any(gpu.vendor == vendor for gpu in case.machine.gpus):
            return None
        found = [t.version or "?" for t in case.machine.toolkits if t.kind == kind]
        return Check(
            id=topic,
            status="ok" if found else "fail",
            needed_for=("build",),
            found=", ".join(found) or None,
            want=None if found else f"a {kind.upper()} toolkit that knows the card",
            fix=None if found else case.fix(topic),
        )

    return check


def check_long_paths(case: Case) -> Check | None:
    if case.machine.os.system != "windows" or case.machine.os.long_paths is None:
        return None
    on = case.machine.os.long_paths
    return Check(
        id="long-paths",
        status="ok" if on else "fail",
        needed_for=("build",),
        found="on" if on else "off",
        want="on",
        fix=None if on else case.fix("long-paths"),
        why=None if on else "torch's build tree has paths longer than 260 characters",
    )


RULES: tuple[Rule, ...] = (
    check_python,
    check_nvidia_driver,
    check_amd_driver,
    check_disk,
    check_memory,
    check_compiler,
    check_python_headers,
    _tool("git"),
    _tool("cmake", minimum=_MIN_CMAKE),
    _tool("ninja"),
    check_ccache,
    _toolkit("cuda", "cuda-toolkit", "nvidia"),
    _toolkit("rocm", "rocm", "amd"),
    check_long_paths,
)


def judge(case: Case) -> tuple[tuple[Check, ...], Ready]:
    checks = tuple(check for rule in RULES if (check := rule(case)) is not None)
    failed = {purpose for check in checks if check.status == "fail" for purpose in check.needed_for}
    return checks, Ready(build="build" not in failed, use="use" not in failed)
