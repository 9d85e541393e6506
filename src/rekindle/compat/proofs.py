"""Records of proofs that people share: weighed against the facts and summed up in a few words. Nothing here decides
what runs: a plan is made first, and records only speak about it. A record counts for nothing unless a trusted key
signed it, however many there are; one that contradicts itself or the bytes of the wheel is doubtful, whoever signed it.
So a flood of forged records changes no answer."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from rekindle.compat.backends import find_flavour, platform_of
from rekindle.compat.driver import toolkit_driver
from rekindle.compat.images import GpuCode, covers, flavour_code
from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.formats.statement import PROOF_RECORD, read_envelope, signed_by
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.document import decode
from rekindle.model.machine import Os
from rekindle.model.plan import Plan, Reason
from rekindle.model.verify import ProofRecord, WeighedRecord
from rekindle.model.version import key, minor, reaches

MAX_RECORD_BYTES = 256 << 10
# Where a wheelhouse, or any list on the web, has its records: one on each line.
LIST = "proofs.jsonl"
CheckSignature = Callable[[str, bytes, bytes], str | None]
SpeakingRecords = Sequence[tuple[WeighedRecord, ProofRecord]]


class GivenRecord(NamedTuple):
    """One record as it was given: bytes, and the place that error messages name."""

    place: str
    raw: bytes


def read_record(given: GivenRecord, check: CheckSignature) -> WeighedRecord:
    """What it says and who signed it; whether that fits what is known is asked by :func:`weigh_records`."""
    signer = None
    payload = given.raw
    try:
        if len(payload) > MAX_RECORD_BYTES:
            raise BadInput("it is far too long for a record")
        if b'"payloadType"' in payload:
            envelope = read_envelope(payload, given.place)
            if envelope.payload_type != PROOF_RECORD:
                raise BadInput(f"it is signed as something else ({envelope.payload_type[:80]})")
            payload = envelope.payload
            signer = signed_by(envelope, check)
        record = decode(payload, ProofRecord, origin=given.place)
        for number in filter(None, (record.driver, record.cuda, record.rocm)):
            key(number)  # one of more digits than are read would stop everybody who compares it
    except (BadInput, RecursionError) as error:
        return WeighedRecord(place=given.place, standing="unreadable", why=str(error)[:400])
    return WeighedRecord(place=given.place, standing="counts" if signer else "hearsay", signer=signer, record=record)


def weigh_records(
    records: Iterable[GivenRecord], check: CheckSignature, facts: Facts, *, redact: Callable[[str], str]
) -> tuple[WeighedRecord, ...]:
    """Each record with its standing. ``redact`` takes names and secrets out of text: one that holds any is doubtful."""
    weighed = []
    for record in records:
        weighing = read_record(record, check)
        if weighing.record is not None:
            why = find_doubt(weighing.record, facts, redact=redact)
            weighing = msgspec.structs.replace(weighing, standing="doubtful", why=why) if why else weighing
        weighed.append(weighing)
    return _mark_outliers(weighed)


def find_doubt(record: ProofRecord, facts: Facts, code: GpuCode | None = None, *, redact: Callable[[str], str]) -> str:
    """Why a record cannot be right as it stands; empty where nothing speaks against it. ``code`` is what was read in
    that very wheel; without it, what our tables say of the published one."""
    text = json.dumps({**msgspec.to_builtins(record), "wheel_sha256": ""}, ensure_ascii=False)
    if redact(text) != text:
        return "it names a person, a machine or a secret"
    tried = [check for check in record.checks if check.id.startswith("gpu") and check.status == "passed"]
    if record.verdict == "proven" and (record.count("failed") or not record.count("passed")):
        return "it says proven, and its own checks do not"
    if record.verdict == "failed" and not record.count("failed"):
        return "it says failed, and no check of it failed"
    if record.verdict != "proven" or "gpu" not in record.claims:
        return ""
    if not tried or not record.cards:
        return "it says that a card ran it, and no check on a card passed"
    return _contradict_facts(record, facts, code)


def _contradict_facts(record: ProofRecord, facts: Facts, code: GpuCode | None) -> str:
    """What the wheel's bytes, or else the driver, say against a card that ran it."""
    if code is None and record.package == "torch":
        flavour = find_flavour(record.version, facts, cuda=record.cuda, rocm=record.rocm)
        platform = platform_of(Os(system=record.system, arch=record.arch))
        code = flavour_code(flavour, platform) if flavour is not None and platform is not None else None
    for card in record.cards if code is not None else ():
        try:
            arch = parse_gpu_arch(card.arch)
        except ValueError:
            return f"{card.arch} is no architecture of a card"
        answer = covers(code, arch, record.system, facts) if code is not None else None
        if answer is not None and answer.kind == "none":
            return f"it says proven on {card.name}, and that wheel {answer.text}"
    if record.cuda is None or record.driver is None or record.system not in ("linux", "windows"):
        return ""
    floor = toolkit_driver(record.cuda, "windows" if record.system == "windows" else "linux", facts).floor
    if floor is not None and not reaches(record.driver, floor):
        return f"CUDA {record.cuda} needs driver {floor}, and it says {record.driver}"
    return ""


