"""What a wheel claims against what it holds: each claim made false once, and each boundary from both sides."""

from __future__ import annotations

import importlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.statement import IN_TOTO, seal
from rekindle.host.files import sha256_of
from rekindle.host.keys import read_private
from rekindle.model.claims import ClaimCheck
from rekindle.model.wheel import Kernels, LibraryGpu, LibraryLinks, Links, WheelCpu, WheelFinding, WheelGpu, WheelReport
from rekindle.verify.claims import Material, compare, judge_claims
from tiny_wheels import make_wheel

REPORT = WheelReport(
    name="torch",
    version="2.6.0+cu124",
    tags=("cp311-cp311-manylinux_2_28_x86_64",),
    gpu=WheelGpu(declared=("sm_50", "compute_90"), torch_kernels=Kernels(sass=("sm_50",), ptx=("compute_90",))),
    cpu=WheelCpu(runs_from="x86_64_v2"),
    links=Links(glibc="2.28", bundled=("torch.libs/libgomp.so.1",), libraries=(LibraryLinks(file="torch/lib/a.so"),)),
)
FILE = "torch-2.6.0+cu124-cp311-cp311-manylinux_2_28_x86_64.whl"
VERSION = "__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\nhip = None\n"
BILL = {
    "metadata": {"component": {"name": "torch", "version": "2.6.0+cu124"}},
    "components": [{"properties": [{"name": "rekindle:in-wheel", "value": "torch.libs/libgomp.so.1"}]}],
}
STATEMENT: dict[str, Any] = {
    "_type": "https://in-toto.io/Statement/v1",
    "predicateType": "https://slsa.dev/provenance/v1",
    "subject": [{"name": FILE, "digest": {"sha256": "ab" * 32}}],
    "predicate": {"buildDefinition": {"internalParameters": {"environment": {"CXXFLAGS": "-O2 -march=ivybridge"}}}},
}
GOOD = Material(
    file=FILE,
    sha256="ab" * 32,
    report=REPORT,
    metadata_version="2.6.0+cu124",
    version_py=VERSION,
    bills={"torch.dist-info/sboms/torch.cdx.json": json.dumps(BILL).encode()},
    statement=STATEMENT,
)


def status(material: Material) -> dict[str, str]:
    return {check.id: check.status for check in compare(material)}


def with_report(**changes: Any) -> Material:
    return replace(GOOD, report=msgspec.structs.replace(REPORT, **changes))


def test_a_wheel_that_is_what_it_says() -> None:
    assert set(status(GOOD).values()) == {"passed"}, compare(GOOD)


@pytest.mark.parametrize(
    ("check", "material"),
    [
        ("record", with_report(findings=(WheelFinding(code="record-wrong", text="x differs", severity="error"),))),
        ("record", with_report(findings=(WheelFinding(code="no-record", text="none", severity="error"),))),
        ("version", replace(GOOD, metadata_version="2.6.1+cu124")),
        ("version", replace(GOOD, version_py=VERSION.replace("2.6.0", "2.6.1"))),
        ("version", replace(GOOD, version_py=VERSION.replace("2.6.0+cu124", "2.6.0+cu126"))),
        ("version", replace(GOOD, file=FILE.replace("2.6.0+cu124", "2.6.0+cpu"))),
        ("toolkit", replace(GOOD, version_py=VERSION.replace("12.4", "12.6"))),
        ("toolkit", with_report(gpu=WheelGpu())),
        ("architectures", with_report(gpu=WheelGpu(declared=("sm_90",), torch_kernels=Kernels(sass=("sm_50",))))),
        ("isa", with_report(cpu=WheelCpu(runs_from="haswell"))),
        ("isa", with_report(cpu=WheelCpu(runs_from="x86_64_v3"))),
        ("glibc", with_report(links=Links(glibc="2.29"))),
        ("glibc", with_report(links=Links(glibc="3.0"))),
        ("statement", replace(GOOD, sha256="cd" * 32)),
        ("statement", replace(GOOD, statement={**STATEMENT, "subject": []})),
        ("statement", replace(GOOD, statement={"subject": "nonsense"})),
        ("bill", replace(GOOD, bills={"a.cdx.json": b"{"})),
        ("bill", replace(GOOD, metadata_version="2.6.0")),
        ("libraries", with_report(links=Links(bundled=("torch.libs/libgomp.so.1", "torch.libs/libextra.so")))),
        ("libraries", with_report(links=Links(glibc="2.28"))),
    ],
)  # fmt: skip
def test_each_claim_made_false_is_noticed(check: str, material: Material) -> None:
    assert status(material)[check] == "failed"
    signed = ClaimCheck(id="signature", status="passed")
    assert judge_claims([signed, *compare(material)]) == "failed"


