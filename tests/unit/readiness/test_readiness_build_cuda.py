"""The toolkit a build is planned for: is it here, is it that release, and does its nvcc take the compiler?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Completed
from rekindle.model.plan import Plan
from rekindle.readiness.cuda import find_toolkit


class Machine(BareHost):
    """Programs and what they say of themselves; ``failed`` ones end with an error."""

    def __init__(self, *, failed: Sequence[str] = (), **says: str) -> None:
        super().__init__()
        self.says, self.failed = says, failed

    def which(self, name: str) -> str | None:
        return f"/bin/{name}" if name in self.says else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        name = argv[0].rsplit("/", 1)[-1]
        code = None if name not in self.says else 1 if name in self.failed else 0
        return Completed(argv=tuple(argv), code=code, out=self.says.get(name, ""))


NVCC = "Cuda compilation tools, release 11.8, V11.8.89"


def plan(**how: str) -> Plan:
    return Plan(answer="build", **how)  # type: ignore[arg-type]


def test_a_cpu_build_needs_none() -> None:
    assert find_toolkit(Machine(), plan(), {}, "g++") == {}


def test_missing_toolkits() -> None:
    with pytest.raises(MissingTool, match=r"wants CUDA 11\.8, but there is no nvcc"):
        find_toolkit(Machine(), plan(cuda="11.8"), {}, "g++")
    with pytest.raises(MissingTool, match=r"wants ROCm 6\.2, but there is no hipcc"):
        find_toolkit(Machine(), plan(rocm="6.2"), {}, "g++")


def test_another_toolkit() -> None:
    with pytest.raises(BadInput, match=r"wants CUDA 12\.1, but /bin/nvcc is 11\.8"):
        find_toolkit(Machine(nvcc=NVCC), plan(cuda="12.1"), {}, "g++")


def test_a_compiler_too_new_for_the_toolkit() -> None:
    machine = Machine(nvcc=NVCC, **{"g++": "g++ (Debian) 12.2.0", "g++-11": "g++-11 (Debian) 11.3.0"})
    with pytest.raises(BadInput, match=r"CUDA 11\.8 cannot use gcc 12\.2 .*; it takes gcc 6 to 11") as refused:
        find_toolkit(machine, plan(cuda="11.8"), {}, "/usr/bin/g++")
    assert refused.value.remedy == "the same command with --set CUDAHOSTCXX=g++-11", "the newest it takes is here"
    bare = Machine(**{"nvcc": NVCC, "g++": "g++ (Debian) 12.2.0", "apt-get": ""})
    with pytest.raises(BadInput) as refused:
        find_toolkit(bare, plan(cuda="11.8"), {}, "/usr/bin/g++")
    line, _, then = (refused.value.remedy or "").partition("   # then ")
    assert line.endswith("apt-get install -y --no-install-recommends g++-11"), "a line to paste, not a circle"
    assert then == "the same command with --set CUDAHOSTCXX=g++-11"
    assert (
        "11.8" in find_toolkit(machine, plan(cuda="11.8.0"), {"CUDAHOSTCXX": "/usr/bin/g++-11"}, "/usr/bin/g++")["nvcc"]
    )


@pytest.mark.parametrize(
    ("banner", "failed"),
    [
        ("g++ (Debian) 11.3.0", ()),
        ("g++ (Debian) 12.2.0", ("g++",)),
        ("no compiler that anybody knows 99.9", ()),
        ("", ()),
    ],
    ids=["one it takes", "one that does not run", "an unknown one", "a silent one"],
)
def test_a_compiler_of_which_nothing_bad_is_known_is_not_refused(banner: str, failed: Sequence[str]) -> None:
    machine = Machine(nvcc=NVCC, **{"g++": banner}, failed=failed)
    assert find_toolkit(machine, plan(cuda="11.8"), {}, "g++") == {"nvcc": "11.8 (/bin/nvcc)"}


def test_a_clang_is_replaced_by_a_clang() -> None:
    machine = Machine(nvcc=NVCC, **{"clang++": "Debian clang version 19.1.0", "clang++-14": ""})
    with pytest.raises(BadInput, match=r"CUDA 11\.8 cannot use clang 19\.1 \(clang\+\+\)") as refused:
        find_toolkit(machine, plan(cuda="11.8"), {}, "clang++")
    assert refused.value.remedy == "the same command with --set CUDAHOSTCXX=clang++-14"


def test_a_toolkit_that_no_table_knows_is_not_judged() -> None:
    machine = Machine(nvcc=NVCC.replace("11.8", "99.1"), **{"g++": "g++ (Debian) 30.1.0"})
    assert find_toolkit(machine, plan(cuda="99.1"), {}, "g++") == {"nvcc": "99.1 (/bin/nvcc)"}


def test_a_rocm_build_gets_its_compiler() -> None:
    assert find_toolkit(Machine(hipcc=""), plan(rocm="6.2"), {}, "g++") == {"hipcc": "/bin/hipcc"}
