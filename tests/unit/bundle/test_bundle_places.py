"""Where libraries are looked for, and in which order: the user's folders, the environment's, the machine's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.bundle.collect import search_places
from rekindle.bundle.rules import load_rules
from rekindle.errors import BadInput


class Machine(BareHost):
    """``found`` is what lies where the rules look, by pattern, sorted as a disk's folders are."""

    def __init__(
        self, system: str = "linux", env: Mapping[str, str] | None = None, found: Mapping[str, tuple[str, ...]] = {}
    ) -> None:
        super().__init__(system, env)
        self.found = found

    def glob(self, pattern: str) -> tuple[str, ...]:
        return self.found.get(pattern, ())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Short names, which also Windows may put between colons."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _folders(*names: str) -> list[Path]:
    for name in names:
        Path(name).mkdir(parents=True, exist_ok=True)
    return [Path(name) for name in names]


def test_a_folder_of_the_user_comes_with_what_lies_below_it() -> None:
    made = _folders("kit", "kit/lib64", "kit/lib", "kit/bin")
    packages = _folders("kit/nvidia/cublas/lib", "kit/nvidia/cudnn/bin", "kit/nvidia/cudnn/lib", "kit/rocm/lib")
    _folders("kit/share", "kit/nvidia/cudnn/include")
    assert search_places(["kit"], Machine()) == [*made, *packages]


def test_the_first_folder_that_is_given_comes_first() -> None:
    for name in ("b", "a"):
        _folders(name, f"{name}/lib")
    assert search_places(["b", "a"], Machine()) == [Path(name) for name in ("b", "b/lib", "a", "a/lib")]


def test_a_folder_that_is_none_is_named() -> None:
    Path("file").write_text("")
    for name in ("file", "nowhere"):
        with pytest.raises(BadInput, match=f"--library-path {name} is no directory"):
            search_places([name], Machine())


@pytest.mark.parametrize(
    ("system", "variable", "other", "separator"),
    [("linux", "LD_LIBRARY_PATH", "PATH", ":"), ("windows", "PATH", "LD_LIBRARY_PATH", ";")],
)
def test_a_system_has_its_own_list_of_folders(system: str, variable: str, other: str, separator: str) -> None:
    made = _folders("one", "two")
    _folders("three")
    env = {variable: separator.join(["", "one", "", "gone", "two", ""]), other: "three"}
    assert search_places([], Machine(system, env)) == made, "an empty part is no folder, and not the current one"


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CUDNN_ROOT"])
def test_toolkits_that_the_environment_names(variable: str) -> None:
    made = _folders("kit/lib64", "kit/lib", "kit/bin")
    assert search_places([], Machine(env={variable: "kit"})) == made
    assert search_places([], Machine(env={variable: ""})) == []


def test_what_is_said_comes_before_what_is_only_there_and_nothing_twice() -> None:
    mine, variable, kit, old, new = _folders("mine", "variable", "kit/lib64", "old", "new")
    pattern = "/usr/local/cuda-*/lib64"
    env = {"LD_LIBRARY_PATH": "variable:mine", "CUDA_HOME": "kit"}
    host = Machine(env=env, found={pattern: ("old", "new", "variable", "gone")})
    assert search_places(["mine"], host) == [mine, variable, kit, new, old], "the newest toolkit first"


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_each_system_is_searched_where_its_libraries_are(system: str) -> None:
    other = "windows" if system == "linux" else "linux"
    search = load_rules().search
    (place, _) = _folders("place", "elsewhere")
    found = {pattern: ("place",) for pattern in search[system]} | {pattern: ("elsewhere",) for pattern in search[other]}
    assert search_places([], Machine(system, found=found)) == [place]
