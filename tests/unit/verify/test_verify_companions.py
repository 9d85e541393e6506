"""Companions: one real operation each, in a child of the target's Python; what is missing or wrong is said."""

import sys
import tomllib
from pathlib import Path

import pytest

from rekindle.compat.companions import find_package
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.verify import target as asking
from rekindle.verify.gather import Claim, judge, required_checks
from rekindle.verify.runner import run_checks
from rekindle.verify.target import Target, Trial

TABLE = Path(asking.__file__).with_name("companions.toml")
FAKE_TORCH = """
__version__ = "2.6.0"
class version:
    cuda = None
    hip = None
class cuda:
    @staticmethod
    def is_available():
        return False
    @staticmethod
    def device_count():
        return 0
"""


def target(tmp_path: Path, **packages: str) -> Target:
    """A Python that finds a small torch and the given packages."""
    for name, text in {"torch": FAKE_TORCH, **packages}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import runpy; sys.argv = sys.argv[1:]; " \
        "runpy.run_path(sys.argv[0], run_name='__main__')"  # fmt: skip
    return Target(command=(sys.executable, "-c", start), subject="a small torch")


def outcome(where: Target, monkeypatch: pytest.MonkeyPatch, call: str, *, gpu: bool = False) -> tuple[str, str, str]:
    rows = {"triton": asking.CompanionCheck(module="tiny", call=call, gpu=gpu)}
    monkeypatch.setattr(asking, "load_table", lambda: rows)
    report = run_checks(where, Trial(only=("with.*",)), companions=("triton",))
    check = next(one for one in report.checks if one.id == "with.triton")
    return check.status, check.detail, report.verdict


def test_right_wrong_broken_and_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = target(tmp_path, tiny="__version__ = '1.5'\ndef double(x): return 2 * x\n")
    right = "import tiny\nt.equal(tiny.double(2), 4, 'twice')"
    status, detail, _ = outcome(good, monkeypatch, right)
    assert (status, detail) == ("passed", "triton 1.5: one operation on cpu")
    status, detail, verdict = outcome(good, monkeypatch, "import tiny\nt.equal(tiny.double(2), 5, 'twice')")
    assert (status, verdict) == ("failed", "failed")
    assert "twice" in detail
    status, detail, verdict = outcome(good, monkeypatch, right, gpu=True)
    assert (status, verdict) == ("skipped", "not-proven")
    assert "need a GPU" in detail
    (tmp_path / "tiny.py").write_text("raise ImportError('undefined symbol: _ZN3c10')", encoding="utf-8")
    status, detail, _ = outcome(good, monkeypatch, right)
    assert status == "failed"
    assert "undefined symbol" in detail
    (tmp_path / "tiny.py").unlink()
    status, detail, verdict = outcome(good, monkeypatch, right)
    assert (status, detail, verdict) == ("skipped", "triton is not installed", "not-proven")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("OSError('libnvjpeg.so.12: cannot open shared object file: No such file')", "rekindle bundle"),
        ("ImportError('undefined symbol: _ZN3c10')", "rekindle plan --with triton"),
    ],
)
def test_a_missing_library_is_no_wrong_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, remedy: str
) -> None:
    rows = {"triton": asking.CompanionCheck(module="tiny", call=f"raise {error}")}
    monkeypatch.setattr(asking, "load_table", lambda: rows)
    report = run_checks(target(tmp_path, tiny=""), Trial(only=("with.*",)), companions=("triton",))
    (told,) = [one.remedy or "" for one in report.checks if one.id == "with.triton"]
    assert remedy in told


def test_a_companion_asked_for_is_owed() -> None:
    claim = Claim(package="torch", level="smoke", gpu=False, companions=("with.xformers",))
    assert "with.xformers" in required_checks(claim)
    _, missing = judge((), claim)
    assert missing[-1].id == "with.xformers"


def test_names() -> None:
    (row,) = asking.companion_rows(["flash_attention", "flash-attn"])
    assert row["name"] == "flash-attn"
    with pytest.raises(BadInput, match="no check is known for xformrs") as refused:
        asking.companion_rows(["xformrs"])
    assert "did you mean xformers" in (refused.value.remedy or "")


def test_every_row_is_python_and_a_package_of_the_tables() -> None:
    facts = load_facts()
    for name, row in tomllib.loads(TABLE.read_text(encoding="utf-8")).items():
        assert find_package(name, facts) == name
        assert row["module"] == facts.packages.package[name].module
        compile(row["call"], name, "exec")
        assert "t.equal(" in row["call"] or "t.close(" in row["call"]
