"""The closed libraries a torch wheel calls: judged, exchanged within one soname, switched off, or named."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rekindle.compat.graft import judge_closed_libraries, stays_without
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.graft.wheel import _exchange_requirements, exchanged_packages, start_hook, switched_off
from rekindle.model.arch import parse_sm
from rekindle.model.graft import LibraryBeside

TORCH_1_13 = (
    'nvidia-cuda-runtime-cu11 (==11.7.99) ; platform_system == "Linux"',
    'nvidia-cudnn-cu11 (==8.5.0.96) ; platform_system == "Linux"',
    'nvidia-cublas-cu11 (==11.10.3.66) ; platform_system == "Linux"',
    "typing-extensions",
    "no requirement at all ]",
)


def _judged(requires: tuple[str, ...], torch: str, *cards: str) -> dict[str, LibraryBeside]:
    rows = judge_closed_libraries(requires, torch, [parse_sm(card) for card in cards], load_facts())
    return {row.name: row for row in rows}


def test_1_13_1_on_hopper_gets_later_libraries_of_the_same_soname() -> None:
    rows = _judged(TORCH_1_13, "1.13.1", "sm_90")
    assert rows["cuBLAS"].exchanged == "11.11.3.6" and rows["cuBLAS"].code == "native"
    # 8.8 has code for it too, but lost Kepler, which 8.5 serves.
    assert rows["cuDNN"].exchanged == "8.7.0.*" and not rows["cuDNN"].off
    assert rows["cuFFT"].code == "jit" and rows["cuFFT"].inside and not rows["cuFFT"].operators
    assert rows["cuSPARSE"].code == "none" and "torch.sparse.mm" in rows["cuSPARSE"].operators
    assert exchanged_packages(tuple(rows.values())) == {
        "nvidia-cublas-cu11": "11.11.3.6",
        "nvidia-cudnn-cu11": "8.7.0.*",
    }


def test_the_plan_names_what_the_graft_cannot_serve() -> None:
    rows = judge_closed_libraries((), "1.13.1", [parse_sm("sm_90")], load_facts())
    losses = stays_without("1.13.1", "11.7", "8.5.0.96", parse_sm("sm_90"), load_facts())
    named = [row for row in rows if row.code in ("none", "jit")]
    assert len(named) == 5 and all(any(loss.startswith(row.why) for loss in losses) for row in named)


def test_a_card_that_the_libraries_serve_changes_nothing() -> None:
    rows = _judged(TORCH_1_13, "1.13.1", "sm_86")
    assert {row.code for row in rows.values()} == {"native"} and not exchanged_packages(tuple(rows.values()))


def test_cudnn_9_on_kepler_is_switched_off() -> None:
    rows = _judged(("nvidia-cudnn-cu11==9.1.0.70",), "2.7.1", "sm_37")
    assert rows["cuDNN"].code == "none" and rows["cuDNN"].off and rows["cuDNN"].exchanged is None
    assert list(switched_off(tuple(rows.values()))) == ["cudnn"]


def test_a_version_nobody_read_is_not_guessed() -> None:
    rows = _judged(("nvidia-cublas-cu11==11.9.0.0",), "1.12.0", "sm_90")
    assert rows["cuBLAS"].code == "unknown" and rows["cuBLAS"].exchanged is None


def test_a_requirement_keeps_everything_but_its_version() -> None:
    metadata = b'Name: torch\nRequires-Dist: sympy\nRequires-Dist: nvidia_cublas-cu11 (==11.10.3.66) ; sys == "x"\n'
    changed = _exchange_requirements({"nvidia-cublas-cu11": "11.11.3.6"}, metadata)
    assert changed == metadata.replace(b"11.10.3.66", b"11.11.3.6")


@pytest.mark.parametrize(
    ("name", "version"),
    [("sympy", "1.0"), ("other", "1.0"), ("a-b", "1.0\nRequires-Dist: evil"), ("c; python_version", "4"), ("", "1")],
)
def test_only_a_pinned_requirement_is_exchanged_and_only_for_a_version(name: str, version: str) -> None:
    metadata = (
        b"Requires-Dist: sympy\nRequires-Dist: a-b==0.9\nRequires-Dist: c; python_version=='3'\nRequires-Dist: ==1\n"
    )
    with pytest.raises(BadInput):
        _exchange_requirements({name: version}, metadata)


@pytest.fixture
def torch_module() -> Iterator[Callable[[bytes, tuple[int, int]], Any]]:
    """The end of torch/__init__.py, run as torch would run it when CUDA starts on a card."""

    def run(code: bytes, card: tuple[int, int]) -> Any:
        queued: list[Callable[[], None]] = []
        cuda = types.SimpleNamespace(
            _lazy_call=queued.append, device_count=lambda: 1, get_device_capability=lambda number: card
        )
        backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(enabled=True))
        exec(compile(code, "torch/__init__.py", "exec"), {"cuda": cuda, "backends": backends})
        for call in queued:
            call()
        return backends

    yield run


def test_the_switch_works_on_its_card_alone_and_says_so(torch_module: Any) -> None:
    code = start_hook({"cudnn": "cuDNN 9.1 has no code for sm_37"}, ["sm_37"])
    with pytest.warns(UserWarning, match="no code for sm_37"):
        assert torch_module(code, (3, 7)).cudnn.enabled is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch_module(code, (8, 6)).cudnn.enabled is True


def test_words_of_a_graft_file_never_become_code(torch_module: Any) -> None:
    reason = "'); raise SystemExit('''\n"
    with pytest.warns(UserWarning) as said:
        torch_module(start_hook({"cudnn": reason}, ["sm_37"]), (3, 7))
    assert str(said[0].message) == reason
    with pytest.raises(BadInput, match="switches"):
        start_hook({"os.system": "x"}, ["sm_37"])
    assert start_hook({}, ["sm_37"]) == b""
