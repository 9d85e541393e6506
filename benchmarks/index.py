"""How long a rebuild takes after one wheel joins 10,000, beside a plain rebuild of everything.

Run: python benchmarks/index.py [WHEELS] [PROJECTS]
The other figure is what a simple generator does: read every record, write every page.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from rekindle import api
from rekindle.host.keys import new_key
from rekindle.index.pages import simple
from rekindle.index.wheelhouse.rows import row_of
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import encode, load
from rekindle.model.wheel import ArchSet, Kernels, LibraryGpu, WheelGpu, WheelReport
from rekindle.model.wheelhouse import StoredWheel, WheelRow

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tiny_wheels import make_wheel

ARCHS = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")


def fill(house: Wheelhouse, wheels: int, projects: int) -> None:
    """Records as ``index add`` writes them, with an inspection of a usual size; the wheels themselves are not read."""
    libraries = tuple(
        LibraryGpu(file=f"torch/lib/lib{n}.so", sass=ARCHS, sets=(ArchSet(archs=ARCHS, count=444),)) for n in range(6)
    )
    report = WheelReport(
        name="torch", gpu=WheelGpu(declared=ARCHS, torch_kernels=Kernels(sass=ARCHS), libraries=libraries)
    )
    for number in range(wheels):
        project = f"project{number % projects}"
        file = f"{project}-1.{number}-cp311-cp311-linux_x86_64.whl"
        digest = hashlib.sha256(file.encode()).hexdigest()
        entry = StoredWheel(
            file=file, project=project, version=f"1.{number}", tags=("cp311-cp311-linux_x86_64",), sha256=digest,
            bytes=number, metadata_sha256=digest, added="2026-01-01T00:00:00Z", report=report,
        )  # fmt: skip
        path = house.record(project, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(entry))


def plain_rebuild(house: Wheelhouse, out: Path) -> None:
    groups: dict[str, list[WheelRow]] = {}
    for path in house.records.rglob("*.json"):
        row = row_of(load(path, StoredWheel))
        groups.setdefault(row.project, []).append(row)
    for project, rows in groups.items():
        (out / project).mkdir(parents=True)
        entries = [(row.version, simple.entry_of(row)) for row in rows]
        wheels = [(version, simple.link_of(entry), msgspec.json.encode(entry)) for version, entry in entries]
        for form, content in simple.project_pages(project, wheels).items():
            (out / project / form).write_bytes(content)
    (out / "catalogue.json").write_bytes(msgspec.json.encode(groups))


def timed(label: str, work: object) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work()  # type: ignore[operator]
    print(f"  {label:<44} {time.perf_counter() - wall:7.2f} s wall  {time.process_time() - cpu:7.2f} s CPU")


def main() -> None:
    wheels = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    shapes = [int(sys.argv[2])] if len(sys.argv) > 2 else [1, 100, wheels]
    for projects in shapes:
        with tempfile.TemporaryDirectory() as folder:
            house = Wheelhouse(Path(folder) / "house")
            fill(house, wheels, projects)
            print(f"{wheels} wheels in {projects} projects")
            timed("first build", lambda house=house: api.index_build(str(house.root)))
            timed("second build (the other copy)", lambda house=house: api.index_build(str(house.root)))
            new = make_wheel(Path(folder), "project0", f"1.{wheels}")
            timed("add one wheel", lambda house=house, new=new: api.index_add(str(house.root), [str(new)]))
            timed("rebuild after adding it", lambda house=house: api.index_build(str(house.root)))
            key = str(new_key("bench", Path(folder) / "keys").path.with_suffix(".key"))
            for turn in ("first", "second"):
                timed(
                    f"{turn} signed list of all",
                    lambda house=house, key=key: api.index_build(str(house.root), sign=key),
                )
            new = make_wheel(Path(folder), "project0", f"1.{wheels + 1}")
            api.index_add(str(house.root), [str(new)])
            timed(
                "one more, rebuilt and signed", lambda house=house, key=key: api.index_build(str(house.root), sign=key)
            )
            timed(
                "for comparison: everything anew, plainly",
                lambda house=house, out=Path(folder) / "plain": plain_rebuild(house, out),
            )


if __name__ == "__main__":
    main()
