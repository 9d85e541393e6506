"""Packs for tests: a folder of tiny wheels stands for the index, and a plan that asks for them for the planner's."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from rekindle.host.protocol import Host
from rekindle.journey import pack as packing
from rekindle.journey.resolve import resolve
from rekindle.model.journey import Package
from rekindle.model.machine import Machine
from rekindle.model.pack import Pack, PackOptions
from rekindle.model.plan import Companion, Plan, PlannedFor, Reason, Request
from rekindle.plan.describe import machine_from_flags
from tiny_wheels import make_wheel

_RESOLVED: dict[str, tuple[Package, ...] | None] = {}
THIS_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TORCH = (
    b"__version__ = '1.0'\nclass Ones:\n    def __matmul__(self, other): return self\n    def sum(self): return self\n"
)
TORCH += b"    def item(self): return 262144\ndef ones(*size): return Ones()\n"


def pip_wheel(folder: Path) -> Path:
    """The pip that runs these tests, as a wheel again."""
    own = importlib.metadata.distribution("pip")
    made = folder / f"pip-{own.version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in own.files or ():
            if ".." not in file.parts and file.suffix != ".pyc" and file.locate().is_file():  # type: ignore[attr-defined]
                archive.write(str(file.locate()), file.as_posix())
    return made


def shelf(folder: Path) -> Path:
    """What a torch asks for on each system, a companion, NumPy and pip."""
    needs = "Requires-Dist: everywhere\nRequires-Dist: on-windows; sys_platform == 'win32'\n"
    needs += "Requires-Dist: on-linux; platform_system == 'Linux' and platform_machine == 'x86_64'\n"
    for tag in ("py3-none-win_amd64", "py3-none-manylinux_2_17_x86_64", "py3-none-manylinux_2_17_aarch64"):
        make_wheel(folder, "torch", "1.0", tag=tag, files={"torch/__init__.py": TORCH}, metadata=needs)
    for name in ("everywhere", "on-windows", "on-linux", "numpy"):
        make_wheel(folder, name)
    make_wheel(folder, "beside", metadata="Requires-Dist: torch==1.0\nRequires-Dist: deeper\n")
    make_wheel(folder, "deeper")
    pip_wheel(folder)
    return folder


def plan_for(system: str = "linux", arch: str = "x86_64", python: str = THIS_PYTHON, **more: object) -> Plan:
    beside = Companion(
        name="beside", answer="runs", version="1.0", why="fits", requests=(Request(name="beside", version="1.0"),)
    )
    gone = Companion(name="gone", answer="none", why="nobody has it")
    values = {
        "answer": "install",
        "torch": "1.0",
        "python": python,
        "requests": (Request(name="torch", version="1.0", why="the wheel"),),
        "because": (Reason(code="x", text="it holds code for the card"),),
        "warnings": (Reason(code="driver-needed", text="Needs driver 525."),),
        "companions": (beside, gone),
        "os": PlannedFor(system=system, arch=arch),  # type: ignore[arg-type]
    }
    return Plan(**{**values, **more})  # type: ignore[arg-type]


@contextmanager
def planned(plan: Plan) -> Iterator[None]:
    with mock.patch.object(packing, "make_plan", lambda *words, **more: plan):
        yield


def machine() -> Machine:
    return machine_from_flags(gpu=["GTX 1080"], os="linux", glibc="2.28")


def resolve_once(host: Host, python: str, group: Sequence[Request], **more: Any) -> tuple[Package, ...] | None:
    """What pip answers to the same question over the same folder of wheels; it takes seconds to ask."""
    held = [sorted(path.name for path in Path(place).iterdir()) for place in more["installer"].links]
    question = repr((group, sorted(more.items(), key=str), held))
    if question not in _RESOLVED:
        _RESOLVED[question] = resolve(host, python, group, **more)
    return _RESOLVED[question]


def make_pack(plan: Plan, links: Path, out: Path, **more: object) -> Pack:
    options = PackOptions(out=out, find_links=(str(links),), offline=True, **more)  # type: ignore[arg-type]
    with planned(plan), mock.patch.object(packing, "resolve", resolve_once):
        return packing.pack(machine(), None, options)