@pytest.mark.parametrize(("glibc", "good"), [("2.27", True), ("2.28", True), ("2.29", False), ("2.3", True)])
def test_glibc_is_compared_by_number(glibc: str, good: bool) -> None:
    material = with_report(links=Links(glibc=glibc))
    assert (status(material)["glibc"] == "passed") is good


def test_of_several_tags_the_oldest_promise_counts() -> None:
    tags = ("cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux2014_x86_64")
    assert status(with_report(tags=tags))["glibc"] == "failed"
    assert status(with_report(tags=("cp311-cp311-linux_x86_64",)))["glibc"] == "skipped"


def test_a_plain_name_may_hide_a_local_part_but_no_other_release() -> None:
    plain = replace(GOOD, file=FILE.replace("+cu124", ""), metadata_version="2.6.0")
    assert status(plain)["version"] == "passed"
    assert status(replace(plain, version_py=VERSION.replace("2.6.0", "2.6.1")))["version"] == "failed"


@pytest.mark.parametrize(
    ("tag", "limit"), [("manylinux1", "2.5"), ("manylinux2010", "2.12"), ("manylinux2014", "2.17")]
)
def test_the_old_tags_promise_a_glibc_too(tag: str, limit: str) -> None:
    tags = (f"cp311-cp311-{tag}_x86_64",)
    major, minor = limit.split(".")
    for glibc, word in ((limit, "passed"), (f"{major}.{int(minor) + 1}", "failed")):
        (check,) = [one for one in compare(with_report(tags=tags, links=Links(glibc=glibc))) if one.id == "glibc"]
        assert (check.status, check.claimed) == (word, f"{limit} or older")


def one(id: str, material: Material) -> ClaimCheck:
    return next(check for check in compare(material) if check.id == id)


def test_the_words_name_what_was_found() -> None:
    assert one("record", GOOD).found == "the same"
    wrong = WheelFinding(code="record-wrong", text="x differs", severity="error")
    unread = WheelFinding(code="record-unverified", text="not read", severity="warning")
    assert one("record", with_report(findings=(wrong, unread))).found == "x differs"
    assert one("record", with_report(findings=(unread,))).status == "passed"
    assert one("architectures", GOOD).found == "sm_50 compute_90"
    assert one("architectures", GOOD).detail == ""
    none = with_report(gpu=WheelGpu(declared=("sm_90", "sm_80")))
    assert (one("architectures", none).found, one("architectures", none).detail) == ("none", "no code for sm_80 sm_90")


def test_a_plain_version_with_cuda_inside_must_hold_cuda_code() -> None:
    plain = replace(
        GOOD,
        file=FILE.replace("+cu124", ""),
        metadata_version="2.6.0",
        version_py="__version__ = '2.6.0'\ncuda = '12.4'\n",
    )
    assert one("toolkit", plain).status == "skipped"
    empty = replace(plain, report=msgspec.structs.replace(REPORT, gpu=WheelGpu()))
    assert (one("toolkit", empty).status, one("toolkit", empty).claimed) == ("failed", "CUDA 12.4")


@pytest.mark.parametrize(
    ("settings", "claimed", "word"),
    [
        ({"LDFLAGS": "-march=nehalem"}, None, "skipped"),
        ({"CFLAGS": "-march=ivybridge", "PATH": "-march=nocona"}, "ivybridge", "passed"),
        ({"CXXFLAGS": "-march=no-such-cpu"}, "no-such-cpu", "failed"),
        ({"CXXFLAGS": "-march=nocona -march=haswell"}, "haswell", "passed"),
    ],
)
def test_only_the_compilers_flags_claim_a_cpu(settings: dict[str, str], claimed: str | None, word: str) -> None:
    said = {"predicate": {"buildDefinition": {"internalParameters": {"environment": settings}}}}
    check = one("isa", replace(GOOD, statement={**STATEMENT, **said}))
    assert (check.claimed, check.status) == (claimed, word)


