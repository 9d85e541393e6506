"""A companion's own wheel: its torch is proven, and its operation beside it; what is unknown is refused as before."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Disk
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport
from rekindle.verify import prove
from rekindle.verify.environment import refuse_small_disk
from rekindle.verify.target import Target, Trial, companion_rows, load_table, read_subject
from tiny_wheels import make_wheel


def asked(wheel: Path, monkeypatch: pytest.MonkeyPatch, **expect: str) -> tuple[Target, dict[str, Any]]:
    """What the runner would be asked for this wheel."""
    told: list[tuple[Target, dict[str, Any]]] = []

    def run(target: Target, trial: Trial, **more: Any) -> VerifyReport:
        told.append((target, {**more, "expect": trial.expect}))
        return VerifyReport()

    monkeypatch.setattr(prove, "prepare_environment", lambda *_, **__: Path(sys.executable))
    monkeypatch.setattr(prove, "run_checks", run)
    trial = Trial(python=sys.executable, expect=expect, dependencies=False, sandbox="no")
    prove.prove_wheel(LiveHost(), wheel, trial, progress=Silent())
    return told[0]


@pytest.mark.parametrize("name", ["torchvision", "torchaudio", "torch_scatter"])
def test_a_companion_is_proven_beside_its_torch(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, more = asked(make_wheel(tmp_path, name, "0.21.0"), monkeypatch)
    assert target.package == "torch" and list(more["companions"]) == [name.replace("_", "-")]
    assert "version" not in more["expect"], "its version is not torch's"


def test_torch_itself_is_held_to_its_version_and_to_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, more = asked(make_wheel(tmp_path, "torch", "2.6.0"), monkeypatch, cuda="12.4")
    assert target.package == "torch" and not more["companions"]
    assert more["expect"] == {"version": "2.6.0", "cuda": "12.4"}


@pytest.mark.parametrize(
    ("name", "version", "requires", "extra"),
    [
        ("torch", "1.13.1+cpu", (), ["numpy<2"]),
        ("torch", "2.6.0", (), ["numpy"]),
        ("torch", "1.13.1", ("numpy",), []),
        ("torchvision", "0.14.1", ("numpy", "torch==1.13.1", "scipy; extra == 'scipy'"), ["numpy<2"]),
        ("torchaudio", "0.13.1", ("torch==1.13.1+debian",), ["numpy<2"]),
        ("torchvision", "0.21.0", ("numpy", "torch==2.6.0"), []),
        ("torchvision", "0.14.1", ("numpy", "torch==1.13.*", "torch>=1.13", "(bad"), []),
        ("torchvision", "0.14.1", ("numpy", "torch==1.13.1; extra == 'x'"), []),
    ],
)
def test_numpy_is_one_that_the_torch_can_use(
    name: str, version: str, requires: tuple[str, ...], extra: list[str]
) -> None:
    told = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with tempfile.TemporaryDirectory() as folder:
        subject = read_subject(make_wheel(Path(folder), name, version, metadata=told))
    assert [one.replace(" ", "") for one in prove.extra_packages(subject)] == extra


def test_a_disk_that_cannot_hold_the_wheel_is_refused(tmp_path: Path) -> None:
    class Small(BareHost):
        def __init__(self, free: int) -> None:
            self.free = free

        def disk(self, path: str) -> Disk | None:
            return Disk(total=1 << 40, free=self.free)

    subject = read_subject(make_wheel(tmp_path, "torch", "2.6.0", files={"torch/big": bytes(3_000_000)}))
    assert subject.unpacked > 3_000_000
    refuse_small_disk(Small(subject.unpacked), subject, str(tmp_path))
    with pytest.raises(BadInput, match=r"needs 3.0 MB for that wheel alone, and 3.0 MB are free") as refused:
        refuse_small_disk(Small(subject.unpacked - 1), subject, str(tmp_path))
    assert "TMPDIR" in (refused.value.remedy or "")


def test_a_package_without_an_operation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="none for 'torchless'"):
        asked(make_wheel(tmp_path, "torchless", "1.0"), monkeypatch)


@pytest.mark.parametrize("name", sorted(load_table()))
def test_every_operation_is_code(name: str) -> None:
    assert compile(load_table()[name].call, name, "exec").co_filename == name


def test_a_misspelt_name_gets_the_nearest_and_a_known_one_without_an_operation_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [row["name"] for row in companion_rows(["xformers", "XFormers"])] == ["xformers"], "each once"
    with pytest.raises(BadInput, match="no check is known for xformerz") as refused:
        companion_rows(["xformerz"])
    assert refused.value.remedy == "did you mean xformers?"
    less = {name: row for name, row in load_table().items() if name != "xformers"}
    monkeypatch.setattr("rekindle.verify.target.load_table", lambda: less)
    with pytest.raises(BadInput, match="no check is known for xformers") as refused:
        companion_rows(["xformers"])
    assert (refused.value.remedy or "").startswith("known: ")