def _subject(record: ProofRecord) -> tuple[object, ...]:
    return (record.package, record.version, record.system, tuple(sorted({card.arch for card in record.cards})))


def _mark_outliers(weighed: Sequence[WeighedRecord]) -> tuple[WeighedRecord, ...]:
    """Mark the records that count, but contradict at least twice as many people about the same wheel and card."""
    people: dict[tuple[object, ...], dict[bool, set[str]]] = {}
    for entry in weighed:
        if entry.standing == "counts" and entry.record is not None and entry.signer:
            sides = people.setdefault(_subject(entry.record), {True: set(), False: set()})
            sides[entry.record.verdict == "proven"].add(entry.signer)
    marked = []
    for entry in weighed:
        if entry.standing == "counts" and entry.record is not None:
            sides = people[_subject(entry.record)]
            agreeing, others = (sides[entry.record.verdict == "proven"], sides[entry.record.verdict != "proven"])
            entry = msgspec.structs.replace(entry, outlier=len(others) >= 2 * len(agreeing))
        marked.append(entry)
    return tuple(marked)


def speak_of_plan(plan: Plan, archs: Sequence[str], weighed: Sequence[WeighedRecord], source: str) -> Plan:
    """The plan with what records say of its torch on such a card: reasons and warnings. Its answer stays as it is; a
    build that nobody was known to have tried becomes ``reported`` where somebody believed has proven it."""
    about = [(entry, entry.record) for entry in weighed if entry.record and _is_about(entry.record, plan, archs)]
    good = [(entry, proof) for entry, proof in about if (entry.standing, proof.verdict) == ("counts", "proven")]
    bad = [(entry, proof) for entry, proof in about if (entry.standing, proof.verdict) == ("counts", "failed")]
    hearsay = [proof for entry, proof in about if entry.standing == "hearsay"]
    doubtful = [entry for entry, _ in about if entry.standing == "doubtful"]
    because, warnings = list(plan.because), list(plan.warnings)
    if good:
        failed = f"; failed for {_count_people(bad)} ({_list_failures(bad)})" if bad else ""
        crashes = dict.fromkeys(name for _, proof in good for name in proof.crashes)
        but = f", but it crashes in {', '.join(list(crashes)[:3])}" if crashes else ""
        text = f"Proven by {_count_people(good)} on {_list_places(good)}{but}{failed}."
        because.append(Reason(code="proven-by-people", text=text, source=source))
    elif bad:
        text = f"Failed for {_count_people(bad)} on {_list_places(bad)} ({_list_failures(bad)})."
        warnings.append(Reason(code="failed-for-people", text=text, source=source))
    if hearsay:
        works = sum(proof.verdict == "proven" for proof in hearsay)
        text = f"{len(hearsay)} records that no key believed here signed count for nothing: {works} say that it works."
        because.append(Reason(code="proofs-not-believed", text=text, source=source))
    if doubtful:
        text = f"{len(doubtful)} records about it are doubtful and count for nothing: {doubtful[0].why}."
        warnings.append(Reason(code="proofs-doubtful", text=text, source=source))
    evidence = "reported" if good and plan.evidence == "untried" else plan.evidence
    return msgspec.structs.replace(plan, because=tuple(because), warnings=tuple(warnings), evidence=evidence)


def _is_about(record: ProofRecord, plan: Plan, archs: Sequence[str]) -> bool:
    """Is it about the plan's torch, on one of these cards (or on a processor where the plan has none)?"""
    release, _, local = record.version.partition("+")
    same_kit = minor(record.cuda or "0") == minor(plan.cuda or "0")
    if plan.answer == "install":
        alike = not plan.variant or local == plan.variant or (not local and same_kit)
    else:
        alike = not plan.cuda or same_kit
    cards = {card.arch for card in record.cards}
    return (
        (record.package, release) == (plan.project, (plan.torch or "").partition("+")[0])
        and (plan.os is None or plan.os.system == record.system)
        and alike
        and (not cards.isdisjoint(archs) if archs else not cards)
    )


def _count_people(records: SpeakingRecords) -> str:
    count = len({entry.signer for entry, _ in records})
    return f"{count} {'person' if count == 1 else 'people'}"


def _list_places(records: SpeakingRecords) -> str:
    where = dict.fromkeys(proof.where for _, proof in records)
    drivers = dict.fromkeys(proof.driver.split(".")[0] for _, proof in records if proof.driver)
    with_driver = f" with driver {', '.join(list(drivers)[:3])}" if drivers else ""
    return f"{', '.join(list(where)[:3])}{with_driver}"


def _list_failures(records: SpeakingRecords) -> str:
    failed = (check for _, proof in records for check in proof.checks if check.status == "failed")
    words = dict.fromkeys(f"{check.id}: {check.why}"[:120] if check.why else check.id for check in failed)
    return "; ".join(list(words)[:2])
