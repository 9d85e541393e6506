"""Records of proofs made by hand, who signs them, and the plan that they speak of."""

from __future__ import annotations

from typing import Any

from rekindle.api.plan_torch import plan
from rekindle.compat.proofs import GivenRecord, speak_of_plan, weigh_records
from rekindle.facts import load_facts
from rekindle.formats.statement import PROOF_RECORD, seal
from rekindle.host.redact import Redactor
from rekindle.model.document import encode
from rekindle.model.plan import Plan, Wish
from rekindle.model.verify import ProofCard, ProofCheck, ProofRecord
from rekindle.plan.describe import machine_from_flags

FACTS = load_facts()
STRANGER = Redactor().text
GOOD = (ProofCheck(id="version", status="passed"), ProofCheck(id="gpu0.matmul", status="passed"))
PASCAL = ProofCard(name="NVIDIA GeForce GTX 1080", arch="sm_61")


def record(**more: Any) -> ProofRecord:
    values: dict[str, Any] = {
        "package": "torch",
        "version": "2.7.0+cu126",
        "wheel_sha256": "a" * 64,
        "verdict": "proven",
        "level": "full",
        "claims": ("cpu", "gpu"),
        "checks": GOOD,
        "system": "windows",
        "arch": "x86_64",
        "cards": (PASCAL,),
        "driver": "580.65",
        "cuda": "12.6",
        "python": "3.12",
        "tool": "rekindle 0.2.0",
        "day": "2026-11-17",
    }
    return ProofRecord(**{**values, **more})


def failing(why: str = "kernel image is invalid", **more: Any) -> ProofRecord:
    return record(verdict="failed", checks=(ProofCheck(id="gpu0.matmul", status="failed", why=why),), **more)


def unsigned(*records: ProofRecord) -> list[GivenRecord]:
    return [GivenRecord(f"{number}.json", encode(one)) for number, one in enumerate(records)]


def believing_all(key_id: str, signature: bytes, message: bytes) -> str | None:
    return key_id or None


def signed(one: ProofRecord, name: str) -> GivenRecord:
    """Signed by a key that :func:`believing_all` believes; real signatures are tried in a test of their own."""
    return GivenRecord(f"{name}.json", seal(PROOF_RECORD, encode(one), name, lambda message: b"x"))


def nobody(key_id: str, signature: bytes, message: bytes) -> str | None:
    return None


MACHINE = machine_from_flags(gpu=["GTX 1080"], os="windows", python="3.12")
WISH = Wish(torch="2.7.0", variant="cu126")
PLANNED = plan(MACHINE, WISH, wheelhouses=[], proofs=[])


def spoken(given_records: list[GivenRecord], made: Plan = PLANNED) -> Plan:
    return speak_of_plan(made, ["sm_61"], weigh_records(given_records, believing_all, FACTS, redact=STRANGER), "a list")


def texts(made: Plan) -> str:
    return " ".join(reason.text for reason in (*made.because, *made.warnings))
