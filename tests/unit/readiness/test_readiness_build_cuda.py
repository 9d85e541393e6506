"""The toolkit a build is planned for: is it here, is it that release, does its nvcc take the compiler? And is what
torch links beside it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Completed
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.cuda import cuda_for_build, find_toolkit


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


class Toolkits(Machine):
    """Toolkits below /opt and the usual one, by what each nvcc says."""

    def __init__(self, **releases: str) -> None:
        super().__init__()
        self.releases = {f"/{place.replace('_', '/')}/bin/nvcc": release for place, release in releases.items()}

    def glob(self, pattern: str) -> tuple[str, ...]:
        there = [*self.releases, *(nvcc.removesuffix("/bin/nvcc") for nvcc in self.releases)]
        return tuple(path for path in there if fnmatch(path, pattern))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        release = self.releases.get(argv[0])
        said = f"Cuda compilation tools, release {release}, V{release}.1" if release else ""
        return Completed(argv=tuple(argv), code=0, out=said)


@needs.posix()
def test_the_other_toolkits_are_named_beside_the_one_that_is_another() -> None:
    here = Toolkits(opt_cuda="12.4", opt_cuda11="", usr_local_cuda="11.8")
    with pytest.raises(BadInput) as refused:
        find_toolkit(here, plan(cuda="13.0"), {"CUDA_HOME": "/usr/local/cuda"}, "g++")
    said, *others = refused.value.message.split(", ")[1:]
    assert said == "but /usr/local/cuda/bin/nvcc is 11.8"
    assert sorted(others) == ["/opt/cuda/bin/nvcc is 12.4", "/opt/cuda11/bin/nvcc is unknown"]


class Files(BareHost):
    """Files, and what stands in them."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self.files = files

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(path for path in self.files if fnmatch(path, pattern))

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.files[path].encode() if path in self.files else None


def asked(files: Mapping[str, str], home: str = "/opt/cuda", **env: str) -> dict[str, Check]:
    recipe = BuildRecipe(source="torch", env={"CUDA_HOME": home, **env})
    planned = PlannedBuild(plan=Plan(answer="build", cuda="11.8", build=recipe), python="", place=Path("/w"))
    found = cuda_for_build(Files({f"{home}/bin/nvcc": "", **files}), planned)
    return {check.id: check for check in found}


@pytest.mark.parametrize(
    ("home", "remedy"),
    [
        ("/usr", "apt-get install -y nvidia-cuda-dev"),
        ("/opt/cuda", "install the cuda-driver-dev package into /opt/cuda"),
    ],
)
@needs.posix()
def test_a_missing_stub_comes_with_the_toolkits_own_packages(home: str, remedy: str) -> None:
    with pytest.raises(BadInput, match=f"no stub of it below {home}$") as refused:
        asked({}, home)
    assert refused.value.remedy == remedy


@pytest.mark.parametrize(
    ("library", "good"),
    [("8.9.2", True), ("8.9.7", True), ("8", True), ("8.8.2", False), ("9.9.2", False), ("9", False)],
)
@needs.posix()
def test_a_cudnn_is_one_version_by_its_first_two_numbers(library: str, good: bool) -> None:
    header = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 2\n"
    files = {
        "/opt/cuda/lib64/stubs/libcuda.so": "", "/opt/cuda/include/cudnn_version.h": header,
        f"/opt/cuda/lib64/libcudnn.so.{library}": "",
    }  # fmt: skip
    if good:
        assert asked(files)["cudnn"].found == "8.9.2"
        return
    with pytest.raises(BadInput, match=rf"headers are 8\.9\.2 and its library is {library}"):
        asked(files)
    assert "cudnn" not in asked(files, USE_CUDNN="0"), "not planned, not asked"
