"""pip is asked before the hours: an index, wheels at hand, nothing at all; with a real pip."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.api.build_wheels import build_checks
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.readiness.supplies import check_index


class Offline(LiveHost):
    """This machine without any index, and with the wheels of one folder at most."""

    def __init__(self, wheels: Path | None = None) -> None:
        super().__init__()
        self.wheels = wheels
        self.words: list[str] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.words += argv
        told = {**self.env, **(env or {}), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
        told["PIP_FIND_LINKS"] = str(self.wheels or "")
        return super().run(argv, timeout=timeout, env=told)


def bring_wheel(folder: Path) -> None:
    """A package called "wheel" that pip takes for one."""
    import zipfile

    with zipfile.ZipFile(folder / "wheel-0.99-py3-none-any.whl", "w") as archive:
        inside = "wheel-0.99.dist-info"
        archive.writestr(f"{inside}/METADATA", "Metadata-Version: 2.1\nName: wheel\nVersion: 0.99\n")
        archive.writestr(f"{inside}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{inside}/RECORD", "")


@pytest.mark.skipif(sys.platform == "win32", reason="/dev/null")
def test_neither_index_nor_wheels_is_told_before_the_hours(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"pip finds no packages here \(No matching distribution") as refused:
        list(check_index(Offline(), sys.executable, ("setuptools<82", "wheel")))
    line, _, rest = (refused.value.remedy or "").partition("   # ")
    assert line == "pip download -d wheels 'setuptools<82' wheel", "to paste, quoted as a shell wants it"
    assert 'PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/wheels"' in rest
    bring_wheel(tmp_path)
    (check,) = check_index(Offline(tmp_path), sys.executable, ("wheel",))
    assert (check.id, check.status) == ("index", "ok"), "the way it names leads on"


class Silent(BareHost):
    """Every pip says this."""

    def __init__(self, err: str, code: int | None = 1) -> None:
        super().__init__()
        self.err, self.code, self.asked = err, code, 0

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked += 1
        return Completed(argv=tuple(argv), code=self.code, err=self.err)


def test_where_there_is_no_pip_nothing_is_claimed() -> None:
    host = Silent("/usr/bin/python3: No module named pip")
    assert list(check_index(host, "/usr/bin/python3", ("wheel",))) == []
    assert host.asked == 2, "Debian's Python has none, ours may"
    (slow,) = check_index(Silent("", None), "/usr/bin/python3", ("wheel",))
    assert slow.status == "warn" and "no answer in 60 seconds" in (slow.found or ""), "slow is not missing"


@pytest.mark.parametrize(("err", "code"), [("WARNING: Retrying (total=0)", None), ("", 1), (" \n", 1)])
def test_a_pip_that_was_ended_or_said_nothing_is_no_missing_index(err: str, code: int | None) -> None:
    host = Silent(err, code)
    (check,) = check_index(host, "/usr/bin/python3", ("wheel",))
    assert (check.status, host.asked) == ("warn", 1)
    with pytest.raises(BadInput, match=r"pip finds no packages here \(No matching distribution found\)"):
        list(check_index(Silent("ERROR: No matching distribution found"), "/usr/bin/python3", ("wheel",)))


@needs.posix("an embedded Python has no headers")
def test_it_is_asked_only_where_something_long_comes_first(tmp_path: Path) -> None:
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="torch", pins={"numpy": "<2"}))
    own = Offline()
    for installs in (False, True):
        checks = build_checks(plan, python=sys.executable, place=tmp_path, host=own, installs=installs)
        found = [check for check in checks if check.id == "index"]
        assert bool(found) is installs
    assert found[0].status == "fail" and "numpy<2" in (found[0].found or "")
    assert "build" not in own.words, "the front end of PEP 517, which torch's own setup.py does without"