def test_code_from_a_cpu_nobody_knows_is_not_taken_for_older() -> None:
    assert one("isa", with_report(cpu=WheelCpu(runs_from="no-such-cpu"))).status == "failed"


def test_a_statement_may_name_other_things_that_are_no_files() -> None:
    mixed = {**STATEMENT, "subject": ["words", None, *STATEMENT["subject"]]}
    assert one("statement", replace(GOOD, statement=mixed)).status == "passed"


def test_a_bill_about_something_else_is_wrong_and_one_of_a_variant_is_not() -> None:
    def about(name: str) -> str:
        bill = {**BILL, "metadata": {"component": {"name": name, "version": "2.6.0+cu124"}}}
        return one("bill", replace(GOOD, bills={"a.cdx.json": json.dumps(bill).encode()})).status

    assert [about(name) for name in ("torch", "Torch", "torch-cuda", "torchvision", "xtorch")] == [
        "passed", "passed", "passed", "failed", "failed",
    ]  # fmt: skip


def test_a_cpu_build_holds_no_gpu_code() -> None:
    cpu = replace(
        GOOD, file=FILE.replace("cu124", "cpu"), metadata_version="2.6.0+cpu",
        version_py="__version__ = '2.6.0+cpu'\ncuda = None\n",
    )  # fmt: skip
    assert status(cpu)["toolkit"] == "failed"
    assert status(replace(cpu, report=msgspec.structs.replace(REPORT, gpu=WheelGpu())))["toolkit"] == "passed"


def test_what_nobody_claims_is_absent_and_never_a_pass() -> None:
    bare = replace(GOOD, statement=None, bills={}, report=WheelReport(name="torch", version="2.6.0+cu124"))
    skipped = {check.id for check in compare(bare) if check.skip == "absent"}
    assert {"architectures", "isa", "glibc", "statement", "bill", "libraries"} <= skipped


def test_the_verdict_needs_a_signature_a_statement_the_record_and_the_version() -> None:
    ids = ("signature", "statement", "record", "version")
    checks = [ClaimCheck(id=id, status="passed") for id in ids]
    assert judge_claims(checks) == "proven"
    for number in range(len(ids)):
        assert judge_claims(checks[:number] + checks[number + 1 :]) == "not-proven"
        skipped = ClaimCheck(id=ids[number], status="skipped", skip="absent")
        assert judge_claims([*checks[:number], skipped, *checks[number + 1 :]]) == "not-proven"
    assert judge_claims([*checks, ClaimCheck(id="glibc", status="failed")]) == "failed"


@pytest.fixture
def signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    api.key_new("maker")
    wheel = make_wheel(tmp_path / "with spaces ü", "tiny", "1.0")
    kinds = {name: STATEMENT[name] for name in ("_type", "predicateType")}
    statement = {**kinds, "subject": [{"name": wheel.name, "digest": {"sha256": sha256_of(wheel)}}]}
    path = wheel.with_name(f"{wheel.name}.intoto.json")
    path.write_text(json.dumps(statement))
    api.key_sign(path, "maker")
    return wheel


def test_a_signed_wheel_is_proven_and_names_its_level_honestly(signed: Path) -> None:
    report = api.verify_claims(signed)
    assert report.verdict == "proven" and report.signed_by == "maker" and report.slsa_build_level == 1
    assert report.next == ()


def test_a_tampered_wheel_a_wrong_key_and_a_missing_signature(signed: Path, tmp_path: Path) -> None:
    raw = signed.read_bytes()
    make_wheel(signed.parent, "tiny", "1.0", files={"tiny/__init__.py": b"import evil\n"})
    assert api.verify_claims(signed).verdict == "failed"
    signed.write_bytes(raw)
    api.key_new("other")
    other = Path(api.key_list().keys[1].public)
    report = api.verify_claims(signed, keys=[other])
    assert report.verdict == "failed" and report.checks[0].status == "failed" and report.slsa_build_level == 0
    signed.with_name(f"{signed.name}.intoto.dsse.json").unlink()
    unsigned = api.verify_claims(signed)
    assert unsigned.verdict == "not-proven" and "sign" in unsigned.next[0]
    signed.with_name(f"{signed.name}.intoto.json").unlink()
    assert api.verify_claims(signed).verdict == "not-proven"


