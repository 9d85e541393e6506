"""What an interpreter holds, as one value: how it is asked, what of its answers counts, and when two are the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.protocol import Completed
from rekindle.interpreters.packages import Contents, ask_contents, look_into
from rekindle.model.guard import PackageRecord


class Answering(BareHost):
    """An interpreter that says this, and keeps with which words it was asked."""

    def __init__(self, out: object, code: int = 0, err: str = "") -> None:
        super().__init__()
        self.out, self.code, self.err = out if isinstance(out, str) else json.dumps(out), code, err
        self.words: list[str] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.words = list(argv)
        return Completed(argv=tuple(argv), code=self.code, out=self.out, err=self.err)


TINY = {"packages": [{"name": "My_Tiny.Tool", "version": "1.0"}], "torch": {"__version__": "2.6.0", "cuda": None}}


def test_packages_have_one_name_each() -> None:
    held = ask_contents(Answering(TINY), "py")
    assert held.versions == {"my-tiny-tool": "1.0"} and held.torch == {"__version__": "2.6.0", "cuda": None}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, []),
        ({"files": True}, ["files"]),
        ({"digests": ["torch", "numpy"]}, ["digests=torch,numpy"]),
        ({"files": True, "digests": ["torch"]}, ["files"]),
    ],
)
def test_it_is_asked_no_more_than_is_wanted(more: dict[str, Any], words: list[str]) -> None:
    host = Answering(TINY)
    ask_contents(host, "py", **more)
    assert host.words[:3] == ["py", "-I", "-c"] and host.words[4:] == words


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (Answering("", 1, "Traceback\nImportError: json\n\n"), "ImportError: json"),
        (Answering("", 1), "no message"),
        (Answering(TINY, 1, "died later"), "died later"),
        (Answering({"packages": [{"name": 3}]}), "its answer makes no sense"),
    ],
)
def test_one_that_cannot_tell_is_refused_with_its_words(host: Answering, why: str) -> None:
    with pytest.raises(BadInput, match=f"py does not tell what it holds: {why}") as refused:
        ask_contents(host, "py")
    assert "--python" in (refused.value.remedy or "")
    assert look_into(host, "py") == Contents()


def package(**fields: str) -> PackageRecord:
    return msgspec.convert({"name": "tiny", "version": "1.0", "record": "a", **fields}, PackageRecord)


def test_a_fingerprint_tells_all_that_differs_and_nothing_else() -> None:
    torch: dict[str, str | None] = {"__version__": "2.6.0"}
    states = [
        Contents(),
        Contents(torch=torch),
        Contents(torch={"__version__": "2.7.0"}),
        Contents(packages=(package(),)),
        Contents(packages=(package(),), torch=torch),
        Contents(packages=(package(version="2.0"),)),
        Contents(packages=(package(record="b"),)),
    ]
    assert Contents().fingerprint == "" and all(len(state.fingerprint) == 64 for state in states[1:])
    assert len({state.fingerprint for state in states}) == len(states)
    pair = (package(), package(name="other"))
    assert Contents(packages=pair).fingerprint == Contents(packages=pair[::-1]).fingerprint
    assert Contents(packages=(package(folder="/elsewhere"),)).fingerprint == states[3].fingerprint


def test_look_into_reads_torch_s_files() -> None:
    host = Answering(TINY)
    assert look_into(host, "py").versions == {"my-tiny-tool": "1.0"} and host.words[-1] == "files"
