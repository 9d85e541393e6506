#!/usr/bin/env python3
"""Write the records of our own proofs (docs/evidence/records) from what the evidence holds, and from nothing else.

    tools/seed_records.py                    those whose page has every check and whose report has the wheel's digest
    tools/seed_records.py --check            say which of them are stale; exit 1 where one is
    tools/seed_records.py --report verify.json --machine machine.json --installed RECORD torch-2.11.0-cu130-h200.json
                                             a saved report of an installed torch, where the installed RECORD has the
                                             very lines of the wheel's on the package index (asked by ranges)

Which proof has a record, and what the others lack, stands in docs/evidence/records/seeds.toml.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from rekindle.api.proofs import record_of
from rekindle.model.document import encode, load
from rekindle.model.machine import Machine
from rekindle.model.verify import ProofCheck, ProofRecord, VerifyReport, card_of

EVIDENCE = Path(__file__).resolve().parent.parent / "docs" / "evidence"
RECORDS = EVIDENCE / "records"
_CHECK = re.compile(r"^ +(ok|skip|FAIL) +(\S+) +[0-9.]+ s  (.*)$", re.MULTILINE)
_VERDICT = re.compile(r"^ +(proven|not-proven|failed): (\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
_DIGEST = re.compile(r"<td>wheel sha256</td><td[^>]*>([0-9a-f]{64})</td>")
_STATUS = {"ok": "passed", "skip": "skipped", "FAIL": "failed"}
# What an installer writes beside a wheel's own files.
_BY_INSTALLER = re.compile(r"^(\.\./.*|[^/]+\.dist-info/(INSTALLER|REQUESTED|direct_url\.json)),")


def read_seeds() -> list[dict[str, Any]]:
    """Every proof of the pages, in the file's order."""
    proofs: list[dict[str, Any]] = tomllib.loads((RECORDS / "seeds.toml").read_text(encoding="utf-8"))["proof"]
    return proofs


def record_from_page(proof: dict[str, Any]) -> ProofRecord:
    """The record of a run whose whole output stands on its page; refused where the page contradicts itself."""
    facts = dict(proof["read"])
    page = (EVIDENCE / proof["page"]).read_text(encoding="utf-8")
    digest = _DIGEST.search((EVIDENCE / facts.pop("digest_in")).read_text(encoding="utf-8"))
    lines = _CHECK.findall(page)
    verdict = _VERDICT.search(page)
    if digest is None or verdict is None:
        raise SystemExit(f"{proof['page']}: no digest of the wheel, or no verdict")
    counted = [sum(word == sign for word, _, _ in lines) for sign in ("ok", "FAIL", "skip")]
    if counted != [int(number) for number in verdict.groups()[1:]]:
        raise SystemExit(f"{proof['page']}: {counted} checks stand there, and the verdict says {verdict[0].strip()}")
    cards = [card for word, name, detail in lines if name.endswith(".start") and (card := card_of(detail))]
    return msgspec.convert(
        {
            "package": "torch",
            "wheel_sha256": digest[1],
            "verdict": verdict[1],
            "claims": ["cpu", "gpu"] if cards else ["cpu"],
            "checks": [ProofCheck(id=name, status=_STATUS[word]) for word, name, _ in lines],  # type: ignore[arg-type]
            "cards": cards,
            "page": f"docs/evidence/{proof['page']}",
            **facts,
        },
        ProofRecord,
    )


def record_from_report(proof: dict[str, Any], report: Path, machine: Path, installed: Path) -> ProofRecord:
    """The record of a torch that an installer brought, once its RECORD is that of the wheel on the index."""
    from rekindle.formats.ranges import RangeFile, tls_context
    from rekindle.formats.wheel import WheelZip
    from rekindle.inspect.published import find_wheels, pip_places

    asked = proof["same_record"]
    places = pip_places()
    file = find_wheels(f"torch=={asked['version']}", places, python=asked["python"], platform=asked["platform"])[0].file
    wheel = WheelZip(RangeFile(file.url, context=tls_context(places.certificates)).stream, file.name)
    published = set(wheel.read(f"{wheel.dist_info}/RECORD").decode().splitlines())
    here = {line for line in installed.read_text(encoding="utf-8").splitlines() if not _BY_INSTALLER.match(line)}
    if here != published or not file.sha256:
        raise SystemExit(f"{len(here ^ published)} lines of RECORD differ from those of {file.name}: another file")
    run = msgspec.structs.replace(load(report, VerifyReport), wheel_sha256=file.sha256)
    if ("files", "passed") not in {(check.id, check.status) for check in run.checks}:
        raise SystemExit("the run did not hold the installed files against RECORD")
    return msgspec.structs.replace(record_of(run, load(machine, Machine)), page=f"docs/evidence/{proof['page']}")


def main(words: list[str]) -> int:
    """Write or check the records; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--machine", type=Path)
    parser.add_argument("--installed", type=Path)
    parser.add_argument("record", nargs="?")
    asked = parser.parse_args(words)
    proofs = {proof["record"]: proof for proof in read_seeds() if "record" in proof}
    if asked.report:
        record = record_from_report(proofs[asked.record], asked.report, asked.machine, asked.installed)
        (RECORDS / asked.record).write_bytes(encode(record))
        return 0
    stale = []
    for name, proof in proofs.items():
        if "read" in proof and (raw := encode(record_from_page(proof))) != (RECORDS / name).read_bytes():
            stale.append(name)
            if not asked.check:
                (RECORDS / name).write_bytes(raw)
    print("\n".join(f"{'stale' if asked.check else 'written'}: {name}" for name in stale) or "nothing to write")
    return int(asked.check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