def test_nobodys_key_is_no_proof(signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "nothing"))
    report = api.verify_claims(signed)
    assert report.verdict == "not-proven" and "key trust" in report.next[0]


def test_what_cannot_be_read_is_one_line(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file"):
        api.verify_claims(tmp_path / "tiny-2.0-py3-none-any.whl")
    with pytest.raises(BadInput, match="no file"):
        api.verify_claims(signed, statement=tmp_path / "x.json")
    signed.with_name(f"{signed.name}.intoto.dsse.json").write_bytes(b"{}")
    with pytest.raises(BadInput, match="envelope"):
        api.verify_claims(signed)
    signed.with_name(f"{signed.name}.intoto.dsse.json").unlink()
    signed.write_bytes(signed.read_bytes()[:200])
    with pytest.raises(BadInput, match="readable wheel"):
        api.verify_claims(signed)


def rocm(version: str = "6.4.43482", code: Kernels | None = None) -> Material:
    local = "2.9.0+rocm6.4"
    return replace(
        GOOD,
        file=FILE.replace("2.6.0+cu124", local),
        metadata_version=local,
        version_py=f"__version__ = '{local}'\ncuda = None\nhip = '{version}'\n",
        report=msgspec.structs.replace(REPORT, gpu=WheelGpu(torch_kernels=code or Kernels(gfx=("gfx1030",)))),
    )


def test_a_rocm_build_holds_rocm_code_of_its_version() -> None:
    assert (one("toolkit", rocm()).status, one("toolkit", rocm()).claimed) == ("passed", "ROCm 6.4")
    assert one("toolkit", rocm("6.3.1")).status == "failed"
    assert one("toolkit", rocm(code=Kernels(sass=("sm_90",)))).status == "failed"
    assert one("toolkit", replace(rocm(), version_py="__version__ = '2.9.0+rocm6.4'\n")).status == "failed"


@pytest.mark.parametrize("code", [Kernels(sass=("sm_50",)), Kernels(ptx=("compute_90",))])
def test_machine_code_and_ptx_are_both_cuda_code(code: Kernels) -> None:
    assert one("toolkit", with_report(gpu=WheelGpu(torch_kernels=code))).status == "passed"


def test_only_findings_about_the_record_speak_about_it() -> None:
    other = WheelFinding(code="glibc-newer", text="needs 2.35", severity="error")
    assert one("record", with_report(findings=(other,))).status == "passed"


def test_old_names_write_the_local_part_with_an_underscore() -> None:
    old = replace(GOOD, file=FILE.replace("2.6.0+cu124", "2.6.0_cu124"))
    assert (one("version", old).status, one("version", old).claimed) == ("passed", "2.6.0+cu124")
    odd = replace(GOOD, file=FILE.replace("2.6.0+cu124", "not_a_version"))
    assert (one("version", odd).status, one("version", odd).claimed) == ("failed", "not+a_version")


def test_code_that_was_not_read_is_untried_and_the_cpu_itself_is_enough() -> None:
    unread = one("isa", with_report(cpu=WheelCpu()))
    assert (unread.status, unread.skip, unread.claimed) == ("skipped", "untried", "ivybridge")
    flags = {"predicate": {"buildDefinition": {"internalParameters": {"environment": {"CFLAGS": "-march=x86-64-v2"}}}}}
    same = replace(GOOD, statement={**STATEMENT, **flags})
    assert one("isa", same).status == "passed"


def test_a_glibc_of_three_numbers_counts_by_two() -> None:
    assert one("glibc", with_report(links=Links(glibc="2.28.1"))).status == "passed"


def test_a_statement_about_others_names_them() -> None:
    assert one("statement", GOOD).claimed == "ab" * 32
    others = {**STATEMENT, "subject": [{"name": "a.whl", "digest": {}}, {"name": "b.whl", "digest": {}}]}
    assert one("statement", replace(GOOD, statement=others)).claimed == "other files (a.whl, b.whl)"
    assert one("statement", replace(GOOD, statement={})).claimed == "other files (none)"


def test_the_bill_is_told_in_words_and_its_faults_first() -> None:
    assert one("bill", GOOD).found == "torch 2.6.0+cu124"
    two = {**GOOD.bills, "z.cdx.json": b"{"}
    assert one("bill", replace(GOOD, bills=two)).found == "z.cdx.json cannot be read"


def test_libraries_of_the_package_itself_need_no_bill() -> None:
    own = Links(glibc="2.28", bundled=("torch/lib/libtorch_cpu.so",))
    none = {"a.cdx.json": json.dumps({**BILL, "components": []}).encode()}
    assert one("libraries", replace(with_report(links=own), bills=none)).skip == "absent"
    put_in = replace(GOOD, bills={})
    assert (one("libraries", put_in).skip, one("libraries", put_in).found) == ("absent", "libgomp.so.1")
    assert one("libraries", replace(GOOD, bills=none)).status == "failed"


def test_versions_that_are_none_are_compared_as_they_stand() -> None:
    odd = replace(GOOD, file=FILE.replace("2.6.0+cu124", "local"), version_py="")
    assert status(replace(odd, metadata_version="local"))["version"] == "passed"
    assert status(replace(odd, metadata_version="other"))["version"] == "failed"


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"_type": None}, "failed", "no in-toto statement"),
        ({"_type": "https://in-toto.io/Statement/v2"}, "failed", "no in-toto statement"),
        ({"predicateType": "https://in-toto.io/attestation/test-result/v0.1"}, "skipped", "something else"),
        ({"predicateType": None}, "skipped", "something else"),
        ({"predicate": {"result": "FAILED"}}, "failed", "result FAILED"),
        ({"result": "FAILED"}, "failed", "result FAILED"),
        ({"predicate": {"result": ["PASSED"]}}, "failed", "result ['PASSED']"),
        ({"predicate": {"result": "PASSED"}}, "passed", ""),
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "passed", ""),
        ({"predicateType": "https://slsa.dev/provenance/v0.2"}, "passed", ""),
    ],
)  # fmt: skip
def test_a_statement_is_of_its_kind_and_tells_of_no_failure(changes: dict[str, Any], status: str, words: str) -> None:
    material = replace(GOOD, statement={**STATEMENT, **changes})
    found = one("statement", material)
    assert found.status == status and words in found.detail
    signature = ClaimCheck(id="signature", status="passed")
    assert (judge_claims([signature, *compare(material)]) == "proven") is (status == "passed")


