"""A verdict has a minimum: each required check, taken away in each possible way, takes the proof away."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from bare_host import BareHost
from loaded_checks import loaded_checks
from rekindle.model.progress import Silent
from rekindle.model.verify import Missing, VerifyCheck
from rekindle.verify.gather import (
    Claim,
    Gathering,
    foretell,
    hold_to_list,
    judge,
    load_minimum,
    next_steps,
    required_checks,
)
from rekindle.verify.target import CHECKS

CLAIMS = [
    Claim(package="torch", level="smoke", gpu=False),
    Claim(package="torch", level="full", gpu=False),
    Claim(package="torch", level="smoke", gpu=True, gpus=2),
    Claim(package="torch", level="full", gpu=True, gpus=1),
    Claim(package="torch", level="full", gpu=False, emulated=True),
    Claim(package="spark", level="smoke", gpu=True),
    Claim(package="spark", level="full", gpu=False, emulated=True),
]


def passed(claim: Claim) -> list[VerifyCheck]:
    return [VerifyCheck(id=id, status="passed") for id in required_checks(claim)]


@pytest.mark.parametrize("claim", CLAIMS)
def test_exactly_the_required_checks_are_a_proof(claim: Claim) -> None:
    assert judge(passed(claim), claim) == ("proven", ())


@pytest.mark.parametrize("claim", CLAIMS)
def test_without_any_one_of_them_nothing_is_proven(claim: Claim) -> None:
    checks = passed(claim)
    for place, check in enumerate(checks):
        rest = checks[:place] + checks[place + 1 :]
        verdict, missing = judge(rest, claim)
        assert verdict == "not-proven" and [(one.id, one.why) for one in missing] == [(check.id, "did not run")]
        untried = VerifyCheck(id=check.id, status="skipped", skip="untried", detail="no compiler")
        verdict, missing = judge([*rest, untried], claim)
        assert verdict == "not-proven" and missing[0].why == "could not be tried: no compiler"
        # A skip that does not say which kind it is, as older agents wrote them, is no excuse.
        assert judge([*rest, VerifyCheck(id=check.id, status="skipped")], claim)[0] == "not-proven"
        absent = VerifyCheck(id=check.id, status="skipped", skip="absent", detail="built without it")
        assert judge([*rest, absent], claim) == ("proven", ())
        bad = VerifyCheck(id=check.id, status="failed", detail="wrong")
        verdict, missing = judge([*rest, bad], claim)
        assert verdict == ("not-proven" if check.id.startswith("cpu.") else "failed")
        assert missing[0].why == "failed: wrong"


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_failure_outside_the_minimum_refutes_too(claim: Claim) -> None:
    assert judge([*passed(claim), VerifyCheck(id="vision", status="failed")], claim)[0] == "failed"
    assert judge([*passed(claim), VerifyCheck(id="vision", status="skipped", skip="untried")], claim)[0] == "proven"


def test_nothing_and_the_unknown_prove_nothing() -> None:
    assert judge([], CLAIMS[0])[0] == "not-proven"
    odd = Claim(package="numpy", level="smoke", gpu=False)
    assert load_minimum("numpy") == {} and required_checks(odd) == ()
    assert judge([VerifyCheck(id="import.numpy", status="passed")], odd)[0] == "not-proven"


def test_full_asks_for_more_and_each_gpu_owes_its_own_kernel() -> None:
    smoke, full = (set(required_checks(Claim(package="torch", level=level, gpu=False))) for level in ("smoke", "full"))
    assert smoke < full and {"import.torch", "version"} <= smoke and not any("gpu" in id for id in full)
    two = required_checks(Claim(package="torch", level="smoke", gpu=True, gpus=2))
    assert {"gpu0.start", "gpu1.start"} <= set(two) and "gpu2.start" not in two
    none = required_checks(Claim(package="torch", level="smoke", gpu=True, gpus=0))
    assert "gpu0.start" in none, "a GPU that is not seen is owed all the same"
    assert len(set(two)) == len(two)


def test_emulation_drops_what_it_cannot_do_and_asks_for_the_gate() -> None:
    plain = set(required_checks(Claim(package="torch", level="full", gpu=False)))
    emulated = set(required_checks(Claim(package="torch", level="full", gpu=False, emulated=True)))
    assert emulated - plain == {"cpu.features"} and plain - emulated == {"data-loader", "distributed"}


def test_every_required_check_exists() -> None:
    known: dict[str, set[str]] = {"torch": {"import.torch"}, "spark": {"import.spark"}}
    with loaded_checks() as load:
        for path in CHECKS.glob("check_*.py"):
            load(path.stem)
        for check in load("framework").CHECKS:
            for package in known if check.package == "any" else [check.package]:
                known[package].add(check.id)
    for package, ids in known.items():
        minimum = load_minimum(package)
        assert minimum.keys() == {"smoke", "full", "gpu_smoke", "gpu_full", "native", "emulated"}
        for group in ("smoke", "full", "gpu_smoke", "gpu_full", "native"):
            assert {id.replace("gpu*.", "gpu.") for id in minimum[group]} <= ids


def test_the_next_step_fits_what_stood_in_the_way() -> None:
    claim = Claim(package="torch", level="smoke", gpu=True, gpus=0)
    cpu = passed(replace(claim, gpu=False))
    verdict, missing = judge(cpu, claim)
    assert "--no-gpu" in next_steps(verdict, cpu, missing, claim, only=False)[0]
    assert "--only" in next_steps(verdict, cpu, missing, claim, only=True)[-1]
    assert next_steps("proven", cpu, (), claim, only=True) == ()
    bad = VerifyCheck(id="ops.conv", status="failed", remedy="switch oneDNN off")
    assert next_steps("failed", [bad, bad], (), claim, only=False) == ("switch oneDNN off",)
    seen = replace(claim, gpus=1)
    verdict, missing = judge(cpu, seen)
    assert not any("no GPU was seen" in step for step in next_steps(verdict, cpu, missing, seen, only=False))


def test_advice_comes_from_what_failed_or_stood_in_the_way_and_stays_short() -> None:
    claim = Claim(package="torch", level="smoke", gpu=False)
    others = [
        VerifyCheck(id="ops.sort", status="passed", remedy="nobody needs this"),
        VerifyCheck(id="ops.fft", status="skipped", skip="untried", remedy="install MKL"),
        VerifyCheck(id="vision", status="skipped", skip="untried", remedy="install torchvision"),
        VerifyCheck(id="ops.conv", status="failed"),
    ]
    lacking = [Missing(id="ops.fft", why="no MKL"), Missing(id="ops.conv", why="no cuDNN")]
    assert next_steps("not-proven", others, lacking, claim, only=False) == ("install MKL",)
    assert next_steps("failed", others, lacking, claim, only=False) == ()
    many = [VerifyCheck(id=f"ops.{n}", status="failed", remedy=f"step {n}") for n in range(6)]
    assert next_steps("failed", many, (), claim, only=False) == ("step 0", "step 1", "step 2", "step 3")
    assert "does the interpreter start" in next_steps("not-proven", [], lacking, claim, only=False)[0]


def test_each_gpu_in_sight_is_owed_and_one_where_none_is() -> None:
    def owed(level: str, **more: int) -> set[str]:
        ids = required_checks(Claim(package="torch", level=level, gpu=True, **more))  # type: ignore[arg-type]
        return {id for id in ids if id.startswith("gpu")}

    assert Claim(package="torch", level="smoke", gpu=True).gpus == 0
    numbers = [{id.split(".")[0] for id in owed("smoke", gpus=seen)} for seen in (0, 1, 2)]
    assert numbers == [{"gpu0"}, {"gpu0"}, {"gpu0", "gpu1"}]
    assert "gpu0.pooling" in owed("full") and "gpu0.pooling" not in owed("smoke")
    assert owed("smoke") < owed("full")


GRAFT = {
    "schema": 1,
    "made": {"way": "source"},
    "libraries": [
        {"name": "cuSOLVER", "arch": "sm_90", "code": "none", "operators": ["torch.linalg.svd"], "why": "has no code"},
        {"name": "cuFFT", "arch": "sm_90", "code": "jit", "operators": []},
    ],
    "left_out": [
        {
            "library": "l",
            "container": 1,
            "unit": "flash_fwd_cu",
            "state": "left-out",
            "arch": "sm_90",
            "why": "no file",
        },
        {"library": "l", "container": 2, "unit": "Sort_cu", "state": "left-out", "arch": "sm_90", "why": "no file"},
    ],
}
H200 = {"gpu0": "NVIDIA H200, sm_90, 139.8 GiB", "gpu1": "NVIDIA A100, sm_80, 80 GiB"}


def test_a_graft_foretells_what_cannot_work() -> None:
    rows = foretell(msgspec.json.encode(GRAFT))
    assert [(row.id, row.arch) for row in rows] == [("gpu*.attention", "sm_90"), ("gpu*.linalg", "sm_90")]
    assert "torch.linalg.svd cannot work" in rows[1].why
    other = {"left_out": [{"unit": "softmax_90.cu", "arch": "sm_90", "why": "x"}, {"unit": None, "arch": "sm_90"}]}
    assert foretell(msgspec.json.encode(other)) == ()
    assert foretell(b"") == foretell(b"[1]") == foretell(b'{"libraries": 7}') == ()


def test_a_foretold_failure_refutes_nothing_and_is_named() -> None:
    claim = Claim(package="torch", level="smoke", gpu=True, gpus=2, foretold=foretell(msgspec.json.encode(GRAFT)))
    checks = [
        VerifyCheck(id=check.id, status="failed", detail="no kernel image", remedy="x")
        if check.id == "gpu0.linalg"
        else check
        for check in passed(claim)
    ]
    assert judge(checks, claim)[0] == "failed"
    held = hold_to_list(checks, claim.foretold, H200)
    row = next(check for check in held if check.id == "gpu0.linalg")
    assert (row.status, row.skip) == ("skipped", "foretold") and row.remedy is None
    assert "fails as the graft foretold" in row.detail and "no kernel image" in row.detail
    assert judge(held, claim) == ("proven", ())


def test_it_speaks_of_its_own_card_alone_and_an_unexpected_success_is_said() -> None:
    foretold = foretell(msgspec.json.encode(GRAFT))
    checks = [VerifyCheck(id=f"gpu{n}.linalg", status=status) for n in (0, 1) for status in ("passed", "failed")]
    first, second, third, fourth = hold_to_list(checks, foretold, H200)
    assert first.status == "passed" and first.foretold and first.detail.startswith("works, though the graft foretold")
    assert second.skip == "foretold"
    assert third.foretold is None and fourth.status == "failed", "the A100 has code of its own"


@pytest.mark.parametrize(("said", "told"), [("--no-gpu", "--no-gpu"), ("", None)])
def test_a_run_that_ends_in_a_check_names_it_with_its_remedy(said: str, told: str | None) -> None:
    gathered = Gathering(BareHost(), Silent(), {})
    gathered.hear({"event": "begin", "id": "gpu.matmul", "remedy": said})
    gathered.cut_short("killed by SIGKILL")
    (check,) = gathered.checks
    assert (check.id, check.status, check.detail, check.remedy) == ("gpu.matmul", "failed", "killed by SIGKILL", told)
    assert gathered.current is None


def test_a_run_that_ends_before_its_first_check_failed_to_start() -> None:
    gathered = Gathering(BareHost(), Silent(), {})
    gathered.cut_short("exit code 1")
    assert gathered.checks[0].id == "start" and "start at all" in (gathered.checks[0].remedy or "")


@pytest.mark.parametrize(
    ("package", "environment", "given", "owes"),
    [
        ("torch", {"cuda": "12.4"}, None, True),
        ("torch", {"hip": "6.2"}, None, True),
        ("torch", {"xpu": "1"}, None, True),
        ("torch", {}, None, False),
        ("torch", {"cuda": "12.4"}, False, False),
        ("torch", {}, True, True),
        ("spark", {}, None, True),
    ],
)
def test_a_build_with_gpu_code_owes_a_kernel_on_a_gpu_unless_it_is_told_otherwise(
    package: str, environment: dict[str, str], given: bool | None, owes: bool
) -> None:
    assert Gathering(BareHost(), Silent(), environment).claim(package, "smoke", given).gpu is owes
