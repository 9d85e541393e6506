"""The plan's GPU toolkit against the machine's, and its host compiler against the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from bare_host import BareHost
from rekindle.build.toolkits import check_toolkit
from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Completed
from rekindle.model.plan import Plan


class Machine(BareHost):
    def __init__(self, **says: str) -> None:
        super().__init__()
        self.says = says

    def which(self, name: str) -> str | None:
        return f"/bin/{name}" if name in self.says else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        text = self.says.get(argv[0].rsplit("/", 1)[-1])
        return Completed(argv=tuple(argv), code=None if text is None else 0, out=text or "")


NVCC = "Cuda compilation tools, release 11.8, V11.8.89"


def plan(**how: str) -> Plan:
    return Plan(answer="build", **how)  # type: ignore[arg-type]


def test_a_cpu_build_needs_none() -> None:
    assert check_toolkit(Machine(), plan(), {}, "g++") == {}


def test_missing_toolkits() -> None:
    with pytest.raises(MissingTool, match=r"wants CUDA 11\.8, but there is no nvcc"):
        check_toolkit(Machine(), plan(cuda="11.8"), {}, "g++")
    with pytest.raises(MissingTool, match=r"wants ROCm 6\.2, but there is no hipcc"):
        check_toolkit(Machine(), plan(rocm="6.2"), {}, "g++")


def test_another_toolkit() -> None:
    with pytest.raises(BadInput, match=r"wants CUDA 12\.1, but /bin/nvcc is 11\.8"):
        check_toolkit(Machine(nvcc=NVCC), plan(cuda="12.1"), {}, "g++")


def test_a_compiler_too_new_for_the_toolkit() -> None:
    machine = Machine(nvcc=NVCC, **{"g++": "g++ (Debian) 12.2.0", "g++-11": "g++-11 (Debian) 11.3.0"})
    with pytest.raises(BadInput, match=r"CUDA 11\.8 cannot use gcc 12\.2 .*; it takes gcc 6 to 11"):
        check_toolkit(machine, plan(cuda="11.8"), {}, "/usr/bin/g++")
    assert (
        "11.8"
        in check_toolkit(machine, plan(cuda="11.8.0"), {"CUDAHOSTCXX": "/usr/bin/g++-11"}, "/usr/bin/g++")["nvcc"]
    )