DEEP = "[" * 60_000 + "]" * 60_000
BOUNDLESS = "1" * 6000


@pytest.mark.parametrize(
    "material",
    [
        replace(GOOD, statement={**STATEMENT, "subject": [{"name": FILE, "digest": ["sha256"]}]}),
        replace(GOOD, statement={**STATEMENT, "subject": [{"name": 7, "digest": 8}, 9, None, [FILE]]}),
        replace(GOOD, statement={**STATEMENT, "predicate": [1]}),
        replace(GOOD, bills={"a.cdx.json": DEEP.encode()}),
        replace(GOOD, bills={"a.cdx.json": b'{"metadata": {"component": {"name": 7, "version": [1]}}}'}),
        replace(GOOD, bills={"a.cdx.json": b'{"metadata": {"component": []}, "components": [{"properties": 3}]}'}),
        replace(GOOD, bills={"a.cdx.json": b'{"components": [{"properties": [{"name": "rekindle:in-wheel"}]}]}'}),
        replace(GOOD, metadata_version=BOUNDLESS, version_py=f"__version__ = '{BOUNDLESS}'"),
        replace(GOOD, file=FILE.replace("2.6.0+cu124", BOUNDLESS)),
        with_report(tags=(f"cp311-cp311-manylinux_{BOUNDLESS}_1_x86_64",)),
    ],
)
def test_odd_shapes_are_answers_and_no_crash(material: Material) -> None:
    assert {check.id for check in compare(material)} >= {"statement", "bill", "version"}


def test_a_statement_nested_without_end_is_one_line(signed: Path) -> None:
    key = read_private("maker")
    envelope = signed.with_name(f"{signed.name}.intoto.dsse.json")
    envelope.write_bytes(seal(IN_TOTO, DEEP.encode(), key.id, key.sign))
    with pytest.raises(BadInput, match="no readable statement"):
        api.verify_claims(signed)
    envelope.unlink()
    signed.with_name(f"{signed.name}.intoto.json").write_text(DEEP)
    assert api.verify_claims(signed).verdict == "not-proven"


