"""JUnit XML, comparison, the wheel's promises, old syntax of the checks."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from rekindle.errors import BadInput
from rekindle.model.document import decode, encode
from rekindle.model.interpreter import Interpreter
from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.model.wheel import OperatorTrial
from rekindle.verify.environment import check_fits
from rekindle.verify.output import compare, junit
from rekindle.verify.target import CHECKS, read_subject
from tiny_wheels import make_wheel


def report(**status: str) -> VerifyReport:
    checks = tuple(VerifyCheck(id=id, status=word, detail=f"{id} \x1b[31m & <b>") for id, word in status.items())  # type: ignore[arg-type]
    count = [sum(c.status == word for c in checks) for word in ("passed", "failed", "skipped")]
    return VerifyReport(
        checks=checks, passed=count[0], failed=count[1], skipped=count[2], environment={"python": "3.11"}
    )


def test_junit_is_xml_that_counts_right() -> None:
    root = ElementTree.fromstring(junit(report(a="passed", b="failed", c="skipped")))
    suite = root.find("testsuite")
    assert suite is not None and suite.get("tests") == "3" and suite.get("failures") == "1"
    assert len(root.findall(".//failure")) == len(root.findall(".//skipped")) == 1
    said = {case.get("name"): [part.tag for part in case] for case in root.iter("testcase")}
    assert said == {"a": ["system-out"], "b": ["failure"], "c": ["skipped"]}


def test_a_report_survives_the_disk() -> None:
    one = report(a="passed", b="failed")
    assert decode(encode(one), VerifyReport) == one


def test_comparison_calls_a_lost_proof_worse() -> None:
    got = compare(
        report(a="passed", b="failed", c="passed", d="passed"), report(a="passed", b="passed", c="skipped", e="failed")
    )
    assert {c.id for c in got.worse} == {"c", "d", "e"}
    assert {c.id for c in got.better} == {"b"} and got.same == 1


def test_nothing_proved_is_not_good() -> None:
    import msgspec

    passed = report(a="passed")
    assert not passed.good, "a report without a verdict (from an older version) proves nothing"
    assert [msgspec.structs.replace(passed, verdict=word).good for word in ("proven", "not-proven", "failed")] == [
        True,
        False,
        False,
    ]


def wheel(folder: Path, name: str, metadata: str = "Requires-Dist: filelock\n") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch-2.6.0.dist-info/METADATA", metadata)
    return path


HERE = Interpreter(path="py", version="3.11.2", machine="aarch64", system="linux", implementation="CPython")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("torch-2.6.0-cp311-cp311-win_amd64.whl", "windows"),
        ("torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl", "x86_64"),
        ("torch-2.6.0-cp39-cp39-manylinux2014_aarch64.whl", "3.9"),
    ],
)
def test_a_wheel_for_elsewhere_is_one_line(tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(BadInput) as error:
        check_fits(read_subject(wheel(tmp_path, name)), HERE)
    assert word in error.value.message and error.value.remedy


def test_a_wheel_for_here_fits(tmp_path: Path) -> None:
    subject = read_subject(wheel(tmp_path, "torch-2.6.0+cpu-cp311-cp311-manylinux_2_28_aarch64.whl"))
    check_fits(subject, HERE)
    assert subject.requires == ("filelock",) and subject.version == "2.6.0+cpu"


@pytest.mark.parametrize("name", ["torch.whl", "torch-2.6.0-cp311-cp311-win_amd64.whl"])
def test_what_is_no_wheel_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(BadInput):
        read_subject(tmp_path / name)


def test_a_strangers_version_is_told_only_so_far(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "9" * 200, file="torch-2.6.0-py3-none-any.whl")
    with pytest.raises(BadInput, match=f"is version {'9' * 80} by its METADATA"):
        read_subject(wheel)


@pytest.mark.parametrize("path", sorted(CHECKS.glob("*.py")), ids=lambda p: p.name)
def test_the_checks_speak_the_python_of_old_targets(path: Path) -> None:
    assert ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6)).body


def test_junit_names_operators_by_their_functions_where_nobody_knows_the_call() -> None:
    trials = (
        OperatorTrial(operator="lerp", functions=("f",), outcome="crashes"),
        OperatorTrial(operator=None, functions=("f", "g")),
    )
    told = msgspec.structs.replace(report(a="passed"), operators=trials)
    names = [row.get("name") for row in ElementTree.fromstring(junit(told)).iter("property")]
    assert names == ["python", "operator lerp", "operator f, g"]


def test_a_change_that_is_neither_worse_nor_better() -> None:
    got = compare(report(a="skipped", b="skipped", c="failed"), report(b="passed", c="skipped", d="skipped"))
    assert [one.id for one in got.better] == ["b", "c"]
    assert not got.worse and {one.id for one in got.other} == {"a", "d"}
