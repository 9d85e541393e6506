"""All verbs give one answer: every published wheel on every card, every driver, every C library."""

from __future__ import annotations

import pytest

from agreement import agree, answers, arm_cpu_answers, cases, driver_answers, driver_cases, libc_answers
from rekindle.facts import load_facts
from rekindle.model.machine import Os

FACTS = load_facts()
LIBCS = (
    Os(system="linux", arch="x86_64", glibc="2.5"),
    Os(system="linux", arch="x86_64", glibc="2.11"),
    Os(system="linux", arch="x86_64", glibc="2.12"),
    Os(system="linux", arch="x86_64", glibc="2.16"),
    Os(system="linux", arch="x86_64", glibc="2.17"),
    Os(system="linux", arch="x86_64", glibc="2.27"),
    Os(system="linux", arch="x86_64", glibc="2.28"),
    Os(system="linux", arch="x86_64", glibc="2.39"),
    Os(system="linux", arch="x86_64", libc="musl"),
    Os(system="linux", arch="x86_64", distro="alpine 3.20"),
    Os(system="linux", arch="x86_64", distro="debian 12"),
    Os(system="linux", arch="x86_64"),
)


def test_no_wheel_and_card_have_two_answers() -> None:
    asked, different = 0, {}
    for case in cases(FACTS):
        asked += 1
        found = answers(case, FACTS)
        if not agree(found):
            different[case.name] = found
    assert asked > 5000, "every published wheel and every card is asked for"
    assert not different, f"{len(different)} of {asked} differ, e.g. {list(different.items())[:3]}"


def test_no_driver_has_two_answers() -> None:
    asked, different = 0, {}
    for case in driver_cases(FACTS):
        found = driver_answers(case, FACTS)
        if found is None:
            continue
        asked += 1
        if len(set(found.values())) > 1:
            different[case] = found
    assert asked > 10_000
    assert not different, f"{len(different)} of {asked} differ, e.g. {list(different.items())[:3]}"


@pytest.mark.parametrize("os", LIBCS, ids=lambda os: os.glibc or os.libc or os.distro or "unknown")
def test_no_c_library_has_two_answers(os: Os) -> None:
    for torch in FACTS.releases:
        if any(row.name == "cpu" for row in FACTS.flavours(torch)):
            found = libc_answers(torch, os, FACTS)
            assert len(set(found.values())) == 1, f"torch {torch}: {found}"


@pytest.mark.parametrize(
    "cpu", ["cortex-a53", "cortex-a57", "cortex-a72", "Raspberry Pi 3B+", "graviton", "cortex-a76"]
)
def test_no_arm_cpu_has_two_answers(cpu: str) -> None:
    dies = set()
    for torch in FACTS.releases:
        if any(row.name == "cpu" and "linux_aarch64" in row.platforms for row in FACTS.flavours(torch)):
            found = arm_cpu_answers(torch, cpu, FACTS)
            assert len(set(found.values())) == 1, f"torch {torch}: {found}"
            dies |= {torch} if found["plan"] == "no" else set()
    assert dies == (set() if cpu == "cortex-a76" else {"2.4.0", "2.10.0"})