@pytest.mark.parametrize("label", ["rekindle.cu124.sm50", "cu124.sm50", "cu124"])
def test_a_label_of_ones_own_before_the_toolkit(label: str) -> None:
    local = f"2.6.0+{label}"
    material = replace(
        GOOD,
        file=FILE.replace("2.6.0+cu124", local),
        metadata_version=local,
        version_py=VERSION.replace("cu124", label),
    )
    assert (one("toolkit", material).status, one("toolkit", material).claimed) == ("passed", "CUDA 12.4")


def test_the_statement_beside_a_wheel_is_signed_by_the_wheels_name(signed: Path) -> None:
    envelope = signed.with_name(f"{signed.name}.intoto.dsse.json")
    before = envelope.read_bytes()
    envelope.unlink()
    assert api.key_sign(signed, "maker").signed == str(envelope)
    assert envelope.read_bytes() == before
    signed.with_name(f"{signed.name}.intoto.json").unlink()
    with pytest.raises(BadInput, match="no statement beside"):
        api.key_sign(signed, "maker")


def test_a_grafted_wheel_names_the_architectures_that_were_added() -> None:
    library = LibraryGpu(file="torch/lib/a.so", sass=("sm_50", "sm_120"))
    gpu = msgspec.structs.replace(REPORT.gpu, libraries=(library,))
    report = msgspec.structs.replace(REPORT, gpu=gpu)
    name = FILE.replace("+cu124", "+cu124.sm120")
    grafted = replace(GOOD, file=name, metadata_version="2.6.0+cu124.sm120", report=report)
    assert status(grafted)["version"] == "passed"
    assert status(replace(grafted, report=REPORT))["version"] == "failed", "the code must be there"
    assert status(replace(grafted, version_py=VERSION.replace("2.6.0", "2.6.1")))["version"] == "failed"
    assert status(replace(grafted, version_py=VERSION.replace("+cu124", "+cu126")))["version"] == "failed"
    alone = replace(
        grafted, file=FILE.replace("+cu124", "+sm120"), metadata_version="2.6.0+sm120",
        version_py=VERSION.replace("+cu124", ""),
    )  # fmt: skip
    assert status(alone)["version"] == "passed"


def test_a_build_signs_the_statement_of_every_wheel_that_has_one(signed: Path) -> None:
    from rekindle.model.build import BuildResult, BuildResults
    from rekindle.model.plan import Plan

    envelope = signed.with_name(f"{signed.name}.intoto.dsse.json")
    before = envelope.read_bytes()
    envelope.unlink()
    common: dict[str, Any] = {
        "project": "tiny", "plan": Plan(answer="build"), "wheel_sha256": "ab" * 32, "plan_digest": "p",
    }  # fmt: skip
    told = BuildResult(wheel=str(signed), provenance=str(signed) + ".intoto.json", **common)
    results = BuildResults(results=(BuildResult(wheel="", provenance=None, **common), told))
    assert api.sign_results(results, "maker") == results
    assert envelope.read_bytes() == before


def test_small_files_and_statements_up_to_a_size(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = importlib.import_module("rekindle.api.claims")
    assert claims.MAX_SMALL_FILE == 8 << 20
    with zipfile.ZipFile(signed, "a") as archive:
        archive.writestr("tiny/version.py", "x" * 100)
    assert claims._small_files(signed)[0] == b"x" * 100
    for most, kept in ((100, 100), (99, 0)):
        monkeypatch.setattr(claims, "MAX_SMALL_FILE", most)
        assert len(claims._small_files(signed)[0]) == kept
    # One byte more is read than an envelope may have, so that a longer one is not taken for a broken one.
    envelope = signed.with_name(f"{signed.name}.intoto.dsse.json")
    size = len(envelope.read_bytes())
    for module in (claims, importlib.import_module("rekindle.formats.statement")):
        monkeypatch.setattr(module, "MAX_ENVELOPE_BYTES", size - 1)
    with pytest.raises(BadInput, match="is larger than"):
        claims._signature(signed, None, ())


def test_keys_of_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "own"))
    assert api.key_new("a", folder=tmp_path / "other").folder == str(tmp_path / "other")
    assert api.key_list().folder == str(tmp_path / "own") and not api.key_list().keys
