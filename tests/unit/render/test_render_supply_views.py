"""Whole views of what supplies a torch: farms, grafts, packs, claims, wheelhouses, matrices and facts.

Documents are small, and each shows another branch; the texts lie in one file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.model.claims import (
    ClaimCheck,
    ClaimsReport,
    IndexCheck,
    IndexProblem,
    Rebuilt,
    SigningKey,
    SigningKeys,
)
from rekindle.model.document import Document
from rekindle.model.facts import Compared, FactsCheck, FactsFormat, SourcesView, SourceUse, TableView
from rekindle.model.farm import (
    FarmDown,
    FarmFailure,
    FarmInvitation,
    FarmJoin,
    FarmMachine,
    FarmReport,
    FarmStatus,
    FarmUp,
)
from rekindle.model.graft import GraftReport, LibraryBeside, UnitOutcome, UnitProof
from rekindle.model.holdings import Cleaning, Holding, Holdings, Kept
from rekindle.model.journey import Card, Package
from rekindle.model.machine import Check
from rekindle.model.matrix import Cell, Defaults, MatrixCost, MatrixLock, Proposal, ProposedWheel, RefusedCell
from rekindle.model.pack import Pack, PackCheck, PackedFile
from rekindle.model.plan import Plan, Reason
from rekindle.model.wheel import Verdict
from rekindle.model.wheelhouse import (
    Added,
    AddedWheel,
    Found,
    PageWritten,
    SiteBuilt,
    Synced,
    VariantRow,
    WheelMatch,
    WheelRow,
    Yanked,
)
from views import expected_views, shown_both_ways


def variant(file: str, note: str = "") -> VariantRow:
    digest = "0" * 64
    return VariantRow(
        file=file,
        url=file,
        project="torch",
        version="2.6",
        label="cu124",
        properties={},
        plain="torch.whl",
        sha256=digest,
        metadata_sha256=digest,
        bytes=1,
        added="today",
        note=note,
    )


def match(number: int, runs: bool | None) -> WheelMatch:
    wheel = WheelRow(
        file=f"torch-{number}.whl",
        url="u",
        project="torch",
        version=f"2.{number}",
        bytes=9_000_000,
        sha256="0",
        metadata_sha256="0",
        added="today",
        sass=("sm_60",) * bool(number),
        ptx=("compute_60",) * bool(number),
    )
    because = (Reason(code="c", text=f"Because {number}."),)
    return WheelMatch(wheel=wheel, verdict=Verdict(machine="m", runs=runs, because=because), command=f"pip {number}")


def not_grafted(**known: Any) -> GraftReport:
    return GraftReport(
        wheel="/w/torch.whl", wheel_sha256="a", bytes_before=9, card="P100", arch="sm_60, sm_61", **known
    )


BYTES = 2_500_000_000
CARD = Card(
    what=("torch 2.6",), places=("https://index",), packages=1, download_bytes=BYTES, disk_free_gib=5, into="/e"
)
CHECKS = (
    Check(id="bwrap", status="fail", found=None, want="bubblewrap", fix="apt install bubblewrap"),
    Check(id="port", status="ok", found="10501", want="free"),
)
JOIN = FarmJoin(folder="/f", scheduler="a:1", address="b:2", state="joined", pid=7, checks=CHECKS)
FAILED = FarmFailure(where="b:2", when="10:00", what="said x", why="disk full", fix="make room", count=3)
FARM = FarmReport(
    folder="/f",
    status=FarmStatus(scheduler="a:1", servers=2, slots=9, in_progress=3),
    cache="redis://a",
    machines=(
        FarmMachine(name="b", address="b:2", state="up", slots=8, compiled=5, running=2),
        FarmMachine(name="c", address="c:2", state="lost", slots=1, lost=1),
        FarmMachine(name="d", address="d:2", state="expected"),
    ),
    failures=(
        FAILED,
        FarmFailure(where="c:2", when="10:30", what="z", count=2),
        *(FarmFailure(where=f"{n}", when="11:00", what="y") for n in range(11)),
    ),
)
UNITS = (
    UnitOutcome(library="lib/libtorch_cuda.so", container=1, unit="Sort.cu", state="added", arch="sm_61"),
    UnitOutcome(library="lib/libtorch_cuda.so", container=2, state="left-out", why="closed"),
    UnitOutcome(library="lib/libtorch_cuda.so", container=3, unit="Copy.cu", state="has"),
    *(UnitOutcome(library="l.so", container=n, unit=f"u{n}", state="refused", why="differs") for n in range(9)),
)
LIBRARIES = (
    LibraryBeside(name="cublas", arch="sm_61", code="native", why="cuBLAS has code"),
    LibraryBeside(
        name="cudnn", arch="sm_61", code="none", package="nvidia-cudnn-cu13", exchanged="9.1", why="cuDNN lacks it"
    ),
    LibraryBeside(name="b", arch="sm_61", code="none", off=True, why="B lacks it"),
    LibraryBeside(name="c", arch="sm_61", code="unknown", operators=("fft", "svd"), why="C may lack it"),
)
GRAFTED = GraftReport(
    wheel="/w/torch.whl",
    wheel_sha256="a",
    bytes_before=900_000_000,
    card="P100",
    arch="sm_60, sm_61",
    units=UNITS,
    proof=(
        UnitProof(unit="Copy.cu", arch="sm_75", functions=4, same=4),
        UnitProof(unit="Sort.cu", arch="sm_75", functions=6, same=5, why="1 differs"),
    ),
    libraries=LIBRARIES,
    out="/o/a b.whl",
    bytes_after=950_000_000,
    graft="/o/a.graft",
    graft_bytes=48_000_000,
    same_bytes=False,
    seconds=274.0,
    compiled=222,
    notes=("note",),
)
DAY = 86400.0
HELD = (
    Holding(kind="source", name="torch", path="/w/s", bytes=3_000_000, age_seconds=DAY, workspace="/w", note="2.6.0"),
    Holding(kind="cache", name="ccache", path="/w/c", bytes=5_000_000, age_seconds=3 * DAY, workspace="/w", note="n"),
    Holding(kind="wheelhouse", name="house", path="/h", bytes=7, age_seconds=60),
    Holding(kind="workspace", name="ws", path="/x", bytes=9, age_seconds=60),
    Holding(kind="cache", name="uv", path="w:/c", bytes=9, age_seconds=60, workspace="w:"),
)
PACK = Pack(
    title="torch 2.6",
    python="3.12",
    system="linux",
    arch="x86_64",
    folder="/p q",
    bytes=BYTES,
    packages=tuple(Package(name=f"p{n}", version="1", bytes=n * 1_000_000) for n in range(14)),
    files=(PackedFile(path="a", bytes=1, sha256="0" * 64),),
    left_out=("the driver",),
    notes=("note",),
    install=("python3 install.py",),
)
CLAIM_CHECKS = (
    ClaimCheck(id="digest", status="passed", claimed="a", found="b"),
    ClaimCheck(id="found", status="passed", found="b"),
    ClaimCheck(id="right", status="passed"),
    ClaimCheck(id="archs", status="failed", claimed="sm_61", found="sm_70", detail="differs"),
    ClaimCheck(id="bare", status="failed", claimed="1", found="2"),
    ClaimCheck(id="none", status="skipped", skip="absent", detail="no bill", found="x"),
    ClaimCheck(id="later", status="skipped", detail="not tried"),
)
CELL = Cell(
    id="c1",
    name="torch-2.6",
    project="torch",
    axes={},
    plan=Plan(answer="build"),
    tree="t",
    source="git",
    identity="i",
    system="linux",
    python="3.12",
)
PROPOSED = ProposedWheel(
    torch="2.6", variant="cu124", python="3.12", system="linux", archs=("sm_60", "sm_70"), serves=("a", "b")
)
VIEWS: dict[str, Document] = {
    "farm-up": FarmUp(folder="/f", scheduler="a:1", state="started"),
    "farm-up-worker": FarmUp(
        folder="/f g",
        scheduler="a:1",
        state="running",
        worker=JOIN,
        notes=("in clear",),
        invitations=(
            FarmInvitation(kind="worker", address="b", line="rkfarm1.x"),
            FarmInvitation(kind="client", line="rkfarm1.y"),
        ),
    ),
    "farm-up-planned": FarmUp(folder="/f", scheduler="a:1", state="planned", written=("a", "b")),
    **{
        f"farm-join-{state}": FarmJoin(folder="/f", scheduler="a:1", address="b:2", state=state, checks=CHECKS)
        for state in ("client", "checked", "refused", "ended")
    },
    "farm-up-invited": FarmUp(
        folder="/f", scheduler="a:1", state="started", invitations=(FarmInvitation(kind="client", line="rkfarm1.y"),)
    ),
    "farm-join": JOIN,
    "farm-join-script": FarmJoin(folder="/f", scheduler="a:1", state="script", script="#!/bin/sh\ntrue"),
    "farm-status": FARM,
    "farm-status-idle": FarmReport(folder="/f", status=FarmStatus(scheduler="a:1")),
    "farm-status-down": FarmReport(folder="/f", status=FarmStatus(why="no scheduler answers")),
    "farm-down": FarmDown(folder="/f", ended=("scheduler", "worker"), left=("c",), forgotten=True),
    "farm-down-nothing": FarmDown(folder="/f"),
    "graft": GRAFTED,
    "graft-file": not_grafted(graft="/o/a.graft", units=UNITS[:1]),
    "graft-planned": not_grafted(
        dry_run=True,
        minutes=(10, 14),
        jobs=8,
        units=(UnitOutcome(library="l", container=0, unit="a", state="planned"),),
    ),
    "graft-dry-has": not_grafted(dry_run=True, units=UNITS[2:3]),
    "graft-unweighed": not_grafted(out="/o/a.whl"),
    "graft-refused": not_grafted(units=UNITS),
    "graft-left-out": not_grafted(units=UNITS[1:2]),
    "graft-has": not_grafted(units=UNITS[2:3]),
    "graft-nothing": not_grafted(),
    "holdings": Holdings(items=HELD, places=("/w",)),
    "holdings-none": Holdings(places=("/w", "/x")),
    "cleaning": Cleaning(removed=HELD[:2], kept=(Kept(path="/k", why="in use"),)),
    "cleaning-dry": Cleaning(removed=HELD[:1], dry_run=True),
    "cleaning-none": Cleaning(),
    "pack": PACK,
    "pack-nowhere": Pack(
        title="t", python="3.12", system="linux", arch="x86_64", folder="/p", card=Card(what=("t",), into="/e")
    ),
    "pack-dry": Pack(title="t", python="3.12", system="linux", arch="x86_64", folder="/p", card=CARD),
    "pack-good": PackCheck(folder="/p", good=True, title="t", files=9, signed="me", notes=("n",)),
    "pack-bad": PackCheck(folder="/p", good=False, problems=tuple(f"p{n}" for n in range(14))),
    "keys-none": SigningKeys(folder="/k"),
    "keys": SigningKeys(
        folder="/k",
        keys=(SigningKey(name="me", id="1", public="p", private=True), SigningKey(name="you", id="2", public="q")),
        note="note",
    ),
    "keys-signed": SigningKeys(folder="/k", signed="/w/a.whl"),
    "claims": ClaimsReport(wheel="/w/a.whl", sha256="ab", verdict="failed", checks=CLAIM_CHECKS, next=("ask",)),
    "claims-proven": ClaimsReport(wheel="/w/a.whl", sha256="ab", verdict="proven", signed_by="me", slsa_build_level=2),
    "claims-unknown": ClaimsReport(wheel="/w/a.whl", sha256="ab", verdict="not-proven"),
    "index-good": IndexCheck(root="/h", good=True, signed_by="me", serial=0, made="today", expires="then", wheels=3),
    "index-bad": IndexCheck(root="/h", good=False, problems=(IndexProblem(kind="removed", text="a"),), next=("b",)),
    "index-worse": IndexCheck(root="/h", good=False, problems=(IndexProblem(kind="removed", text="a"),) * 2),
    **{
        f"rebuilt-{verdict}": Rebuilt(
            statement="/s",
            wheel="/w/a.whl",
            sha256="a",
            claimed="b",
            verdict=verdict,
            rule="no dates",
            difference="a.so",
        )
        for verdict in ("identical", "normalised", "different")
    },
    "facts-tables": TableView(table="tables", rows={"cuda": {"rows": 30}, "cpu": {"rows": 4}}),
    "facts-few": TableView(
        table="cuda", rows={"11.8": {"sass": ["sm_35", "sm_90"], "note": ["a b", "c"], "max": {"é": 1}}}
    ),
    "facts-many": TableView(table="cuda", rows={f"r{n}": {"sm": "x" * 100} if n else {"odd": 1} for n in range(13)}),
    "facts-twelve": TableView(table="cuda", rows={f"r{n}": {"odd": n} for n in range(12)}),
    "sources": SourcesView(
        sources=tuple(SourceUse(source=f"s{n}", rows=n, tables=("a", "b")) for n in range(41)),
        how={"read": 3, "measured": 2},
        oldest="2020",
        newest="2026",
    ),
    "facts-check": FactsCheck(
        compared=(
            Compared(what="a Pythons", outcome="agrees", found="3.12"),
            Compared(what="b", outcome="agrees", found="seen", note="n"),
            Compared(what="c", outcome="drift", facts="1", found="2"),
            Compared(what="d", outcome="new", found="3"),
            Compared(what="e", outcome="skipped"),
        ),
        agrees=2,
        drift=1,
        new=1,
        skipped=1,
    ),
    "facts-check-good": FactsCheck(compared=(), agrees=1, drift=0, new=0, skipped=0),
    "facts-check-new": FactsCheck(compared=(), agrees=1, drift=0, new=1, skipped=0),
    "facts-check-none": FactsCheck(compared=(), agrees=0, drift=0, new=0, skipped=0),
    "facts-format": FactsFormat(files=("a", "b"), changed=(), written=False),
    "facts-format-odd": FactsFormat(files=("a", "b"), changed=("a",), written=False),
    "facts-format-done": FactsFormat(files=("a", "b"), changed=("a",), written=True),
    "house-added": Added(
        root="/h",
        next="rekindle index build",
        wheels=(AddedWheel(file="a.whl", state="added", bytes=BYTES, sha256="0123456789abcdef", warnings=("w",)),),
    ),
    "house-built": SiteBuilt(
        root="/h",
        simple="/h/simple",
        catalogue="/h/c.json",
        wheels=2,
        projects=1,
        pages_written=1,
        pages_kept=3,
        page="/h/index.html",
        variants=(variant("a.whl", "n"), variant("b.whl")),
        left_out=("c.whl",),
    ),
    "house-plain": SiteBuilt(
        root="/h", simple="/h/simple", catalogue="/h/c.json", wheels=2, projects=1, pages_written=1, pages_kept=3
    ),
    "house-left-out": SiteBuilt(
        root="/h",
        simple="/h/simple",
        catalogue="/h/c.json",
        wheels=2,
        projects=1,
        pages_written=1,
        pages_kept=3,
        left_out=("c.whl",),
    ),
    "house-found": Found(
        root="/h",
        wanted={"gpu": "P100", "python": "3.12"},
        matches=(match(0, True), match(1, None)),
        refused=(Reason(code="x", text="Too new."),),
        looked_at=9,
    ),
    "house-found-eleven": Found(root="/h", matches=tuple(match(n, True) for n in range(11)), looked_at=11),
    "house-found-perhaps": Found(root="/h", wanted={"gpu": "P100"}, matches=(match(1, None),), looked_at=9),
    "house-found-none": Found(root="/h", refused=(Reason(code="x", text="Too new."),), looked_at=9),
    "matrix-planned": MatrixLock(
        rekindle="1",
        table="m t.toml",
        table_sha256="0",
        root="/r",
        cells=(CELL,),
        refused=(RefusedCell(name="no", axes={}, because=(Reason(code="c", text="No wheel."),)),),
        cost=MatrixCost(trees=1, serial_hours=30.0, cold_hours=40.0, disk_gib=8.0),
    ),
    "matrix-dry": MatrixLock(
        rekindle="1",
        table="m.toml",
        table_sha256="0",
        root="/r",
        cells=(CELL,),
        cost=MatrixCost(trees=1, serial_hours=0.5, cold_hours=1.0, disk_gib=8.0),
        defaults=Defaults(target="c10"),
        written=False,
    ),
    "matrix-proposed": Proposal(
        table="[t]\n",
        wheels=(
            PROPOSED,
            ProposedWheel(
                torch="2.6", variant="cpu", python="3.12", system="linux", archs=(), cpu="nehalem", serves=("c",)
            ),
        ),
        official={"d": "pip install torch"},
        unserved={"e": "too old"},
        path="/m t.toml",
    ),
    "matrix-proposed-table": Proposal(table="[t]\n", wheels=(PROPOSED,)),
    "matrix-proposed-none": Proposal(table="[t]\n", official={"d": "pip install torch"}, path="/m.toml"),
    "house-yanked": Yanked(root="/h", file="a.whl", yanked="broken"),
    "house-offered": Yanked(root="/h", file="a.whl", yanked=None),
    "house-synced": Synced(root="/h", target="s3://b", sent=2, kept=1, bytes=2_500_000, removed=("a",)),
    "house-synced-all": Synced(root="/h", target="s3://b", sent=2, kept=1, bytes=2_500_000),
    "house-page": PageWritten(path="/h/a b.html", bytes=5000, gpus=9, answers=7, wheels=3),
}


EXPECTED = expected_views(Path(__file__).parent / "views" / "supply.txt")


@pytest.mark.parametrize("name", VIEWS)
def test_what_supplies_a_torch_is_read_as_it_was_written(name: str) -> None:
    assert shown_both_ways(VIEWS[name]) == EXPECTED[name], "if the new text is better, write it into views/supply.txt"
