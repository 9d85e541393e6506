"""What hands expect of ``inspect``: the wheel that was meant, a question before a long read, what matters first."""

from __future__ import annotations

import contextlib
import importlib
import io
from pathlib import Path

import pytest

from rekindle import api
from rekindle.api.inspect_wheel import _MUCH_BYTES, _ask_before_much
from rekindle.cli.inspect import _platform
from rekindle.errors import BadInput
from rekindle.inspect.diff import compare
from rekindle.inspect.reader import WheelSource
from rekindle.model.wheel import Kernels, Links, WheelGpu, WheelReport
from tiny_wheels import make_wheel


@pytest.mark.parametrize(
    ("system", "arch", "tag"),
    [("windows", None, "win_amd64"), ("windows", "arm64", "win_arm64"), ("linux", "aarch64", "linux_aarch64"),
     ("linux", "amd64", "linux_x86_64"), ("macos", "arm64", "macosx_arm64"), (None, None, None)],
)  # fmt: skip
def test_a_system_and_an_architecture_choose_the_wheel(
    system: str | None, arch: str | None, tag: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert _platform(system, arch) == tag


def test_any_macos_of_an_architecture_will_do() -> None:
    from packaging.tags import Tag

    from rekindle.formats.simple_index import _platform_fits

    for platform, fits in (("macosx_11_0_arm64", True), ("macosx_11_0_x86_64", False), ("linux_arm64", False)):
        assert _platform_fits("macosx_arm64", Tag("cp312", "cp312", platform)) is fits


def source(path: Path, size: int, *, remote: bool) -> WheelSource:
    return WheelSource(lambda: io.BytesIO(path.read_bytes()), path.name, size, fetched=(lambda: 0) if remote else None)


def test_a_quick_look_and_a_program_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = source(make_wheel(tmp_path, "torch", "1.0"), _MUCH_BYTES, remote=True)
    opened = contextlib.nullcontext(far)
    monkeypatch.setattr(importlib.import_module("rekindle.api.inspect_wheel"), "open_target", lambda *_, **__: opened)
    with pytest.raises(BadInput, match="was not read"):
        api.inspect("torch", confirm=lambda *_: False)
    assert api.inspect("torch", quick=True, confirm=lambda *_: False).name == api.inspect("torch").name == "torch"


def test_much_over_a_network_is_asked_for_and_nothing_else(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "1.0")
    asked: list[tuple[str, int]] = []

    def no(name: str, size: int) -> bool:
        asked.append((name, size))
        return False

    assert _MUCH_BYTES == 200 * 1024 * 1024, "minutes on a slow line"
    _ask_before_much(source(wheel, _MUCH_BYTES - 1, remote=True), no)
    _ask_before_much(source(wheel, _MUCH_BYTES * 9, remote=False), no)
    assert asked == []
    with pytest.raises(BadInput, match="was not read") as stopped:
        _ask_before_much(source(wheel, _MUCH_BYTES, remote=True), no)
    assert asked == [(wheel.name, _MUCH_BYTES)] and "--quick" in (stopped.value.remedy or "")
    _ask_before_much(source(wheel, _MUCH_BYTES, remote=True), lambda *_: True)


def test_a_comparison_begins_with_where_it_runs_and_takes_spellings_for_one() -> None:
    old = WheelReport(
        version="1", bytes=10_000_000, requires=("Typing_Extensions (>=4)", "numpy"), links=Links(glibc="2.17"),
        gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_35", "sm_50"))),
    )  # fmt: skip
    new = WheelReport(
        version="2", bytes=20_000_000, requires=("typing-extensions>=4", "numpy>=2"), links=Links(glibc="2.28"),
        gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_50", "sm_90"))),
    )  # fmt: skip
    rows = compare(old, new).differences
    assert [row.what for row in rows] == ["own kernels", "glibc", "requirements", "version", "size"]
    assert rows[0].gone == ("sm_35",) and rows[2].gone == ("numpy",) and rows[2].come == ("numpy>=2",)
