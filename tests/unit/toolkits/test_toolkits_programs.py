"""The programs a build starts: the given one, the first that answers, or the line that brings one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool
from rekindle.host.asking import Asking
from rekindle.host.protocol import Completed
from rekindle.toolkits import programs
from rekindle.toolkits.programs import find_cmake, find_ninja, probe_programs
from rekindle.toolkits.rocm import find_hipcc, find_rocm


class Programs(BareHost):
    """Programs by path, each with its answer; ``files`` are there to be read."""

    def __init__(self, answers: Mapping[str, str], files: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.answers, self.files = answers, files or {}

    def which(self, name: str) -> str | None:
        return next((path for path in self.answers if path.startswith("/usr/bin/") and path.endswith(f"/{name}")), None)

    def glob(self, pattern: str) -> tuple[str, ...]:
        from fnmatch import fnmatchcase

        places = {*self.answers, *self.files, *(path.rsplit("/", 2)[0] for path in (*self.answers, *self.files))}
        return tuple(sorted(path for path in places if fnmatchcase(path, pattern)))

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.files[path].encode() if path in self.files else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        said = self.answers.get(argv[0])
        return Completed(argv=tuple(argv), code=None if said is None else 0, out=said or "")


@pytest.fixture(autouse=True)
def nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_find_packaged", lambda name: None)


def test_the_given_one_the_one_on_path_and_none() -> None:
    host = Programs({"/usr/bin/cmake": "cmake version 3.25.1", "/mine/cmake": "cmake version 4.0.2"})
    assert find_cmake(host, None).version == "3.25.1" and find_cmake(host, "/mine/cmake").version == "4.0.2"
    with pytest.raises(BadInput, match="/no/cmake is no CMake"):
        find_cmake(host, "/no/cmake")
    with pytest.raises(MissingTool, match="there is no Ninja"):
        find_ninja(host, None)


def test_one_that_does_not_say_its_version_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Programs({"/usr/bin/cmake": "who knows", "/ours/cmake": "cmake version 4.1.0"})
    assert probe_programs(Asking(host))["cmake"] == "?"
    monkeypatch.setattr(programs, "_find_packaged", lambda name: f"/ours/{name}")
    assert find_cmake(host, None).path == "/ours/cmake" and probe_programs(Asking(host))["cmake"] == "4.1.0"


@needs.posix()
def test_a_rocm_without_the_usual_link_is_found_by_both() -> None:
    files = {f"/opt/rocm-{version}/.info/version": f"{version}.0-1" for version in ("5.7", "6.2")}
    host = Programs({f"/opt/rocm-{version}/bin/hipcc": "" for version in ("5.7", "6.2")}, files)
    assert find_hipcc(host, {}) == "/opt/rocm-6.2/bin/hipcc", "the newest"
    assert find_hipcc(BareHost(), {}) is None
    header = "#define ROCM_VERSION_MAJOR 6\n#define ROCM_VERSION_MINOR 3\n#define ROCM_VERSION_PATCH 0\n"
    by_header = Programs({}, {"/opt/rocm/include/rocm-core/rocm_version.h": header})
    by_header.glob = lambda pattern: ("/opt/rocm",) if pattern == "/opt/rocm*" else ()  # type: ignore[method-assign]
    (found,) = find_rocm(Asking(by_header))
    assert (found.version, found.note) == ("6.3.0", "no hipcc in it: libraries only")
