"""What pip would install, asked before anything is: its report, read; its refusal, told; where it cannot tell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.errors import CommandFailed, StageFailed
from rekindle.host.protocol import Completed
from rekindle.interpreters.installer import Installer
from rekindle.journey.resolve import largest, lock_lines, resolve, size_of, spoken_packages
from rekindle.model.journey import Package
from rekindle.model.plan import Request

INDEX = "https://example.org/whl/cu126"
TORCH = Request(name="torch", version="2.7.1+cu126", index=INDEX)
DIGEST = "a1" * 32
NO_SUCH = "ERROR: No matching distribution found for torch==2.7.1+cu126"


def row(name: str = "Torch", sha256: object = DIGEST, url: str = "file:///no/torch.whl", **more: object) -> Any:
    hashes = {} if sha256 is None else {"hashes": {"sha256": sha256}}
    metadata = {"name": name, "version": "2.7.1+cu126"}
    return {"metadata": metadata, "download_info": {"url": url, "archive_info": hashes}, **more}


class PipHost(BareHost):
    """A pip that answers one call after the other, each with the rows of its report or with what it says in error."""

    def __init__(self, *answers: list[Any] | str | bytes) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(tuple(argv))
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return Completed(argv=tuple(argv), code=1, err=answer)
        raw = answer if isinstance(answer, bytes) else json.dumps({"install": answer}).encode()
        Path(argv[argv.index("--report") + 1]).write_bytes(raw)
        return Completed(argv=tuple(argv), code=0)


def asked(host: PipHost, group: Sequence[Request] = (TORCH,), **more: Any) -> tuple[Package, ...] | None:
    return resolve(host, "/env/bin/python", group, **{"fresh": True, "substituted": False, **more})


def test_a_package_comes_with_its_version_place_and_digest() -> None:
    host = PipHost([row(requested=True), row("typing_extensions")])
    torch, other = asked(host) or ()
    assert (torch.name, torch.version, torch.sha256, torch.asked) == ("torch", "2.7.1+cu126", DIGEST, True)
    assert (other.name, other.asked, other.bytes) == ("typing-extensions", False, None)
    (words,) = host.asked
    assert "--dry-run" in words and "torch==2.7.1+cu126" in words and "--ignore-installed" in words
    assert words[words.index("--index-url") + 1] == INDEX


def test_what_is_found_by_metadata_without_a_digest_is_asked_again_whole() -> None:
    host = PipHost([row(sha256=None)], [row()])
    found = asked(host, fresh=False)
    assert found and found[0].sha256 == DIGEST
    assert ["--use-feature=fast-deps" in words for words in host.asked] == [True, False]
    assert "--ignore-installed" not in host.asked[0]
    nothing = PipHost([])
    assert asked(nothing) == () and len(nothing.asked) == 1, "all is there already"


def test_a_fault_of_the_quick_way_is_asked_again_and_a_refusal_of_the_version_is_not() -> None:
    host = PipHost("ERROR: ranges are not understood", [row()])
    assert asked(host) and len(host.asked) == 2
    again = PipHost("ERROR: ResolutionImpossible: x and y", [row()])
    with pytest.raises(StageFailed):
        asked(again)
    assert len(again.asked) == 1


def test_an_index_of_one_flavour_may_leave_the_local_part_out() -> None:
    host = PipHost(NO_SUCH, [row()])
    assert asked(host) and "torch===2.7.1" in host.asked[1]
    with pytest.raises(StageFailed, match=r"example\.org/whl/cu126 has no torch 2\.7\.1\+cu126"):
        asked(PipHost(NO_SUCH, "ERROR: No matching distribution found for torch===2.7.1"))


def test_of_another_index_only_the_exact_build_is_taken() -> None:
    said = f"ERROR: Could not find torch==2.7.1+cu126 (from versions: 2.6.0, 2.7.0)\n{NO_SUCH}"
    host = PipHost(said)
    with pytest.raises(StageFailed, match=r"it has 2\.6\.0, 2\.7\.0") as refused:
        asked(host, substituted=True)
    assert len(host.asked) == 1 and "leave --index out" in (refused.value.remedy or "")


def test_offline_the_wheels_that_are_here_are_named() -> None:
    said = f"ERROR: Could not find torch==2.7.1+cu126 (from versions: none)\n{NO_SUCH}"
    own = Request(name="torch", version="2.7.1+cu126")
    with pytest.raises(StageFailed, match=r"not among the wheels that are here$") as refused:
        asked(PipHost(said), [own], installer=Installer(offline=True))
    assert "--find-links" in (refused.value.remedy or "")


@pytest.mark.parametrize("said", ["no such option: --report", "no such option: --dry-run", "No module named pip"])
def test_a_pip_that_cannot_tell_is_no_error(said: str) -> None:
    host = PipHost(said, said, said)
    assert asked(host) is None


@pytest.mark.parametrize("sha256", ["short", "g" * 64, DIGEST + " --index-url=https://evil.example", 7])
def test_a_digest_that_is_none_is_refused(sha256: object) -> None:
    with pytest.raises(CommandFailed, match="cannot be read"):
        asked(PipHost([row(sha256=sha256)]))


@pytest.mark.parametrize("report", [b"", b"{}", b'{"install": [{}], "sha256": 1}', b"[1]"])
def test_a_report_of_another_form_is_refused(report: bytes) -> None:
    with pytest.raises(CommandFailed, match="cannot be read"):
        asked(PipHost(report, report))


def test_limits_bind_whatever_comes() -> None:
    class LimitHost(PipHost):
        def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
            files = [Path(word) for word in argv if word.endswith("limits.txt")]
            self.limits = [file.read_text("utf-8") for file in files]
            return super().run(argv, timeout=timeout, env=env)

    host = LimitHost([row()])
    assert asked(host, limits=("numpy<2", "torch==2.7.1")) and host.limits == ["numpy<2\ntorch==2.7.1\n"]
    without = LimitHost([row()])
    assert asked(without) and without.limits == []


def test_the_size_of_a_file_is_known_and_of_nothing_is_not(tmp_path: Path) -> None:
    (tmp_path / "a b.whl").write_bytes(b"12345")
    assert size_of((tmp_path / "a b.whl").as_uri()) == 5
    assert size_of((tmp_path / "none.whl").as_uri()) is None and size_of("ftp://example.org/x.whl") is None
    (found,) = asked(PipHost([row(url=(tmp_path / "a b.whl").as_uri())])) or ()
    assert found.bytes == 5


def package(name: str, size: int | None) -> Package:
    return Package(name=name, version="1", url="x", sha256=DIGEST, bytes=size)


def test_packages_are_told_by_number_size_and_the_four_largest() -> None:
    many = [package(name, size) for name, size in zip("abcdef", (1, 6, 5, 4, 3, None), strict=True)]
    assert [name[0] for name in largest(many)] == ["b", "c", "d", "e"]
    told = spoken_packages(many)
    assert told.startswith("6 packages, 19 bytes and 1 of unknown size to fetch: b 1") and told.endswith(
        "and 2 smaller"
    )
    assert spoken_packages([]) == "nothing new is needed"
    assert "smaller" not in spoken_packages(many[:4]) and "unknown" not in spoken_packages(many[:4])
    assert spoken_packages(many[5:]) == "1 packages, of unknown size to fetch: f 1"


def test_a_lock_names_each_package_by_its_digest() -> None:
    assert lock_lines([package("a", 1)]) == f"a===1 --hash=sha256:{DIGEST}\n"
    assert lock_lines([package("a", 1)], same="==").startswith("a==1 ")
